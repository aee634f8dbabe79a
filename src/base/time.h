/* time.h: the clock of deadlines and intervals. Any thread; one vDSO call. */
#ifndef CONEY_BASE_TIME_H
#define CONEY_BASE_TIME_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock. */
int64_t time_now(void);

/* `now` + `duration` without overflow; a negative duration (CONEY_OFF) gives INT64_MAX, "never". */
int64_t time_after(int64_t now, int64_t duration);

#endif
