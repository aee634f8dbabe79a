/* secret.h: a new password or token for the connections that are open, from the user or from the credentials callback.
 *
 * What becomes of it on each connection is an event: CONEY_EVENT_SECRET_RENEWED or CONEY_EVENT_SECRET_REFUSED. A connection that is lost meanwhile
 * logs in with the new one anyway.
 */
#ifndef CONEY_CORE_SECRET_H
#define CONEY_CORE_SECRET_H

#include "core/conn.h"

struct secret_call;

/* A secret on its way to the broker on one connection. */
struct renewal {
    struct conn *conn;
    struct list in_conn;      /* for the kind */
    struct secret_call *call; /* that waits for it; NULL: none */
};

/* On the loop, once for each renewal that conn_kind.renew took: CONEY_OK; CONEY_EAUTH, the broker refuses it, with its code and a sentence; anything
 * else: the connection was lost. Frees the renewal. */
void renewal_end(struct renewal *renewal, coney_status status, uint32_t code, const char *text);

/* The public functions: keeps `secret` for further log-ins and gives it to every open connection. CONEY_OK when none refuses it, CONEY_EAUTH with the
 * words of the first that did; CONEY_EINVAL where there is a credentials callback. `env` may be NULL. */
coney_status env_update_secret(struct env *env, const char *secret, coney_call *call);

/* For struct credentials of an environment: new ones have come, or could not be had. */
void secrets_renewed(struct credentials *credentials);
void secrets_failed(struct credentials *credentials, coney_status status);

#endif
