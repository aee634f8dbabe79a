/* raw.h: the inside of coney_amqp_channel: a loan, and a queue of frames in the order of the calls that made them.
 *
 * Calls and sends append to the queue on any thread, under the lock (raw_call.c); the loop writes it in portions, as fast as the socket takes them,
 * and expects the answer of each call when that call's frame goes out (raw_queue.c). Opening, closing and the channel's own end: raw.c.
 */
#ifndef CONEY_AMQP_RAW_H
#define CONEY_AMQP_RAW_H

#include "amqp/loan.h"

#include "base/lock.h"

struct coney_amqp_channel {
    struct amqp_handle handle;
    struct coney_amqp *amqp; /* a reference of its environment */
    coney_amqp_channel_options options;
    _Atomic uint32_t
        refs; /* the user's; the loop's, while it is in amqp->handles; the task's, while it pumps; one for each op */
    atomic_bool handle_closed;

    struct lock lock; /* guards what follows */
    struct list items;
    size_t queued;       /* bytes in them */
    bool pumping;        /* the task is posted, or waits for the socket */
    coney_status status; /* CONEY_EAGAIN: it is being opened; CONEY_OK; otherwise what every use answers, with code and text */
    uint32_t code;
    char text[TEXT_CAP];
    uint16_t number; /* once it is open */
    uint32_t payload_max;

    /* The loop's own. */
    struct amqp_pump pump;
    struct loan loan;
    struct op *opening;
    struct list sent; /* calls that await their answer */
};

enum raw_op_kind { RAW_OPEN, RAW_CALL, RAW_CLOSE };

/* A control call of the channel's. */
struct raw_op {
    struct op op;
    enum raw_op_kind kind;
    struct coney_amqp_channel *channel; /* a reference */
    bool begun;                         /* under the channel's lock: what is queued for it may be looked at */
    struct list in_sent;
    uint32_t id;               /* of the method */
    coney_amqp_answer *wanted; /* NULL: nobody wants it */
    coney_amqp_answer answer;
};

/* What waits for the loop: frames, with a call that they belong to or without; or a close, which has no frames. */
struct raw_item {
    struct list in_channel;
    struct raw_op *op; /* a reference; NULL: nothing is answered */
    size_t at;         /* of `len`: written */
    size_t len;
    uint8_t frames[];
};

void raw_ref(struct coney_amqp_channel *channel);
void raw_unref(struct coney_amqp_channel *channel);

/* An op with one reference; NULL when memory is out. */
struct raw_op *raw_op_new(struct coney_amqp_channel *channel, enum raw_op_kind kind, void (*begin)(struct op *op));

/* What a use answers now, its text and code in `call`. Any thread. */
coney_status raw_check(struct coney_amqp_channel *channel, coney_call *call);

/* The queue. Any thread: takes the item over, and the op's reference that it makes; the lock is held in raw_append_locked. raw_take_back: the op was not
 * run: it is out of the queue again. */
struct raw_item *raw_item_new(size_t len);
void raw_append_locked(struct coney_amqp_channel *channel, struct raw_item *item, struct raw_op *op);
void raw_take_back(struct coney_amqp_channel *channel, struct raw_op *op);

/* On the loop: for op_init; the task; writes what it can. */
void raw_begin(struct op *op);
void raw_pump(struct task *task);
void raw_go_on(struct coney_amqp_channel *channel);

/* On the loop: it is over, raw_check says why: ends what is queued and begun, and the calls that were sent. raw_end_sent: only those. */
void raw_end(struct coney_amqp_channel *channel);
void raw_end_sent(struct coney_amqp_channel *channel, coney_status status, uint32_t code, const char *text);

/* On the loop: the close has its turn, or its deadline has come: `status` is what it answers. */
void raw_close(struct coney_amqp_channel *channel, struct raw_op *op, coney_status status);

/* On the loop: the channel's answer to a call; ctx is the op, whose reference it takes. */
void raw_answered(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                  const struct channel_content *content, const char *text);

/* On the loop: hands a method to on_method, with its content or NULL. */
void raw_tell(struct coney_amqp_channel *channel, const struct amqp_method *method, const struct amqp_unit *content);

#endif
