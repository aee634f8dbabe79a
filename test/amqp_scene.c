#define _GNU_SOURCE
#include "amqp_scene.h"

#include "scene.h"

const char *amqp_uri(uint16_t port)
{
    static char uris[4][64];
    static unsigned next;
    char *uri = uris[next++ % 4];
    snprintf(uri, sizeof uris[0], "amqp://127.0.0.1:%u", (unsigned)port);
    return uri;
}

void amqp_scene_set(struct amqp_scene *scene)
{
    *scene = (struct amqp_scene){0};
    scene->options.on_event = events_add;
    scene->options.event_ctx = &scene->events;
    scene->options.recovery_delay = 50 * CONEY_MILLISECOND;
    scene->options.recovery_max_delay = 500 * CONEY_MILLISECOND;
    scene->options.call_deadline = scaled_ns(10000);
    fresh_name(scene->queue, sizeof scene->queue, "test");
}

void amqp_scene_open(struct amqp_scene *scene, const char *uri)
{
    coney_call call = {0};
    scene->rabbit = coney_amqp_open(uri, &scene->options, &call);
    if (scene->rabbit == NULL)
        fail_msg("the environment did not open on %s: %s: %s", uri, coney_status_name(call.status), call.text);
    coney_amqp_queue queue = {.name = scene->queue};
    if (coney_amqp_queue_declare(scene->rabbit, &queue, &call) != CONEY_OK)
        fail_msg("queue '%s' was not declared: %s", scene->queue, call.text);
}

void amqp_scene_up(struct amqp_scene *scene, const struct node *node)
{
    amqp_scene_set(scene);
    amqp_scene_open(scene, amqp_uri(node->amqp_port));
}

void amqp_scene_down(struct amqp_scene *scene)
{
    coney_call call = {0};
    coney_amqp_queue_delete(scene->rabbit, scene->queue, 0, &call);
    coney_amqp_close(&scene->rabbit, NULL);
    events_free(&scene->events);
}

coney_amqp_publisher *amqp_scene_publisher(struct amqp_scene *scene, struct outcomes *outcomes,
                                           const coney_amqp_publisher_options *options)
{
    coney_amqp_publisher_options mine = options != NULL ? *options : (coney_amqp_publisher_options){0};
    if (outcomes != NULL) {
        mine.on_outcome = outcomes_add;
        mine.ctx = outcomes;
    }
    if (mine.exchange == NULL && mine.routing_key == NULL)
        mine.routing_key = scene->queue;
    coney_call call = {0};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(scene->rabbit, &mine, &call);
    if (publisher == NULL)
        fail_msg("the publisher did not open: %s: %s", coney_status_name(call.status), call.text);
    return publisher;
}

void amqp_publish_numbered(coney_amqp_publisher *publisher, uint64_t first, size_t count)
{
    for (uint64_t n = first; n < first + count; n++) {
        coney_amqp_message message = {.body = numbered(n), .tag = n};
        coney_status status = coney_amqp_publish(publisher, &message);
        if (status != CONEY_OK)
            fail_msg("message %llu was not accepted: %s", (unsigned long long)n, coney_status_name(status));
    }
}

uint64_t amqp_scene_ready(struct amqp_scene *scene, const char *queue)
{
    coney_call call = {0};
    coney_amqp_queue asked = {.name = queue != NULL ? queue : scene->queue, .passive = true};
    if (coney_amqp_queue_declare(scene->rabbit, &asked, &call) != CONEY_OK)
        fail_msg("queue '%s' cannot be asked: %s", asked.name, call.text);
    return call.value;
}

bool amqp_scene_take(struct amqp_scene *scene, char *body, size_t cap)
{
    coney_call call = {0};
    coney_kept *kept = NULL;
    if (coney_amqp_get(scene->rabbit, scene->queue, &kept, &call) != CONEY_OK)
        fail_msg("nothing can be taken from queue '%s': %s", scene->queue, call.text);
    if (kept == NULL)
        return false;
    coney_bytes bytes = coney_amqp_kept_delivery(kept)->body;
    size_t len = bytes.len < cap - 1 ? bytes.len : cap - 1;
    memcpy(body, bytes.len > 0 ? bytes.data : "", len);
    body[len] = '\0';
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    return true;
}

void amqp_publisher_close(coney_amqp_publisher **publisher)
{
    coney_call call = {0};
    if (coney_amqp_publisher_close(publisher, &call) != CONEY_OK)
        fail_msg("the publisher was not closed in order: %s: %s", coney_status_name(call.status), call.text);
}
