/* session.h: what every command does around its work: connect, tell what happened, leave nothing behind. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "commands.h"

#include <stdatomic.h>

struct session {
    coney_stream_env *env;
    const struct settings *settings;
    const char *stream; /* after session_stream */
    char own[64];       /* the name of a stream made for this run, or "" */
    atomic_bool lost;   /* something was lost for good: the run cannot succeed */
};

/* "coney: …" and a line end to standard error, whole. Returns `code`. Any thread. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Connects. EXIT_DONE, or another code after saying why; then there is nothing to close. The session must not move while open:
 * the library's events reach it. */
int session_open(struct session *s, const struct settings *settings);

/* Finds the stream to work on: the one that was asked for, or a new one named after `purpose`. EXIT_DONE or another code. */
int session_stream(struct session *s, const char *purpose);

/* Deletes the stream of its own and disconnects. Returns `code`, or EXIT_FAILED instead of EXIT_DONE when something was lost. */
int session_close(struct session *s, int code);

/* A number that tells this run from others; never 0. */
uint32_t session_random(void);

#endif
