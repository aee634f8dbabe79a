/* time.h: the two clocks. Any thread; one vDSO call each. */
#ifndef CONEY_BASE_TIME_H
#define CONEY_BASE_TIME_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock: for deadlines and intervals. */
int64_t time_now(void);

/* Milliseconds since 1970. */
int64_t time_wall(void);

/* `now` + `duration` without overflow; a negative duration (CONEY_OFF) gives INT64_MAX, "never". */
int64_t time_after(int64_t now, int64_t duration);

#endif
