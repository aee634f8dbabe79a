#define _GNU_SOURCE
#include "support.h"

#include <dirent.h>
#include <time.h>

int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t scaled_ms(int64_t ms)
{
    const char *scale = getenv("CONEY_TEST_SCALE");
    long factor = scale != NULL ? strtol(scale, NULL, 10) : 1;
    return ms * (factor > 0 ? factor : 1);
}

int64_t scaled_ns(int64_t ms)
{
    return scaled_ms(ms) * CONEY_MILLISECOND;
}

void tests_filter(void)
{
    const char *only = getenv("CONEY_TEST_ONLY");
    if (only != NULL)
        cmocka_set_test_filter(only);
}

/* Monitors ------------------------------------------------------------------------------------------------------- */

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static void monitor_make(struct monitor *monitor)
{
    pthread_mutex_lock(&making);
    if (!monitor->made) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&monitor->changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
        pthread_mutex_init(&monitor->mutex, NULL);
        monitor->made = true;
    }
    pthread_mutex_unlock(&making);
}

void monitor_lock(struct monitor *monitor)
{
    monitor_make(monitor);
    pthread_mutex_lock(&monitor->mutex);
}

void monitor_unlock(struct monitor *monitor)
{
    pthread_mutex_unlock(&monitor->mutex);
}

void monitor_broadcast(struct monitor *monitor)
{
    pthread_cond_broadcast(&monitor->changed);
}

bool monitor_wait(struct monitor *monitor, int64_t until)
{
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
    return pthread_cond_timedwait(&monitor->changed, &monitor->mutex, &at) == 0 || now_ms() < until;
}

void monitor_free(struct monitor *monitor)
{
    if (!monitor->made)
        return;
    pthread_cond_destroy(&monitor->changed);
    pthread_mutex_destroy(&monitor->mutex);
    monitor->made = false;
}

/* Waits, with the lock held, until *value is at least `least`. */
static bool monitor_reach(struct monitor *monitor, const size_t *value, size_t least, int64_t ms)
{
    int64_t until = now_ms() + scaled_ms(ms);
    bool more = true;
    while (*value < least && more)
        more = monitor_wait(monitor, until);
    return *value >= least;
}

/* Room for one more. */
static void *grown(void *array, size_t count, size_t *cap, size_t element)
{
    if (count < *cap)
        return array;
    *cap = *cap == 0 ? 64 : *cap * 2;
    array = realloc(array, *cap * element);
    if (array == NULL)
        abort();
    return array;
}

static void bytes_copy(char *out, size_t cap, coney_bytes bytes)
{
    size_t len = bytes.len < cap - 1 ? bytes.len : cap - 1;
    if (len > 0)
        memcpy(out, bytes.data, len);
    out[len] = '\0';
}

/* Outcomes ------------------------------------------------------------------------------------------------------- */

void outcomes_add(void *ctx, const coney_outcome *outcome)
{
    struct outcomes *outcomes = ctx;
    struct outcome copy = {.tag = outcome->tag,
                           .id = outcome->publishing_id,
                           .status = outcome->status,
                           .code = outcome->code,
                           .unsent = outcome->unsent};
    coney_bytes body = coney_outcome_body(outcome);
    copy.body_len = body.len;
    bytes_copy(copy.body, sizeof copy.body, body);
    monitor_lock(&outcomes->monitor);
    outcomes->all = grown(outcomes->all, outcomes->count, &outcomes->cap, sizeof copy);
    outcomes->all[outcomes->count++] = copy;
    outcomes->ok += copy.status == CONEY_OK;
    monitor_broadcast(&outcomes->monitor);
    monitor_unlock(&outcomes->monitor);
}

bool outcomes_reach(struct outcomes *outcomes, size_t count, int64_t ms)
{
    monitor_lock(&outcomes->monitor);
    bool reached = monitor_reach(&outcomes->monitor, &outcomes->count, count, ms);
    monitor_unlock(&outcomes->monitor);
    return reached;
}

void outcomes_wait(struct outcomes *outcomes, size_t count)
{
    if (!outcomes_reach(outcomes, count, SUPPORT_PATIENCE))
        fail_msg("%zu outcomes came, %zu were due", outcomes_count(outcomes), count);
}

size_t outcomes_count(struct outcomes *outcomes)
{
    monitor_lock(&outcomes->monitor);
    size_t count = outcomes->count;
    monitor_unlock(&outcomes->monitor);
    return count;
}

size_t outcomes_with(struct outcomes *outcomes, coney_status status)
{
    size_t with = 0;
    monitor_lock(&outcomes->monitor);
    for (size_t i = 0; i < outcomes->count; i++)
        with += outcomes->all[i].status == status;
    monitor_unlock(&outcomes->monitor);
    return with;
}

struct outcome outcomes_of(struct outcomes *outcomes, size_t n)
{
    struct outcome outcome = {0};
    monitor_lock(&outcomes->monitor);
    bool there = n < outcomes->count;
    if (there)
        outcome = outcomes->all[n];
    monitor_unlock(&outcomes->monitor);
    if (!there)
        fail_msg("there is no outcome %zu", n);
    return outcome;
}

void outcomes_are_in_order(struct outcomes *outcomes, uint64_t first, size_t count)
{
    assert_int_equal(outcomes_count(outcomes), count);
    for (size_t i = 0; i < count; i++)
        if (outcomes_of(outcomes, i).tag != first + i)
            fail_msg("outcome %zu has tag %llu, expected %llu", i, (unsigned long long)outcomes_of(outcomes, i).tag,
                     (unsigned long long)(first + i));
}

void outcomes_are_each_once(struct outcomes *outcomes, uint64_t first, size_t count)
{
    assert_int_equal(outcomes_count(outcomes), count);
    unsigned char *seen = calloc(count + 1, 1);
    assert_non_null(seen);
    const char *wrong = NULL;
    uint64_t tag = 0;
    for (size_t i = 0; i < count && wrong == NULL; i++) {
        tag = outcomes_of(outcomes, i).tag;
        if (tag < first || tag >= first + count)
            wrong = "was never given out";
        else if (seen[tag - first]++ != 0)
            wrong = "has two outcomes";
    }
    free(seen);
    if (wrong != NULL)
        fail_msg("tag %llu %s", (unsigned long long)tag, wrong);
}

void outcomes_free(struct outcomes *outcomes)
{
    free(outcomes->all);
    monitor_free(&outcomes->monitor);
    *outcomes = (struct outcomes){0};
}

/* Deliveries ----------------------------------------------------------------------------------------------------- */

static void gate_pass(struct deliveries *deliveries, uint64_t offset)
{
    if (!deliveries->closed_gate || offset < deliveries->gate_offset)
        return;
    deliveries->waiting++;
    monitor_broadcast(&deliveries->monitor);
    while (deliveries->closed_gate)
        monitor_wait(&deliveries->monitor, now_ms() + 1000);
    deliveries->waiting--;
}

coney_settle deliveries_add(void *ctx, const coney_stream_delivery *delivery)
{
    struct deliveries *deliveries = ctx;
    struct delivery copy = {.offset = delivery->offset,
                            .timestamp = delivery->timestamp,
                            .committed = delivery->committed_offset,
                            .attempt = delivery->attempt,
                            .kind = delivery->body_kind,
                            .body_len = delivery->body.len};
    bytes_copy(copy.body, sizeof copy.body, delivery->body);
    monitor_lock(&deliveries->monitor);
    deliveries->all = grown(deliveries->all, deliveries->count, &deliveries->cap, sizeof copy);
    size_t nth = deliveries->count++;
    deliveries->all[nth] = copy;
    monitor_broadcast(&deliveries->monitor);
    gate_pass(deliveries, delivery->offset);
    coney_settle settle = deliveries->settle;
    monitor_unlock(&deliveries->monitor);
    if (deliveries->also != NULL)
        deliveries->also(deliveries->also_ctx, delivery, nth);
    return settle;
}

bool deliveries_reach(struct deliveries *deliveries, size_t count, int64_t ms)
{
    monitor_lock(&deliveries->monitor);
    bool reached = monitor_reach(&deliveries->monitor, &deliveries->count, count, ms);
    monitor_unlock(&deliveries->monitor);
    return reached;
}

void deliveries_wait(struct deliveries *deliveries, size_t count)
{
    if (!deliveries_reach(deliveries, count, SUPPORT_PATIENCE))
        fail_msg("%zu messages were handed over, %zu were due", deliveries_count(deliveries), count);
}

size_t deliveries_count(struct deliveries *deliveries)
{
    monitor_lock(&deliveries->monitor);
    size_t count = deliveries->count;
    monitor_unlock(&deliveries->monitor);
    return count;
}

struct delivery deliveries_of(struct deliveries *deliveries, size_t n)
{
    struct delivery delivery = {0};
    monitor_lock(&deliveries->monitor);
    bool there = n < deliveries->count;
    if (there)
        delivery = deliveries->all[n];
    monitor_unlock(&deliveries->monitor);
    if (!there)
        fail_msg("there is no delivery %zu", n);
    return delivery;
}

void deliveries_are_in_order(struct deliveries *deliveries, uint64_t first, size_t count)
{
    assert_int_equal(deliveries_count(deliveries), count);
    for (size_t i = 0; i < count; i++)
        if (deliveries_of(deliveries, i).offset != first + i)
            fail_msg("delivery %zu has offset %llu, expected %llu", i, (unsigned long long)deliveries_of(deliveries, i).offset,
                     (unsigned long long)(first + i));
}

void deliveries_are_numbered(struct deliveries *deliveries, uint64_t first, size_t count)
{
    deliveries_are_in_order(deliveries, first, count);
    for (size_t i = 0; i < count; i++) {
        char expected[24];
        snprintf(expected, sizeof expected, "m%llu", (unsigned long long)(first + i));
        assert_string_equal(deliveries_of(deliveries, i).body, expected);
    }
}

void deliveries_wait_at_gate(struct deliveries *deliveries)
{
    monitor_lock(&deliveries->monitor);
    bool reached = monitor_reach(&deliveries->monitor, &deliveries->waiting, 1, SUPPORT_PATIENCE);
    monitor_unlock(&deliveries->monitor);
    if (!reached)
        fail_msg("no handler came to the gate");
}

void deliveries_open_gate(struct deliveries *deliveries)
{
    monitor_lock(&deliveries->monitor);
    deliveries->closed_gate = false;
    monitor_broadcast(&deliveries->monitor);
    monitor_unlock(&deliveries->monitor);
}

void deliveries_free(struct deliveries *deliveries)
{
    free(deliveries->all);
    monitor_free(&deliveries->monitor);
    *deliveries = (struct deliveries){0};
}

/* Events --------------------------------------------------------------------------------------------------------- */

void events_add(void *ctx, const coney_event *event)
{
    struct events *events = ctx;
    struct event copy = {.type = event->type,
                         .status = event->status,
                         .code = event->code,
                         .attempt = event->attempt,
                         .delay = event->delay,
                         .offset = event->offset,
                         .handle = event->handle};
    snprintf(copy.node, sizeof copy.node, "%s", event->node != NULL ? event->node : "");
    snprintf(copy.name, sizeof copy.name, "%s", event->name != NULL ? event->name : "");
    snprintf(copy.text, sizeof copy.text, "%s", event->text != NULL ? event->text : "");
    monitor_lock(&events->monitor);
    events->all = grown(events->all, events->count, &events->cap, sizeof copy);
    events->all[events->count++] = copy;
    monitor_broadcast(&events->monitor);
    monitor_unlock(&events->monitor);
}

/* The index of the n-th of this type, or `count`; with the lock held. */
static size_t event_find(const struct events *events, coney_event_type type, size_t n)
{
    size_t i = 0;
    for (; i < events->count; i++)
        if (events->all[i].type == type && n-- == 0)
            break;
    return i;
}

bool events_reach(struct events *events, coney_event_type type, size_t count, int64_t ms)
{
    if (count == 0)
        return true;
    int64_t until = now_ms() + scaled_ms(ms);
    monitor_lock(&events->monitor);
    bool more = true;
    while (event_find(events, type, count - 1) == events->count && more)
        more = monitor_wait(&events->monitor, until);
    bool reached = event_find(events, type, count - 1) < events->count;
    monitor_unlock(&events->monitor);
    return reached;
}

void events_none(struct events *events, coney_event_type type, int64_t ms)
{
    int64_t until = now_ms() + ms;
    monitor_lock(&events->monitor);
    while (event_find(events, type, 0) == events->count && monitor_wait(&events->monitor, until))
        continue;
    bool none = event_find(events, type, 0) == events->count;
    monitor_unlock(&events->monitor);
    if (none)
        return;
    events_print(events);
    fail_msg("the event %s came", coney_event_name(type));
}

struct event events_wait(struct events *events, coney_event_type type, size_t n)
{
    if (!events_reach(events, type, n + 1, SUPPORT_PATIENCE)) {
        events_print(events);
        fail_msg("event '%s' number %zu did not come", coney_event_name(type), n);
    }
    monitor_lock(&events->monitor);
    struct event event = events->all[event_find(events, type, n)];
    monitor_unlock(&events->monitor);
    return event;
}

size_t events_count(struct events *events, coney_event_type type)
{
    size_t count = 0;
    monitor_lock(&events->monitor);
    for (size_t i = 0; i < events->count; i++)
        count += events->all[i].type == type;
    monitor_unlock(&events->monitor);
    return count;
}

size_t events_about(struct events *events, coney_event_type type, const char *name)
{
    size_t count = 0;
    monitor_lock(&events->monitor);
    for (size_t i = 0; i < events->count; i++)
        count += events->all[i].type == type && strcmp(events->all[i].name, name) == 0;
    monitor_unlock(&events->monitor);
    return count;
}

bool events_say(struct events *events, const char *part)
{
    bool said = false;
    monitor_lock(&events->monitor);
    for (size_t i = 0; i < events->count && !said; i++)
        said = strstr(events->all[i].text, part) != NULL;
    monitor_unlock(&events->monitor);
    return said;
}

void events_print(struct events *events)
{
    monitor_lock(&events->monitor);
    for (size_t i = 0; i < events->count; i++) {
        const struct event *e = &events->all[i];
        fprintf(stderr, "  event %s: %s, '%s' on %s, attempt %u: %s\n", coney_event_name(e->type), coney_status_name(e->status),
                e->name, e->node, e->attempt, e->text);
    }
    monitor_unlock(&events->monitor);
}

void events_free(struct events *events)
{
    free(events->all);
    monitor_free(&events->monitor);
    *events = (struct events){0};
}

/* Calls ---------------------------------------------------------------------------------------------------------- */

static void call_done(void *ctx, const coney_call *call)
{
    struct waited_call *waited = ctx;
    monitor_lock(&waited->monitor);
    waited->answer = *call;
    waited->done++;
    monitor_broadcast(&waited->monitor);
    monitor_unlock(&waited->monitor);
}

coney_call *waited_call_of(struct waited_call *call, int64_t deadline)
{
    monitor_lock(&call->monitor); /* somebody may wait for it already */
    call->call = (coney_call){.deadline = deadline * CONEY_MILLISECOND, .on_done = call_done, .ctx = call};
    call->done = 0;
    monitor_unlock(&call->monitor);
    return &call->call;
}

bool waited_call_reach(struct waited_call *call, int64_t ms)
{
    monitor_lock(&call->monitor);
    bool reached = monitor_reach(&call->monitor, &call->done, 1, ms);
    monitor_unlock(&call->monitor);
    return reached;
}

coney_status waited_call_wait(struct waited_call *call)
{
    if (!waited_call_reach(call, SUPPORT_PATIENCE))
        fail_msg("on_done did not run");
    monitor_lock(&call->monitor);
    coney_status status = call->answer.status;
    monitor_unlock(&call->monitor);
    return status;
}

size_t waited_call_count(struct waited_call *call)
{
    monitor_lock(&call->monitor);
    size_t done = call->done;
    monitor_unlock(&call->monitor);
    return done;
}

void waited_call_free(struct waited_call *call)
{
    monitor_free(&call->monitor);
}

coney_call call_within(int64_t ms)
{
    return (coney_call){.deadline = scaled_ns(ms)};
}

/* The process ---------------------------------------------------------------------------------------------------- */

static size_t directory_entries(const char *path)
{
    DIR *directory = opendir(path);
    assert_non_null(directory);
    size_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

size_t descriptors_open(void)
{
    return directory_entries("/proc/self/fd") - 1; /* less the one that reads the directory */
}

size_t threads_running(void)
{
    return directory_entries("/proc/self/task");
}

/* Counts of the kernel have no event to wait for, so they are asked for again. */
static size_t count_falls_to(size_t (*count)(void), size_t at_most)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    size_t now;
    while ((now = count()) > at_most && now_ms() < until)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    return now;
}

void wait_for_descriptors(size_t at_most)
{
    size_t open = count_falls_to(descriptors_open, at_most);
    if (open > at_most)
        fail_msg("%zu descriptors are open, at most %zu were expected", open, at_most);
}

void wait_for_threads(size_t at_most)
{
    size_t running = count_falls_to(threads_running, at_most);
    if (running > at_most)
        fail_msg("%zu threads are running, at most %zu were expected", running, at_most);
}

/* Numbers -------------------------------------------------------------------------------------------------------- */

struct dice dice_of(uint64_t fallback)
{
    const char *seed = getenv("CONEY_TEST_SEED");
    struct dice dice = {seed != NULL ? strtoull(seed, NULL, 10) : fallback};
    printf("CONEY_TEST_SEED=%llu\n", (unsigned long long)dice.state);
    return dice;
}

/* splitmix64 */
uint64_t dice_roll(struct dice *dice, uint64_t below)
{
    uint64_t z = dice->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (z ^ z >> 31) % below;
}

coney_bytes numbered(uint64_t n)
{
    static char ring[64][24];
    char *at = ring[n % 64];
    int len = snprintf(at, sizeof ring[0], "m%llu", (unsigned long long)n);
    return coney_bytes_of(at, (size_t)len);
}
