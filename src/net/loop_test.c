/* loop_test.c: rounds, tasks, timers, and a loop inside an edge-triggered one. */
#define _GNU_SOURCE
#include "net/loop.h"

#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE (10 * CONEY_SECOND)

/* A task that counts, and may post or stop something. */
struct probe {
    struct task task;
    struct timer timer;
    coney_loop *loop;
    int runs;
    int again; /* posts itself so many times more */
    char mark;
    char *trail; /* marks in the order of the runs */
};

static void probe_note(struct probe *probe)
{
    probe->runs++;
    if (probe->trail != NULL)
        strncat(probe->trail, &probe->mark, 1);
}

static void probe_run(struct task *task)
{
    struct probe *probe = container_of(task, struct probe, task);
    probe_note(probe);
    if (probe->again > 0) {
        probe->again--;
        loop_post(probe->loop, task);
    }
}

static void probe_fire(struct timer *timer)
{
    probe_note(container_of(timer, struct probe, timer));
}

static struct probe probe_of(coney_loop *loop, char mark, char *trail)
{
    return (struct probe){
        .task = {.run = probe_run}, .timer = {.fire = probe_fire}, .loop = loop, .mark = mark, .trail = trail};
}

static bool is_readable(const coney_loop *loop)
{
    return poll(&(struct pollfd){.fd = coney_loop_fd(loop), .events = POLLIN}, 1, 0) == 1;
}

static void step_until(coney_loop *loop, const int *count, int wanted)
{
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (*count < wanted && time_now() < deadline)
        loop_wait_and_step(loop, deadline);
    assert_int_equal(*count, wanted);
}

/* Never read, so its count is the number of writes to it. */
static unsigned long eventfd_writes(void)
{
    for (int fd = 0; fd < 64; fd++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
        FILE *file = fopen(path, "r");
        char line[256];
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            unsigned long count;
            if (sscanf(line, "eventfd-count: %lx", &count) == 1) {
                fclose(file);
                return count;
            }
        }
        if (file != NULL)
            fclose(file);
    }
    fail_msg("there is no eventfd in this process");
    return 0;
}

static void timers_fire_in_the_order_of_their_deadlines(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    char trail[16] = "";
    struct probe probes[6];
    int64_t now = time_now();
    static const int64_t milliseconds[] = {5, 1, 4, 2, 6, 3};
    for (int i = 0; i < 6; i++) {
        probes[i] = probe_of(loop, (char)('a' + i), trail);
        assert_true(loop_timer_set(loop, &probes[i].timer, now + milliseconds[i] * CONEY_MILLISECOND));
    }
    assert_true(loop_timer_set(loop, &probes[0].timer, now + CONEY_MILLISECOND / 2));
    loop_timer_unset(loop, &probes[2].timer);
    assert_true(loop_timer_set(loop, &probes[5].timer, INT64_MAX));
    step_until(loop, &probes[4].runs, 1);
    assert_string_equal(trail, "abde");
    assert_true(time_now() >= now + 6 * CONEY_MILLISECOND);
    coney_loop_free(&loop);
    assert_null(loop);
}

static void a_timer_that_moved_to_later_does_not_fire_early(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe probe = probe_of(loop, 'a', NULL);
    int64_t now = time_now();
    loop_timer_set(loop, &probe.timer, now + CONEY_MILLISECOND);
    loop_timer_set(loop, &probe.timer, now + 20 * CONEY_MILLISECOND);
    step_until(loop, &probe.runs, 1);
    assert_true(time_now() >= now + 20 * CONEY_MILLISECOND);
    coney_loop_free(&loop);
}

static void fire_and_set_again(struct timer *timer)
{
    struct probe *probe = container_of(timer, struct probe, timer);
    probe->runs++;
    loop_timer_set(probe->loop, timer, 1);
}

static void a_timer_that_is_always_due_fires_once_a_step(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe probe = probe_of(loop, 'a', NULL);
    probe.timer.fire = fire_and_set_again;
    loop_timer_set(loop, &probe.timer, 1);
    for (int i = 1; i <= 10; i++) {
        loop_wait_and_step(loop, time_now() + PATIENCE);
        assert_int_equal(probe.runs, i);
    }
    coney_loop_free(&loop);
}

static void tasks_run_in_the_order_of_their_posts_and_once(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    char trail[16] = "";
    struct probe a = probe_of(loop, 'a', trail);
    struct probe b = probe_of(loop, 'b', trail);
    struct probe c = probe_of(loop, 'c', trail);
    loop_post(loop, &b.task);
    loop_post(loop, &a.task);
    loop_post(loop, &b.task);
    loop_post(loop, &c.task);
    assert_true(is_readable(loop));
    assert_false(coney_loop_step(loop));
    assert_string_equal(trail, "bac");
    assert_false(is_readable(loop));
    coney_loop_free(&loop);
}

static void any_number_of_posts_between_two_steps_is_one_write(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe probes[100];
    for (int i = 0; i < 100; i++) {
        probes[i] = probe_of(loop, 'a', NULL);
        loop_post(loop, &probes[i].task);
    }
    assert_int_equal(eventfd_writes(), 1);
    coney_loop_step(loop);
    assert_int_equal(probes[99].runs, 1);
    assert_int_equal(eventfd_writes(), 1);
    coney_loop_free(&loop);
}

static void a_task_posted_by_a_task_runs_in_the_next_step_which_is_announced(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe probe = probe_of(loop, 'a', NULL);
    probe.again = 2;
    loop_post(loop, &probe.task);
    assert_true(coney_loop_step(loop));
    assert_int_equal(probe.runs, 1);
    assert_true(is_readable(loop));
    assert_true(coney_loop_step(loop));
    assert_false(coney_loop_step(loop));
    assert_int_equal(probe.runs, 3);
    assert_false(is_readable(loop));
    coney_loop_free(&loop);
}

static void however_many_tasks_are_posted_timers_have_their_turn_between_them(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    coney_loop *loop = coney_loop_new();
    struct probe *probes = calloc(COUNT, sizeof *probes);
    struct probe due = probe_of(loop, 't', NULL);
    assert_non_null(probes);
    for (size_t i = 0; i < COUNT; i++) {
        probes[i] = probe_of(loop, 'a', NULL);
        loop_post(loop, &probes[i].task);
    }
    loop_timer_set(loop, &due.timer, 1);
    for (int steps = 0; due.runs == 0 && steps < 3; steps++)
        assert_true(coney_loop_step(loop));
    assert_int_equal(due.runs, 1);
    assert_int_equal(probes[0].runs, 1);
    assert_int_equal(probes[COUNT - 1].runs, 0);
    struct probe last = probe_of(loop, 'z', NULL);
    loop_post(loop, &last.task); /* behind those that are left */
    assert_true(is_readable(loop));
    step_until(loop, &last.runs, 1);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(probes[i].runs, 1);
    assert_false(coney_loop_step(loop));
    coney_loop_free(&loop);
    free(probes);
}

static void post_and_defer(struct task *task)
{
    struct probe *probe = container_of(task, struct probe, task);
    probe_note(probe);
    loop_defer(probe->loop, &(probe + 1)->task);
    loop_defer(probe->loop, &(probe + 1)->task);
}

static void a_deferred_task_runs_once_at_the_end_of_the_same_round(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    char trail[16] = "";
    struct probe probes[3] = {probe_of(loop, 'a', trail), probe_of(loop, 'd', trail), probe_of(loop, 'b', trail)};
    probes[0].task.run = post_and_defer;
    loop_post(loop, &probes[0].task);
    loop_post(loop, &probes[2].task);
    assert_false(coney_loop_step(loop));
    assert_string_equal(trail, "abd");
    loop_defer(loop, &probes[1].task);
    assert_true(is_readable(loop));
    coney_loop_step(loop);
    assert_string_equal(trail, "abdd");
    coney_loop_free(&loop);
}

static void tasks_that_wait_run_when_the_loop_is_freed(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe posted = probe_of(loop, 'a', NULL);
    struct probe deferred = probe_of(loop, 'b', NULL);
    posted.again = 1;
    loop_post(loop, &posted.task);
    loop_defer(loop, &deferred.task);
    coney_loop_free(&loop);
    assert_int_equal(posted.runs, 2);
    assert_int_equal(deferred.runs, 1);
}

static void tasks_that_a_step_left_run_when_the_loop_is_freed(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    coney_loop *loop = coney_loop_new();
    struct probe *probes = calloc(COUNT, sizeof *probes);
    assert_non_null(probes);
    for (size_t i = 0; i < COUNT; i++) {
        probes[i] = probe_of(loop, 'a', NULL);
        loop_post(loop, &probes[i].task);
    }
    assert_true(coney_loop_step(loop));
    assert_int_equal(probes[COUNT - 1].runs, 0);
    coney_loop_free(&loop);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(probes[i].runs, 1);
    free(probes);
}

static void step_inside(struct task *task)
{
    struct probe *probe = container_of(task, struct probe, task);
    assert_true(loop_is_current(probe->loop));
    assert_false(coney_loop_step(probe->loop));
    probe->runs++;
}

static void a_step_from_inside_a_step_does_nothing(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe probe = probe_of(loop, 'a', NULL);
    struct probe second = probe_of(loop, 'b', NULL);
    probe.task.run = step_inside;
    loop_post(loop, &probe.task);
    loop_post(loop, &second.task);
    assert_false(loop_is_current(loop));
    assert_true(loop_is_stepped_here(loop));
    coney_loop_step(loop);
    assert_false(loop_is_current(loop));
    assert_int_equal(probe.runs + second.runs, 2);
    coney_loop_free(&loop);
}

static void free_inside(struct task *task)
{
    struct probe *probe = container_of(task, struct probe, task);
    coney_loop *loop = probe->loop;
    coney_loop_free(&loop);
}

static void a_loop_freed_inside_its_step_ends_with_the_step(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe probe = probe_of(loop, 'a', NULL);
    struct probe second = probe_of(loop, 'b', NULL);
    probe.task.run = free_inside;
    loop_post(loop, &probe.task);
    loop_post(loop, &second.task);
    assert_false(coney_loop_step(loop));
    assert_int_equal(second.runs, 1);
}

static void waiting_for_a_loop_ends_at_the_deadline(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    int64_t deadline = time_now() + 5 * CONEY_MILLISECOND;
    loop_wait_and_step(loop, deadline);
    assert_true(time_now() >= deadline);
    loop_wait_and_step(loop, 0);
    struct probe probe = probe_of(loop, 'a', NULL);
    loop_timer_set(loop, &probe.timer, time_now() + CONEY_MILLISECOND);
    while (probe.runs == 0)
        loop_wait_and_step(loop, INT64_MAX);
    coney_loop_free(&loop);
}

/* Watches ---------------------------------------------------------------------------------------------------------- */

struct pipe_end {
    struct watch watch;
    coney_loop *loop;
    struct pipe_end *victim; /* unwatched when this one is called */
    int peer;
    int reads;
    int puts_off; /* times that it leaves the reading to the next round */
};

static void pipe_ready(struct watch *watch, uint32_t events)
{
    struct pipe_end *end = container_of(watch, struct pipe_end, watch);
    if (end->victim != NULL)
        loop_unwatch(end->loop, &end->victim->watch);
    if ((events & EPOLLIN) == 0)
        return;
    if (end->puts_off > 0) {
        end->puts_off--;
        loop_again(end->loop, watch, EPOLLIN);
        return;
    }
    char byte;
    while (read(watch->fd, &byte, 1) == 1)
        end->reads++;
}

static void pipe_open(struct pipe_end *end, coney_loop *loop)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *end = (struct pipe_end){.watch = {.ready = pipe_ready, .fd = fds[0]}, .loop = loop, .peer = fds[1]};
    assert_int_equal(loop_watch(loop, &end->watch), CONEY_OK);
}

static void pipe_close(struct pipe_end *end)
{
    loop_unwatch(end->loop, &end->watch);
    close(end->watch.fd);
    close(end->peer);
}

static void pipe_write(const struct pipe_end *end)
{
    assert_int_equal(write(end->peer, "x", 1), 1);
}

static void a_watch_that_was_taken_away_in_the_same_batch_is_not_called(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct pipe_end ends[2];
    pipe_open(&ends[0], loop);
    pipe_open(&ends[1], loop);
    coney_loop_step(loop);
    ends[0].victim = &ends[1];
    ends[1].victim = &ends[0];
    pipe_write(&ends[0]);
    pipe_write(&ends[1]);
    coney_loop_step(loop);
    assert_int_equal(ends[0].reads + ends[1].reads, 1);
    pipe_close(&ends[0]);
    pipe_close(&ends[1]);
    coney_loop_free(&loop);
}

static void a_watch_that_was_put_off_and_taken_away_is_not_called(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct pipe_end end;
    pipe_open(&end, loop);
    pipe_write(&end);
    end.puts_off = 1;
    assert_true(coney_loop_step(loop));
    pipe_close(&end);
    assert_false(coney_loop_step(loop));
    assert_int_equal(end.reads, 0);
    coney_loop_free(&loop);
}

/* An outer loop that waits edge-triggered and steps once an edge, as the strictest of event libraries do. */
struct outer {
    int epoll_fd;
    coney_loop *loop;
};

static struct outer outer_of(coney_loop *loop)
{
    struct outer outer = {.epoll_fd = epoll_create1(EPOLL_CLOEXEC), .loop = loop};
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    assert_int_equal(epoll_ctl(outer.epoll_fd, EPOLL_CTL_ADD, coney_loop_fd(loop), &event), 0);
    return outer;
}

static void outer_until(const struct outer *outer, const int *count, int wanted)
{
    while (*count < wanted) {
        struct epoll_event event;
        if (epoll_wait(outer->epoll_fd, &event, 1, (int)(PATIENCE / CONEY_MILLISECOND)) != 1)
            fail_msg("no edge came although only %d of %d were done", *count, wanted);
        coney_loop_step(outer->loop);
    }
}

static int reads_of(const struct pipe_end *ends, int count)
{
    int reads = 0;
    for (int i = 0; i < count; i++)
        reads += ends[i].reads;
    return reads;
}

static void an_edge_triggered_outer_loop_misses_none_of_many_descriptors(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    coney_loop *loop = coney_loop_new();
    struct outer outer = outer_of(loop);
    static struct pipe_end ends[COUNT];
    for (int i = 0; i < COUNT; i++)
        pipe_open(&ends[i], loop);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            ends[i].puts_off = round == 2 ? 0 : i % 3;
            pipe_write(&ends[i]);
        }
        for (int reads = 0; reads < COUNT * round; reads = reads_of(ends, COUNT)) {
            struct epoll_event event;
            if (epoll_wait(outer.epoll_fd, &event, 1, (int)(PATIENCE / CONEY_MILLISECOND)) != 1)
                fail_msg("no edge came although only %d of %d were read", reads, COUNT * round);
            coney_loop_step(loop);
        }
    }
    for (int i = 0; i < COUNT; i++)
        pipe_close(&ends[i]);
    close(outer.epoll_fd);
    coney_loop_free(&loop);
}

static void an_edge_triggered_outer_loop_sees_every_kind_of_work(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct outer outer = outer_of(loop);
    struct probe task = probe_of(loop, 'a', NULL);
    struct probe deferred = probe_of(loop, 'b', NULL);
    struct probe timer = probe_of(loop, 'c', NULL);
    struct pipe_end end;
    pipe_open(&end, loop);
    for (int i = 1; i <= 50; i++) {
        task.again = 3;
        loop_post(loop, &task.task);
        outer_until(&outer, &task.runs, 4 * i);
        loop_defer(loop, &deferred.task);
        outer_until(&outer, &deferred.runs, i);
        loop_timer_set(loop, &timer.timer, time_now() + CONEY_MILLISECOND / 10);
        outer_until(&outer, &timer.runs, i);
        end.puts_off = 2;
        pipe_write(&end);
        outer_until(&outer, &end.reads, i);
        loop_again(loop, &end.watch, EPOLLIN);
        pipe_write(&end);
        outer_until(&outer, &end.reads, i + 1);
        end.reads--;
    }
    pipe_close(&end);
    close(outer.epoll_fd);
    coney_loop_free(&loop);
}

/* The process ------------------------------------------------------------------------------------------------------ */

static void a_forked_child_steps_nothing_and_leaves_the_parents_loop_alone(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    struct probe probe = probe_of(loop, 'a', NULL);
    struct probe timer = probe_of(loop, 'b', NULL);
    struct pipe_end end;
    pipe_open(&end, loop);
    coney_loop_step(loop);
    loop_timer_set(loop, &timer.timer, time_now() + 5 * CONEY_MILLISECOND);
    pid_t child = fork();
    if (child == 0) {
        loop_post(loop, &probe.task);
        bool stepped = coney_loop_step(loop);
        loop_timer_set(loop, &timer.timer, 1);
        loop_unwatch(loop, &end.watch);
        coney_loop_free(&loop);
        _exit(stepped || probe.runs != 0 || loop != NULL);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    pipe_write(&end);
    step_until(loop, &timer.runs, 1);
    assert_int_equal(end.reads, 1);
    assert_int_equal(probe.runs, 0);
    pipe_close(&end);
    coney_loop_free(&loop);
}

static void a_loop_without_descriptors_is_null(void **state)
{
    (void)state;
    int lowest = dup(0);
    close(lowest);
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    for (rlim_t free_descriptors = 0; free_descriptors < 3; free_descriptors++) {
        struct rlimit few = {.rlim_cur = (rlim_t)lowest + free_descriptors, .rlim_max = before.rlim_max};
        setrlimit(RLIMIT_NOFILE, &few);
        coney_loop *loop = coney_loop_new();
        setrlimit(RLIMIT_NOFILE, &before);
        assert_null(loop);
    }
    assert_int_equal(fcntl(lowest, F_GETFD), -1);
}

static void every_descriptor_of_a_loop_is_closed_on_exec(void **state)
{
    (void)state;
    int lowest = dup(0);
    close(lowest);
    coney_loop *loop = coney_loop_new();
    for (int fd = lowest; fd < lowest + 3; fd++)
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    coney_loop_free(&loop);
    coney_loop_free(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_the_order_of_their_deadlines),
        cmocka_unit_test(a_timer_that_moved_to_later_does_not_fire_early),
        cmocka_unit_test(a_timer_that_is_always_due_fires_once_a_step),
        cmocka_unit_test(tasks_run_in_the_order_of_their_posts_and_once),
        cmocka_unit_test(any_number_of_posts_between_two_steps_is_one_write),
        cmocka_unit_test(a_task_posted_by_a_task_runs_in_the_next_step_which_is_announced),
        cmocka_unit_test(however_many_tasks_are_posted_timers_have_their_turn_between_them),
        cmocka_unit_test(a_deferred_task_runs_once_at_the_end_of_the_same_round),
        cmocka_unit_test(tasks_that_wait_run_when_the_loop_is_freed),
        cmocka_unit_test(tasks_that_a_step_left_run_when_the_loop_is_freed),
        cmocka_unit_test(a_step_from_inside_a_step_does_nothing),
        cmocka_unit_test(a_loop_freed_inside_its_step_ends_with_the_step),
        cmocka_unit_test(waiting_for_a_loop_ends_at_the_deadline),
        cmocka_unit_test(a_watch_that_was_taken_away_in_the_same_batch_is_not_called),
        cmocka_unit_test(a_watch_that_was_put_off_and_taken_away_is_not_called),
        cmocka_unit_test(an_edge_triggered_outer_loop_misses_none_of_many_descriptors),
        cmocka_unit_test(an_edge_triggered_outer_loop_sees_every_kind_of_work),
        cmocka_unit_test(a_forked_child_steps_nothing_and_leaves_the_parents_loop_alone),
        cmocka_unit_test(a_loop_without_descriptors_is_null),
        cmocka_unit_test(every_descriptor_of_a_loop_is_closed_on_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
