/* conn.c: the life of one connection: its link, its members, heartbeats, its end. */
#include "core/conn.h"

#include "base/text.h"
#include "base/time.h"
#include "core/member.h"
#include "core/round.h"

#include <stdlib.h>
#include <string.h>

#define STEP_LIMIT (6 * CONEY_SECOND)
#define CLOSE_LIMIT (2 * CONEY_SECOND)
#define TICKS_A_HEARTBEAT 2
#define SILENT_TICKS 5 /* two and a half heartbeats without a byte */

const char *purpose_name(enum purpose purpose)
{
    static const char *const names[] = {
        [PURPOSE_CONTROL] = "control", [PURPOSE_PUBLISH] = "publish", [PURPOSE_CONSUME] = "consume"};
    return names[purpose];
}

void conn_free(struct conn *conn)
{
    struct env *env = conn->env;
    if (conn->kind->free != NULL)
        conn->kind->free(conn);
    free(conn);
    env_unref(env);
}

/* Members --------------------------------------------------------------------------------------------------------- */

void conn_attach(struct conn *conn, struct member *member)
{
    if (conn->env->idle == conn)
        conn->env->idle = NULL;
    list_remove(&member->in_conn); /* of a round's list */
    member->conn = conn;
    conn->kind->attach(conn, member);
    list_append(&conn->members, &member->in_conn);
}

static bool is_used(const struct conn *conn)
{
    return !list_empty(&conn->members) || (conn->kind->is_used != NULL && conn->kind->is_used(conn));
}

void conn_let_go(struct conn *conn)
{
    struct env *env = conn->env;
    if (conn->state >= CONN_CLOSING || is_used(conn))
        return;
    if (env->idle == NULL && conn->state == CONN_READY && env->closing == NULL)
        env->idle = conn;
    else if (env->idle != conn)
        conn_close(conn);
}

void conn_detach(struct member *member, bool held)
{
    struct conn *conn = member->conn;
    list_remove(&member->in_conn);
    if (conn == NULL)
        return;
    conn->kind->detach(conn, member, held);
    member->conn = NULL;
    conn_let_go(conn);
}

void conn_want_write(struct conn *conn, struct list *sender_ready)
{
    if (list_empty(sender_ready))
        list_append(&conn->ready, sender_ready);
    link_want_write(conn->link);
}

void conn_pause_reading(struct conn *conn, bool pause)
{
    conn->paused = pause;
    if (conn->link != NULL)
        link_pause_reading(conn->link, pause);
}

/* Heartbeats ------------------------------------------------------------------------------------------------------ */

/* Brings the environment's totals up to date. */
static void count_bytes(struct conn *conn)
{
    if (conn->link == NULL)
        return; /* a second dial for which there was no memory */
    uint64_t in = link_bytes_in(conn->link);
    uint64_t out = link_bytes_out(conn->link);
    counter_add(&conn->env->bytes_in, in - conn->counted_in);
    counter_add(&conn->env->bytes_out, out - conn->counted_out);
    conn->counted_in = in;
    conn->counted_out = out;
}

static void set_tick(struct conn *conn)
{
    int64_t interval = (int64_t)conn->heartbeat * CONEY_SECOND / TICKS_A_HEARTBEAT;
    loop_timer_set(conn->env->loop, &conn->timer, time_after(time_now(), interval));
}

static void tick(struct conn *conn)
{
    uint64_t in = link_bytes_in(conn->link);
    uint64_t out = link_bytes_out(conn->link);
    conn->silent_ticks = in == conn->seen_in && !conn->paused ? conn->silent_ticks + 1 : 0;
    if (conn->silent_ticks >= SILENT_TICKS) {
        char text[TEXT_CAP];
        text_print(text, sizeof text, "%s sent nothing for more than two heartbeats of %u s: the node or the network is down",
                   conn->name, (unsigned)conn->heartbeat);
        conn_fail(conn, CONEY_ELOST, 0, text);
        return;
    }
    if (out == conn->seen_out && !link_is_blocked(conn->link))
        conn->kind->heartbeat(conn);
    count_bytes(conn);
    conn->seen_in = in;
    conn->seen_out = link_bytes_out(conn->link);
    set_tick(conn);
}

static void run_timer(struct timer *timer)
{
    struct conn *conn = container_of(timer, struct conn, timer);
    char text[TEXT_CAP];
    switch (conn->state) {
    case CONN_CONNECTING:
        text_print(text, sizeof text, "%s accepted the connection but did not answer %s in time: is it a %s, and alive?",
                   conn->name, conn->kind->awaited(conn), conn->kind->listener);
        conn_fail(conn, CONEY_ETIMEDOUT, 0, text);
        break;
    case CONN_READY:
        tick(conn);
        break;
    case CONN_CLOSING:
        conn_fail(conn, CONEY_ECLOSED, 0, "");
        break;
    case CONN_DOWN:
        break;
    }
}

void conn_await(struct conn *conn)
{
    loop_timer_set(conn->env->loop, &conn->timer, time_after(time_now(), STEP_LIMIT));
}

void conn_ready(struct conn *conn)
{
    struct env *env = conn->env;
    conn_ref(conn);
    conn->state = CONN_READY;
    loop_timer_unset(env->loop, &conn->timer);
    if (conn->heartbeat > 0)
        set_tick(conn);
    counter_add(&env->connections, 1);
    counter_add(&env->connections_made, 1);
    env_event(env, &(coney_event){.type = CONEY_EVENT_CONNECTED, .node = conn->name}, "connected to %s", conn->name);
    if (conn->state == CONN_READY)
        round_conn_ready(conn);
    for (struct list *at = conn->members.next, *next = at->next; at != &conn->members && conn->state == CONN_READY;
         at = next, next = at->next)
        member_conn_ready(container_of(at, struct member, in_conn));
    if (conn->purpose != PURPOSE_CONTROL)
        conn_let_go(conn);
    conn_unref(conn);
}

/* The link's callbacks -------------------------------------------------------------------------------------------- */

const char *conn_stranger(const uint8_t *at, size_t have)
{
    static const struct {
        const char *first;
        size_t len;
        const char *speaks;
    } strangers[] = {
        {"AMQP", 4, "AMQP"},
        {"HTTP", 4, "HTTP"},
        {"SSH-", 4, "SSH"},
        {"\x15\x03", 2, "TLS"}, /* its alert at what is no handshake */
    };
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++)
        if (have >= strangers[i].len && memcmp(at, strangers[i].first, strangers[i].len) == 0)
            return strangers[i].speaks;
    return NULL;
}

static void got_credentials(struct credentials_wait *wait, coney_status status)
{
    struct conn *conn = container_of(wait, struct conn, credentials);
    char text[TEXT_CAP];
    if (status == CONEY_OK) {
        conn->kind->login(conn);
        return;
    }
    text_print(text, sizeof text, "no log-in at %s: the credentials callback answered %s (%s)", conn->name,
               coney_status_name(status), coney_status_text(status));
    conn_fail(conn, status, 0, text);
}

void conn_link_open(void *ctx)
{
    struct conn *conn = ctx;
    conn->credentials.done = got_credentials;
    if (conn->env->has_credentials)
        credentials_await(&conn->env->credentials, &conn->credentials);
    else
        conn->kind->login(conn);
}

void conn_link_read_end(void *ctx)
{
    count_bytes(ctx);
}

void conn_link_down(void *ctx, coney_status status, const char *text)
{
    struct conn *conn = ctx;
    char more[TEXT_CAP];
    if (conn->close_status != CONEY_OK) {
        conn_fail(conn, conn->close_status, conn->close_code, conn->close_text);
        return;
    }
    text_print(more, sizeof more, "%s%s", text, status == CONEY_ECONNECT ? conn->kind->refused_hint : "");
    conn_fail(conn, status, 0, more);
}

/* Beginning and end ----------------------------------------------------------------------------------------------- */

static struct link *dial(struct conn *conn)
{
    struct link_options options = {
        .host = conn->dialled.host,
        .port = conn->dialled.port,
        .connect_timeout = conn->env->settings.connect_timeout,
        .tls = conn->env->settings.tls,
    };
    return link_open(conn->env->loop, conn->env->pool, &options, &conn->kind->link, conn);
}

struct conn *conn_open(struct env *env, const struct conn_kind *kind, enum purpose purpose, const struct node *dialled)
{
    struct conn *conn = calloc(1, kind->size);
    if (conn == NULL)
        return NULL;
    conn->kind = kind;
    conn->env = env_ref(env);
    conn->refs = 1;
    conn->purpose = purpose;
    conn->dialled = *dialled;
    conn->timer.fire = run_timer;
    bool v6 = strchr(dialled->host, ':') != NULL;
    text_print(conn->name, sizeof conn->name, v6 ? "[%s]:%u" : "%s:%u", dialled->host, (unsigned)dialled->port);
    list_init(&conn->in_env);
    list_init(&conn->members);
    list_init(&conn->ready);
    list_init(&conn->flying);
    if (kind->init != NULL)
        kind->init(conn);
    conn->link = dial(conn);
    if (conn->link == NULL) {
        conn_unref(conn);
        return NULL;
    }
    list_append(&env->conns, &conn->in_env);
    return conn;
}

void conn_redial(struct conn *conn)
{
    count_bytes(conn);
    conn->counted_in = conn->counted_out = 0;
    link_close(&conn->link, false);
    loop_timer_unset(conn->env->loop, &conn->timer);
    conn->link = dial(conn);
    if (conn->link == NULL)
        conn_fail(conn, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM));
}

void conn_close(struct conn *conn)
{
    struct env *env = conn->env;
    if (conn->state == CONN_CONNECTING) {
        conn->state = CONN_CLOSING;
        conn_fail(conn, CONEY_ECLOSED, 0, "");
    } else if (conn->state == CONN_READY) {
        conn->state = CONN_CLOSING;
        if (env->idle == conn)
            env->idle = NULL;
        counter_set(&env->connections, counter_get(&env->connections) - 1);
        loop_timer_set(env->loop, &conn->timer, time_after(time_now(), CLOSE_LIMIT));
        if (!conn->kind->send_close(conn))
            conn_fail(conn, CONEY_ECLOSED, 0, "");
    }
}

static void tell_end(struct conn *conn, enum conn_state was, coney_status status, uint32_t code, const char *text)
{
    struct env *env = conn->env;
    if (was == CONN_READY) {
        counter_set(&env->connections, counter_get(&env->connections) - 1);
        counter_add(&env->connections_lost, 1);
        env_event(env, &(coney_event){.type = CONEY_EVENT_DISCONNECTED, .status = status, .code = code, .node = conn->name},
                  "lost a connection: %s", text);
    } else if (was == CONN_CONNECTING) {
        env_event(env, &(coney_event){.type = CONEY_EVENT_CONNECT_FAILED, .status = status, .code = code, .node = conn->name},
                  "%s", text);
    }
}

void conn_fail(struct conn *conn, coney_status status, uint32_t code, const char *text)
{
    struct env *env = conn->env;
    enum conn_state was = conn->state;
    if (was == CONN_DOWN)
        return;
    char copy[TEXT_CAP];
    text_print(copy, sizeof copy, "%s", text);
    conn->state = CONN_DOWN;
    list_remove(&conn->in_env);
    loop_timer_unset(env->loop, &conn->timer);
    if (env->idle == conn)
        env->idle = NULL;
    credentials_forget(&conn->credentials);
    if (was == CONN_CONNECTING && status == CONEY_EAUTH)
        credentials_refused(&env->credentials);
    count_bytes(conn);
    link_close(&conn->link, true);
    tell_end(conn, was, status, code, copy);
    conn->kind->down(conn, status, copy);
    while (!list_empty(&conn->members)) {
        struct member *member = container_of(conn->members.next, struct member, in_conn);
        conn_detach(member, false);
        member_conn_down(member, status, code, copy);
    }
    round_conn_down(conn, status, code, copy);
    env_went_on(env);
    conn_unref(conn);
}
