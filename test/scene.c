#define _GNU_SOURCE
#include "scene.h"

#include <time.h>
#include <unistd.h>

#define END_MARK "end of the stream"

void fresh_name(char *out, size_t cap, const char *begins)
{
    static unsigned number;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(out, cap, "%s-%d-%lld-%u", begins, (int)getpid(), (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000, ++number);
}

void scene_set(struct scene *scene)
{
    *scene = (struct scene){0};
    scene->options.on_event = events_add;
    scene->options.event_ctx = &scene->events;
    scene->options.recovery_delay = 50 * CONEY_MILLISECOND;
    scene->options.recovery_max_delay = 500 * CONEY_MILLISECOND;
    scene->options.call_deadline = scaled_ns(10000);
    fresh_name(scene->stream, sizeof scene->stream, "test");
}

void scene_open(struct scene *scene, const char *uri)
{
    coney_call call = {0};
    scene->env = coney_stream_env_open(uri, &scene->options, &call);
    if (scene->env == NULL)
        fail_msg("the environment did not open on %s: %s: %s", uri, coney_status_name(call.status), call.text);
    if (coney_stream_create(scene->env, scene->stream, NULL, &call) != CONEY_OK)
        fail_msg("stream '%s' was not created: %s", scene->stream, call.text);
}

void scene_up(struct scene *scene, const char *uri)
{
    scene_set(scene);
    scene_open(scene, uri);
}

void scene_down(struct scene *scene)
{
    coney_call call = {0};
    coney_stream_delete(scene->env, scene->stream, &call);
    coney_stream_env_close(&scene->env, NULL);
    events_free(&scene->events);
}

bool scene_has_statistics(struct scene *scene)
{
    coney_stream_stats stats;
    return coney_stream_get_stats(scene->env, scene->stream, &stats, NULL) != CONEY_EUNSUPPORTED;
}

coney_stream_producer *scene_producer(struct scene *scene, struct outcomes *outcomes,
                                      const coney_stream_producer_options *options)
{
    coney_stream_producer_options mine = options != NULL ? *options : (coney_stream_producer_options){0};
    if (outcomes != NULL) {
        mine.on_outcome = outcomes_add;
        mine.ctx = outcomes;
    }
    coney_call call = {0};
    coney_stream_producer *producer;
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    do /* of a stream that was just made a busy node may say that it is not available yet */
        producer = coney_stream_producer_open(scene->env, scene->stream, &mine, &call);
    while (producer == NULL && call.status == CONEY_EUNAVAILABLE && now_ms() < until);
    if (producer == NULL)
        fail_msg("the producer did not open: %s: %s", coney_status_name(call.status), call.text);
    return producer;
}

coney_stream_consumer *scene_consumer(struct scene *scene, struct deliveries *deliveries,
                                      const coney_stream_consumer_options *options)
{
    coney_stream_consumer_options mine = options != NULL ? *options : (coney_stream_consumer_options){0};
    if (mine.on_chunk == NULL && mine.on_message == NULL)
        mine.on_message = deliveries_add;
    if (mine.ctx == NULL)
        mine.ctx = deliveries;
    coney_call call = {0};
    coney_stream_consumer *consumer;
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    do /* of a stream that was just made a busy node may say that it is not available yet */
        consumer = coney_stream_consumer_open(scene->env, scene->stream, &mine, &call);
    while (consumer == NULL && call.status == CONEY_EUNAVAILABLE && now_ms() < until);
    if (consumer == NULL)
        fail_msg("the consumer did not open: %s: %s", coney_status_name(call.status), call.text);
    return consumer;
}

void scene_fill(struct scene *scene, uint64_t first, size_t count)
{
    coney_stream_producer *producer = scene_producer(scene, NULL, NULL);
    stage_send(producer, first, count);
    assert_int_equal(coney_stream_producer_flush(producer, NULL), CONEY_OK);
    producer_close(&producer);
}

static bool ends_with_mark(struct deliveries *deliveries)
{
    monitor_lock(&deliveries->monitor);
    bool ends = deliveries->count > 0 && strcmp(deliveries->all[deliveries->count - 1].body, END_MARK) == 0;
    monitor_unlock(&deliveries->monitor);
    return ends;
}

void scene_read_back(struct scene *scene, struct deliveries *deliveries)
{
    coney_stream_producer *producer = scene_producer(scene, NULL, NULL);
    coney_call call = call_within(30000);
    if (coney_stream_send_wait(producer, CONEY_STR(END_MARK), &call) != CONEY_OK)
        fail_msg("the end mark was not confirmed: %s", call.text);
    producer_close(&producer);
    coney_stream_consumer_options options = {.start_if_new = CONEY_STREAM_FIRST};
    coney_stream_consumer *consumer = scene_consumer(scene, deliveries, &options);
    for (size_t had = 0; !ends_with_mark(deliveries); had = deliveries_count(deliveries))
        deliveries_wait(deliveries, had + 1);
    consumer_close(&consumer);
    deliveries->count--;
}

uint64_t number_of(const char *body)
{
    char *end = NULL;
    uint64_t number = body[0] == 'm' ? strtoull(body + 1, &end, 10) : 0;
    if (end == NULL || end == body + 1 || *end != '\0')
        fail_msg("'%s' is no numbered body", body);
    return number;
}

void bodies_are_in_order(struct deliveries *deliveries, uint64_t first, size_t count)
{
    assert_int_equal(deliveries_count(deliveries), count);
    for (size_t i = 0; i < count; i++) {
        struct delivery delivery = deliveries_of(deliveries, i);
        if (number_of(delivery.body) != first + i)
            fail_msg("at place %zu, offset %llu, stands '%s' instead of m%llu", i, (unsigned long long)delivery.offset,
                     delivery.body, (unsigned long long)(first + i));
    }
}
