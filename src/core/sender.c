/* sender.c: opening a sender, appending to it, writing, losing its place, closing it. */
#include "core/sender.h"

#include "base/text.h"
#include "base/time.h"
#include "core/sender_internal.h"

#include <stdlib.h>

#define DEFAULT_MESSAGES 10000
#define DEFAULT_BYTES (64 * CONEY_MIB)
#define DEFAULT_ENQUEUE (10 * CONEY_SECOND)
#define MOST_MESSAGES (INT64_C(1) << 30)
#define WRITE_BYTES (512 << 10) /* gathered for one write at most, whole fills apart: control bytes go first in the next one */
#define SLICES_A_FILL 4         /* too few free slices than that are not worth a fill */

static struct sender *of(struct member *member)
{
    return container_of(member, struct sender, member);
}

/* Appending ------------------------------------------------------------------------------------------------------- */

void sender_leave(struct sender_visit *visit)
{
    struct sender *sender = visit->sender;
    if (visit->tell) /* under the lock, so that it comes before whatever a close posts */
        loop_post(sender->member.env->loop, &sender->send_task);
    lock_release(&sender->outbox.lock);
    if (visit->waited)
        member_unref(&sender->member);
}

coney_status sender_wait_for_room(struct sender_visit *visit, size_t size)
{
    struct sender *sender = visit->sender;
    struct outbox *outbox = &sender->outbox;
    coney_loop *loop = sender->member.env->loop;
    if (sender->enqueue_timeout < 0 || loop_is_current(loop)) {
        sender->wants_room = true;
        return CONEY_EAGAIN;
    }
    if (!visit->waited) {
        member_ref(&sender->member);
        visit->waited = true;
        visit->deadline = time_after(time_now(), sender->enqueue_timeout);
    }
    if (visit->tell) {
        visit->tell = false;
        loop_post(loop, &sender->send_task);
    }
    if (!loop_is_stepped_here(loop))
        return outbox_wait(outbox, size, visit->deadline, &sender->open);
    lock_release(&outbox->lock);
    loop_wait_and_step(loop, visit->deadline);
    lock_acquire(&outbox->lock);
    return time_now() < visit->deadline || outbox_has_room(outbox, size) ? CONEY_OK : CONEY_ETIMEDOUT;
}

/* Writing --------------------------------------------------------------------------------------------------------- */

void sender_want_write(struct sender *sender)
{
    if (sender->member.state == MEMBER_ACTIVE)
        conn_want_write(sender->member.conn, &sender->ready);
}

static void run_send(struct task *task)
{
    sender_want_write(container_of(task, struct sender, send_task));
}

size_t sender_link_fill(void *ctx, struct iovec *slices, size_t cap)
{
    struct conn *conn = ctx;
    size_t used = 0;
    size_t bytes = 0;
    while (used + SLICES_A_FILL <= cap && bytes < WRITE_BYTES) {
        struct list *at = list_take(&conn->ready);
        if (at == NULL)
            break;
        struct sender *sender = container_of(at, struct sender, ready);
        size_t taken = sender->kind->fill(sender, slices + used, cap - used, &bytes);
        if (taken > 0)
            list_append(&conn->flying, at);
        used += taken;
    }
    return used;
}

/* Its bytes are with the kernel; it stays in the queue until there is nothing left. */
static void written(struct conn *conn, struct sender *sender)
{
    list_append(&conn->ready, &sender->ready);
    outbox_written(&sender->outbox);
    if (sender->kind->written == NULL)
        return;
    member_ref(&sender->member);
    sender->kind->written(sender);
    member_unref(&sender->member);
}

void sender_link_written(void *ctx)
{
    struct conn *conn = ctx;
    if (list_empty(&conn->flying))
        return;
    conn_ref(conn);
    for (struct list *at = list_take(&conn->flying); at != NULL; at = list_take(&conn->flying))
        written(conn, container_of(at, struct sender, ready));
    if (conn->state != CONN_DOWN)
        link_want_write(conn->link);
    conn_unref(conn);
}

/* Confirm deadline ------------------------------------------------------------------------------------------------ */

static void set_confirm_timer(struct sender *sender)
{
    int64_t quarter = sender->confirm_timeout / SENDER_MARKS;
    int64_t pause = quarter > CONEY_MILLISECOND ? quarter : CONEY_MILLISECOND; /* a tiny one would keep the loop busy */
    loop_timer_set(sender->member.env->loop, &sender->confirm_timer, time_after(time_now(), pause));
}

/* Four times in a deadline: what was in hand four ticks ago is too old. No clock is read for a message. */
static void run_confirm_timer(struct timer *timer)
{
    struct sender *sender = container_of(timer, struct sender, confirm_timer);
    struct member *member = member_ref(&sender->member);
    uint64_t old = sender->marks[sender->mark];
    sender->marks[sender->mark] = atomic_load(&sender->outbox.tail);
    sender->mark = (sender->mark + 1) % SENDER_MARKS;
    sender_give_up(sender, old);
    if (member->state != MEMBER_DEAD)
        set_confirm_timer(sender);
    sender_want_write(sender); /* a kind may have held others back behind what was given up */
    member_unref(member);
}

/* The place ------------------------------------------------------------------------------------------------------- */

void sender_active(struct member *member)
{
    struct sender *sender = of(member);
    struct outbox *outbox = &sender->outbox;
    size_t limit = sender->kind->limit(sender);
    lock_acquire(&outbox->lock);
    bool shrunk = limit < sender->limit;
    sender->limit = limit;
    outbox->max_messages = sender->max_messages;
    sender->kind->limits_changed(sender);
    bool call = sender->wants_room;
    sender->wants_room = false;
    lock_release(&outbox->lock);
    outbox_wake(outbox);
    if (shrunk)
        sender_refuse_oversized(sender);
    if (member->state != MEMBER_ACTIVE)
        return;
    if (sender->confirm_timeout > 0 && sender->confirm_timer.place == 0)
        set_confirm_timer(sender);
    sender_want_write(sender);
    sender_retry_held(sender);
    if (call && sender->on_writable != NULL)
        sender->on_writable(sender->ctx);
}

void sender_lost(struct member *member)
{
    struct sender *sender = of(member);
    if (member->conn != NULL && member->conn->state != CONN_DOWN && sender->outbox.writing != NULL)
        link_copy_fill(member->conn->link); /* the connection goes on with a copy of what is being written */
    list_remove(&sender->ready);
    uint64_t again = outbox_rewind(&sender->outbox);
    if (sender->no_resend)
        sender_give_up(sender, atomic_load(&sender->outbox.tail));
    else
        counter_add(&sender->resent, again);
}

/* Sends are refused from here on; who waits is woken. */
static void shut(struct sender *sender)
{
    struct outbox *outbox = &sender->outbox;
    lock_acquire(&outbox->lock);
    atomic_store(&sender->open, CONEY_ECLOSED);
    sender->kind->limits_changed(sender);
    lock_release(&outbox->lock);
    outbox_wake(outbox);
}

static void run_last(struct task *task)
{
    member_unref(&container_of(task, struct sender, last_task)->member);
}

void sender_dead(struct member *member)
{
    struct sender *sender = of(member);
    shut(sender);
    sender->last_task.run = run_last;
    member_ref(member);
    loop_post(member->env->loop, &sender->last_task);
    sender_give_up(sender, atomic_load(&sender->outbox.tail));
    sender_fail_held(sender);
    sender_end_flushes(sender);
    loop_timer_unset(member->env->loop, &sender->confirm_timer);
    if (sender->closing != NULL)
        sender_finish_close(sender);
}

/* An attempt to find a place again has failed: a close does not wait for the next one. */
void sender_failed(struct member *member)
{
    struct sender *sender = of(member);
    if (sender->closing == NULL)
        return;
    sender->close_status = CONEY_ELOST;
    member_end(member, false);
}

/* Closing --------------------------------------------------------------------------------------------------------- */

struct close_op {
    struct op op;
    struct sender *sender;
};

static void explain_close(const struct sender *sender, char *text, size_t cap)
{
    text[0] = '\0';
    if (sender->close_status == CONEY_ELOST)
        text_print(text, cap,
                   "the broker could not be reached while the %s was closed: messages without an outcome became CONEY_EUNKNOWN",
                   sender->kind->noun);
    else if (sender->close_status == CONEY_ETIMEDOUT)
        text_print(text, cap, "the deadline passed before every message had its outcome: the rest became CONEY_EUNKNOWN");
}

static void leave_broker(struct sender *sender)
{
    member_end(&sender->member, member_is_known(&sender->member));
}

void sender_finish_close(struct sender *sender)
{
    struct op *op = sender->closing;
    if (op == NULL)
        return;
    sender->closing = NULL;
    leave_broker(sender);
    char text[TEXT_CAP];
    explain_close(sender, text, sizeof text);
    op_end(op, sender->close_status, 0, sender->unconfirmed_in_close, text);
    member_closed(&sender->member);
}

static struct sender *closing_of(struct op *op)
{
    return container_of(op, struct close_op, op)->sender;
}

static void close_begin(struct op *op)
{
    struct sender *sender = closing_of(op);
    struct member *member = &sender->member;
    sender->closing = op;
    if (member->state == MEMBER_DEAD || outbox_pending(&sender->outbox) == 0)
        sender_finish_close(sender);
    else if (member->state == MEMBER_WAITING && member->missed)
        sender_failed(member);
}

/* With messages still in hand: they become unknown first, and that ends the close. */
static void close_expire(struct op *op, coney_status status)
{
    struct sender *sender = closing_of(op);
    sender->close_status = status;
    leave_broker(sender);
}

static void close_free(struct op *op)
{
    struct close_op *close = container_of(op, struct close_op, op);
    member_unref(&close->sender->member);
    free(close);
}

coney_status sender_close(struct member *member, coney_call *call)
{
    struct sender *sender = of(member);
    coney_loop *loop = member->env->loop;
    struct close_op *close = calloc(1, sizeof *close);
    if (close == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    shut(sender);
    close->sender = sender;
    member_ref(member);
    op_init(&close->op, loop, close_begin, NULL, close_free);
    close->op.expire = close_expire;
    close->op.detached = loop_is_current(loop);
    return op_run(&close->op, call, member->env->settings.call_deadline);
}

/* Opening --------------------------------------------------------------------------------------------------------- */

coney_status sender_check(const struct sender_options *options, coney_call *call)
{
    if (options->max_messages < 0 || options->max_messages > MOST_MESSAGES)
        return op_refuse(call, CONEY_EINVAL, "max_messages is %lld: 1 to %lld, or 0 for the default",
                         (long long)options->max_messages, (long long)MOST_MESSAGES);
    if (options->max_bytes < 0)
        return op_refuse(call, CONEY_EINVAL, "max_bytes is %lld: at least 1, or 0 for the default",
                         (long long)options->max_bytes);
    if (options->enqueue_timeout < CONEY_OFF || options->confirm_timeout < CONEY_OFF)
        return op_refuse(call, CONEY_EINVAL, "a timeout is negative: nanoseconds, 0 for the default, or CONEY_OFF");
    return CONEY_OK;
}

static int64_t or_default(int64_t value, int64_t standard)
{
    return value != 0 ? value : standard;
}

bool sender_init(struct sender *sender, const struct sender_kind *kind, const struct member_kind *member_kind, struct env *env,
                 const char *name, const struct sender_options *options, bool keep_trying)
{
    sender->kind = kind;
    sender->max_messages = (uint64_t)or_default(options->max_messages, DEFAULT_MESSAGES);
    uint64_t max_bytes = (uint64_t)or_default(options->max_bytes, DEFAULT_BYTES);
    if (!outbox_init(&sender->outbox, env->pool, sender->max_messages, max_bytes))
        return false;
    sender->outbox.max_messages = 0; /* no room before the first place is found */
    sender->fork = env->fork;
    sender->enqueue_timeout = or_default(options->enqueue_timeout, DEFAULT_ENQUEUE);
    sender->confirm_timeout = options->confirm_timeout > 0 ? options->confirm_timeout : 0;
    sender->on_outcome = options->on_outcome;
    sender->on_writable = options->on_writable;
    sender->ctx = options->ctx;
    sender->no_resend = options->no_resend;
    sender->send_task.run = run_send;
    sender->confirm_timer.fire = run_confirm_timer;
    list_init(&sender->ready);
    list_init(&sender->flushes);
    list_init(&sender->held_sends);
    if (member_init(&sender->member, member_kind, env, name, keep_trying))
        return true;
    outbox_free(&sender->outbox);
    return false;
}

void sender_free(struct sender *sender)
{
    outbox_free(&sender->outbox);
}

uint64_t sender_pending(const struct sender *sender)
{
    uint64_t pending =
        outbox_pending(&sender->outbox); /* head and tail are read one after the other: it may come out too high */
    return pending < sender->max_messages ? pending : sender->max_messages;
}
