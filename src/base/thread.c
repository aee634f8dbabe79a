/* thread.c: starts the library's threads. */
#define _GNU_SOURCE
#include "base/thread.h"

#include "base/text.h"

#include <signal.h>

coney_status thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return CONEY_ELIMIT;
    char cut[16];
    text_print(cut, sizeof cut, "%s", name);
    pthread_setname_np(*thread, cut);
    return CONEY_OK;
}
