/* coney/service.h: services: what to read, what type it is, what to do when things go wrong, and a handler.
 *
 *     #define ORDER(F) F(u64, id) F(string, customer) F(f64, total)
 *     CONEY_MESSAGE(order, ORDER);
 *     #define RECEIPT(F) F(u64, order_id)
 *     CONEY_MESSAGE(receipt, RECEIPT);
 *
 *     static coney_settle settle(coney_delivery *d, const order *o)
 *     {
 *         receipt r = {.order_id = o->id};
 *         if (receipt_publish(coney_out_of(d), "receipts", &r) != CONEY_OK)
 *             return coney_retry_after(5 * CONEY_SECOND);
 *         return CONEY_ACK;                  // the order is acked when the broker has confirmed the receipt
 *     }
 *     CONEY_HANDLER(settle, order);
 *
 *     int main(int argc, char **argv)
 *     {
 *         coney_app *app = coney_app_new("orders", "1.0.0");
 *         coney_broker *rabbit = coney_app_amqp(app, "amqp://localhost", NULL);
 *         coney_declare_queue(rabbit, &(coney_amqp_queue){.name = "receipts"});
 *         coney_subscribe(rabbit, &(coney_subscription){
 *             .source = CONEY_QUEUE("orders", .declare = true), .handler = settle_handler});
 *         return coney_app_main(app, argc, argv);
 *     }
 *
 * An app is described first: brokers, subscriptions, publishers, hooks, from one thread. Every string and array in the
 * description is copied; contexts, codecs and types are kept by their address. coney_app_start then finds what is wrong with
 * it, all of it at once, each with the subscription's name and the field. While the app runs every function here may be used
 * from any thread, blocking ones not from a callback of a client's loop (CONEY_EDEADLK).
 *
 * A handler returns its settlement: CONEY_ACK, CONEY_REJECT, CONEY_REQUEUE, coney_retry_after(ns) or CONEY_KEPT, as of
 * <coney/coney.h>, or CONEY_FAILED. The handlers of one subscription run one after the other, in order, unless it has
 * `.lanes`; those of different subscriptions at the same time, each on a thread of its own. Middleware runs where the handler
 * runs. Hooks run on the thread that starts or stops the app.
 *
 * On streams and retained topics the order of the log holds when something is to come again (CONEY_REQUEUE, coney_retry_after,
 * CONEY_FAILED with a policy of retry): the handler gets it again, after the delay, before what is behind it.
 *   one lane           of the subscription; not on retained topics, where it comes when it is due
 *   lanes with by_key  of the same lane, so of the same key; without by_key there is no order
 *   batches            of the same lane: what is to come again of a batch comes as a batch, before the next one. A batch's
 *                      lane also waits for the confirms of what it published, so a publish failure keeps the order, too
 * Out of order comes what was settled after its handler had returned: a message that was kept, and one whose publish failed,
 * since later ones are handled while its confirm is awaited. A stop leaves what is to come again unsettled, and the stored
 * offset stays before it.
 */
#ifndef CONEY_SERVICE_H
#define CONEY_SERVICE_H

#include <coney/amqp.h>
#include <coney/codec.h>
#include <coney/coney.h>
#include <coney/stream.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coney_app coney_app;
typedef struct coney_broker coney_broker;       /* of an app; freed with it */
typedef struct coney_router coney_router;       /* subscriptions and middleware without a broker */
typedef struct coney_publisher coney_publisher; /* of a broker; freed with the app */
typedef struct coney_delivery coney_delivery;
typedef struct coney_batch coney_batch;
typedef struct coney_test coney_test; /* <coney/test.h> */
struct coney_publish;
struct coney_publish_next;

/* Settlements of a service, beside those of <coney/coney.h> ------------------------------------------------------------ */

/* The handler failed: the subscription's on_failure says what follows. A value that is no settlement counts as this one. */
#define CONEY_FAILED ((coney_settle)-4)

/* What is done when something went wrong. A number above zero, from coney_policy_retry, is: again after so many nanoseconds.
 * What went wrong, with which message and what follows is a warning in the log; of a batch that failed as a whole one for all.
 * The same words come once a second for each subscription, with how many more there were. */
typedef int64_t coney_policy;
#define CONEY_POLICY_DEFAULT ((coney_policy)0)
#define CONEY_POLICY_RETRY ((coney_policy)-1)  /* again at once, as CONEY_REQUEUE, counted as an attempt */
#define CONEY_POLICY_REJECT ((coney_policy)-2) /* as CONEY_REJECT: dropped or dead-lettered */
#define CONEY_POLICY_SKIP ((coney_policy)-3)   /* as CONEY_ACK */
/* The app drains and stops with a failure. The message stays unsettled, so the broker has it. */
#define CONEY_POLICY_STOP ((coney_policy)-4)
static inline coney_policy coney_policy_retry(int64_t ns)
{
    return ns > 0 ? ns : 1;
}

/* The app ---------------------------------------------------------------------------------------------------------------- */

typedef enum coney_stage {
    CONEY_BEFORE_START = 0, /* before brokers are connected: open databases, set the state */
    CONEY_AFTER_START = 1,  /* subscriptions are open: the first publish */
    CONEY_BEFORE_STOP = 2,  /* brokers are still connected, handlers still run */
    CONEY_AFTER_STOP = 3,   /* all has ended */
} coney_stage;

/* What happens when a subscription ends while the app runs: its queue was deleted, the right to it was taken away. */
typedef enum coney_on_end {
    CONEY_ON_END_LOG = 0,  /* a warning; health counts it as not active */
    CONEY_ON_END_STOP = 1, /* the app stops with a failure, as by CONEY_POLICY_STOP */
} coney_on_end;

typedef struct coney_app_options {
    void *state;         /* what coney_state() gives; coney_app_set_state sets another */
    coney_log_fn on_log; /* of the app and its brokers; any thread. Without it nothing is logged, but by coney_app_main */
    void *log_ctx;
    coney_log_level log_level; /* default CONEY_LOG_INFO */
    coney_on_end on_subscription_end;
    /* how long a stop waits for handlers, confirms and continuations; default 30 s, CONEY_OFF = without limit */
    int64_t drain_timeout;
    int64_t handler_limit; /* a handler that runs longer is named in a warning, once a run; default 10 s, CONEY_OFF = never */
    const coney_codec *codec; /* of subscriptions and publishers that name none; default JSON */
    const char *id;           /* a URI that names the app for documents */
    const char *description;
    bool timed; /* handlers' durations are measured (two readings of the clock a message); else they are 0 in the metrics */
    uint8_t reserved[7];
} coney_app_options;

/* `title` and `version` name the app to brokers and in documents. NULL: memory is out. */
CONEY_API coney_app *coney_app_new(const char *title, const char *version);

/* May be called once, before everything else. What is wrong is reported at the start. */
CONEY_API void coney_app_configure_sized(coney_app *app, const coney_app_options *options, size_t options_size);
static inline void coney_app_configure(coney_app *app, const coney_app_options *options)
{
    coney_app_configure_sized(app, options, sizeof *options);
}

CONEY_API void *coney_app_state(const coney_app *app);
CONEY_API void coney_app_set_state(coney_app *app, void *state); /* before the start and in CONEY_BEFORE_START */

/* Adds a hook. Those of the two starting stages run in the order in which they were added, those of the others in the reverse
 * order. A failure of a starting hook (anything but CONEY_OK; its words go into call->text) fails the start, which is
 * unwound. Stopping hooks run for what had been started, also when it was another step that failed: CONEY_BEFORE_STOP when
 * all subscriptions had been opened, CONEY_AFTER_STOP when the first hook had been called. Their failures are logged. */
CONEY_API void coney_app_on(coney_app *app, coney_stage stage,
                            coney_status (*hook)(coney_app *app, void *ctx, coney_call *call), void *ctx);

/* Checks everything that can be checked without a broker. CONEY_EINVAL: call->text holds the mistakes, one a line, as many as
 * fit; call->value their number; all of them go to the log. */
CONEY_API coney_status coney_app_check(coney_app *app, coney_call *call);

/* Checks, runs the first hooks, connects the brokers, declares what is to be declared, opens the publishers, then the
 * subscriptions, runs the second hooks. Blocks; call->deadline is for each step with a broker. A failure is unwound, says
 * what failed in call->text, and leaves an app that may be started again. CONEY_EINVAL: mistakes, as of coney_app_check; or
 * it runs, or a handler or publish from before its last stop still does. CONEY_EFORKED: the parent process has started it. */
CONEY_API coney_status coney_app_start(coney_app *app, coney_call *call);

/* Waits until the app was asked to stop (coney_app_ask_to_stop, also before the start), stops by a policy, or is stopped by
 * somebody: the status is what it would exit with: CONEY_OK, or why it fails, in words in call->text. Any number of threads.
 * call->deadline: default none. CONEY_ETIMEDOUT: it still runs. CONEY_EINVAL: it was never started. CONEY_EDEADLK from a
 * callback of a client's loop, and of an app under test that nobody has asked to stop. */
CONEY_API coney_status coney_app_wait(coney_app *app, coney_call *call);

/* Asks for a stop, from any thread or handler, and also from a signal handler. Nothing else happens here: coney_app_wait
 * returns. */
CONEY_API void coney_app_ask_to_stop(coney_app *app);

/* Stops: runs the hooks of CONEY_BEFORE_STOP; lets no further handler start; waits for those that run, the confirms that
 * deliveries wait for and continuations, up to drain_timeout; ends the subscriptions (what no handler had goes back to the
 * broker) and publishers, closes brokers in the reverse order of their making; runs the last hooks. A step that fails stops
 * no other; the first failure is returned. call->deadline is for each step with a broker: all its subscriptions, all its
 * publishers, its connections; call->value: deliveries that were not settled. CONEY_OK also when it does not run. A second
 * call while one runs waits for it, without limit unless call->deadline is set. CONEY_ETIMEDOUT: the drain took too long, what
 * was open is with the broker. CONEY_EDEADLK from a handler, a continuation, a hook, a callback of a client's loop or
 * middleware around a publish. */
CONEY_API coney_status coney_app_stop(coney_app *app, coney_call *call);

/* Stops it if it runs, frees it and clears *app; NULL there is harmless. Waits for handlers, publishes and requests that have
 * outlived the stop. From where a stop answers CONEY_EDEADLK nothing is done. In a forked child of the process that started
 * it, *app is only cleared. */
CONEY_API void coney_app_free(coney_app **app);

/* The whole of a service's main: takes the app, does what the arguments say, frees it. Returns the exit status: 0; 1: it
 * failed, the reason is printed; 2: wrong arguments. `app` NULL (memory was out): 1.
 *
 *   run, or nothing    starts it and serves until SIGINT or SIGTERM, which drain; a second one ends the process at once
 *   check              as coney_app_check; prints what it found, or that all is well
 *   --help, --version
 *   --                 what follows is left to the program, which reads it before it calls this
 *
 * Logs to standard error (coney_log_stderr) unless on_log is set. Call it before other threads are started: the two signals
 * are blocked in the calling thread. */
CONEY_API int coney_app_main(coney_app *app, int argc, char **argv);

/* A log callback that writes one line an entry to standard error: time=… level=… msg="…". The level comes from CONEY_LOG
 * (error, warning, info, debug, off), which coney_log_level_of_env reads (`otherwise` when it is not set). `ctx` is not used. */
CONEY_API void coney_log_stderr(void *ctx, coney_log_level level, const char *text);
CONEY_API coney_log_level coney_log_level_of_env(coney_log_level otherwise);

typedef enum coney_app_phase {
    CONEY_APP_NEW = 0,
    CONEY_APP_STARTING = 1,
    CONEY_APP_RUNNING = 2,
    CONEY_APP_STOPPING = 3,
    CONEY_APP_STOPPED = 4,
    CONEY_APP_FAILED = 5, /* it stops or has stopped for a failure */
} coney_app_phase;

/* For liveness and readiness. Frozen layout. */
typedef struct coney_app_health {
    coney_app_phase phase;
    coney_status status;    /* why it failed */
    uint64_t subscriptions; /* that were started */
    uint64_t active;        /* that receive now: fewer while one recovers or after one has ended */
    uint64_t brokers;
    uint64_t connected; /* brokers that have their connections now */
    uint64_t reserved[8];
    char reason[256]; /* "" or why it failed */
} coney_app_health;
CONEY_API void coney_app_get_health(const coney_app *app, coney_app_health *health);

/* Brokers ---------------------------------------------------------------------------------------------------------------- */

/* Registers a broker; nothing is connected before the start. `uri` and `options` as of coney_amqp_open and
 * coney_stream_env_open; their on_log and loop must not be set, on_event is called as well. NULL: memory is out (and what is
 * made with it then is refused at the start, too). */
CONEY_API coney_broker *coney_app_amqp_sized(coney_app *app, const char *uri, const coney_amqp_options *options, size_t size);
static inline coney_broker *coney_app_amqp(coney_app *app, const char *uri, const coney_amqp_options *options)
{
    return coney_app_amqp_sized(app, uri, options, sizeof *options);
}
CONEY_API coney_broker *coney_app_stream_sized(coney_app *app, const char *uri, const coney_stream_env_options *options,
                                               size_t size);
static inline coney_broker *coney_app_stream(coney_app *app, const char *uri, const coney_stream_env_options *options)
{
    return coney_app_stream_sized(app, uri, options, sizeof *options);
}

typedef struct coney_memory_options {
    int64_t retain_messages; /* each topic keeps its last so many messages; default none. Either bound makes topics seekable */
    int64_t retain_bytes;    /* the same in bytes of bodies; the newest message is always kept */
    bool most_specific; /* of several patterns that match, only the most specific subscription gets a message; else each does */
    uint8_t reserved[7];
} coney_memory_options;

/* A broker inside the process: topics, to which every subscription listens for itself (CONEY_TOPIC). */
CONEY_API coney_broker *coney_app_memory_sized(coney_app *app, const coney_memory_options *options, size_t size);
static inline coney_broker *coney_app_memory(coney_app *app, const coney_memory_options *options)
{
    return coney_app_memory_sized(app, options, sizeof *options);
}

/* For logs, documents and tests; default "amqp", "stream", "memory", then "amqp-2" … */
CONEY_API void coney_broker_label(coney_broker *broker, const char *label);
CONEY_API void coney_broker_codec(coney_broker *broker, const coney_codec *codec);

/* Has the app declare an exchange at its start, or (with `.passive`) check that it exists. AMQP only. */
CONEY_API void coney_declare_exchange_sized(coney_broker *broker, const coney_amqp_exchange *exchange, size_t size);
static inline void coney_declare_exchange(coney_broker *broker, const coney_amqp_exchange *exchange)
{
    coney_declare_exchange_sized(broker, exchange, sizeof *exchange);
}

/* The same for a queue that nothing here subscribes to: where something is published or dead-lettered to. */
CONEY_API void coney_declare_queue_sized(coney_broker *broker, const coney_amqp_queue *queue, size_t size);
static inline void coney_declare_queue(coney_broker *broker, const coney_amqp_queue *queue)
{
    coney_declare_queue_sized(broker, queue, sizeof *queue);
}

/* The same for a stream; the `if_missing` of the spec is taken as set. */
CONEY_API void coney_declare_stream_sized(coney_broker *broker, const char *stream, const coney_stream_spec *spec, size_t size);
static inline void coney_declare_stream(coney_broker *broker, const char *stream, const coney_stream_spec *spec)
{
    coney_declare_stream_sized(broker, stream, spec, sizeof *spec);
}

/* Sources: what a subscription reads ------------------------------------------------------------------------------------ */

typedef struct coney_queue_binding {
    const char *exchange; /* NULL ends a list of bindings */
    const char *key;      /* NULL = "" */
    const char *type;     /* with it the exchange is declared, too: "direct", "topic", "fanout", "headers" … */
    const coney_field *arguments;
    size_t argument_count;
} coney_queue_binding;

/* `.bindings = CONEY_BINDINGS({.exchange = "events", .key = "order.*"}, {…})` */
#define CONEY_BINDINGS(...) ((const coney_queue_binding[]){__VA_ARGS__, {0}})

/* How a queue waits before a message comes again (coney_retry_after, coney_policy_retry). */
typedef enum coney_delay {
    CONEY_DELAY_HELD = 0, /* here, unsettled: nothing to declare, and it counts towards the prefetch */
    /* in a waiting queue NAME.wait.MILLISECONDS that gives it back by TTL and dead-lettering; one queue for a class of
     * delays, at most an eighth longer than was asked for, so short ones do not wait behind long ones. With `.declare` they
     * are declared as they are needed; without it the one asked for must exist */
    CONEY_DELAY_QUEUE = 1,
    CONEY_DELAY_PLUGIN = 2, /* in the exchange NAME.delay of type x-delayed-message; with `.declare` it is declared and bound */
} coney_delay;

/* A queue over AMQP: classic, quorum or stream. */
typedef struct coney_queue_source {
    const char *name; /* NULL or "" with `.declare`: a queue of its own that the broker names; else required */
    coney_queue_type type;
    coney_delay delay;
    int64_t prefetch;                    /* default 256, as of coney_amqp_consumer_options */
    const coney_queue_binding *bindings; /* with `.declare`; ends at the first without an exchange */
    const char *dead_letter_exchange;    /* with `.declare`, as all that follows up to max_priority; as of coney_amqp_queue */
    const char *dead_letter_routing_key;
    /* Quorum. 0 = the broker's default, or max_attempts and 20 more where that is set: the broker also counts what a stop or a
     * lost connection gives back, and what is beyond the limit it ends without a handler. CONEY_OFF = none */
    int64_t delivery_limit;
    int64_t message_ttl; /* nanoseconds, as the next */
    int64_t expires;
    int64_t max_length; /* messages */
    int64_t max_length_bytes;
    int64_t max_priority;
    const coney_field *arguments; /* any further argument of the queue, with `.declare` */
    size_t argument_count;
    const coney_field *consume_arguments; /* of the consumer: x-stream-offset of a stream queue, where not `start` */
    size_t consume_argument_count;
    int64_t priority;         /* of the consumer; with has_priority */
    coney_stream_start start; /* stream queues, as the two below */
    uint32_t reserved_number;
    uint64_t start_offset; /* of CONEY_STREAM_OFFSET */
    int64_t start_time;    /* of CONEY_STREAM_TIMESTAMP: milliseconds since 1970 */
    bool declare;          /* the app declares exchanges, queue and bindings at its start; otherwise the queue must be there */
    bool transient;
    bool exclusive; /* of this app alone, and gone with it */
    bool auto_delete;
    bool single_active_consumer;
    bool exclusive_consumer;
    bool has_priority;
    uint8_t reserved[1];
} coney_queue_source;

/* A stream over the stream protocol. Members that say nothing are those of coney_stream_consumer_options and, with
 * `.declare`, of coney_stream_spec. */
typedef struct coney_stream_source {
    const char *name;
    /* offsets are stored under this name as messages settle; default: the app's title; "" = nothing is stored */
    const char *consumer;
    coney_stream_start start_if_new; /* where to begin when nothing is stored */
    uint32_t reserved_number;
    uint64_t start_offset;
    int64_t start_time;
    int64_t credit; /* chunks ahead of the handler, default 10 */
    int64_t store_every;
    int64_t store_interval;
    int64_t max_length; /* with `.declare`, and the two below */
    int64_t max_age;
    int64_t max_segment_size;
    bool start_always; /* at start_if_new, whatever is stored */
    bool declare;      /* the app creates the stream at its start, if it is missing */
    uint8_t reserved[6];
} coney_stream_source;

/* A topic of a broker in memory. */
typedef struct coney_topic_source {
    const char *name; /* a topic, or a pattern: words between dots, `*` is one word, `>` at the end is one or more */
    /* of a retained topic: CONEY_STREAM_NEXT, FIRST, LAST (the last message), OFFSET, TIMESTAMP; patterns begin at the next */
    coney_stream_start start;
    uint32_t reserved_number;
    uint64_t start_offset;
    int64_t start_time;
    /* messages that may wait for this subscription before a publish waits (or answers CONEY_EAGAIN); default 10,000 */
    int64_t max_waiting;
} coney_topic_source;

typedef enum coney_source_kind {
    CONEY_SOURCE_NONE = 0,
    CONEY_SOURCE_QUEUE = 1,
    CONEY_SOURCE_STREAM = 2,
    CONEY_SOURCE_TOPIC = 3,
} coney_source_kind;

typedef struct coney_source {
    coney_source_kind kind;
    uint32_t size; /* of what it points to */
    const void *of;
} coney_source;

static inline coney_source coney_source_of(coney_source_kind kind, const void *of, size_t size)
{
    coney_source source;
    source.kind = kind;
    source.size = (uint32_t)size;
    source.of = of;
    return source;
}
static inline coney_source coney_source_queue(const coney_queue_source *queue)
{
    return coney_source_of(CONEY_SOURCE_QUEUE, queue, sizeof *queue);
}
static inline coney_source coney_source_stream(const coney_stream_source *stream)
{
    return coney_source_of(CONEY_SOURCE_STREAM, stream, sizeof *stream);
}
static inline coney_source coney_source_topic(const coney_topic_source *topic)
{
    return coney_source_of(CONEY_SOURCE_TOPIC, topic, sizeof *topic);
}

/* `.source = CONEY_QUEUE("orders", .type = CONEY_QUEUE_QUORUM, .prefetch = 64)`. What they make lives to the end of the block in
 * which they stand: subscribe there. In C++ fill the struct and call the function above. */
#define CONEY_QUEUE(...) coney_source_queue(&(coney_queue_source){.name = __VA_ARGS__})
#define CONEY_STREAM(...) coney_source_stream(&(coney_stream_source){.name = __VA_ARGS__})
#define CONEY_TOPIC(...) coney_source_topic(&(coney_topic_source){.name = __VA_ARGS__})

/* Handlers ---------------------------------------------------------------------------------------------------------------- */

/* Made by the three macros below; for `.handler`. Frozen layout. */
typedef struct coney_handler {
    const char *name;
    const coney_type *(*type)(void); /* NULL: raw bytes */
    coney_settle (*one)(coney_delivery *delivery, const void *value);
    coney_settle (*many)(coney_batch *batch, const void *values, size_t count);
    const void *reserved[2];
} coney_handler;

/* `coney_settle fn(coney_delivery *d, const T *value)` becomes fn_handler. The types are checked here, by the compiler. T: a
 * message or a set. */
#define CONEY_HANDLER(fn, T)                                                                                                   \
    static coney_settle fn##_on_(coney_delivery *delivery, const void *value)                                                  \
    {                                                                                                                          \
        return fn(delivery, (const T *)value);                                                                                 \
    }                                                                                                                          \
    static const coney_handler fn##_handler __attribute__((unused)) = {#fn, T##_type, fn##_on_, NULL, {NULL, NULL}}

/* `coney_settle fn(coney_delivery *d, coney_bytes body)`: no codec, no content type. */
#define CONEY_RAW_HANDLER(fn)                                                                                                  \
    static coney_settle fn##_on_(coney_delivery *delivery, const void *value)                                                  \
    {                                                                                                                          \
        return fn(delivery, *(const coney_bytes *)value);                                                                      \
    }                                                                                                                          \
    static const coney_handler fn##_handler __attribute__((unused)) = {#fn, NULL, fn##_on_, NULL, {NULL, NULL}}

/* `coney_settle fn(coney_batch *batch, const T *values, size_t count)`. What it returns settles those that coney_batch_settle
 * did not. */
#define CONEY_BATCH_HANDLER(fn, T)                                                                                             \
    static coney_settle fn##_on_(coney_batch *batch, const void *values, size_t count)                                         \
    {                                                                                                                          \
        return fn(batch, (const T *)values, count);                                                                            \
    }                                                                                                                          \
    static const coney_handler fn##_handler __attribute__((unused)) = {#fn, T##_type, NULL, fn##_on_, {NULL, NULL}}

/* The same of raw bodies: `coney_settle fn(coney_batch *batch, const coney_bytes *bodies, size_t count)`. */
#define CONEY_RAW_BATCH_HANDLER(fn)                                                                                            \
    static coney_settle fn##_on_(coney_batch *batch, const void *values, size_t count)                                         \
    {                                                                                                                          \
        return fn(batch, (const coney_bytes *)values, count);                                                                  \
    }                                                                                                                          \
    static const coney_handler fn##_handler __attribute__((unused)) = {#fn, NULL, NULL, fn##_on_, {NULL, NULL}}

/* Middleware: around every handler of an app, a broker, a router or a subscription; added first is outermost, and the app is
 * outside the broker, the broker outside the router, the router outside the subscription. Runs after the message was decoded.
 * Returns what `next` returned, or settles by itself without calling it, at most once. Handlers of batches are not wrapped. */
typedef struct coney_next coney_next;
typedef coney_settle (*coney_around_fn)(void *ctx, coney_delivery *delivery, coney_next *next);
CONEY_API coney_settle coney_next_run(coney_next *next, coney_delivery *delivery);

/* Subscriptions ----------------------------------------------------------------------------------------------------------- */

typedef struct coney_subscription {
    coney_source source;
    const char *name; /* in logs, metrics and tests; default: the source's name */
    coney_handler handler;
    const coney_codec *codec; /* default: the router's, the broker's, the app's */
    /* Chooses the variant of a set; returns its type, or NULL: none fits, which is a message that cannot be decoded. Default:
     * the set's own rule. */
    const coney_type *(*choose)(void *ctx, const coney_delivery *delivery);
    void *ctx;              /* for choose, and coney_delivery_ctx */
    coney_around_fn around; /* middleware of this subscription alone, innermost, with around_ctx */
    void *around_ctx;

    coney_policy on_undecodable;     /* the body, the content type or the headers are not what was asked for; default REJECT */
    coney_policy on_failure;         /* CONEY_FAILED; default: again after 1 s */
    coney_policy on_publish_failure; /* what the handler published was refused, returned or lost; default: again after 1 s */
    /* deliveries of a message, the first included; then it goes to dead_letter, or is rejected without one. 0 = no limit */
    int64_t max_attempts;
    /* destination of the broker to which spent messages are published, with what they had and "x-coney-attempts"; one that is not taken is
     * published again each second, and its message stays unsettled until then */
    const char *dead_letter;

    /* 1 (default): in order. n: so many threads; messages of one key stay in order with `by_key`, otherwise there is no order */
    int64_t lanes;
    /* deliveries that may wait for a lane; default 64. The source is read no further while the one that it needs is full */
    int64_t lane_queue;
    /* with by_key: the header that holds the key; default: the transport's own ("x-coney-key"; AMQP: then the routing key) */
    const char *key_header;

    int64_t batch; /* messages a batch at most; required by a batch handler (1 to 65,535) and only there */
    /* how long the first one waits for the others; default 10 ms, CONEY_OFF = only full batches or what the broker sent
     * together */
    int64_t batch_wait;
    bool by_key;
    bool any_content_type; /* the content type of messages is not looked at */
    /* with max_attempts on a queue that does not count: refuse at the start instead of publishing copies with a raised count */
    bool no_retry_copies;
    uint8_t reserved[5];
} coney_subscription;

/* Adds a subscription. CONEY_ENOMEM, CONEY_EINVAL (the app runs, `broker` is NULL); all else is found at the start. */
CONEY_API coney_status coney_subscribe_sized(coney_broker *broker, const coney_subscription *subscription, size_t size);
static inline coney_status coney_subscribe(coney_broker *broker, const coney_subscription *subscription)
{
    return coney_subscribe_sized(broker, subscription, sizeof *subscription);
}

CONEY_API void coney_app_use(coney_app *app, coney_around_fn around, void *ctx);
CONEY_API void coney_broker_use(coney_broker *broker, coney_around_fn around, void *ctx);

/* A router collects subscriptions, to be included in a broker or another router, as often as one likes; a codec and
 * middleware of its own hold for all that is in it. It is copied when it is included; free it then. NULL: memory is out. */
CONEY_API coney_router *coney_router_new(void);
CONEY_API void coney_router_codec(coney_router *router, const coney_codec *codec);
CONEY_API void coney_router_use(coney_router *router, coney_around_fn around, void *ctx);
CONEY_API coney_status coney_route_sized(coney_router *router, const coney_subscription *subscription, size_t size);
static inline coney_status coney_route(coney_router *router, const coney_subscription *subscription)
{
    return coney_route_sized(router, subscription, sizeof *subscription);
}
CONEY_API coney_status coney_router_include(coney_router *router, const coney_router *inner);
CONEY_API coney_status coney_include(coney_broker *broker, const coney_router *router);
CONEY_API void coney_router_free(coney_router **router);

/* Deliveries -------------------------------------------------------------------------------------------------------------- */

/* A delivery is the handler's until it returns, or until it is settled when it was kept. All views live as long. */
CONEY_API coney_bytes coney_delivery_body(const coney_delivery *delivery);
CONEY_API const char *coney_delivery_subscription(const coney_delivery *delivery);
CONEY_API coney_app *coney_delivery_app(const coney_delivery *delivery);
CONEY_API void *coney_delivery_ctx(const coney_delivery *delivery);
CONEY_API void *coney_state(const coney_delivery *delivery);

/* Whether the app was asked to stop or drains, or a policy has stopped it here: a handler that takes long may leave off. A few
 * loads, for any moment of its run. */
CONEY_API bool coney_delivery_stopping(const coney_delivery *delivery);

/* 1 for the first delivery of a message. Counted by the broker where it counts, else by "x-coney-attempts" of copies and by
 * the transport. */
CONEY_API uint64_t coney_delivery_attempt(const coney_delivery *delivery);

/* What came with the message; decoded once, when first asked for. Empty or null when absent. */
typedef struct coney_delivery_info {
    coney_bytes source;      /* the queue, stream or topic; the topic itself where the source is a pattern */
    coney_bytes exchange;    /* AMQP */
    coney_bytes routing_key; /* AMQP */
    coney_bytes content_type;
    coney_bytes content_encoding;
    coney_bytes correlation_id;
    coney_bytes reply_to;
    coney_bytes message_id;
    coney_bytes type; /* AMQP 1.0: subject */
    coney_bytes app_id;
    coney_bytes key;     /* partition key */
    coney_value headers; /* a map (AMQP 1.0: the application properties), or null */
    uint64_t offset;     /* with has_offset: streams, stream queues, retained topics */
    int64_t timestamp;   /* milliseconds since 1970; 0 when there is none. AMQP: the sender's; streams: the chunk's */
    int64_t expiration;  /* nanoseconds; 0 = none */
    uint8_t priority;    /* with has_priority */
    bool has_priority;
    bool has_offset;
    bool redelivered;
    uint8_t reserved[4];
    uint64_t reserved_numbers[4];
} coney_delivery_info;
CONEY_API const coney_delivery_info *coney_delivery_info_of(const coney_delivery *delivery);
CONEY_API bool coney_delivery_header(const coney_delivery *delivery, coney_bytes name, coney_value *value);

/* Typed headers, into *out: generated as T_headers(). CONEY_ECORRUPT: a required one is missing or has the wrong form; return
 * what this gives back through coney_undecodable(d, …) and on_undecodable is applied. */
CONEY_API coney_status coney_delivery_headers(coney_delivery *delivery, const coney_type *type, void *out);

/* `return coney_undecodable(d, "unit is 'stone'")`: settles by on_undecodable, `return coney_failed(d, "…")` by on_failure;
 * the text goes to the log. NULL: the last fault of the delivery, if it had one. Of a delivery that was kept they give what
 * the policy says, for coney_kept_settle. */
CONEY_API coney_settle coney_undecodable(coney_delivery *delivery, const char *text);
CONEY_API coney_settle coney_failed(coney_delivery *delivery, const char *text);

/* Memory that lives as long as the delivery's views. */
CONEY_API coney_arena *coney_delivery_arena(coney_delivery *delivery);

/* The client's own delivery, or NULL when it came from another transport. */
CONEY_API const coney_amqp_delivery *coney_delivery_amqp(const coney_delivery *delivery);
CONEY_API const coney_stream_delivery *coney_delivery_stream(const coney_delivery *delivery);

/* A value that middleware leaves for the handler, under the address of something of its own. CONEY_ENOMEM. */
CONEY_API coney_status coney_delivery_put(coney_delivery *delivery, const void *key, void *value);
CONEY_API void *coney_delivery_find(const coney_delivery *delivery, const void *key);

/* `then` runs once, after the delivery was settled: `how` is what became of it after all policies. On the app's own thread,
 * off the delivery path; the delivery is gone. A drain waits for it. Not for elements of batches. CONEY_ENOMEM. */
CONEY_API coney_status coney_after(coney_delivery *delivery, void (*then)(void *ctx, coney_settle how), void *ctx);

/* Takes the delivery along: return CONEY_KEPT, settle later from any thread with coney_kept_settle, as of <coney/coney.h>;
 * the policies hold then, too. The decoded value and coney_delivery_body() stay valid until then (a body that was had before
 * may not), also when the app has been stopped and freed meanwhile (CONEY_ECLOSED). Only inside the handler, once. NULL:
 * memory is out. Not for elements of batches, which are all kept until their batch is settled. */
CONEY_API coney_kept *coney_delivery_keep(coney_delivery *delivery);
CONEY_API coney_delivery *coney_kept_service_delivery(const coney_kept *kept);

/* Batches. `index` below the count of the handler. */
CONEY_API coney_delivery *coney_batch_delivery(coney_batch *batch, size_t index);
CONEY_API void coney_batch_settle(coney_batch *batch, size_t index, coney_settle how); /* the last one counts; not CONEY_KEPT */
CONEY_API void *coney_batch_state(const coney_batch *batch);
CONEY_API void *coney_batch_ctx(const coney_batch *batch);

/* Moves the subscription of this delivery (streams, and retained topics): what comes next is the message at `offset`, then
 * the rest; what was received and not handled is dropped, this delivery settles as usual. Takes effect after the handler has
 * returned; the last call before that counts. CONEY_OK: it will be tried; when the offset turns out to be gone, or to lie
 * beyond the next message that will come, the subscription stays where it is and the log says so (an app under test answers CONEY_ENOOFFSET at once).
 * CONEY_EUNSUPPORTED: it has no positions. CONEY_EAGAIN: another seek is under way. */
typedef struct coney_position {
    coney_stream_start at;
    uint32_t reserved_number;
    uint64_t offset; /* CONEY_STREAM_OFFSET */
    int64_t time;    /* CONEY_STREAM_TIMESTAMP */
} coney_position;
CONEY_API coney_status coney_seek(coney_delivery *delivery, const coney_position *position);

/* The same from outside: of the subscription of that name. Blocks until it has moved. CONEY_ENOOFFSET: no longer there, or
 * beyond the next message; it stays where it is. CONEY_ENOTFOUND: no such subscription. CONEY_ECLOSED: it is not open.
 * CONEY_EDEADLK from a handler of it, which has coney_seek. */
CONEY_API coney_status coney_app_seek(coney_app *app, const char *subscription, const coney_position *position,
                                      coney_call *call);

/* Publishing -------------------------------------------------------------------------------------------------------------- */

typedef enum coney_publish_policy {
    CONEY_PUBLISH_CONFIRMED = 0, /* a publish has succeeded when the broker has the message */
    CONEY_PUBLISH_PLAIN = 1,     /* when it was written to the connection */
    /* through coney_out_by(): all that a delivery publishes is committed when its handler acks, or dropped. AMQP, memory */
    CONEY_PUBLISH_TRANSACTION = 2,
} coney_publish_policy;

typedef struct coney_publisher_options {
    const char *name;     /* for logs, metrics and tests; default: `to` */
    const char *to;       /* where messages go that say nothing else; templates as of to("…") */
    const char *exchange; /* AMQP: destinations are routing keys of it; default: the default exchange, so they are queues */
    coney_publish_policy policy;
    uint32_t reserved_number;
    const coney_codec *codec; /* default: the broker's, the app's */
    coney_status (*around)(void *ctx, const struct coney_publish *message,
                           struct coney_publish_next *next); /* a coney_publish_around_fn */
    void *around_ctx;
    /* Outcomes of what is published outside of deliveries; on the client's loop, must be short. Default: failures are logged. */
    coney_outcome_fn on_outcome;
    void *ctx;
    int64_t expiration; /* of all messages that say nothing else, as are the three below */
    uint8_t priority;   /* with has_priority */
    bool has_priority;
    bool transient;
    bool drop_unroutable; /* a message that no queue takes is no failure */
    uint8_t reserved[4];
} coney_publisher_options;

/* One message beyond its value. Everything may be empty. */
typedef struct coney_publish_options {
    const char *to;  /* taken as it stands; else the type's, else the publisher's */
    coney_bytes key; /* partition key, written as header "x-coney-key" */
    coney_bytes correlation_id;
    coney_bytes reply_to;
    coney_bytes message_id;
    coney_bytes type; /* default, of a set that chooses by "type": the text of the variant that it holds */
    const coney_field *headers;
    size_t header_count;
    const coney_type *header_type; /* typed headers, with `header_value`; over those above of the same name */
    const void *header_value;
    const coney_codec *codec;
    int64_t expiration; /* nanoseconds */
    int64_t timestamp;  /* milliseconds since 1970 */
    uint64_t tag;       /* for on_outcome of the publisher */
    uint8_t priority;   /* with has_priority */
    bool has_priority;
    bool transient;
    bool persistent; /* although the publisher is transient */
    uint8_t reserved[4];
} coney_publish_options;

/* A message on its way out, as middleware sees it. */
typedef struct coney_publish {
    coney_bytes to; /* ends in a NUL that is not counted */
    coney_bytes body;
    coney_bytes content_type;
    const coney_publish_options *options; /* what the call gave, never NULL */
    const coney_field *headers;           /* all of them, typed ones included */
    size_t header_count;
    const coney_delivery *delivery; /* through which it is published, or NULL */
} coney_publish;

/* Middleware around publishing: the app's is outside the publisher's; added first is outermost. It may hand on a changed
 * copy, answer without calling `next`, or call it again, which publishes again. Transactions opened by hand and requests go
 * around it. */
typedef struct coney_publish_next coney_publish_next;
typedef coney_status (*coney_publish_around_fn)(void *ctx, const coney_publish *message, coney_publish_next *next);
CONEY_API coney_status coney_publish_next_run(coney_publish_next *next, const coney_publish *message);
CONEY_API void coney_app_use_publish(coney_app *app, coney_publish_around_fn around, void *ctx);

/* Registers a publisher; opened at the start. Every broker has one of its own with default options. NULL: memory is out. */
CONEY_API coney_publisher *coney_publisher_new_sized(coney_broker *broker, const coney_publisher_options *options, size_t size);
static inline coney_publisher *coney_publisher_new(coney_broker *broker, const coney_publisher_options *options)
{
    return coney_publisher_new_sized(broker, options, sizeof *options);
}

/* Waits until every message that the publisher accepted before this call has its outcome: when it returns CONEY_OK, on_outcome
 * was called for each. Outcomes say what became of them. CONEY_ETIMEDOUT: not all have come within call->deadline (default
 * 10 s), they still will; CONEY_ECLOSED: the app does not run; CONEY_EDEADLK in a client's callback. A
 * message under way in another thread at the moment of the call may or may not be among them. */
CONEY_API coney_status coney_publisher_flush(coney_publisher *publisher, coney_call *call);

/* Where a publish goes out. Three pointers, passed by value. */
typedef struct coney_out {
    coney_publisher *publisher;
    /* its ack waits for what is published, and on_publish_failure says what a failure means; or NULL */
    coney_delivery *delivery;
    coney_batch *batch; /* the same for all elements of a batch; or NULL */
} coney_out;
CONEY_API coney_out coney_out_of(coney_delivery *delivery); /* its broker's own publisher */
CONEY_API coney_out coney_out_by(coney_delivery *delivery,
                                 coney_publisher *publisher);  /* another one, also of another broker */
CONEY_API coney_out coney_out_of_broker(coney_broker *broker); /* outside of deliveries */
static inline coney_out coney_out_by_publisher(coney_publisher *publisher)
{
    coney_out out;
    out.publisher = publisher;
    out.delivery = NULL;
    out.batch = NULL;
    return out;
}
CONEY_API coney_out coney_out_of_batch(coney_batch *batch); /* no element is acked before all of it is confirmed */

/* Encodes and queues one message; generated as T_publish() and T_publish_with(). Of a set the variant that it holds is
 * published, with the header or `type` that chooses it. CONEY_OK: it is on its way. Anything else: nothing was queued, and
 * where it is no passing state, the sentence is in the log and in the delivery's fault:
 *   CONEY_EINVAL (no destination, a value that has no form, a delivery that is settled), CONEY_EUNSUPPORTED (the transport
 *   cannot do what an option asks for), CONEY_ETOOBIG, CONEY_EAGAIN and CONEY_ETIMEDOUT (no room), CONEY_ECLOSED (the app does
 *   not run), CONEY_EFORKED, CONEY_ENOMEM. */
CONEY_API CONEY_MUST_CHECK coney_status coney_publish_sized(coney_out out, const coney_type *type, const void *value,
                                                            const coney_publish_options *options, size_t size);

/* The same with bytes as they are. */
CONEY_API CONEY_MUST_CHECK coney_status coney_publish_raw_sized(coney_out out, coney_bytes body, coney_bytes content_type,
                                                                const coney_publish_options *options, size_t size);
static inline CONEY_MUST_CHECK coney_status coney_publish_raw(coney_out out, coney_bytes body, coney_bytes content_type,
                                                              const coney_publish_options *options)
{
    return coney_publish_raw_sized(out, body, content_type, options, sizeof *options);
}

/* Answers a request: to its reply_to (`to` of the options is passed over), with its correlation id unless the options have
 * one; generated as T_reply(). Part of the delivery's settlement like any publish; that nobody waits any more is no failure.
 * CONEY_EINVAL: it has no reply_to. */
CONEY_API CONEY_MUST_CHECK coney_status coney_reply_sized(coney_delivery *delivery, const coney_type *type, const void *value,
                                                          const coney_publish_options *options, size_t size);

/* A reply, the caller's until coney_reply_free. */
typedef struct coney_reply_message coney_reply_message;

/* Asks and waits; generated as T_request(). CONEY_ETIMEDOUT: no reply within call->deadline; CONEY_ERETURNED: nobody listens;
 * CONEY_ELOST. Not in a loop's callback; in a handler it blocks the lane. CONEY_EUNSUPPORTED: streams. */
CONEY_API coney_status coney_request_sized(coney_publisher *publisher, const coney_type *type, const void *value,
                                           const coney_publish_options *options, size_t size, coney_reply_message **reply,
                                           coney_call *call);

/* The same with bytes as they are. */
CONEY_API coney_status coney_request_raw_sized(coney_publisher *publisher, coney_bytes body, coney_bytes content_type,
                                               const coney_publish_options *options, size_t size, coney_reply_message **reply,
                                               coney_call *call);
static inline coney_status coney_request_raw(coney_publisher *publisher, coney_bytes body, coney_bytes content_type,
                                             const coney_publish_options *options, coney_reply_message **reply,
                                             coney_call *call)
{
    return coney_request_raw_sized(publisher, body, content_type, options, sizeof *options, reply, call);
}

CONEY_API coney_bytes coney_reply_body(const coney_reply_message *reply);
CONEY_API const coney_delivery_info *coney_reply_info(const coney_reply_message *reply);

/* Decoded by the codec of the publisher that asked; *value lives as long as the reply. Generated as T_of_reply(), which gives
 * NULL instead. */
CONEY_API coney_status coney_reply_decode(coney_reply_message *reply, const coney_type *type, const void **value,
                                          coney_fault *fault);
CONEY_API void coney_reply_free(coney_reply_message **reply);

/* Transactions by hand: any number, each for itself. All or nothing within one exchange of a queue broker (AMQP tx) or in
 * memory. Blocks. CONEY_EUNSUPPORTED: streams. A commit that fails leaves nothing open; CONEY_EUNKNOWN: it may have happened.
 * One thread at a time for each. A stop aborts those that are open: then they answer CONEY_ECLOSED, and are still to be ended
 * by one of the two below. */
typedef struct coney_transaction coney_transaction;
CONEY_API coney_transaction *coney_transaction_begin(coney_publisher *publisher, coney_call *call);
CONEY_API CONEY_MUST_CHECK coney_status coney_transaction_publish_sized(coney_transaction *transaction, const coney_type *type,
                                                                        const void *value, const coney_publish_options *options,
                                                                        size_t size);
CONEY_API coney_status coney_transaction_commit(coney_transaction **transaction, coney_call *call);
CONEY_API coney_status coney_transaction_abort(coney_transaction **transaction, coney_call *call);

/* Metrics ----------------------------------------------------------------------------------------------------------------- */

typedef enum coney_metric_kind {
    CONEY_METRIC_COUNTER = 0,
    CONEY_METRIC_GAUGE = 1,
    CONEY_METRIC_HISTOGRAM = 2,
} coney_metric_kind;

/* Frozen layout; views are valid during the visit. */
typedef struct coney_metric {
    coney_metric_kind kind;
    uint32_t label_count;
    /* "coney_messages_consumed_total", "coney_consume_duration_seconds", "coney_messages_published_total" … */
    const char *name;
    const char *help;          /* one line */
    const char *const *labels; /* name, value, name, value …: label_count pairs */
    double value;              /* counters and gauges; histograms: the sum */
    uint64_t count;            /* histograms: observations */
    const double *bounds;      /* histograms: upper bounds, bound_count of them, +Inf is not among them */
    const uint64_t *buckets;   /* bound_count + 1, not cumulative */
    uint32_t bound_count;
    uint32_t reserved_number;
    uint64_t reserved[4];
} coney_metric;

/* Calls `visit` for every metric with every set of labels. Never blocks the data path. */
CONEY_API void coney_app_metrics(coney_app *app, void (*visit)(void *ctx, const coney_metric *metric), void *ctx);

/* Messages ---------------------------------------------------------------------------------------------------------------- */

/* For T_expect and T_received: see <coney/test.h>. They fail the test and give NULL when there is none, or when it is no T. */
CONEY_API const void *coney_test_expect_value(coney_test *test, const char *destination, const coney_type *type);
CONEY_API const void *coney_test_received_value(coney_test *test, const char *subscription, size_t index,
                                                const coney_type *type);

/* CONEY_MESSAGE(T, TABLE, options…): CONEY_TYPE and
 *   T_publish(out, to, value), T_publish_with(out, options, value)   `to` NULL: the type's, else the publisher's
 *   T_reply(delivery, value)
 *   T_request(publisher, options, value, &reply, call), T_of_reply(reply)
 *   T_transact(transaction, to, value)
 *   T_headers(delivery, &out)                                        T as typed headers
 *   T_expect(test, destination), T_received(test, subscription, i)   <coney/test.h> */
#define CONEY_MESSAGE(...) CONEY_MESSAGE1_(__VA_ARGS__, , , , , )
#define CONEY_MESSAGE1_(T, TABLE, a, b, c, d, ...)                                                                             \
    CONEY_TYPE1_(T, TABLE, a, b, c, d, );                                                                                      \
    CONEY_FUNCTIONS(T)

/* The functions alone, for a set. */
#define CONEY_FUNCTIONS(T)                                                                                                     \
    CONEY_STATIC_ CONEY_MUST_CHECK coney_status T##_publish_with(coney_out out, const coney_publish_options *options,          \
                                                                 const T *value)                                               \
    {                                                                                                                          \
        return coney_publish_sized(out, T##_type(), value, options, sizeof *options);                                          \
    }                                                                                                                          \
    CONEY_STATIC_ CONEY_MUST_CHECK coney_status T##_publish(coney_out out, const char *to, const T *value)                     \
    {                                                                                                                          \
        coney_publish_options options;                                                                                         \
        memset(&options, 0, sizeof options);                                                                                   \
        options.to = to;                                                                                                       \
        return T##_publish_with(out, &options, value);                                                                         \
    }                                                                                                                          \
    CONEY_STATIC_ CONEY_MUST_CHECK coney_status T##_reply(coney_delivery *delivery, const T *value)                            \
    {                                                                                                                          \
        return coney_reply_sized(delivery, T##_type(), value, NULL, sizeof(coney_publish_options));                            \
    }                                                                                                                          \
    CONEY_STATIC_ coney_status T##_request(coney_publisher *publisher, const coney_publish_options *options, const T *value,   \
                                           coney_reply_message **reply, coney_call *call)                                      \
    {                                                                                                                          \
        return coney_request_sized(publisher, T##_type(), value, options, sizeof *options, reply, call);                       \
    }                                                                                                                          \
    CONEY_STATIC_ const T *T##_of_reply(coney_reply_message *reply)                                                            \
    {                                                                                                                          \
        const void *value = NULL;                                                                                              \
        return coney_reply_decode(reply, T##_type(), &value, NULL) == CONEY_OK ? (const T *)value : NULL;                      \
    }                                                                                                                          \
    CONEY_STATIC_ CONEY_MUST_CHECK coney_status T##_transact(coney_transaction *transaction, const char *to, const T *value)   \
    {                                                                                                                          \
        coney_publish_options options;                                                                                         \
        memset(&options, 0, sizeof options);                                                                                   \
        options.to = to;                                                                                                       \
        return coney_transaction_publish_sized(transaction, T##_type(), value, &options, sizeof options);                      \
    }                                                                                                                          \
    CONEY_STATIC_ coney_status T##_headers(coney_delivery *delivery, T *out)                                                   \
    {                                                                                                                          \
        return coney_delivery_headers(delivery, T##_type(), out);                                                              \
    }                                                                                                                          \
    CONEY_STATIC_ const T *T##_expect(coney_test *test, const char *destination)                                               \
    {                                                                                                                          \
        return (const T *)coney_test_expect_value(test, destination, T##_type());                                              \
    }                                                                                                                          \
    CONEY_STATIC_ const T *T##_received(coney_test *test, const char *subscription, size_t index)                              \
    {                                                                                                                          \
        return (const T *)coney_test_received_value(test, subscription, index, T##_type());                                    \
    }                                                                                                                          \
    struct T

#ifdef __cplusplus
}
#endif

#endif
