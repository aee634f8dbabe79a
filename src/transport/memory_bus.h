/* memory_bus.h: the broker in memory: one bus with three faces.
 *
 * "memory" is the transport of that name: topics and patterns, to which every subscription listens for itself. "amqp" and "stream" stand in for a server in tests:
 * exchanges, queues with competing consumers and dead letters; streams with offsets. All three are made of the same parts:
 *
 *   exchange (AMQP) → queue: either a line of entries that its listeners share (classic, quorum), or a log: every listener has a line of its own, and what the log
 *   keeps can be read again (topic, stream, stream queue) → listener: an open subscription.
 *
 * An entry is one message in one line, with what is known of its deliveries. It belongs to a line, then to the listener that handles it (or keeps it), and is settled
 * from there. One lock guards all of it. A running bus has a thread for each listener, which takes its whole line at once and settles what its handler
 * acked in one go, so a message costs no lock of its own on that side. A virtual one has no threads: memory_run_one hands over one message.
 */
#ifndef CONEY_TRANSPORT_MEMORY_BUS_H
#define CONEY_TRANSPORT_MEMORY_BUS_H

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "core/kept.h"
#include "service/app.h"
#include "transport/memory.h"
#include "transport/memory_message.h"
#include "transport/memory_terms.h"

#include <pthread.h>

enum face { FACE_MEMORY, FACE_AMQP, FACE_STREAM };

/* Entries in order. */
struct line {
    struct entry *head;
    struct entry *tail;
};

/* What a log keeps, oldest first. Offsets count on whether it keeps anything or not. */
struct history {
    struct message **ring;
    size_t cap; /* 0 or a power of two */
    uint64_t first;
    uint64_t next;
    int64_t bytes;
};

struct queue {
    struct list in_bus;
    struct queue *same_hash;
    uint64_t hash;
    coney_bytes name; /* NUL behind it */
    struct queue_terms terms;
    const coney_subscription *owner; /* whose queue without a name it is */
    struct line line;
    size_t count; /* of the line */
    int64_t bytes;
    struct history history;
    struct list listeners; /* their in_queue */
    struct listener *only; /* the one to which everything goes as it is; NULL: there is more to do */
    uint64_t next_at;
    uint64_t stamp; /* of the last publish that reached it: once each */
    int64_t unused_since;
    bool keeps;   /* a log that can be read again */
    bool implied; /* nobody declared it: it counts as being there */
    char text[];
};

struct binding {
    struct list in_exchange;
    struct queue *queue;
    coney_bytes key;
    const coney_field *arguments;
    size_t argument_count;
};

enum exchange_kind { EXCHANGE_DIRECT, EXCHANGE_TOPIC, EXCHANGE_FANOUT, EXCHANGE_HEADERS };

struct exchange {
    struct list in_bus;
    const char *name;
    enum exchange_kind kind;
    const char *alternate; /* NULL: none */
    bool internal;
    bool transient;
    bool auto_delete;
    bool implied;
    struct list bindings;
    uint64_t stamp; /* of the last publish that came by: alternates may be a circle */
};

struct listener {
    struct feed feed; /* first */
    struct bus *bus;
    const coney_subscription *subscription;
    struct queue *queue; /* NULL: a pattern */
    coney_bytes name;    /* of the topic, pattern or stream */
    struct list in_bus;
    struct list in_queue; /* or in the bus's patterns */
    struct line own;      /* logs: what waits for it */
    struct entry *held;   /* retries with a delay, the next one due first */
    struct list open;     /* kept */
    size_t open_count;    /* kept, held or in the handler: against the prefetch */
    size_t prefetch;      /* SIZE_MAX: no limit */
    bool has_offsets;     /* of messages that are kept */
    size_t waiting;       /* of its own line, and of the run in hand */
    size_t most_waiting;  /* SIZE_MAX: no limit */
    int64_t priority;     /* among those of its queue */
    int64_t not_before;   /* streams: a retry that the later ones wait for */
    uint64_t resume;      /* streams: the offset after the last one that it was given */
    bool has_begun;       /* streams: it was given something */
    bool busy;            /* virtual: a handler runs */
    bool closing;
    bool asleep; /* its thread waits for `wake` */
    bool threaded;
    bool ended;        /* its thread has */
    bool in_hand;      /* its thread handles a run */
    bool is_moving;    /* its thread handles none before the seek has returned */
    uint64_t turn;     /* counts seeks */
    struct work go_on; /* after a seek, when the framework takes messages again */
    pthread_t thread;
    struct cond wake;
    _Atomic bool look; /* its thread is to look at what is above, after the message at hand */
};

/* With what the names begin under which requests over topics wait for their replies. */
#define MEMORY_REPLY_TO "_coney.reply-to."

struct request {
    struct list in_bus;
    char name[64];
    struct message *reply;
};

/* An offset that is stored under a consumer's name. */
struct stored {
    struct stored *next;
    struct queue *stream;
    const char *consumer;
    uint64_t offset; /* where to go on */
};

enum { RECENT_QUEUES = 16 };

struct bus {
    enum face face;
    bool is_virtual;
    struct coney_broker *broker;  /* from the connect on, or the stand-in */
    const struct transport *real; /* that a stand-in stands in for: what it checks and describes; NULL */
    void *real_self;
    coney_memory_options options;
    coney_status options_status; /* what was wrong with them */
    struct feed reply_feed;      /* of replies */

    struct lock lock;    /* guards all below */
    struct cond changed; /* room, replies, listeners that have ended */
    _Atomic bool is_connected;
    bool freed;
    uint64_t orphans; /* entries that were kept over the end of their listener: the bus outlives them */
    struct message_pool pool;
    struct entry *idle;
    struct map by_hash;                  /* of queues */
    struct queue *recent[RECENT_QUEUES]; /* that were found last, by what is cheap to see of their names */
    struct list queues;
    struct list exchanges;
    struct list listeners;
    struct list retired;   /* listeners that were closed: deliveries that users keep still point to them */
    struct listener *last; /* that was served: the next one is behind it */
    struct list patterns;
    struct list requests;
    struct listener **targets; /* scratch of a publish to a topic: room for all listeners */
    size_t target_cap;
    size_t room_waiters;   /* publishers that wait for room */
    size_t unheard_len;    /* 0: none */
    char unheard[64];      /* the topic without a queue to which the last message went, until there is a queue more */
    struct entry *delayed; /* copies that are published later, the next one due first */
    struct message *dead;  /* dead letters that are routed when the publish at hand is */
    struct message **dead_end;
    bool routing;
    struct stored *stored;
    uint64_t next_at;   /* for lines of topics that nothing is kept of */
    uint64_t next_name; /* of queues and requests without a name */
    uint64_t stamp;     /* of the last publish */
};

/* What became of a publish. */
struct verdict {
    coney_status status; /* CONEY_OK, CONEY_ERETURNED, CONEY_EREFUSED; or CONEY_ENOMEM */
    uint32_t code;
    const char *text;
};

#define VERDICT_OK ((struct verdict){CONEY_OK, 0, ""})

/* Whether its listeners share one line. */
static inline bool memory_is_shared(const struct queue *queue)
{
    return queue != NULL && queue->terms.kind != QUEUE_LOG;
}

/* memory_queue.c: entries, lines, logs, queues. Under the lock. ----------------------------------------------------------------- */

static inline void line_append(struct line *line, struct entry *entry)
{
    entry->next = NULL;
    if (line->tail != NULL)
        line->tail->next = entry;
    else
        line->head = entry;
    line->tail = entry;
}

static inline struct entry *line_take(struct line *line)
{
    struct entry *entry = line->head;
    if (entry == NULL)
        return NULL;
    line->head = entry->next;
    if (line->head == NULL)
        line->tail = NULL;
    return entry;
}

/* Puts it where its number belongs; `priorities`: a higher one comes first. */
void memory_line_insert(struct line *line, struct entry *entry, bool priorities);

/* A new entry that holds a reference of its own: the message's, when no line has that. NULL: memory is out. */
struct entry *memory_entry_new(struct bus *bus, struct message *message, struct queue *queue, uint64_t at);
void memory_entry_drop(struct entry *entry);
struct entry *memory_entry_more(struct bus *bus); /* with nothing set */

/* Where a queue of this name stands among the recent ones. The name is not empty. */
static inline size_t memory_recent(coney_bytes name)
{
    const uint8_t *at = name.data;
    return (at[0] + 3u * at[name.len - 1] + name.len) % RECENT_QUEUES;
}

struct queue *memory_queue_find(struct bus *bus, coney_bytes name);
struct queue *memory_queue_new(struct bus *bus, coney_bytes name, const struct queue_terms *terms);
void memory_queue_delete(struct bus *bus, struct queue *queue); /* with its messages, bindings; it has no listener */

/* At its end. CONEY_EREFUSED: it is full and says so; CONEY_ENOMEM. */
coney_status memory_queue_append(struct bus *bus, struct queue *queue, struct message *message);

/* One more for a listener of a log; nothing when it closes, or has not got that far. */
bool memory_listener_append(struct listener *listener, struct message *message, struct queue *queue, uint64_t at);

/* The first one out of its line; NULL: it is empty. */
struct entry *memory_queue_take(struct queue *queue);

/* Back into the queue, in place. `counts`: towards the delivery limit, past which it becomes a dead letter. */
void memory_queue_return(struct queue *queue, struct entry *entry, bool counts);

/* Out of the queue for `reason`: to the dead-letter exchange, or gone. */
void memory_queue_bury(struct queue *queue, struct entry *entry, const char *reason);

/* The log's first message at or after the position, as an offset; false: nothing is or will be there. */
bool memory_log_find(const struct queue *queue, const coney_position *position, uint64_t *offset);

/* Fills the listener's line from the log. False: memory is out. */
bool memory_log_read(struct listener *listener, uint64_t from);

/* Holds an entry back from its listener; a copy from its queue. */
void memory_listener_hold(struct listener *listener, struct entry *entry, int64_t due);
void memory_listener_due(struct listener *listener, int64_t now);
void memory_delay(struct bus *bus, struct entry *entry, int64_t due);

void memory_listener_wake(struct listener *listener);

static inline void memory_wake_if_asleep(struct listener *listener)
{
    if (__builtin_expect(listener->asleep, 0))
        memory_listener_wake(listener);
}

/* At the end of its own line. */
static inline void memory_listener_take(struct listener *listener, struct entry *entry)
{
    entry->listener = listener;
    line_append(&listener->own, entry);
    listener->waiting++;
    memory_wake_if_asleep(listener);
}

/* What is due at `now`: expiry, retries, delayed copies. And when the next thing is, INT64_MAX: never. */
void memory_due(struct bus *bus, int64_t now);
int64_t memory_due_next(const struct bus *bus);

int64_t memory_now(const struct bus *bus);
int64_t memory_wall(const struct bus *bus);

/* memory_route.c -------------------------------------------------------------------------------------------------------------- */

/* Hands a message (its reference stays the caller's) to whatever its exchange and its `to` lead to: a topic or stream where the face has no exchanges. */
struct verdict memory_route(struct bus *bus, struct message *message);

/* The same for a dead letter, whose reference it takes; one that circles is dropped. After the publish that caused it. */
void memory_route_dead(struct bus *bus, struct message *message);

struct exchange *memory_exchange_find(struct bus *bus, coney_bytes name);

/* The listeners of a topic but for those that are being closed, in bus->targets; `topic`: its queue, or NULL. */
size_t memory_topic_targets(struct bus *bus, coney_bytes name, const struct queue *topic);

/* The queue that a name on the default exchange, or a stream's, stands for: made when it counts as being there. NULL: it does not, or memory is out. */
struct queue *memory_queue_named(struct bus *bus, coney_bytes name);

/* memory_feed.c --------------------------------------------------------------------------------------------------------------- */

coney_status memory_subscribe(void *self, const coney_subscription *subscription, struct sink *sink, struct feed **feed,
                              coney_call *call);
coney_status memory_unsubscribe(struct feed *feed, coney_call *call);
coney_status memory_seek(struct feed *feed, const coney_position *position, coney_call *call);

/* memory_serve.c -------------------------------------------------------------------------------------------------------------- */

bool memory_keep(struct incoming *m);
coney_status memory_settle(struct incoming *m, coney_settle how);
coney_status memory_entry_settle(struct entry *entry, coney_settle how); /* takes the lock */
void *memory_listen(void *listener);                                     /* what a listener's thread runs */
bool memory_bus_run_one(struct bus *bus);
bool memory_is_listening(const struct listener *listener); /* on this thread */

/* memory_declare.c ------------------------------------------------------------------------------------------------------------ */

coney_status memory_declare(void *self, coney_call *call);

/* The queue or stream of a source, declared or not; a topic's. NULL: call->text says why. Under the lock. */
struct queue *memory_source_queue(struct bus *bus, const coney_subscription *subscription, coney_call *call);
void memory_exchanges_free(struct bus *bus);

/* memory_outlet.c ------------------------------------------------------------------------------------------------------------- */

coney_status memory_open_outlet(void *self, const struct outlet_options *options, struct outlet **outlet, coney_call *call);
coney_status memory_publish(struct outlet *outlet, const struct outgoing *message, uint64_t tag);
coney_status memory_close_outlet(struct outlet *outlet, coney_call *call);
coney_status memory_copy(struct incoming *m, const char *to, uint64_t attempts, int64_t delay, coney_outcome_fn outcome,
                         void *ctx, uint64_t tag);
bool memory_delays(const struct feed *feed);
struct bus *memory_outlet_bus(struct outlet *outlet);
coney_bytes memory_outlet_exchange(struct outlet *outlet);
coney_status memory_tx_begin(struct outlet *outlet, void **tx, coney_call *call);
coney_status memory_tx_publish(void *tx, const struct outgoing *message);
coney_status memory_tx_commit(void *tx, coney_call *call);
coney_status memory_tx_abort(void *tx, coney_call *call);

/* A message of what goes out, as the face encodes it. CONEY_EINVAL, CONEY_ETOOBIG, CONEY_ENOMEM, CONEY_EUNSUPPORTED. Under the lock. */
coney_status memory_encode(struct bus *bus, coney_bytes exchange, const struct outgoing *out, struct message **message);

/* memory_request.c ------------------------------------------------------------------------------------------------------------ */

coney_status memory_request(struct outlet *outlet, const struct outgoing *message, struct incoming *reply, coney_call *call);

/* memory_read.c: a delivery's properties. ------------------------------------------------------------------------------------- */

void memory_info(const struct incoming *m, coney_delivery_info *info);
coney_bytes memory_content_type(const struct incoming *m);
bool memory_header(const struct incoming *m, coney_bytes name, coney_value *value);
coney_bytes memory_key(const struct incoming *m, const char *header);
uint64_t memory_attempt(const struct incoming *m);

/* memory_check.c -------------------------------------------------------------------------------------------------------------- */

void memory_check_broker(void *self, struct mistakes *mistakes);
void memory_check_source(void *self, const coney_subscription *subscription, struct mistakes *mistakes);
void memory_check_publisher(void *self, const coney_publisher_options *options, struct mistakes *mistakes);

/* memory.c -------------------------------------------------------------------------------------------------------------------- */

/* The bus behind a broker, NULL when it is none in memory. */
struct bus *memory_bus_of(const struct coney_broker *broker);

/* Frees it unless an orphan still needs it. Takes the lock over, held. */
void memory_bus_leave(struct bus *bus);

/* Fills the call, when there is one, and returns the status. */
coney_status memory_fail(coney_call *call, coney_status status, uint32_t code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
