/* secret.c: see secret.h. */
#include "amqp/secret.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct secret {
    struct list in_conn;
    secret_answer_fn answer;
    void *ctx;
};

static void tell_renewed(struct amqp_conn *conn)
{
    env_event(conn->conn.env, &(coney_event){.type = CONEY_EVENT_SECRET_RENEWED, .node = conn->conn.name},
              "%s has taken the new secret", conn->conn.name);
}

static void tell_refused(struct env *env, const char *node, coney_status status, uint32_t code, const char *text)
{
    env_event(env, &(coney_event){.type = CONEY_EVENT_SECRET_REFUSED, .status = status, .code = code, .node = node}, "%s",
              text);
}

bool secret_send(struct amqp_conn *conn, const char *text, secret_answer_fn answer, void *ctx)
{
    const struct amqp_method update = {
        .id = AMQP_CONNECTION_UPDATE_SECRET,
        .connection_update_secret = {.secret = coney_bytes_str(text), .reason = CONEY_STR("renewed by the application")}};
    struct secret *secret = malloc(sizeof *secret);
    if (secret == NULL || !amqp_conn_send(conn, 0, &update)) {
        free(secret);
        return false;
    }
    *secret = (struct secret){.answer = answer, .ctx = ctx};
    list_init(&secret->in_conn);
    list_append(&conn->secrets, &secret->in_conn);
    return true;
}

static void end(struct list *at, coney_status status, uint32_t code, const char *text)
{
    struct secret *secret = container_of(at, struct secret, in_conn);
    secret_answer_fn answer = secret->answer;
    void *ctx = secret->ctx;
    free(secret);
    if (answer != NULL)
        answer(ctx, status, code, text);
}

bool secret_answered(struct amqp_conn *conn)
{
    struct list *at = list_take(&conn->secrets);
    if (at == NULL)
        return false;
    tell_renewed(conn);
    end(at, CONEY_OK, 0, "");
    return true;
}

/* A broker closes the link on which it refuses a secret: as not allowed. */
void secrets_fail(struct amqp_conn *conn, coney_status status, const char *text)
{
    uint32_t code = conn->conn.close_code;
    bool refused = code == AMQP_CODE_NOT_ALLOWED || code == AMQP_CODE_ACCESS_REFUSED;
    if (list_empty(&conn->secrets))
        return;
    if (refused) {
        credentials_refused(&amqp_of(conn->conn.env)->credentials);
        tell_refused(conn->conn.env, conn->conn.name, CONEY_EAUTH, code, text);
    }
    for (struct list *at = list_take(&conn->secrets); at != NULL; at = list_take(&conn->secrets))
        end(at, refused ? CONEY_EAUTH : status, code, text);
}

/* Renewal by the credentials callback ------------------------------------------------------------------------------- */

void secrets_renewed(struct credentials *credentials)
{
    struct coney_amqp *amqp = container_of(credentials, struct coney_amqp, credentials);
    struct list *conns = &amqp->env.conns;
    for (struct list *at = conns->next; at != conns && credentials->password != NULL; at = at->next) {
        struct conn *conn = container_of(at, struct conn, in_env);
        if (conn->state == CONN_READY && !secret_send(amqp_conn_of(conn), credentials->password, NULL, NULL))
            tell_refused(&amqp->env, conn->name, CONEY_ETOOBIG, 0, "the new secret has no room in a frame, or memory is out");
    }
}

void secrets_failed(struct credentials *credentials, coney_status status)
{
    struct coney_amqp *amqp = container_of(credentials, struct coney_amqp, credentials);
    char text[TEXT_CAP];
    text_print(text, sizeof text, "no new secret: the credentials callback answered %s: %s; it is asked again",
               coney_status_name(status), coney_status_text(status));
    tell_refused(&amqp->env, NULL, status, 0, text);
}

/* coney_amqp_update_secret ------------------------------------------------------------------------------------------ */

struct update_op {
    struct op op;
    struct coney_amqp *amqp;
    size_t awaited; /* answers */
    coney_status status;
    uint32_t code;
    char text[TEXT_CAP]; /* of the first that refused */
    char *secret;
};

static struct update_op *of_op(struct op *op)
{
    return container_of(op, struct update_op, op);
}

static void wipe(char *secret)
{
    explicit_bzero(secret, strlen(secret));
    free(secret);
}

static void answered(void *ctx, coney_status status, uint32_t code, const char *text)
{
    struct update_op *update = ctx;
    if (status == CONEY_EAUTH && update->status == CONEY_OK) { /* a link that was lost otherwise logs in with the new one */
        update->status = status;
        update->code = code;
        text_print(update->text, sizeof update->text, "%s", text);
    }
    if (--update->awaited == 0)
        op_end(&update->op, update->status, update->code, 0, update->text);
    op_unref(&update->op);
}

static void update_begin(struct op *op)
{
    struct update_op *update = of_op(op);
    struct env *env = &update->amqp->env;
    char *kept = strdup(update->secret);
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
        if (!secret_send(amqp_conn_of(conn), update->secret, answered, update)) {
            op_end(op, CONEY_ETOOBIG, 0, 0, "the secret has no room in a frame, or memory is out");
            return;
        }
        update->awaited++;
        op_ref(op);
    }
    if (update->awaited == 0)
        op_end(op, CONEY_OK, 0, 0, NULL);
}

static void update_free(struct op *op)
{
    struct update_op *update = of_op(op);
    env_unref(&update->amqp->env);
    if (update->secret != NULL)
        wipe(update->secret);
    free(update);
}

coney_status coney_amqp_update_secret(coney_amqp *rabbit, const char *secret, coney_call *call)
{
    coney_status status = env_check(rabbit != NULL ? &rabbit->env : NULL, call);
    if (status != CONEY_OK)
        return status;
    if (secret == NULL)
        return op_refuse(call, CONEY_EINVAL, "the secret is NULL");
    if (rabbit->credentials.fn != NULL)
        return op_refuse(call, CONEY_EINVAL,
                         "the environment has a credentials callback, which is asked for new secrets instead");
    struct update_op *update = calloc(1, sizeof *update);
    if (update == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    op_init(&update->op, rabbit->env.loop, update_begin, NULL, update_free);
    update->amqp = amqp_of(env_ref(&rabbit->env));
    update->secret = strdup(secret);
    if (update->secret == NULL) {
        op_unref(&update->op);
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    }
    return op_run(&update->op, call, rabbit->env.settings.call_deadline);
}
