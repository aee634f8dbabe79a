/* stop.h: the one question of every run: is it to end? A signal, a count that was reached, a fault: whoever knows says so, and
 * every thread that waits here wakes.
 */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* From here on the first SIGINT or SIGTERM asks for the end and the second ends the process; SIGPIPE does nothing. Called once,
 * before any other function here. False: out of descriptors. */
bool stop_watch(void);

/* Asks for the end. Any thread, any callback; for ever. */
void stop_ask(void);

/* Any thread; costs a load. */
bool stop_asked(void);

/* The deadline for each call with which a run ends, in nanoseconds: 0 = the usual one, until a signal came. From then on what is left of five
 * seconds for all of them together, so that a broker that stands still does not keep who pressed Ctrl-C waiting. */
int64_t stop_patience(void);

/* Waits until the clock (clock.h) shows `deadline`, INT64_MAX = for ever, or the end is asked for: then true. */
bool stop_wait(int64_t deadline);

/* Waits until the end is asked for; and asks for it, unless `idle` is 0, when *count has not changed for so many nanoseconds. */
void stop_wait_idle(const _Atomic uint64_t *count, int64_t idle);

/* Waits until `fd` can be read (or is at its end), or the end is asked for: then true. */
bool stop_wait_readable(int fd);

#endif
