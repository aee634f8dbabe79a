/* thread.h: starts the library's threads: named, and with all signals blocked, so that the program's handlers never run on them. */
#ifndef CONEY_BASE_THREAD_H
#define CONEY_BASE_THREAD_H

#include <coney/coney.h>

#include <pthread.h>

/* `name` is cut at 15 bytes. CONEY_OK, or CONEY_ELIMIT and nothing runs. The caller joins or detaches the thread. */
coney_status thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

#endif
