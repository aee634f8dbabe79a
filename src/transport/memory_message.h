/* memory_message.h: messages of the broker in memory: one block each, counted by those who hold it, and used again.
 *
 * A message does not change once it is made; queues, logs and copies of the same share it. Everything here is under the bus's lock, so that counts are plain
 * numbers: messages are handed over and taken back in runs, with one lock for each run. Once as many were made as are ever in use at a time, nothing allocates
 * (blocks above 64 KiB do, and those above 2 KiB once 16 MiB of them are idle).
 */
#ifndef CONEY_TRANSPORT_MEMORY_MESSAGE_H
#define CONEY_TRANSPORT_MEMORY_MESSAGE_H

#include "base/bytes.h"
#include "base/list.h"
#include "core/kept.h"
#include "service/broker.h"

/* What most messages do not have. */
struct message_more {
    coney_bytes correlation_id;
    coney_bytes reply_to;
    coney_bytes message_id;
    coney_bytes type;
    coney_value headers; /* a map, or null */
    int64_t expiration;  /* nanoseconds, 0 = none */
    int64_t timestamp;
    uint8_t priority;
    bool has_priority;
};

struct bus;
struct queue;
struct listener;

/* One message in one line, with what is known of its deliveries: see memory_bus.h. */
struct entry {
    struct coney_kept kept; /* what keep gives out */
    struct entry *next;     /* in a line, a run, or the bus's idle ones */
    struct message *message;
    struct bus *bus;
    struct queue *queue;       /* NULL: of a pattern */
    struct listener *listener; /* that has it; NULL: it is in a queue's line, or its listener was closed */
    struct list open;          /* in its listener's, while it is kept */
    uint64_t at;               /* offset, or number in the queue: a line is in this order */
    uint64_t returns;          /* how often it was given back */
    int64_t expires;           /* INT64_MAX: never */
    int64_t due;               /* held back: when it comes again */
    bool redelivered;
    bool is_open;
    bool is_reply; /* to a request: of nobody's line */
};

struct message {
    struct entry entry;   /* of the first line that it is in, so that most need no other memory */
    struct message *next; /* in the pool */
    uint32_t refs;
    uint32_t size_class;
    bool entry_used;
    coney_bytes body; /* all views lie in `data`, or live as long as the bus */
    coney_bytes content_type;
    coney_bytes exchange;
    coney_bytes to;                  /* topic, stream or routing key */
    const struct message_more *more; /* NULL: nothing of it */
    int64_t stored;                  /* milliseconds since 1970, of what a log keeps; else 0 */
    bool unwanted;                   /* a dead letter that nobody rejected: what circles so by itself is cut */
    max_align_t data[];
};

enum {
    MESSAGE_SHIFT = 8,       /* 256 bytes are the smallest block */
    MESSAGE_CLASSES = 9,     /* to 64 KiB */
    MESSAGE_FREE_CLASSES = 4 /* up to 2 KiB: as many are kept for reuse as were ever in use */
};

struct message_pool {
    struct bus *bus; /* of the entries in its messages, and how those settle */
    coney_status (*settle)(struct coney_kept *kept, coney_settle how);
    struct message *idle[MESSAGE_CLASSES];
    size_t idle_bytes; /* of the classes that are limited */
    uint8_t *scratch;  /* for headers that are being encoded */
    size_t scratch_cap;
};

void message_pool_free(struct message_pool *pool);

/* The slow half of message_take: large blocks, and new ones. */
struct message *message_allocate(struct message_pool *pool, size_t size);

static inline uint32_t message_class(size_t size)
{
    return (uint32_t)(63 - __builtin_clzll((size - 1) | ((1u << MESSAGE_SHIFT) - 1))) + 1 - MESSAGE_SHIFT;
}

/* A message with room for `len` bytes of data and one reference. Its views are not set. NULL: memory is out. */
static inline struct message *message_take(struct message_pool *pool, size_t len)
{
    size_t size = sizeof(struct message) + len;
    uint32_t size_class = message_class(size);
    struct message *message = size_class < MESSAGE_FREE_CLASSES ? pool->idle[size_class] : NULL;
    if (__builtin_expect(message == NULL, 0)) {
        message = message_allocate(pool, size);
        if (message == NULL)
            return NULL;
    } else {
        pool->idle[size_class] = message->next;
    }
    message->refs = 1;
    message->more = NULL;
    message->stored = 0;
    message->unwanted = false;
    message->entry_used = false;
    return message;
}

/* A message of its own with all that `view` and `view->more` point to, but for `exchange` and `to`, which are taken as they are when `named` is true; one
 * reference. NULL: memory is out. */
struct message *message_new(struct message_pool *pool, const struct message *view, bool named);

static inline struct message *message_ref(struct message *message)
{
    message->refs++;
    return message;
}

/* The last reference of a large block is gone. */
void message_release(struct message_pool *pool, struct message *message);

/* The last one gives the block back. */
static inline void message_unref(struct message_pool *pool, struct message *message)
{
    if (--message->refs > 0)
        return;
    uint32_t size_class = message->size_class;
    if (__builtin_expect(size_class >= MESSAGE_FREE_CLASSES, 0)) {
        message_release(pool, message);
        return;
    }
    message->next = pool->idle[size_class];
    pool->idle[size_class] = message;
}

/* What a quorum queue writes for a delivery; it does not go along with copies and dead letters. */
#define DELIVERY_COUNT_HEADER "x-delivery-count"

/* Encodes headers into the pool's scratch, where they stay until the next call: `count` fields, those of `map` (or null) before them unless a field has the
 * same name or they are of a delivery, and `key` as KEY_HEADER, unless it is empty. Null when there is nothing. CONEY_EINVAL: a value that has no form in the encoding, a
 * name over 255 bytes in AMQP 0-9-1; CONEY_ENOMEM. */
coney_status message_headers(struct message_pool *pool, coney_value_encoding encoding, const coney_value *map,
                             const coney_field *fields, size_t count, coney_bytes key, coney_value *headers);

/* Headers of a message that leaves `queue` as a dead letter: x-death with this death first and counted on, x-first-death-queue, -reason and -exchange. AMQP 0-9-1. As
 * message_headers. */
coney_status message_death(struct message_pool *pool, const struct message *message, coney_bytes queue, const char *reason,
                           coney_value *headers);

/* Whether it died in `queue` before and was never rejected anywhere: a circle that turns by itself, which the server cuts. */
bool message_circles(const struct message *message, coney_bytes queue);

/* One header. */
bool message_header(const struct message *message, coney_bytes name, coney_value *value);

#endif
