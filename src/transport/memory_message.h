/* memory_message.h: messages of the broker in memory: one block each, counted by those who hold it, and used again.
 *
 * A message does not change once it is made; queues, logs and copies of the same share it. Everything here is under the bus's lock, so that counts are plain
 * numbers: messages are handed over and taken back in runs, with one lock for each run. Once as many were made as are ever in use at a time, nothing allocates
 * (blocks above 64 KiB do).
 */
#ifndef CONEY_TRANSPORT_MEMORY_MESSAGE_H
#define CONEY_TRANSPORT_MEMORY_MESSAGE_H

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

struct message {
    struct message *next; /* in the pool */
    uint32_t refs;
    uint32_t size_class;
    coney_bytes body; /* all views lie in `data`, or live as long as the bus */
    coney_bytes content_type;
    coney_bytes exchange;
    coney_bytes to;                  /* topic, stream or routing key */
    const struct message_more *more; /* NULL: nothing of it */
    int64_t stored;                  /* milliseconds since 1970, of what a log keeps; else 0 */
    bool unwanted;                   /* a dead letter that nobody rejected: what circles so by itself is cut */
    max_align_t data[];
};

enum { MESSAGE_CLASSES = 10 }; /* 128 bytes to 64 KiB */

struct message_pool {
    struct message *idle[MESSAGE_CLASSES];
    size_t idle_bytes;
    uint8_t *scratch; /* for headers that are being encoded */
    size_t scratch_cap;
};

void message_pool_free(struct message_pool *pool);

/* A message of its own with all that `view` and `view->more` point to, but for `exchange` and `to`, which are taken as they are when `named` is true; one
 * reference. NULL: memory is out. */
struct message *message_new(struct message_pool *pool, const struct message *view, bool named);

static inline struct message *message_ref(struct message *message)
{
    message->refs++;
    return message;
}

/* The last one gives the block back. NULL is harmless. */
void message_unref(struct message_pool *pool, struct message *message);

/* Encodes headers into the pool's scratch, where they stay until the next call: `count` fields, those of `map` (or null) before them unless a field has the
 * same name, and `key` as KEY_HEADER, unless it is empty. Null when there is nothing. CONEY_EINVAL: a value that has no form in the encoding, a
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
