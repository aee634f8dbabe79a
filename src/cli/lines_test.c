#define _GNU_SOURCE
#include "clock.h"
#include "lines.h"
#include "stop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* An input that holds these bytes. */
static struct lines input(const void *bytes, size_t size)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    assert_int_equal(write(fd, bytes, size), size);
    lseek(fd, 0, SEEK_SET);
    return (struct lines){.fd = fd};
}

static void assert_line(struct lines *l, const char *expected)
{
    coney_bytes line;
    assert_int_equal(lines_next(l, &line), LINES_ONE);
    assert_int_equal(line.len, strlen(expected));
    assert_memory_equal(line.data, expected, line.len);
}

static void assert_end(struct lines *l)
{
    coney_bytes line;
    assert_int_equal(lines_next(l, &line), LINES_END);
    assert_int_equal(lines_next(l, &line), LINES_END);
    lines_close(l);
    close(l->fd);
}

static void each_line_comes_without_its_end(void **state)
{
    (void)state;
    struct lines l = input("one\n\nthree\r\n", 12);
    assert_line(&l, "one");
    assert_line(&l, "");
    assert_line(&l, "three\r");
    assert_end(&l);
}

static void a_last_line_without_its_end_counts(void **state)
{
    (void)state;
    struct lines l = input("one\ntwo", 7);
    assert_line(&l, "one");
    assert_line(&l, "two");
    assert_end(&l);
}

static void an_empty_input_has_no_line(void **state)
{
    (void)state;
    struct lines l = input("", 0);
    assert_end(&l);
}

static void a_whole_input_is_one_message_even_when_it_is_empty(void **state)
{
    (void)state;
    struct lines l = input("one\ntwo\n", 8);
    l.whole = true;
    assert_line(&l, "one\ntwo\n");
    assert_end(&l);
    l = input("", 0);
    l.whole = true;
    assert_line(&l, "");
    assert_end(&l);
}

static void lines_of_any_length_come_whole(void **state)
{
    (void)state;
    enum { LARGEST = 300000 };
    char *text = malloc(LARGEST + 1);
    memset(text, 'x', LARGEST);
    int fd = memfd_create("input", MFD_CLOEXEC);
    for (int size = 1; size <= LARGEST; size *= 7) {
        assert_int_equal(write(fd, text, (size_t)size), size);
        assert_int_equal(write(fd, "\n", 1), 1);
    }
    lseek(fd, 0, SEEK_SET);
    struct lines l = {.fd = fd};
    for (int size = 1; size <= LARGEST; size *= 7) {
        text[size] = '\0';
        assert_line(&l, text);
        text[size] = 'x';
    }
    assert_end(&l);
    free(text);
}

static void a_line_without_end_is_refused_and_not_kept_for_ever(void **state)
{
    (void)state;
    struct lines l = {.fd = memfd_create("input", MFD_CLOEXEC)};
    assert_int_equal(ftruncate(l.fd, LINES_LONGEST * 4), 0);
    coney_bytes line;
    assert_int_equal(lines_next(&l, &line), LINES_TOO_LONG);
    lines_close(&l);
    close(l.fd);
}

static void an_input_that_cannot_be_read_says_so(void **state)
{
    (void)state;
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    struct lines l = {.fd = pipe_fds[1]};
    close(pipe_fds[0]);
    coney_bytes line;
    assert_int_equal(lines_next(&l, &line), LINES_FAILED);
    lines_close(&l);
    close(pipe_fds[1]);
}

/* The last test of the program: what is asked here holds for ever. */
static void a_signal_ends_every_wait(void **state)
{
    (void)state;
    assert_false(stop_asked());
    assert_false(stop_wait(clock_now() + CONEY_MILLISECOND));
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    struct lines l = {.fd = pipe_fds[0]};
    assert_int_equal(write(pipe_fds[1], "one\ntw", 6), 6);
    assert_line(&l, "one");
    raise(SIGTERM);
    coney_bytes line;
    assert_int_equal(lines_next(&l, &line), LINES_STOPPED);
    assert_true(stop_asked());
    assert_true(stop_wait(INT64_MAX));
    lines_close(&l);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static int watch(void **state)
{
    (void)state;
    return stop_watch() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_comes_without_its_end),
        cmocka_unit_test(a_last_line_without_its_end_counts),
        cmocka_unit_test(an_empty_input_has_no_line),
        cmocka_unit_test(a_whole_input_is_one_message_even_when_it_is_empty),
        cmocka_unit_test(lines_of_any_length_come_whole),
        cmocka_unit_test(a_line_without_end_is_refused_and_not_kept_for_ever),
        cmocka_unit_test(an_input_that_cannot_be_read_says_so),
        cmocka_unit_test(a_signal_ends_every_wait),
    };
    return cmocka_run_group_tests(tests, watch, NULL);
}
