#define _GNU_SOURCE
#include "amqp_traffic.h"

#include "scene.h"

#include <limits.h>

#define PATIENCE 60000
#define BURST 20
#define BURST_MS 10

/* The publisher's thread -------------------------------------------------------------------------------------------- */

static void *publish_all(void *ctx)
{
    struct amqp_traffic *traffic = ctx;
    struct monitor pace = {0};
    monitor_lock(&pace);
    while (!atomic_load(&traffic->stop)) {
        char body[24];
        uint64_t number = atomic_load(&traffic->accepted);
        int len = snprintf(body, sizeof body, "m%llu", (unsigned long long)number);
        coney_amqp_message message = {.body = coney_bytes_of(body, (size_t)len), .tag = number};
        traffic->status = coney_amqp_publish(traffic->publisher, &message);
        if (traffic->status != CONEY_OK)
            break;
        atomic_store(&traffic->accepted, number + 1);
        if ((number + 1) % BURST == 0)
            monitor_wait(&pace, now_ms() + BURST_MS);
    }
    monitor_unlock(&pace);
    monitor_free(&pace);
    return NULL;
}

void amqp_traffic_goes_on(struct amqp_traffic *traffic)
{
    atomic_store(&traffic->stop, false);
    assert_int_equal(pthread_create(&traffic->thread, NULL, publish_all, traffic), 0);
}

void amqp_traffic_stops(struct amqp_traffic *traffic)
{
    atomic_store(&traffic->stop, true);
    pthread_join(traffic->thread, NULL);
    if (traffic->status != CONEY_OK)
        fail_msg("message %zu was not accepted: %s", traffic->accepted, coney_status_name(traffic->status));
}

/* The consumer ------------------------------------------------------------------------------------------------------ */

static void make_room(struct amqp_traffic *traffic, size_t number)
{
    size_t cap = traffic->cap > 0 ? traffic->cap : 4096;
    while (cap <= number)
        cap *= 2;
    if (cap == traffic->cap)
        return;
    traffic->times = realloc(traffic->times, cap);
    if (traffic->times == NULL)
        abort();
    memset(traffic->times + traffic->cap, 0, cap - traffic->cap);
    traffic->cap = cap;
}

static coney_settle count_delivery(void *ctx, const coney_amqp_delivery *delivery)
{
    struct amqp_traffic *traffic = ctx;
    char body[24] = "";
    memcpy(body, delivery->body.data, delivery->body.len < sizeof body ? delivery->body.len : sizeof body - 1);
    size_t number = (size_t)number_of(body);
    monitor_lock(&traffic->monitor);
    make_room(traffic, number);
    traffic->deliveries++;
    traffic->undead += number < traffic->gone;
    traffic->distinct += traffic->times[number] == 0;
    traffic->doubled += traffic->times[number] > 0 && !delivery->redelivered;
    if (traffic->times[number] < UINT8_MAX)
        traffic->times[number]++;
    monitor_broadcast(&traffic->monitor);
    monitor_unlock(&traffic->monitor);
    return CONEY_ACK;
}

static size_t distinct(struct amqp_traffic *traffic)
{
    monitor_lock(&traffic->monitor);
    size_t count = traffic->distinct;
    monitor_unlock(&traffic->monitor);
    return count;
}

/* From outside ------------------------------------------------------------------------------------------------------ */

void amqp_traffic_start(struct amqp_traffic *traffic, struct warren *warren, const char *queue,
                        const coney_amqp_publisher_options *options)
{
    coney_call call = {0};
    *traffic = (struct amqp_traffic){.warren = warren, .prefetch = 256};
    snprintf(traffic->queue, sizeof traffic->queue, "%s", queue);
    coney_amqp_publisher_options mine = options != NULL ? *options : (coney_amqp_publisher_options){0};
    traffic->no_resend = mine.no_resend;
    mine.on_outcome = outcomes_add;
    mine.ctx = &traffic->outcomes;
    mine.enqueue_timeout = scaled_ns(PATIENCE);
    if (mine.routing_key == NULL)
        mine.routing_key = traffic->queue;
    const coney_amqp_consumer_options consumer = {.on_delivery = count_delivery, .ctx = traffic, .prefetch = traffic->prefetch};
    traffic->consumer = warren_consumer_of(warren, traffic->queue, NULL, &consumer);
    traffic->publisher = coney_amqp_publisher_open(warren->env, &mine, &call);
    if (traffic->publisher == NULL)
        fail_msg("the publisher did not open: %s: %s", coney_status_name(call.status), call.text);
    amqp_traffic_goes_on(traffic);
}

static void all_have_outcomes(struct amqp_traffic *traffic, size_t count)
{
    if (outcomes_reach(&traffic->outcomes, count, scaled_ms(PATIENCE)))
        return;
    events_print(&traffic->warren->events);
    fail_msg("queue '%s': only %zu of %zu outcomes came", traffic->queue, outcomes_count(&traffic->outcomes), count);
}

static void all_have_come(struct amqp_traffic *traffic, size_t count)
{
    int64_t until = now_ms() + scaled_ms(PATIENCE);
    monitor_lock(&traffic->monitor);
    while (traffic->distinct < count && monitor_wait(&traffic->monitor, until))
        ;
    size_t came = traffic->distinct;
    monitor_unlock(&traffic->monitor);
    if (came >= count)
        return;
    events_print(&traffic->warren->events);
    fail_msg("queue '%s': only %zu of %zu messages came", traffic->queue, came, count);
}

void amqp_traffic_passes(struct amqp_traffic *traffic, size_t messages)
{
    size_t came = distinct(traffic);
    all_have_outcomes(traffic, outcomes_count(&traffic->outcomes) + messages);
    all_have_come(traffic, came + messages);
}

/* Messages in the queue, those included that a consumer has and that are not acked. */
static unsigned long in_queue(const struct node *node, const char *queue)
{
    char *lists = node_ctl(node, "-q list_queues name messages");
    const char *at = strstr(lists, queue);
    unsigned long count = at != NULL ? strtoul(at + strlen(queue), NULL, 10) : ULONG_MAX;
    free(lists);
    return count;
}

void amqp_traffic_is_gone(struct amqp_traffic *traffic, const struct node *node)
{
    size_t accepted = traffic->accepted;
    all_have_outcomes(traffic, accepted);
    all_have_come(traffic, accepted);
    int64_t until = now_ms() + scaled_ms(PATIENCE);
    unsigned long left;
    while ((left = in_queue(node, traffic->queue)) != 0 && now_ms() < until)
        ;
    if (left != 0)
        fail_msg("queue '%s' still holds %lu messages", traffic->queue, left);
    monitor_lock(&traffic->monitor);
    traffic->gone = accepted;
    monitor_unlock(&traffic->monitor);
}

/* A message that was confirmed and has not come, or SIZE_MAX; the lock is held. */
static size_t missing(const struct amqp_traffic *traffic)
{
    const struct outcomes *outcomes = &traffic->outcomes;
    for (size_t i = 0; i < outcomes->count; i++) {
        uint64_t number = outcomes->all[i].tag;
        if (outcomes->all[i].status == CONEY_OK && (number >= traffic->cap || traffic->times[number] == 0))
            return (size_t)number;
    }
    return SIZE_MAX;
}

/* No outcome is to come any more. */
static void what_was_confirmed_has_come(struct amqp_traffic *traffic)
{
    int64_t until = now_ms() + scaled_ms(PATIENCE);
    size_t gap;
    all_have_come(traffic, traffic->outcomes.ok);
    monitor_lock(&traffic->monitor);
    while ((gap = missing(traffic)) != SIZE_MAX && now_ms() < until)
        monitor_wait(&traffic->monitor, now_ms() + 20);
    monitor_unlock(&traffic->monitor);
    if (gap != SIZE_MAX)
        fail_msg("queue '%s': m%zu was confirmed and has not come", traffic->queue, gap);
}

/* Takes out what the consumer gave back when it was closed: messages on their way to it that had come before. Without a cut there are none. */
static size_t left_over(struct amqp_traffic *traffic)
{
    size_t accepted = traffic->accepted;
    unsigned *times = calloc(accepted, sizeof *times);
    size_t count = 0;
    assert_non_null(times);
    warren_drain(traffic->warren, traffic->queue, times, accepted);
    for (size_t i = 0; i < accepted; i++) {
        if (times[i] > 0 && traffic->times[i] == 0)
            fail_msg("queue '%s': m%zu was left there", traffic->queue, i);
        count += times[i];
    }
    free(times);
    return count;
}

/* Both are closed; what they counted, and what was in the queue. */
static void none_came_too_often(const struct amqp_traffic *traffic, const coney_amqp_publisher_stats *published,
                                const coney_amqp_consumer_stats *consumed, size_t left)
{
    size_t again = traffic->deliveries - traffic->distinct + left;
    uint64_t explained = published->resent + consumed->reconnects * (uint64_t)traffic->prefetch;
    if (again > explained)
        fail_msg(
            "queue '%s': %zu messages came again (%zu when all was acked); %llu were sent again, and %llu reconnects explain "
            "%lld each",
            traffic->queue, again, left, (unsigned long long)published->resent, (unsigned long long)consumed->reconnects,
            (long long)traffic->prefetch);
    if (!traffic->killed && traffic->doubled > published->resent)
        fail_msg("queue '%s': %zu messages came twice, and only %llu were sent again", traffic->queue, traffic->doubled,
                 (unsigned long long)published->resent);
    if (traffic->undead > 0)
        fail_msg("queue '%s': %zu messages came that had been gone", traffic->queue, traffic->undead);
}

void amqp_traffic_is_whole(struct amqp_traffic *traffic)
{
    coney_call call = {0};
    amqp_traffic_stops(traffic);
    size_t accepted = traffic->accepted;
    all_have_outcomes(traffic, accepted);
    outcomes_are_each_once(&traffic->outcomes, 0, accepted);
    size_t unknown = traffic->no_resend ? outcomes_with(&traffic->outcomes, CONEY_EUNKNOWN) : 0;
    assert_int_equal(outcomes_with(&traffic->outcomes, CONEY_OK), accepted - unknown);
    what_was_confirmed_has_come(traffic);
    warren_wait_for_ready(traffic->warren, traffic->queue, 0); /* what comes again may still be on its way */
    coney_amqp_publisher_stats published;
    assert_int_equal(coney_amqp_publisher_get_stats(traffic->publisher, &published), CONEY_OK);
    coney_amqp_consumer_stats consumed = warren_stats(traffic->consumer);
    if (coney_amqp_publisher_close(&traffic->publisher, &call) != CONEY_OK)
        fail_msg("the publisher did not close: %s: %s", coney_status_name(call.status), call.text);
    assert_int_equal(warren_close_consumer(&traffic->consumer), 0);
    none_came_too_often(traffic, &published, &consumed, left_over(traffic));
    outcomes_free(&traffic->outcomes);
    monitor_free(&traffic->monitor);
    free(traffic->times);
}
