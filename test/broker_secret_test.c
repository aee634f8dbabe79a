/* Passwords that change while connections are open, and callbacks that are asked for them: both clients against a real node. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "scene.h"

static struct node node;

/* A user of the test's own, who may do everything. */
static void make_user(char *name, size_t cap, const char *password)
{
    fresh_name(name, cap, "user");
    node_do(&node, "-q add_user %s %s", name, password);
    node_do(&node, "-q set_permissions %s '.*' '.*' '.*'", name);
}

static void drop_user(const char *name)
{
    node_do(&node, "-q delete_user %s", name);
}

static const char *uri_of(const char *scheme, const char *user, const char *password, uint16_t port)
{
    static char uri[400];
    snprintf(uri, sizeof uri, "%s://%s:%s@127.0.0.1:%u", scheme, user, password, (unsigned)port);
    return uri;
}

static void close_connections_of(const char *user)
{
    node_do(&node, "-q close_all_user_connections %s test", user);
}

/* A callback whose answer the test sets. */
struct callback {
    struct monitor monitor;
    const char *user;
    char password[16000];
    size_t asked;
    int64_t valid_for;
};

static coney_status answer(void *ctx, coney_credentials *credentials)
{
    struct callback *callback = ctx;
    monitor_lock(&callback->monitor);
    callback->asked++;
    credentials->user = callback->user;
    credentials->password = callback->password;
    credentials->valid_for = callback->valid_for;
    monitor_unlock(&callback->monitor);
    return CONEY_OK;
}

static void set_password(struct callback *callback, const char *password)
{
    monitor_lock(&callback->monitor);
    snprintf(callback->password, sizeof callback->password, "%s", password);
    monitor_unlock(&callback->monitor);
}

static void SB_80_the_next_login_uses_the_new_secret(void **state)
{
    (void)state;
    char user[80];
    struct scene scene;
    struct outcomes outcomes = {0};
    coney_call call = {0};
    make_user(user, sizeof user, "old");
    scene_up(&scene, uri_of("rabbitmq-stream", user, "old", node.stream_port));
    coney_stream_producer *producer = scene_producer(&scene, &outcomes, NULL);
    node_do(&node, "-q change_password %s new", user);
    coney_status status = coney_stream_env_update_secret(scene.env, "new", &call);
    if (status != CONEY_OK)
        fail_msg("%s", call.text);
    assert_int_equal(events_count(&scene.events, CONEY_EVENT_SECRET_RENEWED), 2);
    close_connections_of(user);
    events_wait(&scene.events, CONEY_EVENT_RECOVERED, 0);
    assert_int_equal(coney_stream_send(producer, CONEY_STR("after"), 1), CONEY_OK);
    outcomes_wait(&outcomes, 1);
    assert_int_equal(outcomes_of(&outcomes, 0).status, CONEY_OK);
    coney_stream_producer_close(&producer, NULL);
    scene_down(&scene);
    outcomes_free(&outcomes);
    drop_user(user);
}

static void SB_80_a_secret_that_the_broker_refuses_is_told(void **state)
{
    (void)state;
    char user[80];
    struct scene scene;
    coney_call call = {0};
    make_user(user, sizeof user, "right");
    scene_up(&scene, uri_of("rabbitmq-stream", user, "right", node.stream_port));
    assert_int_equal(coney_stream_env_update_secret(scene.env, "wrong-word", &call), CONEY_EAUTH);
    assert_true(call.code != 0);
    assert_null(strstr(call.text, "wrong-word"));
    struct event refused = events_wait(&scene.events, CONEY_EVENT_SECRET_REFUSED, 0);
    assert_int_equal(refused.status, CONEY_EAUTH);
    assert_false(events_say(&scene.events, "wrong-word"));
    assert_int_equal(coney_stream_env_update_secret(scene.env, "right", &call), CONEY_OK);
    scene_down(&scene);
    drop_user(user);
}

static void SB_80_a_token_too_long_for_the_login_is_told_at_once(void **state)
{
    (void)state;
    static struct callback callback = {.user = "guest"};
    memset(callback.password, 't', 9000);
    coney_call call = {0};
    int64_t began = now_ms();
    coney_stream_env_options options = {.credentials = answer, .credentials_ctx = &callback};
    assert_null(coney_stream_env_open(node.uri, &options, &call));
    assert_int_equal(call.status, CONEY_EINVAL);
    assert_says(call.text, "4 KiB");
    coney_amqp_options amqp = {.credentials = answer, .credentials_ctx = &callback};
    assert_null(coney_amqp_open(amqp_uri(node.amqp_port), &amqp, &call));
    assert_int_equal(call.status, CONEY_EINVAL);
    assert_says(call.text, "bytes together");
    assert_true(now_ms() - began < scaled_ms(2000));
    monitor_free(&callback.monitor);
}

static void SB_80_a_callback_renews_the_secret_of_streams_before_it_expires(void **state)
{
    (void)state;
    static struct callback callback = {.user = "guest", .password = "guest", .valid_for = CONEY_SECOND};
    struct events events = {0};
    coney_stream_env_options options = {
        .credentials = answer, .credentials_ctx = &callback, .on_event = events_add, .event_ctx = &events};
    coney_call call = {0};
    coney_stream_env *env =
        coney_stream_env_open(uri_of("rabbitmq-stream", "nobody", "nothing", node.stream_port), &options, &call);
    if (env == NULL)
        fail_msg("%s", call.text);
    events_wait(&events, CONEY_EVENT_SECRET_RENEWED, 1);
    assert_int_equal(events_count(&events, CONEY_EVENT_DISCONNECTED), 0);
    coney_stream_env_close(&env, NULL);
    events_free(&events);
    monitor_free(&callback.monitor);
}

static void a_new_password_is_used_by_the_next_amqp_login(void **state)
{
    (void)state;
    char user[80];
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    coney_call call = {0};
    make_user(user, sizeof user, "old");
    amqp_scene_set(&scene);
    amqp_scene_open(&scene, uri_of("amqp", user, "old", node.amqp_port));
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    node_do(&node, "-q change_password %s new", user);
    assert_int_equal(coney_amqp_update_secret(scene.rabbit, "new", &call), CONEY_OK);
    close_connections_of(user);
    events_wait(&scene.events, CONEY_EVENT_RECOVERED, 0);
    amqp_publish_numbered(publisher, 0, 10);
    outcomes_wait(&outcomes, 10);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 10);
    amqp_publisher_close(&publisher);
    amqp_scene_down(&scene);
    outcomes_free(&outcomes);
    drop_user(user);
}

static void a_callback_is_asked_anew_when_the_broker_refuses_what_it_said(void **state)
{
    (void)state;
    static char user[80];
    static struct callback callback;
    struct amqp_scene scene;
    make_user(user, sizeof user, "old");
    callback.user = user;
    set_password(&callback, "old");
    amqp_scene_set(&scene);
    scene.options.credentials = answer;
    scene.options.credentials_ctx = &callback;
    amqp_scene_open(&scene, amqp_uri(node.amqp_port));
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, NULL, NULL);
    node_do(&node, "-q change_password %s new", user);
    close_connections_of(user);
    events_wait(&scene.events, CONEY_EVENT_RECOVERY_FAILED, 0);
    set_password(&callback, "new");
    events_wait(&scene.events, CONEY_EVENT_RECOVERED, 0);
    amqp_publisher_close(&publisher);
    amqp_scene_down(&scene);
    drop_user(user);
    monitor_free(&callback.monitor);
}

int main(void)
{
    if (!node_shared(&node) || node.amqp_port == 0 || node.ctl[0] == '\0')
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SB_80_the_next_login_uses_the_new_secret),
        cmocka_unit_test(SB_80_a_secret_that_the_broker_refuses_is_told),
        cmocka_unit_test(SB_80_a_token_too_long_for_the_login_is_told_at_once),
        cmocka_unit_test(SB_80_a_callback_renews_the_secret_of_streams_before_it_expires),
        cmocka_unit_test(a_new_password_is_used_by_the_next_amqp_login),
        cmocka_unit_test(a_callback_is_asked_anew_when_the_broker_refuses_what_it_said),
    };
    return run_tests(tests);
}
