/* ledger.h: what has become of each delivery of a channel, and what the broker is still to be told of it, in as few frames as its meaning allows.
 *
 * Deliveries are numbered for ever upward; the tags of a channel count from 1. The handler goes through them in order: a number that it has passed
 * (ledger_pass) is acked by that alone, unless a mark says otherwise. So deliveries that are acked in order cost nothing here, however many. A mark is one byte
 * in a ring: held (to be settled later), or settled out of order.
 *
 * What is told is exact. A multiple ack names a tag that is outstanding itself and covers only what was acked, or was rejected by an earlier step. What
 * was settled behind a delivery that is open is told singly. The last step of a channel gives back all that is open.
 * Memory: one ring, grown by ledger_receive, freed by ledger_free. Not thread-safe by itself.
 */
#ifndef CONEY_AMQP_LEDGER_H
#define CONEY_AMQP_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ledger_mark {
    LEDGER_NONE, /* open, or acked when the handler has passed it */
    LEDGER_HELD, /* open, whether passed or not */
    LEDGER_ACKED,
    LEDGER_REJECTED,
    LEDGER_REQUEUED,
    LEDGER_TOLD, /* the broker knows; an older one is open */
};

/* Zeroed, it is empty. */
struct ledger {
    uint8_t *marks; /* a ring; those outside [base, end) are LEDGER_NONE */
    size_t cap;     /* 0 or a power of two */
    uint64_t first; /* number of the delivery with tag 1 */
    uint64_t base;  /* the oldest that is outstanding at the broker; `end` when none is */
    uint64_t passed;
    uint64_t end;
    uint64_t marked;    /* marks that are not LEDGER_NONE */
    uint64_t news_from; /* what was settled since the last step lies in [news_from, news_to) */
    uint64_t news_to;
    bool singly; /* acks form no runs */
};

enum ledger_verb {
    LEDGER_ACK,
    LEDGER_REJECT,  /* basic.reject without requeue */
    LEDGER_REQUEUE, /* basic.reject with requeue */
    LEDGER_RETURN,  /* basic.nack with requeue */
};

/* One frame. */
struct ledger_step {
    uint64_t tag;
    enum ledger_verb verb;
    bool multiple;
};

void ledger_free(struct ledger *ledger);

/* A new channel: nothing of the last one is outstanding any more, tags count from 1 again. */
void ledger_start(struct ledger *ledger);

/* `count` more have arrived. False: memory is out, nothing has changed. */
bool ledger_receive(struct ledger *ledger, uint64_t count);

/* The handler has passed all numbers below `until`, which are not above the end. A lower one than the last is harmless. */
void ledger_pass(struct ledger *ledger, uint64_t until);

/* Holds a delivery that the handler has not passed, or settles one that it has not passed or that is held: LEDGER_ACKED, LEDGER_REJECTED or
 * LEDGER_REQUEUED. False, and nothing changes: it is of an earlier channel, or settled. */
bool ledger_hold(struct ledger *ledger, uint64_t number);
bool ledger_settle(struct ledger *ledger, uint64_t number, enum ledger_mark mark);

/* The next steps to be told, at most `cap`, which is 2 or more; 0: there are none. They must be written in this order, before those of the next call. */
size_t ledger_take(struct ledger *ledger, struct ledger_step *steps, size_t cap);

/* The same at the end of the channel's use: when ledger_take has nothing more, all that is open goes back, held or not passed, in one step. Nothing
 * can be settled afterwards. */
size_t ledger_take_rest(struct ledger *ledger, struct ledger_step *steps, size_t cap);

/* Whether ledger_take has something; O(1). */
static inline bool ledger_has_news(const struct ledger *ledger)
{
    return ledger->news_from < ledger->news_to;
}

#endif
