/* support.h: what tests wait with and collect into: deadlines, collectors of outcomes, deliveries, events and calls.
 *
 * Collectors are filled by callbacks on any thread and read by the test's thread. Waits end by an event or fail the test at
 * their deadline; nothing here sleeps. Deadlines are milliseconds and grow with the environment variable CONEY_TEST_SCALE.
 *
 *     struct outcomes outcomes = {0};
 *     coney_stream_producer_options options = {.on_outcome = outcomes_add, .ctx = &outcomes};
 *     …
 *     outcomes_wait(&outcomes, 12);
 *     assert_int_equal(outcomes_of(&outcomes, 0).status, CONEY_OK);
 *     outcomes_free(&outcomes);
 */
#ifndef CONEY_TEST_SUPPORT_H
#define CONEY_TEST_SUPPORT_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <coney/stream.h>

/* How long a test waits for something that must happen. It costs time only when it does not. */
#define SUPPORT_PATIENCE 20000

/* Milliseconds on a monotonic clock. */
int64_t now_ms(void);

/* `ms` times CONEY_TEST_SCALE (default 1). */
int64_t scaled_ms(int64_t ms);

/* The same as a duration of coney's. */
int64_t scaled_ns(int64_t ms);

/* A mutex with a condition variable on the monotonic clock. Every collector has one; it makes itself at its first use. */
struct monitor {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool made;
};

void monitor_lock(struct monitor *monitor);
void monitor_unlock(struct monitor *monitor);
void monitor_broadcast(struct monitor *monitor);

/* Waits, with the lock held, for a broadcast. False at `until` (as now_ms counts). */
bool monitor_wait(struct monitor *monitor, int64_t until);

void monitor_free(struct monitor *monitor);

/* Runs a group of tests, or those alone that match the pattern in CONEY_TEST_ONLY ("SB_4?_*"). What main returns. */
#undef run_tests /* cmocka has one of old */
#define run_tests(tests) (tests_filter(), cmocka_run_group_tests(tests, NULL, NULL))
void tests_filter(void);

/* Outcomes ------------------------------------------------------------------------------------------------------- */

struct outcome {
    uint64_t tag;
    uint64_t id;
    coney_status status;
    uint32_t code;
    bool unsent;
    char body[24]; /* its beginning */
    size_t body_len;
};

struct outcomes {
    struct monitor monitor;
    struct outcome *all; /* in the order in which they came */
    size_t count;
    size_t cap;
    size_t ok;
};

/* coney_outcome_fn; `ctx` is a struct outcomes. */
void outcomes_add(void *ctx, const coney_outcome *outcome);

/* Fails the test when fewer than `count` have come after SUPPORT_PATIENCE. */
void outcomes_wait(struct outcomes *outcomes, size_t count);

/* The same within `ms`, as an answer. */
bool outcomes_reach(struct outcomes *outcomes, size_t count, int64_t ms);

size_t outcomes_count(struct outcomes *outcomes);

/* How many ended with this status. */
size_t outcomes_with(struct outcomes *outcomes, coney_status status);

/* The n-th that came; it must be there. */
struct outcome outcomes_of(struct outcomes *outcomes, size_t n);

/* Fails unless the tags are first, first + 1 … in the order of arrival, each exactly once, `count` of them. */
void outcomes_are_in_order(struct outcomes *outcomes, uint64_t first, size_t count);

/* Fails unless each of the tags first … first + count - 1 came exactly once, and no other. */
void outcomes_are_each_once(struct outcomes *outcomes, uint64_t first, size_t count);

void outcomes_free(struct outcomes *outcomes);

/* Deliveries ----------------------------------------------------------------------------------------------------- */

struct delivery {
    uint64_t offset;
    int64_t timestamp;
    uint64_t committed;
    uint32_t attempt;
    coney_body_kind kind;
    char body[64]; /* its beginning, as a C string */
    size_t body_len;
};

/* A handler whose behaviour the test sets. Zero: acks everything. */
struct deliveries {
    struct monitor monitor;
    struct delivery *all;
    size_t count;
    size_t cap;
    coney_settle settle;  /* what the handler returns */
    bool closed_gate;     /* the handler waits until deliveries_open_gate */
    uint64_t gate_offset; /* from this offset on */
    size_t waiting;       /* handlers at the gate now */
    void (*also)(void *ctx, const coney_stream_delivery *delivery, size_t nth); /* runs in the handler, without the lock */
    void *also_ctx;
};

/* on_message of a consumer; `ctx` is a struct deliveries. */
coney_settle deliveries_add(void *ctx, const coney_stream_delivery *delivery);

void deliveries_wait(struct deliveries *deliveries, size_t count);
bool deliveries_reach(struct deliveries *deliveries, size_t count, int64_t ms);
size_t deliveries_count(struct deliveries *deliveries);
struct delivery deliveries_of(struct deliveries *deliveries, size_t n);

/* Fails unless the offsets are first, first + 1 … in the order of arrival, `count` of them. */
void deliveries_are_in_order(struct deliveries *deliveries, uint64_t first, size_t count);

/* The same, and each body is "m<offset>". */
void deliveries_are_numbered(struct deliveries *deliveries, uint64_t first, size_t count);

/* Waits until a handler stands at the closed gate. */
void deliveries_wait_at_gate(struct deliveries *deliveries);
void deliveries_open_gate(struct deliveries *deliveries);

void deliveries_free(struct deliveries *deliveries);

/* Events --------------------------------------------------------------------------------------------------------- */

struct event {
    coney_event_type type;
    coney_status status;
    uint32_t code;
    uint32_t attempt;
    int64_t delay;
    uint64_t offset;
    char node[300];
    char name[300];
    char text[600];
    const void *handle;
};

struct events {
    struct monitor monitor;
    struct event *all;
    size_t count;
    size_t cap;
};

/* coney_event_fn; `ctx` is a struct events. */
void events_add(void *ctx, const coney_event *event);

/* The n-th event (0 = the first) of this type; fails the test when it does not come within SUPPORT_PATIENCE. */
struct event events_wait(struct events *events, coney_event_type type, size_t n);
bool events_reach(struct events *events, coney_event_type type, size_t count, int64_t ms);

/* Fails the test when one of this type has come, or comes within `ms` of real time, however slow the machine: heartbeats are as quick on any. */
void events_none(struct events *events, coney_event_type type, int64_t ms);

size_t events_count(struct events *events, coney_event_type type);

/* How many of this type are about this stream; and whether any event's text contains `part`. */
size_t events_about(struct events *events, coney_event_type type, const char *name);
bool events_say(struct events *events, const char *part);

/* Puts them on standard error, for a failing test. */
void events_print(struct events *events);

void events_free(struct events *events);

/* Calls ---------------------------------------------------------------------------------------------------------- */

/* An asynchronous call under test. */
struct waited_call {
    struct monitor monitor;
    coney_call call;   /* what to hand to the function: `on_done` and `ctx` are set by waited_call_of */
    coney_call answer; /* what on_done got */
    size_t done;       /* how often on_done ran */
};

/* Sets up call->call for an asynchronous use with this deadline (ms, 0 = the default). */
coney_call *waited_call_of(struct waited_call *call, int64_t deadline);

/* Waits for on_done and gives its status. */
coney_status waited_call_wait(struct waited_call *call);
bool waited_call_reach(struct waited_call *call, int64_t ms);
/* How often on_done has run. */
size_t waited_call_count(struct waited_call *call);

void waited_call_free(struct waited_call *call);

/* A blocking call with a deadline in ms (scaled). */
coney_call call_within(int64_t ms);

/* The process ---------------------------------------------------------------------------------------------------- */

/* Open descriptors, and threads, of this process. */
size_t descriptors_open(void);
size_t threads_running(void);

/* Waits until as few descriptors and threads are left; fails the test after SUPPORT_PATIENCE. */
void wait_for_descriptors(size_t at_most);
void wait_for_threads(size_t at_most);

/* A deterministic sequence of numbers; the seed is CONEY_TEST_SEED or `fallback`, and is printed. */
struct dice {
    uint64_t state;
};
struct dice dice_of(uint64_t fallback);
uint64_t dice_roll(struct dice *dice, uint64_t below);

/* The bodies "m0", "m1" … in a ring of static memory that holds the last 64. */
coney_bytes numbered(uint64_t n);

#endif
