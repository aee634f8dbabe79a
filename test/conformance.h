/* conformance.h: what every transport of the service framework must do (src/service/broker.h), as a suite that is run against each.
 *
 * A transport describes itself by one struct; what it cannot do by nature it says there, and those scenarios are left out. The suite speaks to it through
 * struct transport only, with sinks of its own: no dispatch, no codec. docs/transports.md says how to add one.
 *
 *     static coney_broker *broker(coney_app *app)
 *     {
 *         return coney_app_stream(app, node.uri, NULL);
 *     }
 *
 *     static void source(const char *name, struct conformance_source *of)
 *     {
 *         of->as.stream = (coney_stream_source){.name = name, .declare = true, .start_if_new = CONEY_STREAM_FIRST};
 *         of->source = coney_source_stream(&of->as.stream);
 *     }
 *
 *     return conformance_run(&(struct conformance){.name = "stream", .broker = broker, .source = source, .keeps = true, …});
 */
#ifndef CONEY_TEST_CONFORMANCE_H
#define CONEY_TEST_CONFORMANCE_H

#include "service/broker.h"
#include "support.h"

struct conformance_source {
    coney_source source; /* points into `as` */
    union {
        coney_queue_source queue;
        coney_stream_source stream;
        coney_topic_source topic;
    } as;
};

struct conformance {
    const char *name;
    coney_broker *(*broker)(coney_app *app);
    coney_broker *(*unreachable)(coney_app *app); /* of an address where nobody listens; NULL: there is no such thing */

    /* A source of this name, which is the suite's own: published to under the same name, declared at the start. */
    void (*source)(const char *name, struct conformance_source *of);
    void (*missing)(const char *name, struct conformance_source *of); /* the same, but not declared, and not there; NULL */
    void (*forget)(const char *name);                                 /* deletes it after the test; NULL */

    /* Of a broker without a thread: makes it do one thing, on the test's thread; false: nothing is left to do. NULL: it has threads. The worker's
     * clock is virtual then. */
    bool (*step)(coney_broker *broker);

    bool keeps;         /* what is published before anybody reads is there when somebody does */
    bool remembers;     /* what one feed has done does not come to the next one */
    bool gives_back;    /* what a feed did not settle comes to the next one */
    bool shares;        /* two feeds of one source share its messages; otherwise each gets them all */
    bool drops_orphans; /* publishing to a destination that is not there is no failure */
    bool copies_back;   /* copy(NULL) */
    bool delays;        /* and such copies may wait */
    bool seeks;
    bool requests;
    bool transactions;
    bool
        acks_singly; /* what was settled is settled, whatever is open before it; otherwise all from the first open one come back */
};

/* Runs the scenarios that apply. What main returns. */
int conformance_run(const struct conformance *what);

/* The stand of a scenario: an app with one broker, connected, with sources of names that nobody else has -------------------------------- */

enum { STAND_SOURCES = 2 };

struct stand {
    const struct conformance *what;
    coney_app *app;
    coney_broker *broker;
    const struct transport *transport;
    void *self;
    struct outlet *outlet;
    struct outcomes_by_tag {
        struct monitor monitor;
        uint64_t count;
        uint64_t failures;
        coney_status last;
        uint8_t times[4096]; /* by tag */
    } outcomes;
    uint64_t next_tag;
    char names[STAND_SOURCES][80];
};

/* An app with a broker of `sources` sources; nothing is connected. Without mistakes, or the test fails. */
void stand_set(struct stand *stand, const struct conformance *what, size_t sources);

/* connect, declare, open_outlet; stand_up does both. */
void stand_open(struct stand *stand);
void stand_up(struct stand *stand, const struct conformance *what, size_t sources);

/* close_outlet, disconnect, and the app is freed. */
void stand_close(struct stand *stand);
void stand_down(struct stand *stand);

/* Publishes; fails the test when it was not accepted. The tag, for stand_outcome. */
uint64_t stand_send(struct stand *stand, const struct outgoing *message);

/* Waits, with the monitor's lock, for something to happen: in a loop on the real condition, which ends when this is false. */
bool stand_await(struct stand *stand, struct monitor *monitor, int64_t until);

/* Waits for the outcome of everything that was sent; the last status other than CONEY_OK. */
coney_status stand_outcomes(struct stand *stand);

/* A body to a source, confirmed. */
void stand_publish(struct stand *stand, size_t source, const char *body);

/* "0", "1" … from `first` on, confirmed. */
void stand_publish_numbers(struct stand *stand, size_t source, size_t first, size_t count);

/* A listener of a source: a sink that writes down what comes ------------------------------------------------------------------------------- */

struct arrival {
    char body[64]; /* its beginning */
    size_t len;
    uint64_t attempt;
    uint64_t offset;
    bool more;
    bool redelivered;
    char content_type[64];
    int64_t at;           /* milliseconds, on the worker's clock */
    struct incoming kept; /* with .keep */
};

struct listener {
    struct sink sink; /* first */
    struct stand *stand;
    struct feed *feed; /* NULL: it does not read */

    /* What it does with a message, without the lock; NULL: acks. */
    coney_settle (*handle)(struct listener *listener, struct incoming *m, size_t nth);
    void *ctx;
    bool keep;   /* keeps all, instead */
    size_t gate; /* with has_gate: the handler of this one waits until the gate is opened */
    bool has_gate;

    struct monitor monitor; /* guards what follows */
    struct arrival *arrivals;
    size_t count;
    size_t cap;
    bool at_gate;
    size_t running; /* handlers: more than 1 is a failure */
    bool overlapped;
    bool inactive;
    bool ended;
};

void listener_start(struct listener *listener, struct stand *stand, size_t source);
void listener_stop(struct listener *listener);
void listener_free(struct listener *listener);

/* Waits until so many have come; fails the test at a deadline. */
void listener_wait(struct listener *listener, size_t count);
struct arrival listener_of(struct listener *listener, size_t nth);
size_t listener_count(struct listener *listener);
size_t listener_times(struct listener *listener, const char *body); /* how often it has come */

/* Waits until it was told that it receives, or not at the moment; that it has ended. */
void listener_wait_active(struct listener *listener, bool active);
void listener_wait_ended(struct listener *listener);

void listener_wait_at_gate(struct listener *listener);
void listener_open_gate(struct listener *listener);

/* Publishes a mark and waits for it: what was to come before it has come. The mark is written down, too. */
void listener_mark(struct listener *listener, size_t source);

/* Settles what was kept. */
coney_status listener_settle(struct listener *listener, size_t nth, coney_settle how);

/* Copies what was kept, and waits for the outcome, which is the answer if there is one. */
coney_status listener_copy(struct listener *listener, size_t nth, const char *to, uint64_t attempts, int64_t delay);

/* A call of the suite's: its deadline is bounded. */
coney_call stand_call(void);

/* Of a body of stand_publish_numbers; fails for another. */
size_t number_of_body(const char *body);

void bytes_are(coney_bytes bytes, const char *expected);

/* Fails unless `status` is CONEY_OK, with the words of the call. */
void must(coney_status status, const coney_call *call, const char *what);

/* The scenarios, each file with its own; ends with a zero. `applies` NULL: to all. */
struct scenario {
    const char *name;
    void (*run)(void **state);
    bool (*applies)(const struct conformance *what);
};
extern const struct scenario conformance_delivery[];
extern const struct scenario conformance_settlement[];
extern const struct scenario conformance_life[];
extern const struct scenario conformance_abilities[];

#endif
