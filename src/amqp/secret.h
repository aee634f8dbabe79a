/* secret.h: a new password or token for the links that are open (connection.update-secret). Everything here is on the loop. */
#ifndef CONEY_AMQP_SECRET_H
#define CONEY_AMQP_SECRET_H

#include "amqp/conn.h"

/* The answer for one link: CONEY_OK; CONEY_EAUTH, the broker refused it and closed the link, or what else became of the link, with a sentence. */
typedef void (*secret_answer_fn)(void *ctx, coney_status status, uint32_t code, const char *text);

/* Gives `secret` to one link that is ready. What comes of it is an event, CONEY_EVENT_SECRET_RENEWED or _REFUSED, and, unless `answer` is NULL, an
 * answer, once, never from inside. False: memory is out, or the secret has no room in a frame; nothing is called. */
bool secret_send(struct amqp_conn *conn, const char *secret, secret_answer_fn answer, void *ctx);

/* From the connection: update-secret-ok; false when nothing was asked. */
bool secret_answered(struct amqp_conn *conn);

/* From the connection: it is over. */
void secrets_fail(struct amqp_conn *conn, coney_status status, const char *text);

/* For credentials.h: new ones have come, or could not be had. */
void secrets_renewed(struct credentials *credentials);
void secrets_failed(struct credentials *credentials, coney_status status);

#endif
