/* round_test.c: addresses in turn, members that wait for a connection, connections that nobody uses: with a protocol whose log-in is over at once. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core/round.h"

#include "base/time.h"
#include "core/member.h"

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

struct fake_member {
    struct member member;
    coney_call call; /* how its opening has ended */
    bool done;
};

static struct fake_env *fake_of(struct env *env)
{
    return container_of(env, struct fake_env, env);
}

static size_t frame_size(void *ctx, const uint8_t *at, size_t have, char *error, size_t error_cap)
{
    (void)ctx;
    (void)at;
    (void)have;
    (void)error;
    (void)error_cap;
    return 1;
}

static void on_frame(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    (void)ctx;
    (void)block;
    (void)at;
    (void)len;
}

static size_t fill(void *ctx, struct iovec *slices, size_t cap)
{
    (void)ctx;
    (void)slices;
    (void)cap;
    return 0;
}

static void on_written(void *ctx)
{
    (void)ctx;
}

static void login(struct conn *conn)
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

static void heartbeat(struct conn *conn)
{
    (void)conn;
}

static bool send_close(struct conn *conn)
{
    (void)conn;
    return false;
}

static bool has_room(const struct conn *conn)
{
    unsigned members = 0;
    for (const struct list *at = conn->members.next; at != &conn->members; at = at->next)
        members++;
    return members < fake_of(conn->env)->room;
}

static bool is_used(const struct conn *conn)
{
    return fake_of(conn->env)->in_use;
}

static void attach(struct conn *conn, struct member *member)
{
    (void)conn;
    member->id = 1;
}

static void detach(struct conn *conn, struct member *member, bool held)
{
    (void)conn;
    (void)member;
    (void)held;
}

static void down(struct conn *conn, coney_status status, const char *text)
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
             .fill = fill,
             .on_written = on_written,
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

static bool wanted(struct round *round)
{
    return round->env->opening != NULL;
}

static void ready(struct round *round)
{
    env_opened(round->env);
}

static void failed(struct round *round, coney_status status, uint32_t code, const char *text)
{
    struct fake_env *fake = fake_of(round->env);
    fake->rounds_failed++;
    memcpy(fake->failed_text, text, strlen(text) + 1);
    env_open_failed(round->env, status, code, text);
}

static void init(struct env *env)
{
    struct fake_env *fake = fake_of(env);
    fake->room = MEMBERS;
    round_init(&fake->round, env, &conn_kind, PURPOSE_PUBLISH);
    fake->round.wanted = wanted;
    fake->round.ready = ready;
    fake->round.failed = failed;
}

static void open_env(struct env *env)
{
    round_start(&fake_of(env)->round);
}

static const struct settings_kind settings_kind = {.scheme = "fake", .tls_scheme = "fakes", .port = 1, .tls_port = 2};

static const struct env_kind env_kind = {
    .size = sizeof(struct fake_env),
    .settings = &settings_kind,
    .init = init,
    .open = open_env,
};

static void locate(struct member *member)
{
    round_place(&fake_of(member->env)->round, member);
}

static void nothing(struct member *member)
{
    (void)member;
}

static void leave(struct member *member, bool held)
{
    (void)member;
    (void)held;
}

static bool is_final(const struct member *member, coney_status status)
{
    (void)member;
    (void)status;
    return false;
}

static coney_status close_member(struct member *member, coney_call *call)
{
    member_end(member, false);
    member_closed(member);
    if (call != NULL && call->on_done != NULL)
        call->on_done(call->ctx, call);
    return CONEY_OK;
}

static void free_member(struct member *member)
{
    free(container_of(member, struct fake_member, member));
}

static const struct member_kind member_kind = {
    .purpose = PURPOSE_PUBLISH,
    .noun = "member of",
    .unreachable = "",
    .locate = locate,
    .declare = member_active,
    .active = nothing,
    .lost = nothing,
    .leave = leave,
    .is_final = is_final,
    .dead = nothing,
    .close = close_member,
    .free = free_member,
};

/* The scene: sockets that listen, or that are bound and refuse ------------------------------------------------------ */

struct scene {
    int sockets[ADDRESSES];
    uint16_t ports[ADDRESSES];
    coney_loop *loop;
    struct fake_env *fake;
    coney_call call;
    unsigned connect_failures;
};

static void on_event(void *ctx, const coney_event *event)
{
    struct scene *scene = ctx;
    scene->connect_failures += event->type == CONEY_EVENT_CONNECT_FAILED;
}

/* One letter an address: 'l' listens, 'r' refuses. Opens an environment on them. */
static void scene_open(struct scene *scene, const char *addresses, coney_status log_in)
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

static void scene_close(struct scene *scene)
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

static void step(struct scene *scene, int64_t deadline)
{
    assert_true(time_now() < deadline);
    struct pollfd readable = {.fd = coney_loop_fd(scene->loop), .events = POLLIN};
    poll(&readable, 1, 100);
    coney_loop_step(scene->loop);
}

static void opened(void *ctx, const coney_call *call)
{
    struct fake_member *member = ctx;
    member->call = *call;
    member->done = true;
}

static struct fake_member *member_open(struct scene *scene)
{
    struct fake_member *member = calloc(1, sizeof *member);
    assert_non_null(member);
    assert_true(member_init(&member->member, &member_kind, &scene->fake->env, "m", false));
    coney_call call = {.on_done = opened, .ctx = member};
    assert_int_equal(member_run_open(&member->member, &call), CONEY_OK);
    return member;
}

static void wait_done(struct scene *scene, const struct fake_member *member)
{
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (!member->done)
        step(scene, deadline);
}

static void close_one(struct fake_member *member)
{
    void *handle = member;
    assert_int_equal(member_close_handle(&handle, NULL), CONEY_OK);
}

/* Tests ----------------------------------------------------------------------------------------------------------- */

static void addresses_are_tried_in_turn_until_one_is_ready(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "rrl", CONEY_OK);
    assert_int_equal(scene.call.status, CONEY_OK);
    assert_int_equal(scene.connect_failures, 2);
    assert_int_equal(scene.fake->logins, 1);
    assert_int_equal(scene.fake->round.conn->dialled.port, scene.ports[2]);
    scene_close(&scene);
}

static void the_next_round_begins_with_the_address_that_worked(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "rl", CONEY_OK);
    round_start(&scene.fake->round);
    assert_int_equal(scene.fake->round.conn->dialled.port, scene.ports[1]);
    assert_int_equal(scene.connect_failures, 1);
    scene_close(&scene);
}

static void when_all_have_failed_the_text_says_what_each_said(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "rr", CONEY_OK);
    assert_null(scene.fake);
    assert_int_equal(scene.call.status, CONEY_ECONNECT);
    for (size_t i = 0; i < 2; i++) {
        char port[8];
        snprintf(port, sizeof port, ":%u", (unsigned)scene.ports[i]);
        assert_non_null(strstr(scene.call.text, port));
    }
    assert_non_null(strstr(scene.call.text, "(hint); "));
    scene_close(&scene);
}

static void a_refusal_that_holds_for_all_ends_the_round(void **state)
{
    (void)state;
    static const coney_status refusals[] = {CONEY_EAUTH, CONEY_EVHOST, CONEY_ETLS, CONEY_EINVAL};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct scene scene;
        scene_open(&scene, "ll", refusals[i]);
        assert_null(scene.fake);
        assert_int_equal(scene.call.status, refusals[i]);
        assert_int_equal(scene.connect_failures, 1);
        scene_close(&scene);
    }
}

static void members_wait_for_one_connection_and_share_it_as_far_as_it_goes(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "l", CONEY_OK);
    scene.fake->room = 2;
    struct fake_member *members[MEMBERS];
    for (size_t i = 0; i < MEMBERS; i++)
        members[i] = member_open(&scene);
    for (size_t i = 0; i < MEMBERS; i++) {
        wait_done(&scene, members[i]);
        assert_int_equal(members[i]->call.status, CONEY_OK);
    }
    assert_int_equal(scene.fake->logins, 3);
    assert_int_equal(counter_get(&scene.fake->env.connections), 3);
    assert_int_equal(counter_get(&scene.fake->env.publishing), MEMBERS);
    scene_close(&scene);
}

static void members_fail_with_what_each_address_said(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "rl", CONEY_OK);
    scene.fake->room = 0;
    close(scene.sockets[1]);
    scene.sockets[1] = -1;
    struct fake_member *first = member_open(&scene);
    struct fake_member *second = member_open(&scene);
    wait_done(&scene, first);
    wait_done(&scene, second);
    assert_int_equal(first->call.status, CONEY_ECONNECT);
    assert_string_equal(first->call.text, scene.fake->failed_text);
    assert_string_equal(second->call.text, scene.fake->failed_text);
    assert_int_equal(scene.fake->rounds_failed, 1);
    close_one(first);
    close_one(second);
    scene_close(&scene);
}

static void a_member_that_has_left_keeps_no_round_going(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "rrl", CONEY_OK);
    scene.fake->room = 0;
    scene.fake->round.next = 0;
    struct fake_member *member = member_open(&scene);
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (scene.fake->round.conn == NULL || scene.fake->round.conn->state != CONN_CONNECTING)
        step(&scene, deadline);
    close_one(member);
    while (scene.fake->round.conn != NULL)
        step(&scene, deadline);
    assert_int_equal(scene.connect_failures, 3); /* two of the opening, and the one that was under way */
    assert_int_equal(scene.fake->rounds_failed, 0);
    scene_close(&scene);
}

static void a_lost_connection_is_dialled_again_only_for_those_who_want_it(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "l", CONEY_OK);
    conn_fail(scene.fake->round.conn, CONEY_ELOST, 0, "lost");
    assert_null(scene.fake->round.conn);
    struct fake_member *member = member_open(&scene);
    wait_done(&scene, member);
    struct conn *conn = member->member.conn;
    conn_fail(conn, CONEY_ELOST, 0, "lost");
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (member->member.state != MEMBER_ACTIVE)
        step(&scene, deadline);
    assert_int_equal(scene.fake->logins, 3);
    assert_int_equal(counter_get(&member->member.reconnects), 1);
    scene_close(&scene);
}

static void one_connection_without_users_is_kept_and_a_second_one_is_closed(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "l", CONEY_OK);
    struct env *env = &scene.fake->env;
    assert_ptr_equal(env->idle, scene.fake->round.conn);
    scene.fake->in_use = true;
    round_start(&scene.fake->round);
    struct conn *second = conn_ref(scene.fake->round.conn);
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (second->state != CONN_READY)
        step(&scene, deadline);
    conn_let_go(second);
    assert_int_equal(second->state, CONN_READY);
    scene.fake->in_use = false;
    conn_let_go(second);
    assert_int_equal(second->state, CONN_DOWN);
    conn_unref(second);
    assert_int_equal(counter_get(&env->connections), 1);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_tried_in_turn_until_one_is_ready),
        cmocka_unit_test(the_next_round_begins_with_the_address_that_worked),
        cmocka_unit_test(when_all_have_failed_the_text_says_what_each_said),
        cmocka_unit_test(a_refusal_that_holds_for_all_ends_the_round),
        cmocka_unit_test(members_wait_for_one_connection_and_share_it_as_far_as_it_goes),
        cmocka_unit_test(members_fail_with_what_each_address_said),
        cmocka_unit_test(a_member_that_has_left_keeps_no_round_going),
        cmocka_unit_test(a_lost_connection_is_dialled_again_only_for_those_who_want_it),
        cmocka_unit_test(one_connection_without_users_is_kept_and_a_second_one_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
