/* conformance_stand.c: the stand and its listeners: see conformance.h. */
#define _GNU_SOURCE
#include "conformance.h"

#include "scene.h"
#include "service/app.h"
#include "service/subscription.h"

#define CALL_MS 10000

coney_call stand_call(void)
{
    return call_within(CALL_MS);
}

void must(coney_status status, const coney_call *call, const char *what)
{
    if (status != CONEY_OK)
        fail_msg("%s: %s: %s", what, coney_status_name(status), call != NULL ? call->text : coney_status_text(status));
}

/* The stand ---------------------------------------------------------------------------------------------------------------- */

static void outcome(void *ctx, const coney_outcome *outcome)
{
    struct outcomes_by_tag *outcomes = ctx;
    monitor_lock(&outcomes->monitor);
    outcomes->count++;
    if (outcome->tag < sizeof outcomes->times)
        outcomes->times[outcome->tag]++;
    if (outcome->status != CONEY_OK) {
        outcomes->failures++;
        outcomes->last = outcome->status;
    }
    monitor_broadcast(&outcomes->monitor);
    monitor_unlock(&outcomes->monitor);
}

static coney_settle unused(coney_delivery *d, coney_bytes body)
{
    (void)d;
    (void)body;
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(unused);

static const coney_subscription *subscription_of(struct stand *stand, size_t source)
{
    const struct subscription *s = stand->broker->subscriptions;
    for (size_t i = 0; i < source; i++)
        s = s->next;
    return &s->options;
}

static void check(struct stand *stand, size_t sources)
{
    struct mistakes mistakes = {.subject = "the stand"};
    stand->transport->check_broker(stand->self, &mistakes);
    for (size_t i = 0; i < sources; i++)
        stand->transport->check_source(stand->self, subscription_of(stand, i), &mistakes);
    if (mistakes.count > 0)
        fail_msg("%s", mistakes.text);
    mistakes_free(&mistakes);
}

void stand_set(struct stand *stand, const struct conformance *what, size_t sources)
{
    *stand = (struct stand){.what = what};
    stand->app = coney_app_new("conformance", "1.0.0");
    assert_non_null(stand->app);
    stand->app->is_virtual = what->step != NULL;
    stand->app->worker = worker_new("conformance", what->step != NULL, 0);
    assert_non_null(stand->app->worker);
    stand->broker = what->broker(stand->app);
    assert_non_null(stand->broker);
    stand->transport = stand->broker->transport;
    stand->self = stand->broker->self;
    for (size_t i = 0; i < sources; i++) {
        struct conformance_source of = {0};
        fresh_name(stand->names[i], sizeof stand->names[i], "conformance");
        what->source(stand->names[i], &of);
        must(coney_subscribe(stand->broker, &(coney_subscription){.source = of.source, .handler = unused_handler}), NULL,
             "coney_subscribe");
    }
    check(stand, sources);
}

void stand_open(struct stand *stand)
{
    const struct transport *transport = stand->transport;
    coney_call call = stand_call();
    must(transport->connect(stand->self, stand->broker, &call), &call, "connect");
    assert_true(transport->connected(stand->self));
    call = stand_call();
    must(transport->declare(stand->self, &call), &call, "declare");
    call = stand_call();
    const struct outlet_options options = {.name = "out", .outcome = outcome, .ctx = &stand->outcomes};
    must(transport->open_outlet(stand->self, &options, &stand->outlet, &call), &call, "open_outlet");
}

void stand_up(struct stand *stand, const struct conformance *what, size_t sources)
{
    stand_set(stand, what, sources);
    stand_open(stand);
}

void stand_close(struct stand *stand)
{
    coney_call call = stand_call();
    must(stand->transport->close_outlet(stand->outlet, &call), &call, "close_outlet");
    stand->outlet = NULL;
    call = stand_call();
    must(stand->transport->disconnect(stand->self, &call), &call, "disconnect");
    assert_false(stand->transport->connected(stand->self));
}

void stand_down(struct stand *stand)
{
    if (stand->outlet != NULL)
        stand_close(stand);
    coney_app_free(&stand->app);
    for (size_t i = 0; i < STAND_SOURCES; i++)
        if (stand->what->forget != NULL && stand->names[i][0] != '\0')
            stand->what->forget(stand->names[i]);
    monitor_free(&stand->outcomes.monitor);
}

uint64_t stand_send(struct stand *stand, const struct outgoing *message)
{
    uint64_t tag = stand->next_tag++;
    must(stand->transport->publish(stand->outlet, message, tag), NULL, "publish");
    return tag;
}

bool stand_await(struct stand *stand, struct monitor *monitor, int64_t until)
{
    if (stand->what->step == NULL)
        return monitor_wait(monitor, until);
    monitor_unlock(monitor);
    bool went_on = stand->what->step(stand->broker);
    monitor_lock(monitor);
    return went_on && now_ms() < until;
}

coney_status stand_outcomes(struct stand *stand)
{
    struct outcomes_by_tag *outcomes = &stand->outcomes;
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&outcomes->monitor);
    while (outcomes->count < stand->next_tag && stand_await(stand, &outcomes->monitor, until))
        ;
    uint64_t count = outcomes->count;
    coney_status last = outcomes->last;
    outcomes->last = CONEY_OK;
    monitor_unlock(&outcomes->monitor);
    if (count != stand->next_tag)
        fail_msg("%llu outcomes of %llu messages", (unsigned long long)count, (unsigned long long)stand->next_tag);
    return last;
}

void stand_publish(struct stand *stand, size_t source, const char *body)
{
    stand_send(stand, &(struct outgoing){.to = coney_bytes_str(stand->names[source]), .body = coney_bytes_str(body)});
    must(stand_outcomes(stand), NULL, "the outcome of a publish");
}

void stand_publish_numbers(struct stand *stand, size_t source, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        char body[24];
        snprintf(body, sizeof body, "%zu", i);
        stand_send(stand, &(struct outgoing){.to = coney_bytes_str(stand->names[source]), .body = coney_bytes_str(body)});
    }
    must(stand_outcomes(stand), NULL, "the outcome of a publish");
}

size_t number_of_body(const char *body)
{
    char *end;
    size_t number = strtoul(body, &end, 10);
    if (end == body || *end != '\0')
        fail_msg("'%s' is no number", body);
    return number;
}

void bytes_are(coney_bytes bytes, const char *expected)
{
    if (bytes.len != strlen(expected))
        fail_msg("'%.*s' is not '%s'", (int)bytes.len, (const char *)bytes.data, expected);
    if (bytes.len > 0)
        assert_memory_equal(bytes.data, expected, bytes.len);
}

/* Listeners -------------------------------------------------------------------------------------------------------------------- */

static void copy_text(char *to, size_t cap, coney_bytes from)
{
    size_t len = from.len < cap - 1 ? from.len : cap - 1;
    if (len > 0)
        memcpy(to, from.data, len);
    to[len] = '\0';
}

static struct arrival arrival_of(struct listener *listener, const struct incoming *m)
{
    const struct transport *transport = listener->stand->transport;
    coney_delivery_info info = {0};
    transport->info(m, &info);
    struct arrival arrival = {.len = m->body.len,
                              .attempt = transport->attempt(m),
                              .offset = m->offset,
                              .more = m->more,
                              .redelivered = info.redelivered,
                              .at = worker_now(listener->stand->app->worker) / CONEY_MILLISECOND};
    copy_text(arrival.body, sizeof arrival.body, m->body);
    copy_text(arrival.content_type, sizeof arrival.content_type, transport->content_type(m));
    return arrival;
}

/* With the lock. */
static void wait_for_gate(struct listener *listener)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    listener->at_gate = true;
    monitor_broadcast(&listener->monitor);
    while (listener->has_gate && monitor_wait(&listener->monitor, until))
        ;
    listener->at_gate = false;
}

static size_t write_down(struct listener *listener, const struct incoming *m)
{
    struct arrival arrival = arrival_of(listener, m);
    monitor_lock(&listener->monitor);
    if (listener->count == listener->cap) {
        listener->cap = listener->cap > 0 ? listener->cap * 2 : 64;
        listener->arrivals = realloc(listener->arrivals, listener->cap * sizeof *listener->arrivals);
    }
    size_t nth = listener->count++;
    listener->arrivals[nth] = arrival;
    listener->overlapped |= ++listener->running > 1;
    if (listener->has_gate && nth == listener->gate)
        wait_for_gate(listener);
    monitor_unlock(&listener->monitor);
    return nth;
}

static coney_settle deliver(struct sink *sink, struct incoming *m)
{
    struct listener *listener = (struct listener *)sink;
    size_t nth = write_down(listener, m);
    coney_settle how = CONEY_ACK;
    if (listener->keep && listener->stand->transport->keep(m))
        how = CONEY_KEPT;
    else if (listener->handle != NULL)
        how = listener->handle(listener, m, nth);
    monitor_lock(&listener->monitor);
    listener->arrivals[nth].kept = *m;
    listener->running--;
    monitor_broadcast(&listener->monitor);
    monitor_unlock(&listener->monitor);
    return how;
}

static void set_flag(struct listener *listener, bool *flag, bool value)
{
    monitor_lock(&listener->monitor);
    *flag = value;
    monitor_broadcast(&listener->monitor);
    monitor_unlock(&listener->monitor);
}

static void active(struct sink *sink, bool is_active)
{
    struct listener *listener = (struct listener *)sink;
    set_flag(listener, &listener->inactive, !is_active);
}

static void ended(struct sink *sink, coney_status status, const char *text)
{
    (void)status;
    (void)text;
    struct listener *listener = (struct listener *)sink;
    set_flag(listener, &listener->ended, true);
}

void listener_start(struct listener *listener, struct stand *stand, size_t source)
{
    listener->sink = (struct sink){.deliver = deliver, .active = active, .ended = ended};
    listener->stand = stand;
    coney_call call = stand_call();
    must(stand->transport->subscribe(stand->self, subscription_of(stand, source), &listener->sink, &listener->feed, &call),
         &call, "subscribe");
}

void listener_stop(struct listener *listener)
{
    coney_call call = stand_call();
    must(listener->stand->transport->unsubscribe(listener->feed, &call), &call, "unsubscribe");
    listener->feed = NULL;
}

void listener_free(struct listener *listener)
{
    if (listener->feed != NULL)
        listener_stop(listener);
    assert_false(listener->overlapped);
    free(listener->arrivals);
    monitor_free(&listener->monitor);
}

static bool handled(const struct listener *listener, size_t count)
{
    size_t done = listener->count - listener->running;
    return listener->has_gate ? listener->count >= count : done >= count;
}

void listener_wait(struct listener *listener, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&listener->monitor);
    while (!handled(listener, count) && stand_await(listener->stand, &listener->monitor, until))
        ;
    size_t came = listener->count;
    bool enough = handled(listener, count);
    monitor_unlock(&listener->monitor);
    if (!enough)
        fail_msg("%zu of %zu messages came", came, count);
}

struct arrival listener_of(struct listener *listener, size_t nth)
{
    monitor_lock(&listener->monitor);
    assert_true(nth < listener->count);
    struct arrival arrival = listener->arrivals[nth];
    monitor_unlock(&listener->monitor);
    return arrival;
}

size_t listener_count(struct listener *listener)
{
    monitor_lock(&listener->monitor);
    size_t count = listener->count;
    monitor_unlock(&listener->monitor);
    return count;
}

size_t listener_times(struct listener *listener, const char *body)
{
    size_t times = 0;
    monitor_lock(&listener->monitor);
    for (size_t i = 0; i < listener->count; i++)
        times += strcmp(listener->arrivals[i].body, body) == 0;
    monitor_unlock(&listener->monitor);
    return times;
}

static void wait_for_flag(struct listener *listener, const bool *flag, bool value)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&listener->monitor);
    while (*flag != value && stand_await(listener->stand, &listener->monitor, until))
        ;
    bool reached = *flag == value;
    monitor_unlock(&listener->monitor);
    assert_true(reached);
}

void listener_wait_active(struct listener *listener, bool is_active)
{
    wait_for_flag(listener, &listener->inactive, !is_active);
}

void listener_wait_ended(struct listener *listener)
{
    wait_for_flag(listener, &listener->ended, true);
}

void listener_wait_at_gate(struct listener *listener)
{
    wait_for_flag(listener, &listener->at_gate, true);
}

void listener_open_gate(struct listener *listener)
{
    set_flag(listener, &listener->has_gate, false);
}

void listener_mark(struct listener *listener, size_t source)
{
    static unsigned number;
    char mark[32];
    snprintf(mark, sizeof mark, "mark %u", ++number);
    stand_publish(listener->stand, source, mark);
    for (size_t had = 0; listener_times(listener, mark) == 0; had = listener_count(listener))
        listener_wait(listener, had + 1);
}

coney_status listener_settle(struct listener *listener, size_t nth, coney_settle how)
{
    struct incoming kept = listener_of(listener, nth).kept;
    return listener->stand->transport->settle(&kept, how);
}

static void copied(void *ctx, const coney_outcome *outcome)
{
    struct outcomes_by_tag *outcomes = ctx;
    monitor_lock(&outcomes->monitor);
    outcomes->count++;
    outcomes->last = outcome->tag == 77 ? outcome->status : CONEY_EINVAL;
    monitor_broadcast(&outcomes->monitor);
    monitor_unlock(&outcomes->monitor);
}

static coney_status copy_outcome(struct stand *stand, struct outcomes_by_tag *outcomes)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&outcomes->monitor);
    while (outcomes->count == 0 && stand_await(stand, &outcomes->monitor, until))
        ;
    coney_status status = outcomes->count == 1 ? outcomes->last : CONEY_ETIMEDOUT;
    monitor_unlock(&outcomes->monitor);
    return status;
}

coney_status listener_copy(struct listener *listener, size_t nth, const char *to, uint64_t attempts, int64_t delay)
{
    struct stand *stand = listener->stand;
    struct outcomes_by_tag outcomes = {0};
    struct incoming kept = listener_of(listener, nth).kept;
    coney_status status = stand->transport->copy(&kept, to, attempts, delay, copied, &outcomes, 77);
    if (status == CONEY_OK)
        status = copy_outcome(stand, &outcomes);
    monitor_free(&outcomes.monitor);
    return status;
}
