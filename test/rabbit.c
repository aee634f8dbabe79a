#include "rabbit.h"

#include "scene.h"

/* The environment and its queue -------------------------------------------------------------------------------------- */

void rabbit_set(struct rabbit *rabbit, const struct node *node)
{
    *rabbit = (struct rabbit){0};
    rabbit->options.on_event = events_add;
    rabbit->options.event_ctx = &rabbit->events;
    rabbit->options.recovery_delay = 50 * CONEY_MILLISECOND;
    rabbit->options.recovery_max_delay = 500 * CONEY_MILLISECOND;
    rabbit->options.call_deadline = scaled_ns(10000);
    snprintf(rabbit->uri, sizeof rabbit->uri, "amqp://127.0.0.1:%u", (unsigned)node->amqp_port);
    fresh_name(rabbit->queue, sizeof rabbit->queue, "test");
}

void rabbit_through_scissors(struct rabbit *rabbit, const struct node *node)
{
    rabbit->scissors = scissors_start(node->amqp_port);
    const char *port = strrchr(scissors_uri(rabbit->scissors), ':');
    snprintf(rabbit->uri, sizeof rabbit->uri, "amqp://127.0.0.1%s", port);
}

void rabbit_declare(struct rabbit *rabbit, const char *name, const coney_amqp_queue *queue)
{
    coney_call call = {0};
    coney_amqp_queue mine = queue != NULL ? *queue : (coney_amqp_queue){0};
    mine.name = name;
    if (coney_amqp_queue_declare(rabbit->env, &mine, &call) != CONEY_OK)
        fail_msg("queue '%s' was not declared: %s", name, call.text);
}

void rabbit_open(struct rabbit *rabbit, const coney_amqp_queue *queue)
{
    coney_call call = {0};
    rabbit->env = coney_amqp_open(rabbit->uri, &rabbit->options, &call);
    if (rabbit->env == NULL)
        fail_msg("the environment did not open on %s: %s: %s", rabbit->uri, coney_status_name(call.status), call.text);
    rabbit_declare(rabbit, rabbit->queue, queue);
}

void rabbit_up(struct rabbit *rabbit, const struct node *node, const coney_amqp_queue *queue)
{
    rabbit_set(rabbit, node);
    rabbit_open(rabbit, queue);
}

void rabbit_down(struct rabbit *rabbit)
{
    coney_call call = {0};
    coney_amqp_queue_delete(rabbit->env, rabbit->queue, 0, &call);
    coney_amqp_close(&rabbit->env, NULL);
    scissors_stop(&rabbit->scissors);
    events_free(&rabbit->events);
}

void rabbit_fill_with(struct rabbit *rabbit, uint64_t first, size_t count, size_t size)
{
    coney_call call = {0};
    struct outcomes outcomes = {0};
    coney_amqp_publisher_options options = {.routing_key = rabbit->queue, .on_outcome = outcomes_add, .ctx = &outcomes};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(rabbit->env, &options, &call);
    if (publisher == NULL)
        fail_msg("the publisher did not open: %s", call.text);
    char *body = calloc(1, size + 32);
    assert_non_null(body);
    for (uint64_t n = first; n < first + count; n++) {
        size_t len = (size_t)snprintf(body, 32, "m%llu", (unsigned long long)n);
        coney_amqp_message message = {.body = coney_bytes_of(body, len > size ? len : size), .tag = n};
        assert_int_equal(coney_amqp_publish(publisher, &message), CONEY_OK);
    }
    outcomes_wait(&outcomes, count);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), count);
    assert_int_equal(coney_amqp_publisher_close(&publisher, &call), CONEY_OK);
    outcomes_free(&outcomes);
    free(body);
}

void rabbit_fill(struct rabbit *rabbit, uint64_t first, size_t count)
{
    rabbit_fill_with(rabbit, first, count, 0);
}

void rabbit_cut(struct rabbit *rabbit)
{
    scissors_cut_after(rabbit->scissors, true, 1);
}

uint64_t rabbit_ready(struct rabbit *rabbit, const char *name)
{
    coney_call call = {0};
    coney_amqp_queue queue = {.name = name, .passive = true};
    if (coney_amqp_queue_declare(rabbit->env, &queue, &call) != CONEY_OK)
        fail_msg("queue '%s' cannot be asked: %s", name, call.text);
    return call.value;
}

void rabbit_wait_for_ready(struct rabbit *rabbit, const char *queue, uint64_t count)
{
    uint64_t ready;
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while ((ready = rabbit_ready(rabbit, queue)) != count)
        if (now_ms() > until)
            fail_msg("queue '%s' has %llu messages ready instead of %llu", queue, (unsigned long long)ready,
                     (unsigned long long)count);
}

static uint64_t number_in(coney_bytes body)
{
    char text[32] = "";
    memcpy(text, body.data, body.len < sizeof text - 1 ? body.len : sizeof text - 1);
    if (text[0] != 'm')
        fail_msg("a body is '%s'", text);
    return strtoull(text + 1, NULL, 10);
}

void rabbit_drain(struct rabbit *rabbit, const char *queue, unsigned *times, size_t count)
{
    for (coney_kept *kept = NULL;;) {
        coney_call call = {0};
        if (coney_amqp_get(rabbit->env, queue, &kept, &call) != CONEY_OK)
            fail_msg("queue '%s' gave nothing: %s", queue, call.text);
        if (kept == NULL)
            return;
        uint64_t number = number_in(coney_amqp_kept_delivery(kept)->body);
        assert_true(number < count);
        times[number]++;
        assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    }
}

/* Deliveries ----------------------------------------------------------------------------------------------------- */

coney_settle parcels_add(void *ctx, const coney_amqp_delivery *delivery)
{
    struct parcels *parcels = ctx;
    monitor_lock(&parcels->monitor);
    if (parcels->count == parcels->cap) {
        parcels->cap = parcels->cap > 0 ? 2 * parcels->cap : 64;
        parcels->all = realloc(parcels->all, parcels->cap * sizeof *parcels->all);
    }
    size_t nth = parcels->count;
    parcels->all[parcels->count++] = (struct parcel){.number = number_in(delivery->body),
                                                     .tag = delivery->delivery_tag,
                                                     .count = coney_amqp_delivery_count(delivery),
                                                     .redelivered = delivery->redelivered,
                                                     .body_len = delivery->body.len};
    monitor_broadcast(&parcels->monitor);
    parcels->waiting++;
    while (parcels->closed_gate)
        monitor_wait(&parcels->monitor, now_ms() + 100);
    parcels->waiting--;
    coney_settle settle = parcels->settle;
    monitor_unlock(&parcels->monitor);
    return parcels->decide != NULL ? parcels->decide(parcels->decide_ctx, delivery, nth) : settle;
}

bool parcels_reach(struct parcels *parcels, size_t count, int64_t ms)
{
    int64_t until = now_ms() + ms;
    monitor_lock(&parcels->monitor);
    while (parcels->count < count && monitor_wait(&parcels->monitor, until))
        ;
    bool reached = parcels->count >= count;
    monitor_unlock(&parcels->monitor);
    return reached;
}

void parcels_wait(struct parcels *parcels, size_t count)
{
    if (!parcels_reach(parcels, count, scaled_ms(SUPPORT_PATIENCE)))
        fail_msg("%zu deliveries came instead of %zu", parcels_count(parcels), count);
}

size_t parcels_count(struct parcels *parcels)
{
    monitor_lock(&parcels->monitor);
    size_t count = parcels->count;
    monitor_unlock(&parcels->monitor);
    return count;
}

struct parcel parcels_of(struct parcels *parcels, size_t n)
{
    monitor_lock(&parcels->monitor);
    assert_true(n < parcels->count);
    struct parcel parcel = parcels->all[n];
    monitor_unlock(&parcels->monitor);
    return parcel;
}

void parcels_wait_at_gate(struct parcels *parcels)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&parcels->monitor);
    while (parcels->waiting == 0 && monitor_wait(&parcels->monitor, until))
        ;
    bool waits = parcels->waiting > 0;
    monitor_unlock(&parcels->monitor);
    assert_true(waits);
}

void parcels_open_gate(struct parcels *parcels)
{
    monitor_lock(&parcels->monitor);
    parcels->closed_gate = false;
    monitor_broadcast(&parcels->monitor);
    monitor_unlock(&parcels->monitor);
}

void parcels_are_in_order(struct parcels *parcels, uint64_t first, size_t count)
{
    assert_int_equal(parcels_count(parcels), count);
    for (size_t n = 0; n < count; n++)
        if (parcels_of(parcels, n).number != first + n)
            fail_msg("delivery %zu is m%llu instead of m%llu", n, (unsigned long long)parcels_of(parcels, n).number,
                     (unsigned long long)(first + n));
}

void parcels_free(struct parcels *parcels)
{
    free(parcels->all);
    monitor_free(&parcels->monitor);
}

/* Consumers ------------------------------------------------------------------------------------------------------ */

coney_amqp_consumer *rabbit_consumer_of(struct rabbit *rabbit, const char *queue, struct parcels *parcels,
                                        const coney_amqp_consumer_options *options)
{
    coney_call call = {0};
    coney_amqp_consumer_options mine = options != NULL ? *options : (coney_amqp_consumer_options){0};
    if (mine.on_delivery == NULL) {
        mine.on_delivery = parcels_add;
        mine.ctx = parcels;
    }
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(rabbit->env, queue, &mine, &call);
    if (consumer == NULL)
        fail_msg("the consumer did not open: %s: %s", coney_status_name(call.status), call.text);
    return consumer;
}

coney_amqp_consumer *rabbit_consumer(struct rabbit *rabbit, struct parcels *parcels, const coney_amqp_consumer_options *options)
{
    return rabbit_consumer_of(rabbit, rabbit->queue, parcels, options);
}

uint64_t rabbit_close_consumer(coney_amqp_consumer **consumer)
{
    coney_call call = {0};
    if (coney_amqp_consumer_close(consumer, &call) != CONEY_OK)
        fail_msg("the consumer did not close: %s: %s", coney_status_name(call.status), call.text);
    return call.value;
}

coney_amqp_consumer_stats rabbit_stats(const coney_amqp_consumer *consumer)
{
    coney_amqp_consumer_stats stats;
    assert_int_equal(coney_amqp_consumer_get_stats(consumer, &stats), CONEY_OK);
    return stats;
}
