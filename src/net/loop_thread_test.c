/* loop_thread_test.c: posts from other threads, and the loop's own thread. */
#define _GNU_SOURCE
#include "net/loop.h"

#include "base/lock.h"
#include "base/time.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE (10 * CONEY_SECOND)

/* A poster that goes on only when its task has run: a lost wake-up stops it for good. */
struct poster {
    struct task task;
    coney_loop *loop;
    struct lock lock;
    struct cond cond;
    int ran;
    int late;
};

enum { POSTS = 3000, POSTERS = 3 };

static void poster_ran(struct task *task)
{
    struct poster *poster = container_of(task, struct poster, task);
    lock_acquire(&poster->lock);
    poster->ran++;
    cond_wake_all(&poster->cond);
    lock_release(&poster->lock);
}

static void *post_and_wait(void *arg)
{
    struct poster *poster = arg;
    for (int i = 1; i <= POSTS; i++) {
        loop_post(poster->loop, &poster->task);
        int64_t deadline = time_after(time_now(), PATIENCE);
        lock_acquire(&poster->lock);
        while (poster->ran < i && poster->late == 0)
            if (!cond_wait(&poster->cond, &poster->lock, deadline) && poster->ran < i)
                poster->late = i;
        lock_release(&poster->lock);
    }
    return NULL;
}

static void posters_start(struct poster posters[POSTERS], pthread_t threads[POSTERS], coney_loop *loop)
{
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){.task = {.run = poster_ran}, .loop = loop};
        assert_int_equal(pthread_create(&threads[i], NULL, post_and_wait, &posters[i]), 0);
    }
}

static void posters_join(struct poster posters[POSTERS], pthread_t threads[POSTERS])
{
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(posters[i].late, 0);
        assert_int_equal(posters[i].ran, POSTS);
    }
}

static void no_wake_up_of_the_loops_own_thread_is_lost(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct poster posters[POSTERS];
    pthread_t threads[POSTERS];
    assert_int_equal(loop_thread_start(loop, "coney-loop-with-a-long-name"), CONEY_OK);
    assert_true(loop_has_thread(loop));
    posters_start(posters, threads, loop);
    posters_join(posters, threads);
    loop_thread_stop(loop);
    assert_false(loop_has_thread(loop));
    coney_loop_free(&loop);
}

static void no_wake_up_is_lost_in_an_edge_triggered_outer_loop(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    int outer = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event edge = {.events = EPOLLIN | EPOLLET};
    assert_int_equal(epoll_ctl(outer, EPOLL_CTL_ADD, coney_loop_fd(loop), &edge), 0);
    struct poster posters[POSTERS];
    pthread_t threads[POSTERS];
    posters_start(posters, threads, loop);
    for (bool done = false; !done;) {
        struct epoll_event event;
        if (epoll_wait(outer, &event, 1, (int)(PATIENCE / CONEY_MILLISECOND)) != 1)
            fail_msg("no edge came for a post");
        coney_loop_step(loop);
        done = true;
        for (int i = 0; i < POSTERS; i++) {
            lock_acquire(&posters[i].lock);
            done = done && (posters[i].ran == POSTS || posters[i].late != 0);
            lock_release(&posters[i].lock);
        }
    }
    posters_join(posters, threads);
    close(outer);
    coney_loop_free(&loop);
}

struct witness {
    struct task task;
    coney_loop *loop;
    struct lock lock;
    struct cond cond;
    bool done;
    char name[16];
    bool signals_blocked;
    bool current;
};

static void look_around(struct task *task)
{
    struct witness *witness = container_of(task, struct witness, task);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    lock_acquire(&witness->lock);
    pthread_getname_np(pthread_self(), witness->name, sizeof witness->name);
    witness->signals_blocked = sigismember(&blocked, SIGINT) == 1 && sigismember(&blocked, SIGPROF) == 1;
    witness->current = loop_is_current(witness->loop) && loop_is_stepped_here(witness->loop);
    witness->done = true;
    cond_wake_all(&witness->cond);
    lock_release(&witness->lock);
}

static void witness_wait(struct witness *witness)
{
    int64_t deadline = time_after(time_now(), PATIENCE);
    lock_acquire(&witness->lock);
    while (!witness->done && cond_wait(&witness->cond, &witness->lock, deadline)) {
    }
    assert_true(witness->done);
    lock_release(&witness->lock);
}

static void the_loops_thread_has_its_name_and_blocks_all_signals(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct witness witness = {.task = {.run = look_around}, .loop = loop};
    loop_thread_start(loop, "coney-loop");
    assert_false(loop_is_stepped_here(loop));
    assert_false(coney_loop_step(loop));
    loop_post(loop, &witness.task);
    witness_wait(&witness);
    assert_string_equal(witness.name, "coney-loop");
    assert_true(witness.signals_blocked);
    assert_true(witness.current);
    coney_loop_free(&loop);
}

static atomic_bool thread_is_gone;

static void mark_gone(void *arg)
{
    (void)arg;
    atomic_store(&thread_is_gone, true);
}

static pthread_key_t at_exit_of_thread;

static void stop_and_free_inside(struct task *task)
{
    struct witness *witness = container_of(task, struct witness, task);
    coney_loop *loop = witness->loop;
    pthread_setspecific(at_exit_of_thread, witness);
    loop_thread_stop(loop);
    coney_loop_free(&loop);
}

static size_t threads_running(void)
{
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void a_loop_can_be_stopped_and_freed_by_its_own_thread(void **state)
{
    (void)state;
    size_t before = threads_running();
    pthread_key_create(&at_exit_of_thread, mark_gone);
    coney_loop *loop = coney_loop_new();
    struct witness last = {.task = {.run = look_around}, .loop = loop};
    struct witness first = {.task = {.run = stop_and_free_inside}, .loop = loop};
    loop_post(loop, &first.task);
    loop_post(loop, &last.task);
    loop_thread_start(loop, "coney-loop");
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (!atomic_load(&thread_is_gone) && time_now() < deadline)
        sched_yield();
    assert_true(atomic_load(&thread_is_gone));
    while (threads_running() > before && time_now() < deadline) /* its last steps, which memcheck takes for a leak */
        sched_yield();
    witness_wait(&last);
    pthread_key_delete(at_exit_of_thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wake_up_of_the_loops_own_thread_is_lost),
        cmocka_unit_test(no_wake_up_is_lost_in_an_edge_triggered_outer_loop),
        cmocka_unit_test(the_loops_thread_has_its_name_and_blocks_all_signals),
        cmocka_unit_test(a_loop_can_be_stopped_and_freed_by_its_own_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
