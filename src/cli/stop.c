/* stop.c: a flag, and an eventfd that becomes readable with it and stays so: every waiter sees it. */
#define _GNU_SOURCE
#include "stop.h"
#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PATIENCE INT64_C(5000000000)
#define LEAST_PATIENCE INT64_C(100000000)

static atomic_bool asked;
static _Atomic int64_t interrupted_at; /* 0 = no signal came */
static int event = -1;

void stop_ask(void)
{
    static const uint64_t one = 1;
    atomic_store_explicit(&asked, true, memory_order_release);
    while (write(event, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void on_signal(int number)
{
    (void)number;
    int kept = errno;
    atomic_store(&interrupted_at, clock_now());
    stop_ask();
    errno = kept;
}

bool stop_watch(void)
{
    event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0)
        return false;
    struct sigaction ending = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &ending, NULL);
    sigaction(SIGTERM, &ending, NULL);
    sigaction(SIGPIPE, &ignored, NULL);
    return true;
}

bool stop_asked(void)
{
    return atomic_load_explicit(&asked, memory_order_acquire);
}

int64_t stop_patience(void)
{
    int64_t since = atomic_load(&interrupted_at);
    if (since == 0)
        return 0;
    int64_t left = since + PATIENCE - clock_now();
    return left > LEAST_PATIENCE ? left : LEAST_PATIENCE;
}

bool stop_wait(int64_t deadline)
{
    struct pollfd watched = {.fd = event, .events = POLLIN};
    while (!stop_asked()) {
        int64_t left = deadline == INT64_MAX ? 0 : deadline - clock_now();
        if (deadline != INT64_MAX && left <= 0)
            return false;
        struct timespec time = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        ppoll(&watched, 1, deadline == INT64_MAX ? NULL : &time, NULL);
    }
    return true;
}

void stop_wait_idle(const _Atomic uint64_t *count, int64_t idle)
{
    uint64_t seen;
    do
        seen = atomic_load(count);
    while (!stop_wait(idle == 0 ? INT64_MAX : clock_now() + idle) && atomic_load(count) != seen);
    stop_ask();
}

bool stop_wait_readable(int fd)
{
    struct pollfd watched[2] = {{.fd = event, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    while (!stop_asked())
        if (poll(watched, 2, -1) > 0 && watched[1].revents != 0)
            return stop_asked();
    return true;
}
