/* sender.h: the inside of a producer or publisher, whatever the protocol: an outbox, who may append to it, and what becomes of each message.
 *
 * It begins with its member and stands first in each client's own struct. What an entry is, and how the wire speaks of it, is the kind's:
 *
 *     user's thread: sender_enter, room or sender_wait_for_room, outbox_append, write the entry, outbox_commit, sender_leave
 *     loop:          kind->fill takes entries for writing … the kind settles slots, sender_report for each … sender_settled once
 *
 * Every accepted message has one report: its outcome, or the end of the call that waits for it. Appending is done under the outbox's lock, on any
 * thread; everything else is on the loop.
 */
#ifndef CONEY_CORE_SENDER_H
#define CONEY_CORE_SENDER_H

#include "core/member.h"
#include "core/outbox.h"

#define SLOT_WAITED 1 /* slot.flags: the tag is a struct op that waits for the outcome; the other bits are the kind's */

#define SENDER_MARKS 4 /* ticks in a confirm deadline */

struct sender;
struct sender_visit;

struct sender_kind {
    const char *noun; /* "producer": for texts */

    /* On the loop, ready to write: puts its next bytes into at most `cap` slices (4 at least), adds them to *bytes; returns the slices, 0 when there
     * is nothing. They stay untouched until outbox_written or outbox_rewind. */
    size_t (*fill)(struct sender *sender, struct iovec *slices, size_t cap, size_t *bytes);

    /* On the loop: every byte of the last fill is with the kernel. May settle slots. May be NULL. */
    void (*written)(struct sender *sender);

    /* On the loop, placed: how large an entry, or what the kind counts, may be on this connection. */
    size_t (*limit)(const struct sender *sender);

    /* The lock is held: `open` or `limit` has changed. */
    void (*limits_changed)(struct sender *sender);

    /* On the loop: whether an entry that was accepted before fits the present limit. */
    bool (*fits)(const struct sender *sender, const struct slot *slot);

    /* The entry at hand as an outcome for it: publishing_id, and with CONEY_EREFUSED for one that no longer fits, the code. Status and tag are set. */
    void (*describe)(const struct sender *sender, uint64_t number, const struct slot *slot, coney_outcome *outcome);

    /* The body in a slot's entry, as the user gave it; valid until the next one is asked for. */
    coney_bytes (*body)(const struct sender *sender, const struct slot *slot);

    /* On the loop, inside a visit: appends what sender_run_send was given, with this tag and flags. CONEY_EAGAIN: no room. */
    coney_status (*append)(struct sender_visit *visit, coney_bytes held, uint64_t tag, uint8_t flags);

    /* Sentences for a call that waits: an outcome that is not CONEY_OK; append answered CONEY_ETOOBIG. An empty text is the status' own. */
    void (*explain)(const struct sender *sender, const coney_outcome *outcome, char *text, size_t cap);
    void (*explain_size)(const struct sender *sender, coney_bytes held, char *text, size_t cap);
};

struct sender {
    struct member member;
    struct outbox outbox;
    const struct sender_kind *kind;

    /* Under the outbox's lock. */
    size_t limit;     /* as kind->limit said last; 0 until it was open once */
    bool wants_room;  /* a send was answered CONEY_EAGAIN */
    _Atomic int open; /* CONEY_OK, or what a send answers */

    uint32_t fork; /* fork_generation() at open */
    int64_t enqueue_timeout;
    uint64_t max_messages; /* the outbox's bound once it is open */
    coney_outcome_fn on_outcome;
    void (*on_writable)(void *ctx);
    void *ctx;

    /* On the loop. */
    struct task send_task; /* there is something to send; has no reference of its own */
    struct task last_task; /* behind the last post of that one: the sender is dead and takes nothing more */
    struct list ready;     /* in the connection's queue of senders to be written, or of those being written */
    bool no_resend;
    struct op *closing;
    coney_status close_status; /* what the close will answer */
    uint64_t unconfirmed_in_close;
    struct list flushes;
    struct list held_sends; /* sender_run_send calls without room */
    int64_t confirm_timeout;
    struct timer confirm_timer;
    uint64_t marks[SENDER_MARKS]; /* tails of the last ticks */
    unsigned mark;

    counter confirmed;
    counter refused;
    counter returned;
    counter unknown;
    counter resent;
    counter frames; /* the kind's to count */
};

/* What the public options of both clients have in common; zero is the default, CONEY_OFF switches off. */
struct sender_options {
    int64_t max_messages;
    int64_t max_bytes;
    int64_t enqueue_timeout;
    int64_t confirm_timeout;
    coney_outcome_fn on_outcome;
    void (*on_writable)(void *ctx);
    void *ctx;
    bool no_resend;
};

/* CONEY_OK, or CONEY_EINVAL with a text in the call. */
coney_status sender_check(const struct sender_options *options, coney_call *call);

/* A sender that is not open yet, with one reference, the user's handle; zeroed before, first in a struct from calloc. Its messages wait until it was
 * open once. False: memory is out, there is nothing to give back but the struct. */
bool sender_init(struct sender *sender, const struct sender_kind *kind, const struct member_kind *member_kind, struct env *env,
                 const char *name, const struct sender_options *options, bool keep_trying);

/* From member_kind.free: gives the outbox back; the struct is the caller's to free. */
void sender_free(struct sender *sender);

/* Appending: one visit to the outbox, from the lock to its release ---------------------------------------------------- */

struct sender_visit {
    struct sender *sender;
    bool tell;        /* the loop must be told that there is something to send: what outbox_commit returned */
    bool waited;      /* a reference is held: the sender may have been closed while this thread waited */
    int64_t deadline; /* once it has waited */
};

static inline struct sender_visit sender_enter(struct sender *sender)
{
    lock_acquire(&sender->outbox.lock);
    return (struct sender_visit){.sender = sender};
}

/* Tells the loop and releases the lock. */
void sender_leave(struct sender_visit *visit);

/* There was no room for an entry of `size` bytes. CONEY_OK: look again (the lock was released meanwhile: at everything); otherwise what the send
 * answers: CONEY_EAGAIN (and on_writable will come), CONEY_ETIMEDOUT, CONEY_ECLOSED. */
coney_status sender_wait_for_room(struct sender_visit *visit, size_t size);

/* Calls that wait: run as control calls ---------------------------------------------------------------------------------- */

/* Appends `held` (copied; kind->append knows what it is) when there is room, and ends with its outcome. sender_run_flush ends when all that was
 * accepted before has its outcome. `sender` may be NULL. */
coney_status sender_run_send(struct sender *sender, coney_bytes held, coney_call *call);
coney_status sender_run_flush(struct sender *sender, coney_call *call);

/* Outcomes: on the loop ---------------------------------------------------------------------------------------------- */

/* An outcome with what coney_outcome_body needs. One serves for many messages: sender_report changes tag, slot and what the caller set. */
struct sender_report {
    coney_outcome outcome;
    const struct sender *sender;
    const struct slot *slot;
};

/* Starts reports with this status; `report` must outlive them. */
static inline void sender_report_init(const struct sender *sender, struct sender_report *report, coney_status status)
{
    *report = (struct sender_report){.outcome = {.status = status, .internal = report, .text = ""}, .sender = sender};
}

/* The outcome of a slot that a call waits for: ends the call. */
void sender_report_to_op(struct sender *sender, struct sender_report *report);

/* Reports what became of a slot that was settled just now; its publishing_id is set. Counts nothing. */
static inline void sender_report(struct sender *sender, const struct slot *slot, struct sender_report *report)
{
    report->outcome.tag = slot->tag;
    report->slot = slot;
    if (__builtin_expect((slot->flags & SLOT_WAITED) != 0, 0))
        sender_report_to_op(sender, report);
    else if (sender->on_outcome != NULL)
        sender->on_outcome(sender->ctx, &report->outcome);
}

/* The whole of it for one message, where speed does not matter: settles slot `number` unless it is settled, describes, counts and reports it.
 * Returns whether it was open. sender_settled is the caller's to call, after the last one. */
bool sender_settle(struct sender *sender, uint64_t number, struct sender_report *report);

/* What is in hand before slot `end` becomes CONEY_EUNKNOWN, oldest first. Calls sender_settled. */
void sender_give_up(struct sender *sender, uint64_t end);

/* After slots were settled: memory, waiting senders, flushes, a close that waits. May end the sender: hold a reference. */
void sender_settled(struct sender *sender);

/* The member's life: for member_kind, or to be called from the kind's own -------------------------------------------------- */

void sender_active(struct member *member); /* refuses what no longer fits, starts writing */
void sender_lost(struct member *member);   /* what is in hand will be taken again, or is given up with no_resend */
void sender_failed(struct member *member);
void sender_dead(struct member *member);
coney_status sender_close(struct member *member, coney_call *call);

/* There is something to send: kind->fill will be asked. Harmless when it is not active. */
void sender_want_write(struct sender *sender);

/* For conn_kind.link: the senders of a connection in turn, a fill each. */
size_t sender_link_fill(void *ctx, struct iovec *slices, size_t cap);
void sender_link_written(void *ctx);

/* Messages in hand, for statistics; any thread: never more than the bound. */
uint64_t sender_pending(const struct sender *sender);

#endif
