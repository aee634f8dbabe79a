/* channel.h: one channel of a connection: opening and closing, methods with answers, contents, the broker's close.
 *
 * A channel has one owner, who gets what arrives on it. Everything here is on the loop. A channel that the broker closes costs its owner
 * only: close-ok goes out, its number is free, requests under way end with the broker's code and words, then `closed` is called.
 */
#ifndef CONEY_AMQP_CHANNEL_H
#define CONEY_AMQP_CHANNEL_H

#include "amqp/conn.h"
#include "proto/amqp091/assembler.h"

enum channel_state {
    CHANNEL_OPENING,
    CHANNEL_OPEN,
    CHANNEL_CLOSING, /* our close is out; nothing is handed to the owner any more; the number rests until close-ok */
    CHANNEL_GONE,    /* its requests are being ended; `closed` follows */
};

struct channel_owner {
    /* open-ok has come. */
    void (*opened)(void *ctx);

    /* deliver or return, whole: `at` (`len` bytes) is the unit in `block`, which may be kept by reference; not decoded yet (amqp_unit_read):
     * what runs for each message is decoded once, where it is handled. NULL or the name of a field that is wrong: the connection ends then, and
     * has not ended in here. */
    const char *(*content)(void *ctx, struct block *block, const uint8_t *at, size_t len);

    /* ack, nack, cancel, flow: whatever answers no request and has no content. */
    void (*method)(void *ctx, const struct amqp_method *method);

    /* basic.ack of a publisher, before it is decoded any further: what comes most. NULL: it comes through `method`. */
    void (*ack)(void *ctx, uint64_t tag, bool multiple);

    /* The broker closed it (`code` is its reply code, `text` a sentence), or the connection is gone, whose members are told by member_conn_down
     * afterwards. The channel is gone already, its requests have been answered. */
    void (*closed)(void *ctx, coney_status status, uint16_t code, const char *text);
};

/* get-ok's content, as in channel_owner. */
struct channel_content {
    struct block *block;
    const uint8_t *at;
    size_t len;
    struct amqp_unit unit;
};

/* The answer to a request. CONEY_OK: `answer`, with `content` for get-ok. Otherwise `answer` is NULL: the broker closed the channel (`code`),
 * the connection was lost, or the deadline passed. `text` is a sentence about it. Called once, unless forgotten before. */
typedef void (*channel_answer_fn)(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                                  const struct channel_content *content, const char *text);

struct channel {
    struct amqp_conn *conn;
    uint16_t number;
    enum channel_state state;
    const struct channel_owner *owner; /* NULL: nobody is told of anything */
    void *ctx;
    const char *reason; /* why the broker closes it, in its own words, while its requests are told; otherwise NULL */
    /* owner->content while whole messages go straight to it: the channel is open, and between two contents. */
    const char *(*direct)(void *ctx, struct block *block, const uint8_t *at, size_t len);
    struct list requests; /* in the order in which they were sent */
    struct list idle;     /* in the connection's, while nobody uses it: loan.h */
    struct amqp_assembler assembler;
    struct block *assembled; /* a content that comes in pieces */
};

/* Opens a channel on a connection that is ready. `opened` or `closed` comes later, never from inside. NULL: no number is free, or memory is
 * out. Methods may be sent before it is open (they go out behind channel.open) by whoever does not mind what happens to them. Who will not wait for
 * ever sets a limit by channel_expect with AMQP_CHANNEL_OPEN; its answer comes at the deadline or with `closed`, not with `opened`. */
struct channel *channel_open(struct amqp_conn *conn, const struct channel_owner *owner, void *ctx);

/* Closes it in order, or without a word when the connection is gone: *channel becomes NULL, no callback of its owner's comes any more, its requests
 * are forgotten. Harmless for NULL. */
void channel_close(struct channel **channel);

/* Lays an open channel on which nothing is left by for the next who asks: *channel becomes NULL, as in channel_close. False: it is not open, has
 * requests under way, or enough are kept; nothing has changed. */
bool channel_rest(struct channel **channel);

/* Such a channel for a new owner; `opened` is not called. NULL: there is none. */
struct channel *channel_reuse(struct amqp_conn *conn, const struct channel_owner *owner, void *ctx);

/* Sends a method and awaits its answer: the oldest request that this answer answers gets it (amqp_answers), so answers may come out of order.
 * `deadline` is on time_now()'s clock; after it the answer, if it comes, is dropped. False: memory is out or it has no form on the wire;
 * `answer` is not called. The answer never comes from inside. */
bool channel_request(struct channel *channel, const struct amqp_method *method, int64_t deadline, channel_answer_fn answer,
                     void *ctx);

/* The same for a request that the caller writes to the link itself, right behind this. */
bool channel_expect(struct channel *channel, uint32_t id, int64_t deadline, channel_answer_fn answer, void *ctx);

/* No answer with this ctx will be handed over any more. */
void channel_forget(struct channel *channel, const void *ctx);

/* Sends a method that has no answer; as amqp_conn_send. */
bool channel_send(struct channel *channel, const struct amqp_method *method);

/* From the connection: one unit or frame that arrived for this channel. */
void channel_frame(struct channel *channel, struct block *block, const uint8_t *at, size_t len);

/* From the connection: it is gone. Ends the requests and calls `closed`. Frees the channel. */
void channel_lost(struct channel *channel, coney_status status, uint16_t code, const char *text);

#endif
