/* metrics.c: what subscriptions, publishers and the app have counted, as metrics with names and labels. */
#include "service/dispatch.h"
#include "service/publisher.h"

struct visit {
    void (*visit)(void *ctx, const coney_metric *metric);
    void *ctx;
};

/* A family of metrics of subscriptions: one for each word of its second label, or one without. */
struct family {
    const char *name;
    const char *help;
    const char *label; /* of the second pair; NULL: there is none */
    struct {
        const char *word;
        size_t counters[3]; /* offsets in subscription_stats, END behind the last */
    } rows[4];
};

#define END SIZE_MAX
#define COUNTER(member) offsetof(struct subscription_stats, member)

static const struct family families[] = {
    {"coney_messages_received_total", "Deliveries that came to a handler.", NULL, {{"", {COUNTER(received), END}}}},
    {"coney_messages_consumed_total",
     "Deliveries settled, by whether they were acked.",
     "status",
     {{"ack", {COUNTER(acked), END}}, {"nack", {COUNTER(rejected), COUNTER(requeued), COUNTER(retried)}}}},
    {"coney_messages_processed_total",
     "Deliveries settled, by how.",
     "outcome",
     {{"ack", {COUNTER(acked), END}},
      {"nack_requeue", {COUNTER(requeued), END}},
      {"nack_drop", {COUNTER(rejected), END}},
      {"retry_after", {COUNTER(retried), END}}}},
    {"coney_decode_failures_total", "Deliveries that could not be decoded.", NULL, {{"", {COUNTER(undecodable), END}}}},
    {"coney_handler_calls_total", "Calls of the handler.", NULL, {{"", {COUNTER(calls), END}}}},
    {"coney_handler_failures_total", "Deliveries whose handler failed.", NULL, {{"", {COUNTER(failed), END}}}},
    {"coney_handler_stalls_total",
     "Calls of the handler that ran longer than the limit.",
     NULL,
     {{"", {COUNTER(stalls), END}}}},
    {"coney_publish_failures_total",
     "Deliveries of which something that was published failed.",
     NULL,
     {{"", {COUNTER(publish_failures), END}}}},
    {"coney_dead_lettered_total",
     "Deliveries that were spent and went to the dead letter.",
     NULL,
     {{"", {COUNTER(dead_lettered), END}}}},
};

static uint64_t read_counter(const struct subscription_stats *stats, size_t offset)
{
    return counter_get((const counter *)(const void *)((const char *)stats + offset));
}

static void give(const struct visit *to, coney_metric_kind kind, const char *name, const char *help, const char *const *labels,
                 uint32_t label_count, double value)
{
    coney_metric metric = {
        .kind = kind, .name = name, .help = help, .labels = labels, .label_count = label_count, .value = value};
    to->visit(to->ctx, &metric);
}

static void give_family(const struct visit *to, const struct family *family, const char *name,
                        const struct subscription_stats *stats)
{
    for (size_t i = 0; i < sizeof family->rows / sizeof family->rows[0] && family->rows[i].word != NULL; i++) {
        uint64_t sum = 0;
        for (size_t c = 0; c < 3 && family->rows[i].counters[c] != END; c++)
            sum += read_counter(stats, family->rows[i].counters[c]);
        const char *labels[] = {"name", name, family->label, family->rows[i].word};
        give(to, CONEY_METRIC_COUNTER, family->name, family->help, labels, family->label != NULL ? 2 : 1, (double)sum);
    }
}

static void give_in_flight(const struct visit *to, const char *name, const struct subscription_stats *stats)
{
    uint64_t settled = counter_get(&stats->acked) + counter_get(&stats->rejected) + counter_get(&stats->requeued) +
                       counter_get(&stats->retried) + counter_get(&stats->dropped);
    uint64_t received = counter_get(&stats->received);
    const char *labels[] = {"name", name};
    give(to, CONEY_METRIC_GAUGE, "coney_messages_in_flight", "Deliveries that came to a handler and are not settled.", labels,
         1, received > settled ? (double)(received - settled) : 0);
}

static void give_durations(const struct visit *to, const struct subscription *s)
{
    uint64_t buckets[DURATION_BUCKETS + 1] = {0};
    double sum = 0;
    dispatch_durations(s, buckets, &sum);
    uint64_t count = 0;
    for (size_t i = 0; i <= DURATION_BUCKETS; i++)
        count += buckets[i];
    const char *labels[] = {"name", s->name};
    coney_metric metric = {.kind = CONEY_METRIC_HISTOGRAM,
                           .name = "coney_consume_duration_seconds",
                           .help = "How long a handler ran.",
                           .labels = labels,
                           .label_count = 1,
                           .value = sum,
                           .count = count,
                           .bounds = duration_bounds,
                           .buckets = buckets,
                           .bound_count = DURATION_BUCKETS};
    to->visit(to->ctx, &metric);
}

/* Only how many there were and how large together: no bounds. */
static void give_batches(const struct visit *to, const char *name, const struct subscription_stats *stats)
{
    uint64_t count = counter_get(&stats->batches);
    const char *labels[] = {"name", name};
    coney_metric metric = {.kind = CONEY_METRIC_HISTOGRAM,
                           .name = "coney_batch_size",
                           .help = "Messages in a batch.",
                           .labels = labels,
                           .label_count = 1,
                           .value = (double)counter_get(&stats->batched),
                           .count = count,
                           .buckets = &count};
    to->visit(to->ctx, &metric);
}

static void give_subscription(const struct visit *to, const struct subscription *s)
{
    struct subscription_stats stats;
    dispatch_stats(s, &stats);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        give_family(to, &families[i], s->name, &stats);
    give_in_flight(to, s->name, &stats);
    give_durations(to, s);
    if (s->options.handler.many != NULL)
        give_batches(to, s->name, &stats);
}

static coney_publisher *next_publisher(const coney_publisher *p)
{
    const coney_broker *broker = p->broker->next;
    return p->next != NULL ? p->next : broker != NULL ? broker->publishers : NULL;
}

/* Several may have one name, by default that of where they publish to: they are one metric, which the first of them gives. */
static void give_publishers_like(const struct visit *to, const coney_publisher *p)
{
    for (const coney_publisher *first = p->broker->app->brokers->publishers; first != p; first = next_publisher(first))
        if (strcmp(first->name, p->name) == 0)
            return;
    uint64_t good = 0;
    uint64_t bad = 0;
    for (const coney_publisher *same = p; same != NULL; same = next_publisher(same)) {
        if (strcmp(same->name, p->name) != 0)
            continue;
        good += counter_get(&same->stats.confirmed);
        bad += counter_get(&same->stats.failed) + counter_get(&same->stats.refused);
    }
    const struct {
        const char *status;
        uint64_t count;
    } rows[] = {{"ok", good}, {"error", bad}};
    for (size_t i = 0; i < 2; i++) {
        const char *labels[] = {"name", p->name, "status", rows[i].status};
        give(to, CONEY_METRIC_COUNTER, "coney_messages_published_total", "Messages published, by whether they got there.",
             labels, 2, (double)rows[i].count);
    }
}

static void give_app(const struct visit *to, const coney_app *app)
{
    coney_app_health health;
    coney_app_get_health(app, &health);
    const struct {
        const char *name;
        const char *help;
        uint64_t value;
    } gauges[] = {
        {"coney_app_state", "0 new, 1 starting, 2 running, 3 stopping, 4 stopped, 5 failed.", (uint64_t)health.phase},
        {"coney_app_subscriptions", "Subscriptions that were started.", health.subscriptions},
        {"coney_app_subscriptions_active", "Subscriptions that receive.", health.active},
        {"coney_app_brokers", "Brokers.", health.brokers},
        {"coney_app_brokers_connected", "Brokers that are connected.", health.connected},
    };
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++)
        give(to, CONEY_METRIC_GAUGE, gauges[i].name, gauges[i].help, NULL, 0, (double)gauges[i].value);
}

void coney_app_metrics(coney_app *app, void (*visit)(void *ctx, const coney_metric *metric), void *ctx)
{
    if (app == NULL || visit == NULL)
        return;
    struct visit to = {.visit = visit, .ctx = ctx};
    give_app(&to, app);
    for (const coney_broker *broker = app->brokers; broker != NULL; broker = broker->next) {
        for (const struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
            give_subscription(&to, s);
        for (const coney_publisher *p = broker->publishers; p != NULL; p = p->next)
            give_publishers_like(&to, p);
    }
}
