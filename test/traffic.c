#define _GNU_SOURCE
#include "traffic.h"

#define PATIENCE 60000
#define BURST 200
#define BURST_MS 10

static void *send_all(void *ctx)
{
    struct traffic *traffic = ctx;
    struct monitor pace = {0};
    monitor_lock(&pace);
    while (traffic->accepted < traffic->total) {
        char body[24];
        uint64_t number = traffic->accepted;
        int len = snprintf(body, sizeof body, "m%llu", (unsigned long long)number);
        traffic->status = coney_stream_send(traffic->producer, coney_bytes_of(body, (size_t)len), number);
        if (traffic->status != CONEY_OK)
            break;
        if (++traffic->accepted % BURST == 0)
            monitor_wait(&pace, now_ms() + BURST_MS);
    }
    monitor_unlock(&pace);
    monitor_free(&pace);
    return NULL;
}

void traffic_start(struct traffic *traffic, struct scene *scene, size_t total, const char *name)
{
    *traffic = (struct traffic){.scene = scene, .total = total, .named = name != NULL};
    coney_stream_consumer_options from_first = {.start_if_new = CONEY_STREAM_FIRST};
    traffic->consumer = scene_consumer(scene, &traffic->deliveries, &from_first);
    coney_stream_producer_options options = {.name = name, .enqueue_timeout = scaled_ns(PATIENCE)};
    traffic->producer = scene_producer(scene, &traffic->outcomes, &options);
    assert_int_equal(pthread_create(&traffic->thread, NULL, send_all, traffic), 0);
}

void traffic_passes(struct traffic *traffic, size_t outcomes)
{
    if (!outcomes_reach(&traffic->outcomes, outcomes, PATIENCE))
        fail_msg("only %zu of %zu outcomes came", outcomes_count(&traffic->outcomes), outcomes);
}

/* How many bodies came that had come before; each number below the total came at least once. */
static size_t repeated(struct deliveries *deliveries, size_t total)
{
    uint8_t *seen = calloc(total, 1);
    size_t again = 0;
    assert_non_null(seen);
    for (size_t i = 0; i < deliveries->count; i++) {
        uint64_t number = number_of(deliveries->all[i].body);
        assert_in_range(number, 0, total - 1);
        again += seen[number];
        seen[number] = 1;
    }
    for (size_t i = 0; i < total; i++)
        if (!seen[i])
            fail_msg("m%zu is not in the stream", i);
    free(seen);
    return again;
}

/* All that was sent again may stand twice; the confirmed rest is known to be there. */
static void wait_for_the_last(struct traffic *traffic)
{
    char last[24];
    snprintf(last, sizeof last, "m%zu", traffic->total - 1);
    int64_t until = now_ms() + scaled_ms(PATIENCE);
    monitor_lock(&traffic->deliveries.monitor);
    struct deliveries *deliveries = &traffic->deliveries;
    while (deliveries->count == 0 || strcmp(deliveries->all[deliveries->count - 1].body, last) != 0)
        if (!monitor_wait(&deliveries->monitor, until))
            break;
    monitor_unlock(&traffic->deliveries.monitor);
}

void traffic_is_whole(struct traffic *traffic)
{
    pthread_join(traffic->thread, NULL);
    if (traffic->status != CONEY_OK)
        fail_msg("message %zu was not accepted: %s", traffic->accepted, coney_status_name(traffic->status));
    traffic_passes(traffic, traffic->total);
    coney_stream_producer_stats stats;
    assert_int_equal(coney_stream_producer_get_stats(traffic->producer, &stats), CONEY_OK);
    wait_for_the_last(traffic);
    producer_close(&traffic->producer);
    consumer_close(&traffic->consumer);
    outcomes_are_each_once(&traffic->outcomes, 0, traffic->total);
    assert_int_equal(outcomes_with(&traffic->outcomes, CONEY_OK), traffic->total);
    size_t again = repeated(&traffic->deliveries, traffic->total);
    deliveries_are_in_order(&traffic->deliveries, 0, traffic->total + again);
    if (traffic->named)
        bodies_are_in_order(&traffic->deliveries, 0, traffic->total);
    else
        assert_true(again <= stats.resent);
    outcomes_free(&traffic->outcomes);
    deliveries_free(&traffic->deliveries);
}
