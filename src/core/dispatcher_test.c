/* dispatcher_test.c: lanes on a dispatcher and on a loop: turns, wakes, stops. The stresses are for TSan, too. */
#define _GNU_SOURCE
#include "core/dispatcher.h"

#include "base/time.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
// clang-format on
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE (40 * CONEY_SECOND)

/* A count that threads wait for. */
struct count {
    struct lock lock;
    struct cond changed;
    uint64_t value;
};

static void count_add(struct count *c, uint64_t n)
{
    lock_acquire(&c->lock);
    c->value += n;
    cond_wake_all(&c->changed);
    lock_release(&c->lock);
}

/* Waits until it is at least `value`; false: the deadline passed. */
static bool count_wait(struct count *c, uint64_t value)
{
    int64_t deadline = time_now() + DEADLINE;
    bool in_time = true;
    lock_acquire(&c->lock);
    while (c->value < value && in_time)
        in_time = cond_wait(&c->changed, &c->lock, deadline);
    bool reached = c->value >= value;
    lock_release(&c->lock);
    return reached;
}

static uint64_t count_now(struct count *c)
{
    lock_acquire(&c->lock);
    uint64_t value = c->value;
    lock_release(&c->lock);
    return value;
}

/* A lane that counts its runs, and may be held inside of one. */
struct probe {
    struct lane lane;
    struct count begun;
    struct count ended;
    struct count passes; /* how many runs may end; used when `held` */
    bool held;
    unsigned portions; /* how often it has more */
    bool wake_inside;
    bool stop_inside;
    coney_loop *steps; /* a loop that it steps inside, or NULL */
    bool current_inside, here_inside, stopped_inside, stop_result, blocked_inside;
    const char *name; /* added to the journal at each run */
    char *journal;
    char thread_name[16];
};

static bool run_probe(struct lane *lane)
{
    struct probe *p = container_of(lane, struct probe, lane);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    p->blocked_inside = sigismember(&blocked, SIGTERM) == 1 && sigismember(&blocked, SIGUSR1) == 1;
    if (p->steps != NULL)
        coney_loop_step(p->steps);
    p->current_inside = lane_is_current(lane);
    p->here_inside = lane_here() == lane;
    pthread_getname_np(pthread_self(), p->thread_name, sizeof p->thread_name);
    if (p->journal != NULL)
        strcat(p->journal, p->name);
    if (p->wake_inside) {
        p->wake_inside = false;
        lane_wake(lane);
    }
    if (p->stop_inside)
        p->stop_result = lane_stop(lane, INT64_MAX);
    count_add(&p->begun, 1);
    if (p->held)
        count_wait(&p->passes, p->begun.value);
    p->stopped_inside = lane_is_stopped(lane);
    bool more = p->portions > 0;
    p->portions -= more;
    count_add(&p->ended, 1);
    return more;
}

static void probe_init(struct probe *p, struct dispatcher *d, coney_loop *loop)
{
    *p = (struct probe){0};
    lane_init(&p->lane, d, loop, run_probe);
}

static struct dispatcher *start(void)
{
    struct dispatcher *d = dispatcher_start("coney-test");
    assert_non_null(d);
    return d;
}

/* Whether the dispatcher has come to what stood in its queue before: it has run a lane that was woken after. */
static void pass_through(struct dispatcher *d)
{
    struct probe last;
    probe_init(&last, d, NULL);
    lane_wake(&last.lane);
    assert_true(count_wait(&last.ended, 1));
    assert_true(lane_stop(&last.lane, INT64_MAX));
}

/* On a dispatcher ---------------------------------------------------------------------------------------------------- */

static void a_woken_lane_runs_once_on_the_dispatchers_thread(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    struct probe p;
    probe_init(&p, d, NULL);
    lane_wake(&p.lane);
    assert_true(count_wait(&p.ended, 1));
    pass_through(d);
    assert_true(lane_stop(&p.lane, INT64_MAX));
    assert_int_equal(p.ended.value, 1);
    assert_true(p.current_inside);
    assert_true(p.here_inside);
    assert_true(p.blocked_inside);
    assert_string_equal(p.thread_name, "coney-test");
    assert_false(lane_is_current(&p.lane));
    assert_null(lane_here());
    dispatcher_stop(d);
}

static void lanes_take_turns(void **state)
{
    (void)state;
    char journal[32] = "";
    struct dispatcher *d = start();
    struct probe gate, lanes[3];
    probe_init(&gate, d, NULL);
    gate.held = true;
    lane_wake(&gate.lane);
    assert_true(count_wait(&gate.begun, 1));
    const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        probe_init(&lanes[i], d, NULL);
        lanes[i].name = names[i];
        lanes[i].journal = journal;
        lanes[i].portions = 3 - (unsigned)i;
        lane_wake(&lanes[i].lane);
        lane_wake(&lanes[i].lane); /* it is queued already */
    }
    count_add(&gate.passes, 1);
    assert_true(count_wait(&lanes[0].ended, 4));
    pass_through(d);
    assert_string_equal(journal, "abcabcaba");
    dispatcher_stop(d);
}

static void a_wake_while_it_runs_makes_it_run_again(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    struct probe p;
    probe_init(&p, d, NULL);
    p.wake_inside = true;
    lane_wake(&p.lane);
    assert_true(count_wait(&p.ended, 2));
    p.held = true;
    lane_wake(&p.lane);
    assert_true(count_wait(&p.begun, 3));
    lane_wake(&p.lane);
    lane_wake(&p.lane);
    count_add(&p.passes, 10);
    assert_true(count_wait(&p.ended, 4));
    pass_through(d);
    assert_int_equal(count_now(&p.ended), 4);
    dispatcher_stop(d);
}

static void a_stopped_lane_remembers_its_wake_until_it_is_resumed(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    struct probe p;
    probe_init(&p, d, NULL);
    assert_true(lane_stop(&p.lane, INT64_MAX));
    lane_wake(&p.lane);
    lane_wake(&p.lane);
    pass_through(d);
    assert_int_equal(count_now(&p.begun), 0);
    lane_resume(&p.lane);
    assert_true(count_wait(&p.ended, 1));
    pass_through(d);
    lane_resume(&p.lane);
    pass_through(d);
    assert_int_equal(count_now(&p.ended), 1);
    dispatcher_stop(d);
}

static void a_lane_that_is_stopped_in_the_queue_is_not_run_until_it_is_resumed(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    struct probe gate, p;
    probe_init(&gate, d, NULL);
    probe_init(&p, d, NULL);
    gate.held = true;
    lane_wake(&gate.lane);
    assert_true(count_wait(&gate.begun, 1));
    lane_wake(&p.lane);
    assert_true(lane_stop(&p.lane, 0));
    count_add(&gate.passes, 1);
    pass_through(d);
    assert_int_equal(count_now(&p.begun), 0);
    lane_resume(&p.lane);
    assert_true(count_wait(&p.ended, 1));
    dispatcher_stop(d);
}

static void stop_gives_up_at_its_deadline_and_the_lane_is_stopped_all_the_same(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    struct probe p;
    probe_init(&p, d, NULL);
    p.held = true;
    p.portions = 5;
    lane_wake(&p.lane);
    assert_true(count_wait(&p.begun, 1));
    int64_t before = time_now();
    assert_false(lane_stop(&p.lane, before + 20 * CONEY_MILLISECOND));
    assert_true(time_now() - before >= 20 * CONEY_MILLISECOND);
    assert_true(lane_is_stopped(&p.lane));
    count_add(&p.passes, 10);
    assert_true(lane_stop(&p.lane, INT64_MAX));
    assert_int_equal(p.ended.value, 1);
    assert_true(p.stopped_inside);
    lane_resume(&p.lane); /* it had more */
    assert_true(count_wait(&p.ended, 6));
    dispatcher_stop(d);
}

struct stopper {
    struct lane *lane;
    struct count done;
    bool result;
};

static void *stop_lane(void *arg)
{
    struct stopper *s = arg;
    s->result = lane_stop(s->lane, INT64_MAX);
    count_add(&s->done, 1);
    return NULL;
}

static void stop_from_another_thread_waits_for_the_run(void **state)
{
    (void)state;
    pthread_t thread;
    struct dispatcher *d = start();
    struct probe p;
    probe_init(&p, d, NULL);
    p.held = true;
    lane_wake(&p.lane);
    assert_true(count_wait(&p.begun, 1));
    struct stopper s = {.lane = &p.lane};
    assert_int_equal(pthread_create(&thread, NULL, stop_lane, &s), 0);
    while (!lane_is_stopped(&p.lane))
        sched_yield();
    assert_int_equal(count_now(&s.done), 0);
    count_add(&p.passes, 1);
    pthread_join(thread, NULL);
    assert_true(s.result);
    assert_int_equal(p.ended.value, 1);
    dispatcher_stop(d);
}

static void stop_from_inside_does_not_wait_and_the_run_sees_it(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    struct probe p;
    probe_init(&p, d, NULL);
    p.stop_inside = true;
    p.portions = 3;
    lane_wake(&p.lane);
    assert_true(count_wait(&p.ended, 1));
    assert_true(lane_stop(&p.lane, INT64_MAX));
    assert_true(p.stop_result);
    assert_true(p.stopped_inside);
    assert_int_equal(p.ended.value, 1);
    dispatcher_stop(d);
}

struct end_task {
    struct task task;
    struct lane *lane;
    unsigned runs;
    bool stopped_at_once;
};

static void note_end(struct task *task)
{
    struct end_task *end = container_of(task, struct end_task, task);
    end->runs++;
    end->stopped_at_once = lane_stop(end->lane, 0);
}

static void when_a_run_has_ended_on_a_stopped_lane_the_loop_is_told_once(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    coney_loop *loop = coney_loop_new();
    assert_non_null(loop);
    struct probe p;
    probe_init(&p, d, loop);
    struct end_task end = {.task = {.run = note_end}, .lane = &p.lane};
    p.lane.ended = &end.task;
    lane_wake(&p.lane);
    assert_true(count_wait(&p.ended, 1));
    pass_through(d);
    coney_loop_step(loop);
    assert_int_equal(end.runs, 0); /* it was not stopped */
    p.held = true;
    lane_wake(&p.lane);
    assert_true(count_wait(&p.begun, 2));
    assert_false(lane_stop(&p.lane, 0));
    count_add(&p.passes, 2);
    int64_t deadline = time_now() + DEADLINE;
    while (end.runs == 0 && time_now() < deadline)
        loop_wait_and_step(loop, deadline);
    assert_int_equal(end.runs, 1);
    assert_true(end.stopped_at_once);
    coney_loop_step(loop);
    assert_int_equal(end.runs, 1);
    coney_loop_free(&loop);
    dispatcher_stop(d);
}

static void a_dispatcher_stops_although_its_lanes_have_more_to_do(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    struct probe a, b;
    probe_init(&a, d, NULL);
    probe_init(&b, d, NULL);
    a.portions = b.portions = UINT32_MAX;
    lane_wake(&a.lane);
    lane_wake(&b.lane);
    assert_true(count_wait(&b.ended, 10));
    dispatcher_stop(d);
    assert_true(a.portions > 0 && b.portions > 0);
    dispatcher_stop(NULL);
}

static void a_forked_child_frees_the_dispatcher_and_does_not_wait(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    pass_through(d);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20);
        dispatcher_stop(d);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    dispatcher_stop(d);
}

/* On a loop ---------------------------------------------------------------------------------------------------------- */

struct loop_probe {
    struct task task;
    struct probe *probe;
    uint64_t ended_when_it_ran;
};

static void wake_from_task(struct task *task)
{
    struct loop_probe *lp = container_of(task, struct loop_probe, task);
    lane_wake(&lp->probe->lane);
    lp->ended_when_it_ran = count_now(&lp->probe->ended);
}

static void a_lane_without_a_dispatcher_runs_inside_the_step_in_which_it_was_woken(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    assert_non_null(loop);
    struct probe p;
    probe_init(&p, NULL, loop);
    struct loop_probe lp = {.task = {.run = wake_from_task}, .probe = &p};
    loop_post(loop, &lp.task);
    coney_loop_step(loop);
    assert_int_equal(lp.ended_when_it_ran, 0);
    assert_int_equal(p.ended.value, 1);
    assert_true(p.current_inside);
    assert_true(p.here_inside);
    coney_loop_step(loop);
    assert_int_equal(p.ended.value, 1);
    coney_loop_free(&loop);
}

static void a_lane_that_steps_the_loop_of_another_is_itself_again_afterwards(void **state)
{
    (void)state;
    struct dispatcher *d = start();
    coney_loop *loop = coney_loop_new();
    struct probe inner, outer;
    probe_init(&inner, NULL, loop);
    probe_init(&outer, d, NULL);
    lane_wake(&inner.lane);
    outer.steps = loop;
    lane_wake(&outer.lane);
    assert_true(count_wait(&outer.ended, 1));
    pass_through(d);
    assert_true(inner.here_inside);
    assert_true(outer.here_inside);
    coney_loop_free(&loop);
    dispatcher_stop(d);
}

static void a_lane_on_a_loop_with_more_runs_in_the_next_round(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe p;
    probe_init(&p, NULL, loop);
    p.portions = 3;
    lane_wake(&p.lane);
    for (int i = 0; i < 50 && p.ended.value < 4; i++)
        coney_loop_step(loop);
    assert_int_equal(p.ended.value, 4);
    coney_loop_step(loop);
    assert_int_equal(p.ended.value, 4);
    coney_loop_free(&loop);
}

static void a_stopped_lane_on_a_loop_is_not_run_until_it_is_resumed(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe p;
    probe_init(&p, NULL, loop);
    lane_wake(&p.lane);
    assert_true(lane_stop(&p.lane, 0));
    coney_loop_step(loop);
    assert_int_equal(p.ended.value, 0);
    lane_resume(&p.lane);
    coney_loop_step(loop);
    assert_int_equal(p.ended.value, 1);
    lane_wake(&p.lane);
    lane_stop(&p.lane, 0);
    lane_resume(&p.lane);
    coney_loop_step(loop);
    coney_loop_step(loop);
    assert_int_equal(p.ended.value, 2);
    coney_loop_free(&loop);
}

static void a_lane_on_a_loop_that_stops_itself_runs_no_more(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe p;
    probe_init(&p, NULL, loop);
    p.stop_inside = true;
    p.portions = 3;
    lane_wake(&p.lane);
    for (int i = 0; i < 5; i++)
        coney_loop_step(loop);
    assert_true(p.stop_result);
    assert_int_equal(p.ended.value, 1);
    coney_loop_free(&loop);
}

/* Everything at once ------------------------------------------------------------------------------------------------- */

/* A lane with work to count: no unit of it may be lost, and no two threads may be inside. */
struct worker {
    struct lane lane;
    atomic_ullong given;
    atomic_ullong left;
    atomic_ullong done;
    atomic_int inside;
    atomic_int *failures;
};

static bool run_worker(struct lane *lane)
{
    struct worker *w = container_of(lane, struct worker, lane);
    if (atomic_fetch_add(&w->inside, 1) != 0)
        atomic_fetch_add(w->failures, 1);
    unsigned long long left = atomic_load(&w->left);
    unsigned long long portion = left > 3 ? 3 : left;
    atomic_fetch_sub(&w->left, portion);
    atomic_fetch_add(&w->done, portion);
    atomic_fetch_sub(&w->inside, 1);
    return left > portion;
}

#define WORKERS 4
#define FIDDLERS 8

struct crowd {
    struct worker workers[WORKERS];
    atomic_int failures;
    unsigned rounds;
    atomic_ullong seed;
};

static uint64_t draw(uint64_t *seed, uint64_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % below;
}

static void *fiddle(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t seed = atomic_fetch_add(&crowd->seed, 12345);
    for (unsigned i = 0; i < crowd->rounds; i++) {
        struct worker *w = &crowd->workers[draw(&seed, WORKERS)];
        switch (draw(&seed, 8)) {
        case 0:
            lane_stop(&w->lane, time_now() + (int64_t)draw(&seed, 3) * CONEY_MILLISECOND);
            break;
        case 1:
        case 2:
            lane_resume(&w->lane);
            break;
        default:
            atomic_fetch_add(&w->given, 2);
            atomic_fetch_add(&w->left, 2);
            lane_wake(&w->lane);
        }
    }
    return NULL;
}

static void crowd_perform(struct crowd *crowd, struct dispatcher *d[2], coney_loop *loop, unsigned rounds)
{
    pthread_t threads[FIDDLERS];
    *crowd = (struct crowd){.rounds = rounds};
    for (size_t i = 0; i < WORKERS; i++) {
        crowd->workers[i].failures = &crowd->failures;
        lane_init(&crowd->workers[i].lane, d[i % 2], loop, run_worker);
    }
    for (size_t i = 0; i < FIDDLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fiddle, crowd), 0);
    for (size_t i = 0; i < FIDDLERS; i++)
        pthread_join(threads[i], NULL);
    int64_t deadline = time_now() + DEADLINE;
    for (size_t i = 0; i < WORKERS; i++) {
        struct worker *w = &crowd->workers[i];
        lane_resume(&w->lane); /* no wake: all have been made */
        while (atomic_load(&w->done) < atomic_load(&w->given) && time_now() < deadline)
            sched_yield();
        assert_int_equal(atomic_load(&w->done), atomic_load(&w->given));
        assert_true(lane_stop(&w->lane, deadline));
    }
    assert_int_equal(atomic_load(&crowd->failures), 0);
}

static void SB_104_starting_one_lane_while_stopping_another_never_locks_up(void **state)
{
    (void)state;
    struct crowd crowd;
    struct dispatcher *d[2] = {start(), start()};
    crowd_perform(&crowd, d, NULL, 5000);
    dispatcher_stop(d[0]);
    dispatcher_stop(d[1]);
}

static void lanes_on_a_loop_are_woken_stopped_and_resumed_from_any_thread(void **state)
{
    (void)state;
    struct crowd crowd;
    coney_loop *loop = coney_loop_new();
    assert_non_null(loop);
    assert_int_equal(loop_thread_start(loop, "coney-loop"), CONEY_OK);
    crowd_perform(&crowd, (struct dispatcher *[2]){NULL, NULL}, loop, 5000);
    loop_thread_stop(loop);
    coney_loop_free(&loop);
}

/* A consumer as its connection sees it: chunks come as long as it is there. */
struct place {
    struct lock lock;
    struct worker *worker;
    atomic_bool over;
};

static void *stream_chunks(void *arg)
{
    struct place *place = arg;
    while (!atomic_load(&place->over)) {
        lock_acquire(&place->lock);
        if (place->worker != NULL) {
            atomic_fetch_add(&place->worker->left, 1);
            lane_wake(&place->worker->lane);
        }
        lock_release(&place->lock);
    }
    return NULL;
}

static void SB_103_a_lane_is_freed_at_once_after_stop_under_a_stream_of_wakes(void **state)
{
    (void)state;
    pthread_t threads[2];
    atomic_int failures = 0;
    struct dispatcher *d = start();
    struct place place = {0};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stream_chunks, &place), 0);
    for (int i = 0; i < 10000; i++) {
        struct worker *w = calloc(1, sizeof *w);
        assert_non_null(w);
        w->failures = &failures;
        lane_init(&w->lane, d, NULL, run_worker);
        lock_acquire(&place.lock);
        place.worker = w;
        lock_release(&place.lock);
        lane_wake(&w->lane);
        assert_true(lane_stop(&w->lane, INT64_MAX));
        lock_acquire(&place.lock);
        place.worker = NULL;
        lock_release(&place.lock);
        assert_true(lane_stop(&w->lane, INT64_MAX));
        memset(w, 0xff, sizeof *w);
        free(w);
    }
    atomic_store(&place.over, true);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&failures), 0);
    dispatcher_stop(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_woken_lane_runs_once_on_the_dispatchers_thread),
        cmocka_unit_test(lanes_take_turns),
        cmocka_unit_test(a_wake_while_it_runs_makes_it_run_again),
        cmocka_unit_test(a_stopped_lane_remembers_its_wake_until_it_is_resumed),
        cmocka_unit_test(a_lane_that_is_stopped_in_the_queue_is_not_run_until_it_is_resumed),
        cmocka_unit_test(stop_gives_up_at_its_deadline_and_the_lane_is_stopped_all_the_same),
        cmocka_unit_test(stop_from_another_thread_waits_for_the_run),
        cmocka_unit_test(stop_from_inside_does_not_wait_and_the_run_sees_it),
        cmocka_unit_test(when_a_run_has_ended_on_a_stopped_lane_the_loop_is_told_once),
        cmocka_unit_test(a_dispatcher_stops_although_its_lanes_have_more_to_do),
        cmocka_unit_test(a_forked_child_frees_the_dispatcher_and_does_not_wait),
        cmocka_unit_test(a_lane_without_a_dispatcher_runs_inside_the_step_in_which_it_was_woken),
        cmocka_unit_test(a_lane_that_steps_the_loop_of_another_is_itself_again_afterwards),
        cmocka_unit_test(a_lane_on_a_loop_with_more_runs_in_the_next_round),
        cmocka_unit_test(a_stopped_lane_on_a_loop_is_not_run_until_it_is_resumed),
        cmocka_unit_test(a_lane_on_a_loop_that_stops_itself_runs_no_more),
        cmocka_unit_test(SB_104_starting_one_lane_while_stopping_another_never_locks_up),
        cmocka_unit_test(lanes_on_a_loop_are_woken_stopped_and_resumed_from_any_thread),
        cmocka_unit_test(SB_103_a_lane_is_freed_at_once_after_stop_under_a_stream_of_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
