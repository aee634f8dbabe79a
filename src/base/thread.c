/* thread.c: starts the library's threads. A thread names itself: by the time that its maker could, it may have ended. */
#define _GNU_SOURCE
#include "base/thread.h"

#include "base/text.h"

#include <signal.h>
#include <stdlib.h>

struct start {
    void *(*run)(void *arg);
    void *arg;
    char name[16];
};

static void *begin(void *arg)
{
    struct start start = *(struct start *)arg;
    free(arg);
    pthread_setname_np(pthread_self(), start.name);
    return start.run(start.arg);
}

coney_status thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
    struct start *start = malloc(sizeof *start);
    if (start == NULL)
        return CONEY_ELIMIT;
    *start = (struct start){.run = run, .arg = arg};
    text_print(start->name, sizeof start->name, "%s", name);

    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, begin, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return CONEY_OK;
    free(start);
    return CONEY_ELIMIT;
}
