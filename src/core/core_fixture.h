/* core_fixture.h: an environment of a protocol whose log-in is over at once and whose frames are bytes, against sockets that listen or refuse; the test
 * steps its loop.
 *
 * For core's tests: their first include.
 */
#ifndef CONEY_CORE_FIXTURE_H
#define CONEY_CORE_FIXTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/round.h"

#include "base/time.h"
#include "core/sender.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE (20 * CONEY_SECOND)
#define ADDRESSES 4
#define MEMBERS 5

/* The protocol ---------------------------------------------------------------------------------------------------- */

struct fake_env {
    struct env env;
    struct round round;
    unsigned room;       /* members that a connection takes */
    coney_status log_in; /* how a log-in ends */
    unsigned logins;
    bool in_use; /* what is_used answers */
    char failed_text[TEXT_CAP];
    unsigned rounds_failed;
};

static inline struct fake_env *fake_of(struct env *env)
{
    return container_of(env, struct fake_env, env);
}

static inline size_t frame_size(void *ctx, const uint8_t *at, size_t have, char *error, size_t error_cap)
{
    (void)ctx;
    (void)at;
    (void)have;
    (void)error;
    (void)error_cap;
    return 1;
}

static inline void on_frame(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    (void)ctx;
    (void)block;
    (void)at;
    (void)len;
}

static inline void login(struct conn *conn)
{
    struct fake_env *fake = fake_of(conn->env);
    fake->logins++;
    if (fake->log_in == CONEY_OK)
        conn_ready(conn);
    else
        conn_fail(conn, fake->log_in, 0, "refused");
}

static const char *awaited(const struct conn *conn)
{
    (void)conn;
    return "nothing";
}

static inline void heartbeat(struct conn *conn)
{
    (void)conn;
}

static inline bool send_close(struct conn *conn)
{
    (void)conn;
    return false;
}

static inline bool has_room(const struct conn *conn)
{
    unsigned members = 0;
    for (const struct list *at = conn->members.next; at != &conn->members; at = at->next)
        members++;
    return members < fake_of(conn->env)->room;
}

static inline bool is_used(const struct conn *conn)
{
    return fake_of(conn->env)->in_use;
}

static inline void attach(struct conn *conn, struct member *member)
{
    (void)conn;
    member->id = 1;
}

static inline void detach(struct conn *conn, struct member *member, bool held)
{
    (void)conn;
    (void)member;
    (void)held;
}

static inline void down(struct conn *conn, coney_status status, const char *text)
{
    (void)conn;
    (void)status;
    (void)text;
}

static const struct conn_kind conn_kind = {
    .size = sizeof(struct conn),
    .link = {.frame_size = frame_size,
             .on_open = conn_link_open,
             .on_frame = on_frame,
             .on_read_end = conn_link_read_end,
             .fill = sender_link_fill,
             .on_written = sender_link_written,
             .on_down = conn_link_down},
    .listener = "listener",
    .refused_hint = " (hint)",
    .login = login,
    .awaited = awaited,
    .heartbeat = heartbeat,
    .send_close = send_close,
    .has_room = has_room,
    .is_used = is_used,
    .attach = attach,
    .detach = detach,
    .down = down,
};

static inline bool wanted(struct round *round)
{
    return round->env->opening != NULL;
}

static inline void ready(struct round *round)
{
    env_opened(round->env);
}

static inline void failed(struct round *round, coney_status status, uint32_t code, const char *text)
{
    struct fake_env *fake = fake_of(round->env);
    fake->rounds_failed++;
    memcpy(fake->failed_text, text, strlen(text) + 1);
    env_open_failed(round->env, status, code, text);
}

static inline void init(struct env *env)
{
    struct fake_env *fake = fake_of(env);
    fake->room = MEMBERS;
    round_init(&fake->round, env, &conn_kind, PURPOSE_PUBLISH);
    fake->round.wanted = wanted;
    fake->round.ready = ready;
    fake->round.failed = failed;
}

static inline void open_env(struct env *env)
{
    round_start(&fake_of(env)->round);
}

static const char *const mechanisms[] = {"PLAIN", NULL};
static const struct settings_kind settings_kind = {
    .scheme = "fake", .tls_scheme = "fakes", .port = 1, .tls_port = 2, .mechanisms = mechanisms};

static const struct env_kind env_kind = {
    .size = sizeof(struct fake_env),
    .settings = &settings_kind,
    .init = init,
    .open = open_env,
};

static inline void locate(struct member *member)
{
    round_place(&fake_of(member->env)->round, member);
}

static inline void nothing(struct member *member)
{
    (void)member;
}

static inline void leave(struct member *member, bool held)
{
    (void)member;
    (void)held;
}

static inline bool is_final(const struct member *member, coney_status status)
{
    (void)member;
    (void)status;
    return false;
}

/* The scene: sockets that listen, or that are bound and refuse ------------------------------------------------------ */

struct scene {
    int sockets[ADDRESSES];
    uint16_t ports[ADDRESSES];
    coney_loop *loop;
    struct fake_env *fake;
    coney_call call;
    unsigned connect_failures;
};

static inline void on_event(void *ctx, const coney_event *event)
{
    struct scene *scene = ctx;
    scene->connect_failures += event->type == CONEY_EVENT_CONNECT_FAILED;
}

/* One letter an address: 'l' listens, 'r' refuses. Opens an environment on them. */
static inline void scene_open(struct scene *scene, const char *addresses, coney_status log_in)
{
    *scene = (struct scene){.sockets = {-1, -1, -1, -1}};
    char uri[256] = "fake://";
    for (size_t i = 0; addresses[i] != '\0'; i++) {
        struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof name;
        scene->sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(scene->sockets[i], (struct sockaddr *)&name, sizeof name), 0);
        assert_int_equal(getsockname(scene->sockets[i], (struct sockaddr *)&name, &len), 0);
        if (addresses[i] == 'l')
            assert_int_equal(listen(scene->sockets[i], 16), 0);
        scene->ports[i] = ntohs(name.sin_port);
        char address[32];
        snprintf(address, sizeof address, "%s127.0.0.1:%u", i > 0 ? "," : "", (unsigned)scene->ports[i]);
        strcat(uri, address);
    }
    scene->loop = coney_loop_new();
    assert_non_null(scene->loop);
    struct env_options options = {.loop = scene->loop, .on_event = on_event, .event_ctx = scene};
    struct env *env = env_new(&env_kind, uri, &options, &scene->call);
    assert_non_null(env);
    scene->fake = fake_of(env);
    scene->fake->log_in = log_in;
    if (!env_run_open(env, &scene->call))
        scene->fake = NULL;
}

static inline void scene_close(struct scene *scene)
{
    void *handle = scene->fake;
    assert_int_equal(env_close(&handle, NULL), CONEY_OK);
    while (coney_loop_step(scene->loop))
        continue;
    coney_loop_free(&scene->loop);
    for (size_t i = 0; i < ADDRESSES; i++)
        if (scene->sockets[i] >= 0)
            close(scene->sockets[i]);
}

static inline void step(struct scene *scene, int64_t deadline)
{
    assert_true(time_now() < deadline);
    struct pollfd readable = {.fd = coney_loop_fd(scene->loop), .events = POLLIN};
    poll(&readable, 1, 100);
    coney_loop_step(scene->loop);
}

#endif
