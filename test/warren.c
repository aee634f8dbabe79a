#include "warren.h"

#include "scene.h"

/* The environment and its queue -------------------------------------------------------------------------------------- */

void warren_set(struct warren *warren, const struct node *node)
{
    *warren = (struct warren){0};
    warren->options.on_event = events_add;
    warren->options.event_ctx = &warren->events;
    warren->options.recovery_delay = 50 * CONEY_MILLISECOND;
    warren->options.recovery_max_delay = 500 * CONEY_MILLISECOND;
    warren->options.call_deadline = scaled_ns(10000);
    snprintf(warren->uri, sizeof warren->uri, "amqp://127.0.0.1:%u", (unsigned)node->amqp_port);
    fresh_name(warren->queue, sizeof warren->queue, "test");
}

void warren_through_scissors(struct warren *warren, const struct node *node)
{
    warren->scissors = scissors_start(node->amqp_port);
    const char *port = strrchr(scissors_uri(warren->scissors), ':');
    snprintf(warren->uri, sizeof warren->uri, "amqp://127.0.0.1%s", port);
}

void warren_declare(struct warren *warren, const char *name, const coney_amqp_queue *queue)
{
    coney_call call = {0};
    coney_amqp_queue mine = queue != NULL ? *queue : (coney_amqp_queue){0};
    mine.name = name;
    if (coney_amqp_queue_declare(warren->env, &mine, &call) != CONEY_OK)
        fail_msg("queue '%s' was not declared: %s", name, call.text);
}

void warren_open(struct warren *warren, const coney_amqp_queue *queue)
{
    coney_call call = {0};
    warren->env = coney_amqp_open(warren->uri, &warren->options, &call);
    if (warren->env == NULL)
        fail_msg("the environment did not open on %s: %s: %s", warren->uri, coney_status_name(call.status), call.text);
    warren_declare(warren, warren->queue, queue);
}

void warren_up(struct warren *warren, const struct node *node, const coney_amqp_queue *queue)
{
    warren_set(warren, node);
    warren_open(warren, queue);
}

void warren_down(struct warren *warren)
{
    coney_call call = {0};
    coney_amqp_queue_delete(warren->env, warren->queue, 0, &call);
    coney_amqp_close(&warren->env, NULL);
    scissors_stop(&warren->scissors);
    events_free(&warren->events);
}

void warren_fill_with(struct warren *warren, uint64_t first, size_t count, size_t size)
{
    coney_call call = {0};
    struct outcomes outcomes = {0};
    coney_amqp_publisher_options options = {.routing_key = warren->queue, .on_outcome = outcomes_add, .ctx = &outcomes};
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(warren->env, &options, &call);
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

void warren_fill(struct warren *warren, uint64_t first, size_t count)
{
    warren_fill_with(warren, first, count, 0);
}

void warren_cut(struct warren *warren)
{
    scissors_cut_after(warren->scissors, true, 1);
}

/* False: the connection was lost while it was asked. */
static bool ask(struct warren *warren, const char *name, uint64_t *ready)
{
    coney_call call = {0};
    coney_amqp_queue queue = {.name = name, .passive = true};
    coney_status status = coney_amqp_queue_declare(warren->env, &queue, &call);
    if (status != CONEY_OK && status != CONEY_ELOST)
        fail_msg("queue '%s' cannot be asked: %s: %s", name, coney_status_name(status), call.text);
    *ready = call.value;
    return status == CONEY_OK;
}

uint64_t warren_ready(struct warren *warren, const char *name)
{
    uint64_t ready;
    assert_true(ask(warren, name, &ready));
    return ready;
}

void warren_wait_for_ready(struct warren *warren, const char *queue, uint64_t count)
{
    uint64_t ready = 0;
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (!ask(warren, queue, &ready) || ready != count)
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

void warren_drain(struct warren *warren, const char *queue, unsigned *times, size_t count)
{
    for (coney_kept *kept = NULL;;) {
        coney_call call = {0};
        if (coney_amqp_get(warren->env, queue, &kept, &call) != CONEY_OK)
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

coney_amqp_consumer *warren_consumer_of(struct warren *warren, const char *queue, struct parcels *parcels,
                                        const coney_amqp_consumer_options *options)
{
    coney_call call = {0};
    coney_amqp_consumer_options mine = options != NULL ? *options : (coney_amqp_consumer_options){0};
    if (mine.on_delivery == NULL) {
        mine.on_delivery = parcels_add;
        mine.ctx = parcels;
    }
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(warren->env, queue, &mine, &call);
    if (consumer == NULL)
        fail_msg("the consumer did not open: %s: %s", coney_status_name(call.status), call.text);
    return consumer;
}

coney_amqp_consumer *warren_consumer(struct warren *warren, struct parcels *parcels, const coney_amqp_consumer_options *options)
{
    return warren_consumer_of(warren, warren->queue, parcels, options);
}

uint64_t warren_close_consumer(coney_amqp_consumer **consumer)
{
    coney_call call = {0};
    if (coney_amqp_consumer_close(consumer, &call) != CONEY_OK)
        fail_msg("the consumer did not close: %s: %s", coney_status_name(call.status), call.text);
    return call.value;
}

coney_amqp_consumer_stats warren_stats(const coney_amqp_consumer *consumer)
{
    coney_amqp_consumer_stats stats;
    assert_int_equal(coney_amqp_consumer_get_stats(consumer, &stats), CONEY_OK);
    return stats;
}
