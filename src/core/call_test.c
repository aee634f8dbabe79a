/* call_test.c: how a call ends: by its work, its deadline, a cancel, or the patience of the thread that waits. */
#include "core/call.h"

#include "base/time.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE (10 * CONEY_SECOND)

/* A call whose work does nothing until a test ends it, and counts what happens to it. */
struct probe {
    struct op op;
    struct fate *fate;
};

/* Outlives its probe. */
struct fate {
    coney_status ends_with; /* at once in begin, unless it is CONEY_OK */
    bool ends_ok;           /* at once in begin */
    int begun;
    int abandoned;
    int expired;
    coney_status expired_with;
    int given;
    int freed;
    int done;
    coney_call result;
};

static struct fate *fate_of(struct op *op)
{
    return container_of(op, struct probe, op)->fate;
}

static void begin(struct op *op)
{
    struct fate *fate = fate_of(op);
    fate->begun++;
    if (fate->ends_ok || fate->ends_with != CONEY_OK)
        op_end(op, fate->ends_with, 7, 42, fate->ends_ok ? NULL : "said by the work");
}

static void abandon(struct op *op)
{
    fate_of(op)->abandoned++;
}

static void expire(struct op *op, coney_status status)
{
    struct fate *fate = fate_of(op);
    fate->expired++;
    fate->expired_with = status;
    op_end(op, status, 0, 9, "ended by itself");
}

static void give(struct op *op)
{
    fate_of(op)->given++;
}

static void free_probe(struct op *op)
{
    fate_of(op)->freed++;
    free(container_of(op, struct probe, op));
}

static void on_done(void *ctx, const coney_call *call)
{
    struct fate *fate = ctx;
    fate->done++;
    fate->result = *call;
}

static struct op *probe_new(coney_loop *loop, struct fate *fate)
{
    struct probe *probe = calloc(1, sizeof *probe);
    assert_non_null(probe);
    probe->fate = fate;
    op_init(&probe->op, loop, begin, abandon, free_probe);
    return &probe->op;
}

static coney_call asynchronous(struct fate *fate)
{
    return (coney_call){.on_done = on_done, .ctx = fate};
}

static void step_until_done(coney_loop *loop, const struct fate *fate)
{
    int64_t deadline = time_now() + PATIENCE;
    while (fate->done == 0 && time_now() < deadline)
        loop_wait_and_step(loop, deadline);
    assert_int_equal(fate->done, 1);
}

static int loop_set_up(void **state)
{
    *state = coney_loop_new();
    return *state == NULL;
}

static int loop_tear_down(void **state)
{
    coney_loop_free((coney_loop **)state);
    return 0;
}

/* Asynchronous ---------------------------------------------------------------------------------------------------- */

static void an_asynchronous_call_ends_once_with_what_its_work_says(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {.ends_with = CONEY_EBROKER};
    coney_call call = asynchronous(&fate);
    call.value = 5; /* left from an earlier use */
    memcpy(call.text, "old", 4);
    assert_int_equal(op_run(probe_new(loop, &fate), &call, PATIENCE), CONEY_OK);
    assert_true(call.id != 0);
    assert_int_equal(call.value, 0);
    assert_string_equal(call.text, "");
    assert_int_equal(fate.begun, 0); /* never from inside */
    step_until_done(loop, &fate);
    assert_int_equal(fate.result.status, CONEY_EBROKER);
    assert_int_equal(fate.result.code, 7);
    assert_int_equal(fate.result.value, 42);
    assert_string_equal(fate.result.text, "said by the work");
    assert_int_equal(fate.result.id, call.id);
    assert_int_equal(fate.freed, 1);
    assert_int_equal(coney_call_cancel(call.id), CONEY_ENOTFOUND);
}

static void a_success_has_no_text_and_a_failure_without_one_has_its_status_text(void **state)
{
    coney_loop *loop = *state;
    struct fate good = {.ends_ok = true}, bad = {0};
    coney_call call = asynchronous(&good);
    op_run(probe_new(loop, &good), &call, PATIENCE);
    step_until_done(loop, &good);
    assert_string_equal(good.result.text, "");
    call = asynchronous(&bad);
    call.deadline = CONEY_MILLISECOND;
    op_run(probe_new(loop, &bad), &call, PATIENCE);
    step_until_done(loop, &bad);
    assert_string_equal(bad.result.text, coney_status_text(CONEY_ETIMEDOUT));
}

static void a_deadline_ends_the_call_and_abandons_its_work(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {0};
    coney_call call = asynchronous(&fate);
    call.deadline = 5 * CONEY_MILLISECOND;
    int64_t before = time_now();
    op_run(probe_new(loop, &fate), &call, PATIENCE);
    step_until_done(loop, &fate);
    assert_true(time_now() - before >= 5 * CONEY_MILLISECOND);
    assert_int_equal(fate.result.status, CONEY_ETIMEDOUT);
    assert_int_equal(fate.abandoned, 1);
    assert_int_equal(fate.freed, 1);
}

static void a_call_that_is_late_at_its_turn_ends_with_it_before_its_work_goes_on(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {0};
    coney_call call = asynchronous(&fate);
    call.deadline = 1;
    op_run(probe_new(loop, &fate), &call, PATIENCE);
    coney_loop_step(loop);
    assert_int_equal(fate.done, 1);
    assert_int_equal(fate.result.status, CONEY_ETIMEDOUT);
    assert_int_equal(fate.begun, 1);
    assert_int_equal(fate.abandoned, 1);
    assert_int_equal(fate.freed, 1);
}

static void a_deadline_that_is_off_never_comes_and_zero_is_the_default(void **state)
{
    coney_loop *loop = *state;
    struct fate never = {0}, standard = {0};
    coney_call off = asynchronous(&never), zero = asynchronous(&standard);
    off.deadline = CONEY_OFF;
    op_run(probe_new(loop, &never), &off, 1);
    op_run(probe_new(loop, &standard), &zero, 5 * CONEY_MILLISECOND);
    step_until_done(loop, &standard);
    assert_int_equal(standard.result.status, CONEY_ETIMEDOUT);
    assert_int_equal(never.done, 0);
    assert_int_equal(coney_call_cancel(off.id), CONEY_OK);
    step_until_done(loop, &never);
}

static void a_cancel_ends_the_call_once_on_the_loop(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {0};
    coney_call call = asynchronous(&fate);
    op_run(probe_new(loop, &fate), &call, PATIENCE);
    coney_loop_step(loop);
    assert_int_equal(fate.begun, 1);
    assert_int_equal(coney_call_cancel(call.id), CONEY_OK);
    assert_int_equal(coney_call_cancel(call.id), CONEY_OK); /* under way still */
    assert_int_equal(fate.done, 0);
    step_until_done(loop, &fate);
    assert_int_equal(fate.result.status, CONEY_ECANCELED);
    assert_int_equal(fate.abandoned, 1);
    assert_int_equal(fate.freed, 1);
    assert_int_equal(coney_call_cancel(call.id), CONEY_ENOTFOUND);
}

static void a_cancel_before_the_loop_came_round_finds_the_work_begun(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {0};
    coney_call call = asynchronous(&fate);
    op_run(probe_new(loop, &fate), &call, PATIENCE);
    assert_int_equal(coney_call_cancel(call.id), CONEY_OK);
    step_until_done(loop, &fate);
    assert_int_equal(fate.begun, 1);
    assert_int_equal(fate.abandoned, 1);
    assert_int_equal(fate.freed, 1);
}

/* Keeps the registry busy until it is told to stop. */
static void *cancel_what_is_not_there(void *arg)
{
    atomic_bool *enough = arg;
    while (!atomic_load(enough))
        coney_call_cancel(UINT64_MAX);
    return NULL;
}

static void a_forked_child_finds_no_call_of_its_parents_and_never_waits(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {0};
    coney_call call = asynchronous(&fate);
    op_run(probe_new(loop, &fate), &call, PATIENCE);
    atomic_bool enough = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_what_is_not_there, &enough), 0);
    int failures = 0;
    for (int i = 0; i < 50 && failures == 0; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm((unsigned)(PATIENCE / CONEY_SECOND));
            raise(coney_call_cancel(call.id) == CONEY_ENOTFOUND ? SIGKILL : SIGABRT); /* no leak checker looks */
        }
        int status = -1;
        waitpid(child, &status, 0);
        failures += !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    assert_int_equal(failures, 0);
    assert_int_equal(coney_call_cancel(call.id), CONEY_OK);
    step_until_done(loop, &fate);
}

static void work_that_comes_back_late_changes_nothing(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {0};
    struct op *op = op_ref(probe_new(loop, &fate));
    coney_call call = asynchronous(&fate);
    call.deadline = 1;
    op_run(op, &call, PATIENCE);
    step_until_done(loop, &fate);
    assert_true(op_ended(op));
    assert_false(op_end(op, CONEY_OK, 0, 0, NULL));
    assert_int_equal(fate.result.status, CONEY_ETIMEDOUT);
    assert_int_equal(fate.done, 1);
    assert_int_equal(fate.freed, 0);
    op_unref(op);
    assert_int_equal(fate.freed, 1);
}

static void a_call_that_ends_by_itself_is_told_why_it_must(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {0};
    struct op *op = probe_new(loop, &fate);
    op->expire = expire;
    coney_call call = asynchronous(&fate);
    op_run(op, &call, PATIENCE);
    coney_call_cancel(call.id);
    step_until_done(loop, &fate);
    assert_int_equal(fate.expired, 1);
    assert_int_equal(fate.expired_with, CONEY_ECANCELED);
    assert_int_equal(fate.result.status, CONEY_ECANCELED);
    assert_int_equal(fate.result.value, 9);
    assert_int_equal(fate.abandoned, 0);
    assert_int_equal(fate.freed, 1);
}

static void a_detached_call_returns_at_once_and_takes_place(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {.ends_with = CONEY_ELOST};
    struct op *op = probe_new(loop, &fate);
    op->detached = true;
    coney_call call = {.value = 3};
    assert_int_equal(op_run(op, &call, PATIENCE), CONEY_OK);
    assert_int_equal(call.status, CONEY_OK);
    assert_int_equal(call.value, 0);
    coney_loop_step(loop);
    assert_int_equal(fate.begun, 1);
    assert_int_equal(fate.freed, 1);
}

static void reserved_bytes_are_refused_and_nothing_begins(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {0};
    coney_call call = asynchronous(&fate);
    call.reserved[3] = 1;
    assert_int_equal(op_check(&call), CONEY_EINVAL);
    assert_int_equal(op_run(probe_new(loop, &fate), &call, PATIENCE), CONEY_EINVAL);
    assert_non_null(strstr(call.text, "zero"));
    coney_loop_step(loop);
    assert_int_equal(fate.begun, 0);
    assert_int_equal(fate.freed, 1);
    assert_int_equal(op_check(NULL), CONEY_OK);
}

static void what_a_freed_loop_still_had_to_do_is_done(void **state)
{
    struct fate fate = {.ends_ok = true};
    coney_call call = asynchronous(&fate);
    op_run(probe_new(*state, &fate), &call, PATIENCE);
    coney_loop_free((coney_loop **)state);
    assert_int_equal(fate.done, 1);
    assert_int_equal(fate.freed, 1);
}

/* Blocking -------------------------------------------------------------------------------------------------------- */

static void a_blocking_call_on_the_stepping_thread_steps_the_loop(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {.ends_with = CONEY_EACCESS};
    coney_call call = {0};
    assert_int_equal(op_run(probe_new(loop, &fate), &call, PATIENCE), CONEY_EACCESS);
    assert_int_equal(call.status, CONEY_EACCESS);
    assert_int_equal(call.code, 7);
    assert_int_equal(call.value, 42);
    assert_string_equal(call.text, "said by the work");
    assert_int_equal(fate.freed, 1);
}

/* A thread that begins to step while another one waits by stepping, and ends what that one waits for in a task that takes a while. */
struct rival {
    struct op *op;
    struct task task;
    pthread_t thread;
    atomic_bool over;
};

static struct rival rival;

static void end_slowly(struct task *task)
{
    (void)task;
    const struct timespec while_the_other_looks = {.tv_nsec = 5 * CONEY_MILLISECOND};
    nanosleep(&while_the_other_looks, NULL);
    op_end(rival.op, CONEY_OK, 0, 0, NULL);
    atomic_store(&rival.over, true);
}

static void *step_until_over(void *arg)
{
    loop_post(arg, &rival.task);
    while (!atomic_load(&rival.over))
        coney_loop_step(arg);
    return NULL;
}

static void begin_rivalry(struct op *op)
{
    rival.op = op;
    rival.task = (struct task){.run = end_slowly};
    atomic_store(&rival.over, false);
    assert_int_equal(pthread_create(&rival.thread, NULL, step_until_over, op->loop), 0);
}

static void a_blocking_call_ends_in_time_when_another_thread_begins_to_step(void **state)
{
    int64_t before = time_now();
    for (int i = 0; i < 10 && time_now() - before < PATIENCE; i++) {
        struct fate fate = {0};
        coney_loop *loop = i == 0 ? *state : coney_loop_new();
        struct op *op = probe_new(loop, &fate);
        op->begin = begin_rivalry;
        assert_int_equal(op_run(op, NULL, PATIENCE), CONEY_OK);
        assert_int_equal(pthread_join(rival.thread, NULL), 0);
        assert_int_equal(fate.freed, 1);
        if (i > 0)
            coney_loop_free(&loop);
    }
    assert_true(time_now() - before < PATIENCE);
}

static void a_blocking_call_without_a_struct_has_the_default_deadline(void **state)
{
    coney_loop *loop = *state;
    struct fate fate = {0};
    int64_t before = time_now();
    assert_int_equal(op_run(probe_new(loop, &fate), NULL, 5 * CONEY_MILLISECOND), CONEY_ETIMEDOUT);
    assert_true(time_now() - before >= 5 * CONEY_MILLISECOND);
    assert_int_equal(fate.abandoned, 1);
    coney_loop_step(loop);
    assert_int_equal(fate.freed, 1);
}

static void a_blocking_call_on_another_thread_is_answered_by_the_loop(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    assert_int_equal(loop_thread_start(loop, "test"), CONEY_OK);
    struct fate good = {.ends_ok = true}, late = {0};
    coney_call call = {0};
    assert_int_equal(op_run(probe_new(loop, &good), &call, PATIENCE), CONEY_OK);
    assert_int_equal(call.value, 42);
    call.deadline = 5 * CONEY_MILLISECOND;
    assert_int_equal(op_run(probe_new(loop, &late), &call, PATIENCE), CONEY_ETIMEDOUT);
    coney_loop_free(&loop);
    assert_int_equal(good.freed, 1);
    assert_int_equal(late.abandoned, 1);
    assert_int_equal(late.freed, 1);
}

struct inside {
    struct task task;
    struct fate fate;
    coney_loop *loop;
    coney_status status;
    char text[512];
};

static void call_from_inside(struct task *task)
{
    struct inside *inside = container_of(task, struct inside, task);
    coney_call call = {0};
    inside->status = op_run(probe_new(inside->loop, &inside->fate), &call, PATIENCE);
    memcpy(inside->text, call.text, sizeof inside->text);
}

static void a_blocking_call_inside_the_loop_is_refused(void **state)
{
    struct inside inside = {.task.run = call_from_inside, .loop = *state};
    loop_post(inside.loop, &inside.task);
    coney_loop_step(inside.loop);
    assert_int_equal(inside.status, CONEY_EDEADLK);
    assert_non_null(strstr(inside.text, "on_done"));
    coney_loop_step(inside.loop);
    assert_int_equal(inside.fate.begun, 0);
    assert_int_equal(inside.fate.freed, 1);
}

/* A loop that nobody steps while another thread blocks. */
struct blocked {
    struct fate fate;
    struct op *op;
    coney_status status;
};

static void *block(void *arg)
{
    struct blocked *blocked = arg;
    blocked->status = op_run(blocked->op, NULL, CONEY_MILLISECOND);
    return NULL;
}

static void block_on_a_still_loop(struct blocked *blocked)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, block, blocked), 0);
    pthread_join(thread, NULL);
    assert_int_equal(blocked->status, CONEY_ETIMEDOUT);
    assert_int_equal(blocked->fate.begun, 0);
}

static void a_thread_gives_up_on_a_loop_that_nobody_steps_and_the_work_never_begins(void **state)
{
    coney_loop *loop = *state;
    struct blocked blocked = {0};
    blocked.op = probe_new(loop, &blocked.fate);
    block_on_a_still_loop(&blocked);
    coney_loop_step(loop);
    coney_loop_step(loop);
    assert_int_equal(blocked.fate.begun, 0);
    assert_int_equal(blocked.fate.abandoned, 0);
    assert_int_equal(blocked.fate.freed, 1);
}

static void a_result_is_given_once_with_the_end_and_not_after_it(void **state)
{
    coney_loop *loop = *state;
    struct blocked blocked = {0};
    struct fate fate = {0};
    coney_call call = asynchronous(&fate);
    struct op *op = op_ref(probe_new(loop, &fate));
    blocked.op = op_ref(probe_new(loop, &blocked.fate));
    block_on_a_still_loop(&blocked);
    assert_false(op_end_giving(blocked.op, 1, give));
    assert_int_equal(blocked.fate.given, 0);
    coney_loop_step(loop);
    op_unref(blocked.op);
    assert_int_equal(blocked.fate.freed, 1);
    assert_int_equal(op_run(op, &call, PATIENCE), CONEY_OK);
    coney_loop_step(loop);
    assert_true(op_end_giving(op, 1, give));
    assert_false(op_end_giving(op, 2, give));
    assert_int_equal(fate.given, 1);
    assert_int_equal(fate.done, 1);
    assert_int_equal(fate.result.value, 1);
    op_unref(op);
    assert_int_equal(fate.freed, 1);
}

static void a_close_that_was_given_up_takes_place_when_the_loop_comes_round(void **state)
{
    coney_loop *loop = *state;
    struct blocked blocked = {0};
    blocked.op = probe_new(loop, &blocked.fate);
    blocked.op->expire = expire;
    block_on_a_still_loop(&blocked);
    coney_loop_step(loop);
    coney_loop_step(loop);
    assert_int_equal(blocked.fate.begun, 1);
    assert_int_equal(blocked.fate.expired, 1);
    assert_int_equal(blocked.fate.expired_with, CONEY_ETIMEDOUT);
    assert_int_equal(blocked.fate.freed, 1);
}

static void come_late(struct task *task)
{
    (void)task;
    int64_t until = time_now() + 250 * CONEY_MILLISECOND;
    while (time_now() < until)
        sched_yield();
}

static void a_close_waits_for_a_loop_that_is_late(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    assert_int_equal(loop_thread_start(loop, "test"), CONEY_OK);
    struct task late = {.run = come_late};
    struct fate fate = {0};
    struct op *op = probe_new(loop, &fate);
    op->expire = expire;
    loop_post(loop, &late);
    assert_int_equal(op_run(op, NULL, CONEY_MILLISECOND), CONEY_ETIMEDOUT);
    assert_int_equal(fate.expired, 1);
    coney_loop_free(&loop);
    assert_int_equal(fate.freed, 1);
}

static void a_refusal_before_there_is_an_op_fills_the_call_if_there_is_one(void **state)
{
    (void)state;
    coney_call call = {.code = 3, .value = 4};
    assert_int_equal(op_refuse(&call, CONEY_ELIMIT, "no %s", "more"), CONEY_ELIMIT);
    assert_int_equal(call.status, CONEY_ELIMIT);
    assert_int_equal(call.code, 0);
    assert_int_equal(call.value, 0);
    assert_string_equal(call.text, "no more");
    assert_int_equal(op_refuse(NULL, CONEY_ELIMIT, "no more"), CONEY_ELIMIT);
}

#define ON_A_LOOP(test) cmocka_unit_test_setup_teardown(test, loop_set_up, loop_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_LOOP(an_asynchronous_call_ends_once_with_what_its_work_says),
        ON_A_LOOP(a_success_has_no_text_and_a_failure_without_one_has_its_status_text),
        ON_A_LOOP(a_deadline_ends_the_call_and_abandons_its_work),
        ON_A_LOOP(a_call_that_is_late_at_its_turn_ends_with_it_before_its_work_goes_on),
        ON_A_LOOP(a_deadline_that_is_off_never_comes_and_zero_is_the_default),
        ON_A_LOOP(a_cancel_ends_the_call_once_on_the_loop),
        ON_A_LOOP(a_cancel_before_the_loop_came_round_finds_the_work_begun),
        ON_A_LOOP(a_forked_child_finds_no_call_of_its_parents_and_never_waits),
        ON_A_LOOP(work_that_comes_back_late_changes_nothing),
        ON_A_LOOP(a_call_that_ends_by_itself_is_told_why_it_must),
        ON_A_LOOP(a_detached_call_returns_at_once_and_takes_place),
        ON_A_LOOP(reserved_bytes_are_refused_and_nothing_begins),
        ON_A_LOOP(what_a_freed_loop_still_had_to_do_is_done),
        ON_A_LOOP(a_blocking_call_on_the_stepping_thread_steps_the_loop),
        ON_A_LOOP(a_blocking_call_ends_in_time_when_another_thread_begins_to_step),
        ON_A_LOOP(a_blocking_call_without_a_struct_has_the_default_deadline),
        cmocka_unit_test(a_blocking_call_on_another_thread_is_answered_by_the_loop),
        ON_A_LOOP(a_blocking_call_inside_the_loop_is_refused),
        ON_A_LOOP(a_thread_gives_up_on_a_loop_that_nobody_steps_and_the_work_never_begins),
        ON_A_LOOP(a_result_is_given_once_with_the_end_and_not_after_it),
        ON_A_LOOP(a_close_that_was_given_up_takes_place_when_the_loop_comes_round),
        cmocka_unit_test(a_close_waits_for_a_loop_that_is_late),
        cmocka_unit_test(a_refusal_before_there_is_an_op_fills_the_call_if_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
