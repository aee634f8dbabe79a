/* request.c: requests on a connection: sent, answered once, or ended by a deadline or the connection's end. */
#include "base/text.h"
#include "base/time.h"
#include "stream/conn.h"

#include <stdlib.h>

#define CORRELATION_AT 8 /* where the id stands in a request's frame: behind size, key and version */

coney_status status_of_code(uint16_t code)
{
    static const coney_status statuses[STREAM_CODE_LAST + 1] = {
        [STREAM_CODE_OK] = CONEY_OK,
        [STREAM_CODE_STREAM_DOES_NOT_EXIST] = CONEY_ENOTFOUND,
        [STREAM_CODE_STREAM_EXISTS] = CONEY_EEXIST,
        [STREAM_CODE_STREAM_NOT_AVAILABLE] = CONEY_EUNAVAILABLE,
        [STREAM_CODE_SASL_MECHANISM_NOT_SUPPORTED] = CONEY_EAUTH,
        [STREAM_CODE_AUTHENTICATION_FAILURE] = CONEY_EAUTH,
        [STREAM_CODE_SASL_ERROR] = CONEY_EAUTH,
        [STREAM_CODE_LOOPBACK_ONLY] = CONEY_EAUTH,
        [STREAM_CODE_VHOST_ACCESS_FAILURE] = CONEY_EVHOST,
        [STREAM_CODE_UNKNOWN_FRAME] = CONEY_EPROTOCOL,
        [STREAM_CODE_FRAME_TOO_LARGE] = CONEY_ETOOBIG,
        [STREAM_CODE_ACCESS_REFUSED] = CONEY_EACCESS,
        [STREAM_CODE_PRECONDITION_FAILED] = CONEY_EPRECONDITION,
        [STREAM_CODE_NO_OFFSET] = CONEY_ENOOFFSET,
    };
    if (code <= STREAM_CODE_LAST && (code == STREAM_CODE_OK || statuses[code] != CONEY_OK))
        return statuses[code];
    return CONEY_EBROKER;
}

/* The request leaves every list; whoever calls answers and frees it. */
static void take_out(struct request *request)
{
    list_remove(&request->in_order);
    loop_timer_unset(request->env->env.loop, &request->timer);
    if (request->conn != NULL)
        map_take(&request->conn->requests, request->correlation);
}

static void fail(struct request *request, coney_status status, const char *text)
{
    take_out(request);
    if (request->answer != NULL)
        request->answer(request->ctx, status, NULL, text);
    free(request);
}

static void run_deadline(struct timer *timer)
{
    struct request *request = container_of(timer, struct request, timer);
    char text[TEXT_CAP];
    if (request->conn != NULL)
        text_print(text, sizeof text, "%s was not answered by %s in time: try again, or allow a longer deadline",
                   stream_key_name(request->key), request->conn->conn.name);
    else
        text_print(text, sizeof text, "%s was not sent in time: there is no connection to the broker",
                   stream_key_name(request->key));
    fail(request, CONEY_ETIMEDOUT, text);
}

static struct request *request_new(struct coney_stream_env *env, struct stream_frame *frame, int64_t deadline, answer_fn answer,
                                   void *ctx)
{
    frame->version = 1;
    size_t len = stream_encode(frame, NULL, 0);
    struct request *request = len > 0 ? malloc(sizeof *request + len) : NULL;
    if (request == NULL)
        return NULL;
    *request =
        (struct request){.env = env, .answer = answer, .ctx = ctx, .key = frame->key, .len = len, .timer.fire = run_deadline};
    list_init(&request->in_order);
    if (stream_encode(frame, request->frame, len) != len || !loop_timer_set(env->env.loop, &request->timer, deadline)) {
        free(request);
        return NULL;
    }
    return request;
}

/* Gives the request its number on this connection and sends it. */
static bool dispatch(struct stream_conn *conn, struct request *request)
{
    request->correlation = ++conn->correlation;
    if (!map_put(&conn->requests, request->correlation, request))
        return false;
    request->conn = conn;
    store32(request->frame + CORRELATION_AT, request->correlation);
    list_append(&conn->request_order, &request->in_order);
    link_write(conn->conn.link, request->frame, request->len);
    return true;
}

bool stream_conn_request(struct conn *conn, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx)
{
    struct request *request = request_new(stream_env_of(conn->env), frame, deadline, answer, ctx);
    if (request == NULL)
        return false;
    if (dispatch(stream_conn_of(conn), request))
        return true;
    loop_timer_unset(conn->env->loop, &request->timer);
    free(request);
    return false;
}

bool requests_queue(struct coney_stream_env *env, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx)
{
    struct request *request = request_new(env, frame, deadline, answer, ctx);
    if (request == NULL)
        return false;
    list_append(&env->control_queue, &request->in_order);
    return true;
}

void requests_send_queued(struct conn *control)
{
    struct list *queue = &stream_env_of(control->env)->control_queue;
    for (struct list *at = list_take(queue); at != NULL; at = list_take(queue)) {
        struct request *request = container_of(at, struct request, in_order);
        if (!dispatch(stream_conn_of(control), request))
            fail(request, CONEY_ENOMEM, coney_status_text(CONEY_ENOMEM));
    }
}

void requests_fail(struct list *order, coney_status status, const char *text)
{
    struct list failing;
    list_init(&failing);
    list_move_all(&failing, order);
    while (!list_empty(&failing))
        fail(container_of(failing.next, struct request, in_order), status, text);
}

static void forget_in(struct list *order, const void *ctx)
{
    for (struct list *at = order->next, *next = at->next; at != order; at = next, next = at->next) {
        struct request *request = container_of(at, struct request, in_order);
        if (request->ctx == ctx)
            request->answer = NULL;
    }
}

void requests_forget(struct coney_stream_env *env, const void *ctx)
{
    forget_in(&env->control_queue, ctx);
    struct list *conns = &env->env.conns;
    for (struct list *at = conns->next; at != conns; at = at->next)
        forget_in(&stream_conn_of(container_of(at, struct conn, in_env))->request_order, ctx);
}

bool request_answered(struct stream_conn *conn, const struct stream_frame *frame)
{
    struct request *request = map_get(&conn->requests, frame->correlation);
    if (request == NULL)
        return true; /* it came after its deadline */
    if (request->key != frame->key)
        return false;
    take_out(request);
    uint16_t code = frame->key == STREAM_METADATA ? STREAM_CODE_OK : frame->code;
    char text[TEXT_CAP] = "";
    if (code != STREAM_CODE_OK)
        text_print(text, sizeof text, "%s: %s answered \"%s\" (code %u)", stream_key_name(frame->key), conn->conn.name,
                   stream_code_name(code), (unsigned)code);
    if (request->answer != NULL)
        request->answer(request->ctx, status_of_code(code), frame, text);
    free(request);
    return true;
}
