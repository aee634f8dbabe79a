/* session.h: what every command does around its work: connect, tell what happened, leave nothing behind. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "commands.h"

#include <stdatomic.h>

struct protocol;

struct session {
    const struct protocol *protocol; /* ends.h */
    const struct settings *settings;
    coney_stream_env *env; /* one of the two */
    coney_amqp *rabbit;
    const char *place; /* the stream or queue, after session_place */
    char own[256];     /* the name of one made for this run, or "" */
    atomic_bool lost;  /* something was lost for good: the run cannot succeed */
};

/* "coney: …" and a line end to standard error, whole. Returns `code`. Any thread. */
int complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* EXIT_DONE, or the code for a call that failed, after saying why. */
int session_answer(const coney_call *call);

/* Connects. EXIT_DONE, or another code after saying why; then there is nothing to close. The session must not move while open:
 * the library's events reach it. */
int session_open(struct session *s, const struct protocol *protocol, const struct settings *settings);

/* Finds the stream or queue to work on: `asked`, or one that is made for the run because it is missing or, `asked` being NULL, with a
 * name after `purpose`. EXIT_DONE or another code. */
int session_place(struct session *s, const char *asked, const char *purpose);

/* Deletes what it made and disconnects. Returns `code`, or EXIT_FAILED instead of EXIT_DONE when something was lost. */
int session_close(struct session *s, int code);

/* The on_event of the environment; ctx is the session. */
void session_on_event(void *ctx, const coney_event *event);

/* A number that tells this run from others; never 0. */
uint32_t session_random(void);

#endif
