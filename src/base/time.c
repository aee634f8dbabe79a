/* time.c: the clock of deadlines. */
#include "base/time.h"

#include <time.h>

int64_t time_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t time_after(int64_t now, int64_t duration)
{
    int64_t at;
    if (duration < 0 || __builtin_add_overflow(now, duration, &at))
        return INT64_MAX;
    return at;
}
