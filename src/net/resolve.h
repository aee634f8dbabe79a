/* resolve.h: names to addresses without stopping the loop.
 *
 * getaddrinfo blocks, so a name is resolved on a thread that lives for that one question; a literal address is answered
 * without one. All results are given, in the order of the system's resolver.
 */
#ifndef CONEY_NET_RESOLVE_H
#define CONEY_NET_RESOLVE_H

#include "net/loop.h"

#include <netdb.h>

struct resolve; /* one question */

/* Asks. `done` runs on the loop, never before this returns: with CONEY_OK and a list that the receiver frees with freeaddrinfo,
 * or with CONEY_ERESOLVE (text: the resolver's words), CONEY_ELIMIT or CONEY_ENOMEM. NULL: could not even be asked (CONEY_ENOMEM). */
struct resolve *resolve_start(coney_loop *loop, const char *host, uint16_t port,
                              void (*done)(void *ctx, coney_status status, struct addrinfo *list, const char *text), void *ctx);

/* On the loop: `done` will not run. The thread ends by itself and frees what is left. */
void resolve_cancel(struct resolve *resolve);

#endif
