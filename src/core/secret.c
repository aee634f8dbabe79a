/* secret.c: see secret.h. */
#include "core/secret.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define NO_ROOM "the new secret has no room in a frame, or memory is out"

struct secret_call {
    struct op op;
    struct env *env;
    size_t awaited; /* renewals */
    coney_status status;
    uint32_t code;
    char text[TEXT_CAP]; /* of the first that refused */
    char *secret;
};

static void tell_refused(struct env *env, const char *node, coney_status status, uint32_t code, const char *text)
{
    env_event(env, &(coney_event){.type = CONEY_EVENT_SECRET_REFUSED, .status = status, .code = code, .node = node}, "%s",
              text);
}

/* One connection ------------------------------------------------------------------------------------------------------ */

static bool renew(struct conn *conn, const char *secret, struct secret_call *call)
{
    struct renewal *renewal = malloc(sizeof *renewal);
    if (renewal == NULL)
        return false;
    *renewal = (struct renewal){.conn = conn_ref(conn), .call = call};
    list_init(&renewal->in_conn);
    if (conn->kind->renew(conn, secret, renewal))
        return true;
    conn_unref(conn);
    free(renewal);
    return false;
}

static void call_answered(struct secret_call *call, coney_status status, uint32_t code, const char *text)
{
    if (status == CONEY_EAUTH && call->status == CONEY_OK) {
        call->status = status;
        call->code = code;
        text_print(call->text, sizeof call->text, "%s", text);
    }
    if (--call->awaited == 0)
        op_end(&call->op, call->status, call->code, 0, call->text);
    op_unref(&call->op);
}

void renewal_end(struct renewal *renewal, coney_status status, uint32_t code, const char *text)
{
    struct conn *conn = renewal->conn;
    struct secret_call *call = renewal->call;
    free(renewal);
    if (status == CONEY_OK)
        env_event(conn->env, &(coney_event){.type = CONEY_EVENT_SECRET_RENEWED, .node = conn->name},
                  "%s has taken the new secret", conn->name);
    if (status == CONEY_EAUTH) {
        credentials_refused(&conn->env->credentials);
        tell_refused(conn->env, conn->name, status, code, text);
    }
    if (call != NULL)
        call_answered(call, status, code, text);
    conn_unref(conn);
}

/* Renewal by the callback ----------------------------------------------------------------------------------------------- */

void secrets_renewed(struct credentials *credentials)
{
    struct env *env = container_of(credentials, struct env, credentials);
    for (struct list *at = env->conns.next; at != &env->conns; at = at->next) {
        struct conn *conn = container_of(at, struct conn, in_env);
        if (conn->state == CONN_READY && !renew(conn, env_password(env), NULL))
            tell_refused(env, conn->name, CONEY_ETOOBIG, 0, NO_ROOM);
    }
}

void secrets_failed(struct credentials *credentials, coney_status status)
{
    char text[TEXT_CAP];
    text_print(text, sizeof text, "no new secret: the credentials callback answered %s (%s); it is asked again",
               coney_status_name(status), coney_status_text(status));
    tell_refused(container_of(credentials, struct env, credentials), NULL, status, 0, text);
}

/* The user's call --------------------------------------------------------------------------------------------------------- */

static struct secret_call *of_op(struct op *op)
{
    return container_of(op, struct secret_call, op);
}

static void wipe(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static void begin(struct op *op)
{
    struct secret_call *call = of_op(op);
    struct env *env = call->env;
    char *kept = strdup(call->secret);
    if (kept == NULL) {
        op_end(op, CONEY_ENOMEM, 0, 0, NULL);
        return;
    }
    wipe(env->settings.password);
    env->settings.password = kept;
    for (struct list *at = env->conns.next; at != &env->conns; at = at->next) {
        struct conn *conn = container_of(at, struct conn, in_env);
        if (conn->state != CONN_READY)
            continue;
        if (!renew(conn, call->secret, call)) {
            op_end(op, CONEY_ETOOBIG, 0, 0, NO_ROOM);
            return;
        }
        call->awaited++;
        op_ref(op);
    }
    if (call->awaited == 0)
        op_end(op, CONEY_OK, 0, 0, NULL);
}

static void free_call(struct op *op)
{
    struct secret_call *call = of_op(op);
    env_unref(call->env);
    wipe(call->secret);
    free(call);
}

coney_status env_update_secret(struct env *env, const char *secret, coney_call *call)
{
    coney_status status = env_check(env, call);
    if (status != CONEY_OK)
        return status;
    if (secret == NULL)
        return op_refuse(call, CONEY_EINVAL, "the secret is NULL");
    if (env->has_credentials)
        return op_refuse(call, CONEY_EINVAL,
                         "the environment has a credentials callback, which is asked for new secrets instead");
    struct secret_call *secret_call = calloc(1, sizeof *secret_call);
    if (secret_call == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    op_init(&secret_call->op, env->loop, begin, NULL, free_call);
    secret_call->env = env_ref(env);
    secret_call->secret = strdup(secret);
    if (secret_call->secret == NULL) {
        op_unref(&secret_call->op);
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    }
    return op_run(&secret_call->op, call, env->settings.call_deadline);
}
