/* coney/loop.h: coney inside somebody else's event loop.
 *
 *     coney_loop *loop = coney_loop_new();
 *     coney_stream_env_options options = {.loop = loop};                             // or coney_amqp_options
 *     env = coney_stream_env_open("rabbitmq-stream://localhost", &options, &call);   // call.on_done set: asynchronous
 *     for (;;) {
 *         poll(&(struct pollfd){coney_loop_fd(loop), POLLIN, 0}, 1, -1);
 *         coney_loop_step(loop);
 *     }
 *
 * Most programs never need this: an environment that is given no loop makes a thread of its own for one.
 */
#ifndef CONEY_LOOP_H
#define CONEY_LOOP_H

#include <coney/coney.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coney_loop coney_loop;

/* A loop that its user steps. NULL when descriptors or memory are out (three descriptors are needed).
 * It must outlive every environment on it. */
CONEY_API coney_loop *coney_loop_new(void);

/* Frees *loop and clears it; NULL there is harmless. No environment may be open on it, no other thread may be in a step.
 * In a forked child: frees the memory and the child's descriptors. */
CONEY_API void coney_loop_free(coney_loop **loop);

/* One descriptor that is readable whenever coney_loop_step has something to do: sockets, timers and wake-ups from other
 * threads are inside it. Works level-triggered and edge-triggered: a step that stops at its budget leaves it readable anew.
 * Wait for reading only; never read, write or close it. */
CONEY_API int coney_loop_fd(const coney_loop *loop);

/* Does what is ready, up to a budget, without waiting. Outcomes, events and completions run inside it. One thread at a time,
 * any thread. Returns true when the budget ended before the work did (the descriptor is then readable again).
 * From inside a callback of the same loop it does nothing and returns false. */
CONEY_API bool coney_loop_step(coney_loop *loop);

#ifdef __cplusplus
}
#endif

#endif
