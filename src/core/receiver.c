/* receiver.c: a lane's life: running, paused, told to end, ended. */
#include "core/receiver.h"

#include "base/time.h"

#include <stdlib.h>

static struct receiver *of(struct member *member)
{
    return container_of(member, struct receiver, member);
}

/* The lane and the loop ------------------------------------------------------------------------------------------- */

void receiver_post(struct receiver *receiver)
{
    lock_acquire(&receiver->lock);
    if (!receiver->released)
        loop_post(receiver->member.env->loop, &receiver->task);
    lock_release(&receiver->lock);
}

void receiver_wake(struct receiver *receiver)
{
    lock_acquire(&receiver->lock);
    if (!receiver->released)
        lane_wake(&receiver->lane);
    lock_release(&receiver->lock);
}

void receiver_wake_later(struct receiver *receiver, int64_t at)
{
    lock_acquire(&receiver->lock);
    if (receiver->wake_at == 0 || at < receiver->wake_at)
        receiver->wake_at = at;
    lock_release(&receiver->lock);
    loop_post(receiver->member.env->loop, &receiver->task);
}

static void run_wake_timer(struct timer *timer)
{
    lane_wake(&container_of(timer, struct receiver, wake_timer)->lane);
}

static void set_wake_timer(struct receiver *receiver)
{
    lock_acquire(&receiver->lock);
    int64_t at = receiver->wake_at;
    receiver->wake_at = 0;
    lock_release(&receiver->lock);
    if (at == 0)
        return;
    if (receiver->wake_timer.place == 0 || at < receiver->wake_timer.at)
        loop_timer_set(receiver->member.env->loop, &receiver->wake_timer, at);
}

static void run_task(struct task *task)
{
    struct receiver *receiver = container_of(task, struct receiver, task);
    member_ref(&receiver->member);
    set_wake_timer(receiver);
    receiver->kind->task(receiver);
    member_unref(&receiver->member);
}

/* Behind all that was posted for the receiver, and what was deferred: the lane's own task on the loop. */
static void drop_lane(struct task *task)
{
    struct receiver *receiver = container_of(task, struct receiver, last_task);
    coney_loop *loop = receiver->member.env->loop;
    if (atomic_load(&receiver->lane.task.posted)) {
        loop_post(loop, task);
        return;
    }
    loop_timer_unset(loop, &receiver->wake_timer);
    member_unref(&receiver->member);
}

/* Nothing of the lane will run again. Its reference, if it ever had work, goes with the last task. */
static void release_lane(struct receiver *receiver)
{
    if (receiver->released || receiver->member.state != MEMBER_DEAD || !lane_stop(&receiver->lane, 0))
        return;
    lock_acquire(&receiver->lock);
    receiver->released = true;
    lock_release(&receiver->lock);
    receiver->kind->drop(receiver);
    if (receiver->member.opened)
        loop_post(receiver->member.env->loop, &receiver->last_task);
}

/* The place, and closing: the handler ends, the subscription ends, the member ends ---------------------------------------- */

struct close_op {
    struct op op;
    struct receiver *receiver;
};

static struct receiver *closing_of(struct op *op)
{
    return container_of(op, struct close_op, op)->receiver;
}

void receiver_subscribed(struct receiver *receiver)
{
    if (!receiver->member.opened)
        member_ref(&receiver->member); /* the lane's */
    member_active(&receiver->member);
}

void receiver_unsubscribed(struct receiver *receiver, coney_status status, bool held)
{
    struct op *op = receiver->closing;
    if (op == NULL)
        return;
    receiver->closing = NULL;
    member_end(&receiver->member, held);
    release_lane(receiver);
    lock_acquire(&receiver->lock);
    uint64_t kept = receiver->kept_count;
    lock_release(&receiver->lock);
    op_end(op, status, 0, kept, NULL);
    member_closed(&receiver->member);
}

void receiver_lost(struct receiver *receiver)
{
    lock_acquire(&receiver->lock);
    receiver->place++;
    lock_release(&receiver->lock);
    if (receiver->closing != NULL && receiver->unsubscribing)
        receiver_unsubscribed(receiver, CONEY_OK, false);
}

/* Goes on once the handler has ended. */
static void go_on_closing(struct receiver *receiver)
{
    if (receiver->unsubscribing || !lane_stop(&receiver->lane, 0))
        return;
    receiver->unsubscribing = true;
    receiver->kind->unsubscribe(receiver);
}

static void close_begin(struct op *op)
{
    struct receiver *receiver = closing_of(op);
    receiver->closing = op;
    go_on_closing(receiver);
}

static void close_expire(struct op *op, coney_status status)
{
    struct receiver *receiver = closing_of(op);
    receiver_unsubscribed(receiver, status, member_is_known(&receiver->member));
}

static void close_free(struct op *op)
{
    struct close_op *close = container_of(op, struct close_op, op);
    member_unref(&close->receiver->member);
    free(close);
}

static void run_ended(struct task *task)
{
    struct receiver *receiver = container_of(task, struct receiver, ended_task);
    struct member *member = member_ref(&receiver->member);
    if (receiver->closing != NULL)
        go_on_closing(receiver);
    release_lane(receiver);
    member_unref(member);
}

coney_status receiver_close(struct member *member, coney_call *call)
{
    struct receiver *receiver = of(member);
    coney_loop *loop = member->env->loop;
    struct close_op *close = calloc(1, sizeof *close);
    if (close == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    atomic_store(&receiver->open, CONEY_ECLOSED);
    lane_stop(&receiver->lane, 0);
    close->receiver = receiver;
    member_ref(member);
    op_init(&close->op, loop, close_begin, NULL, close_free);
    close->op.expire = close_expire;
    close->op.detached = lane_is_current(&receiver->lane) || loop_is_current(loop);
    return op_run(&close->op, call, member->env->settings.call_deadline);
}

void receiver_dead(struct member *member)
{
    struct receiver *receiver = of(member);
    atomic_store(&receiver->open, CONEY_ECLOSED);
    loop_timer_unset(member->env->loop, &receiver->wake_timer);
    if (receiver->closing != NULL)
        receiver_unsubscribed(receiver, CONEY_OK, false);
    else if (atomic_load(&member->handle_closed))
        release_lane(receiver);
}

bool receiver_stop_here(const struct env *env)
{
    struct lane *lane = lane_here();
    bool here = lane != NULL && container_of(lane, struct receiver, lane)->member.env == env;
    if (here)
        lane_stop(lane, 0);
    return here;
}

/* Opening and public uses ----------------------------------------------------------------------------------------- */

coney_status receiver_init(struct receiver *receiver, const struct receiver_kind *kind, const struct member_kind *member_kind,
                           struct env *env, const char *name, const struct receiver_options *options, bool keep_trying)
{
    struct dispatcher *dispatcher = options->own_thread ? crew_lend(&env->crew) : env->dispatcher;
    if (options->own_thread && dispatcher == NULL)
        return CONEY_ELIMIT;
    if (!member_init(&receiver->member, member_kind, env, name, keep_trying)) {
        crew_give_back(&env->crew, dispatcher);
        return CONEY_ENOMEM;
    }
    receiver->kind = kind;
    receiver->fork = env->fork;
    receiver->max_kept = options->max_kept;
    receiver->task.run = run_task;
    receiver->ended_task.run = run_ended;
    receiver->last_task.run = drop_lane;
    receiver->wake_timer.fire = run_wake_timer;
    list_init(&receiver->kept);
    lane_init(&receiver->lane, options->on_loop ? NULL : dispatcher, env->loop, kind->run);
    receiver->lane.ended = &receiver->ended_task;
    if (options->paused)
        lane_stop(&receiver->lane, 0);
    return CONEY_OK;
}

void receiver_free(struct receiver *receiver)
{
    crew_give_back(&receiver->member.env->crew, receiver->lane.dispatcher);
}

coney_status receiver_use(const struct receiver *receiver)
{
    if (receiver == NULL)
        return CONEY_EINVAL;
    if (receiver->fork != fork_generation())
        return CONEY_EFORKED;
    return (coney_status)atomic_load(&receiver->open);
}

coney_status receiver_pause(struct receiver *receiver)
{
    coney_status status = receiver_use(receiver);
    if (status == CONEY_OK)
        lane_stop(&receiver->lane, loop_is_current(receiver->member.env->loop) ? 0 : INT64_MAX);
    return status;
}

coney_status receiver_resume(struct receiver *receiver)
{
    coney_status status = receiver_use(receiver);
    if (status != CONEY_OK)
        return status;
    lane_resume(&receiver->lane);
    if (atomic_load(&receiver->open) != CONEY_OK)
        lane_stop(&receiver->lane, 0); /* closed meanwhile */
    return CONEY_OK;
}
