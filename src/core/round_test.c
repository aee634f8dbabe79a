/* round_test.c: addresses in turn, members that wait for a connection, connections that nobody uses. */
#include "core/core_fixture.h"

struct fake_member {
    struct member member;
    coney_call call; /* how its opening has ended */
    bool done;
};

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

static bool always(struct round *round)
{
    (void)round;
    return true;
}

/* Keeps what the addresses said. */
static void failed_with(struct round *round, coney_status status, uint32_t code, const char *text)
{
    (void)status;
    (void)code;
    strcpy(fake_of(round->env)->failed_text, text);
}

static void names_each_once(const struct scene *scene, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char port[8];
        snprintf(port, sizeof port, ":%u:", (unsigned)scene->ports[i]);
        const char *first = strstr(text, port);
        if (first == NULL || strstr(first + 1, port) != NULL)
            fail_msg("%s is not there once: %s", port, text);
    }
}

static void shuffled_rounds_that_run_side_by_side_try_each_address_once(void **state)
{
    (void)state;
    struct scene scene;
    struct round other;
    scene_open(&scene, "rrl", CONEY_OK);
    struct env *env = &scene.fake->env;
    close(scene.sockets[2]);
    scene.sockets[2] = -1;
    env->settings.shuffle = true;
    round_init(&other, env, &conn_kind, PURPOSE_PUBLISH);
    other.wanted = scene.fake->round.wanted = always;
    other.failed = scene.fake->round.failed = failed_with;
    for (int i = 0; i < 10; i++) {
        int64_t deadline = time_after(time_now(), PATIENCE);
        round_start(&scene.fake->round);
        round_start(&other);
        while (scene.fake->round.conn != NULL || other.conn != NULL)
            step(&scene, deadline);
        names_each_once(&scene, scene.fake->round.failures, 3);
        names_each_once(&scene, other.failures, 3);
    }
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
        cmocka_unit_test(shuffled_rounds_that_run_side_by_side_try_each_address_once),
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
