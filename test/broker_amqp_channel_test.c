/* Raw channels on a real node: calls, messages, refusals and closes; and what an environment does about those that are open when it ends. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "scene.h"

#include <malloc.h>

static struct node node;

static coney_amqp *opened(const char *uri, const coney_amqp_options *options)
{
    coney_call call = {0};
    coney_amqp *rabbit = coney_amqp_open(uri, options, &call);
    if (rabbit == NULL)
        fail_msg("%s did not open: %s: %s", uri, coney_status_name(call.status), call.text);
    return rabbit;
}

static coney_amqp_stats stats_of(const coney_amqp *rabbit)
{
    coney_amqp_stats stats;
    assert_int_equal(coney_amqp_get_stats(rabbit, &stats), CONEY_OK);
    return stats;
}

/* "amqp://USERINFO127.0.0.1:PORT/REST" */
static const char *uri_of(const char *userinfo, const char *rest)
{
    static char uri[400];
    snprintf(uri, sizeof uri, "amqp://%s127.0.0.1:%u%s", userinfo, (unsigned)node.amqp_port, rest);
    return uri;
}

/* Channels -------------------------------------------------------------------------------------------------------- */

struct heard {
    struct monitor monitor;
    size_t methods;
    uint16_t last_method;
    char body[40];
    size_t closed;
    coney_status status;
    uint32_t code;
};

static void on_method(void *ctx, const coney_amqp_method *method, const coney_amqp_delivery *content)
{
    struct heard *heard = ctx;
    monitor_lock(&heard->monitor);
    heard->methods++;
    heard->last_method = method->method_id;
    if (content != NULL)
        snprintf(heard->body, sizeof heard->body, "%.*s", (int)content->body.len, (const char *)content->body.data);
    monitor_broadcast(&heard->monitor);
    monitor_unlock(&heard->monitor);
}

static void on_closed(void *ctx, coney_status status, uint32_t code, const char *text)
{
    struct heard *heard = ctx;
    (void)text;
    monitor_lock(&heard->monitor);
    heard->closed++;
    heard->status = status;
    heard->code = code;
    monitor_broadcast(&heard->monitor);
    monitor_unlock(&heard->monitor);
}

static void wait_for_method(struct heard *heard, uint16_t method)
{
    int64_t until = now_ms() + SUPPORT_PATIENCE;
    monitor_lock(&heard->monitor);
    while (heard->last_method != method && monitor_wait(&heard->monitor, until))
        continue;
    monitor_unlock(&heard->monitor);
    assert_int_equal(heard->last_method, method);
}

static void wait_for_close(struct heard *heard)
{
    int64_t until = now_ms() + SUPPORT_PATIENCE;
    monitor_lock(&heard->monitor);
    while (heard->closed == 0 && monitor_wait(&heard->monitor, until))
        continue;
    monitor_unlock(&heard->monitor);
    assert_int_equal(heard->closed, 1);
}

static coney_amqp_channel *channel_of(coney_amqp *rabbit, struct heard *heard)
{
    coney_call call = {0};
    coney_amqp_channel_options options = {.on_method = on_method, .on_closed = on_closed, .ctx = heard};
    coney_amqp_channel *channel = coney_amqp_channel_open(rabbit, heard != NULL ? &options : NULL, &call);
    if (channel == NULL)
        fail_msg("no channel: %s", call.text);
    return channel;
}

#define ROW(class, method, ...)                                                                                                \
    &(const coney_amqp_method)                                                                                                 \
    {                                                                                                                          \
        class, method, sizeof((coney_value[]){__VA_ARGS__}) / sizeof(coney_value), (const coney_value[])                       \
        {                                                                                                                      \
            __VA_ARGS__                                                                                                        \
        }                                                                                                                      \
    }
#define NOTHING coney_value_null()
#define TEXT(text) coney_value_string(coney_bytes_str(text))
#define YES coney_value_bool(true)

/* queue.declare, exclusive. */
static coney_status declare(coney_amqp_channel *channel, const char *queue, bool passive, coney_amqp_answer *said,
                            coney_call *call)
{
    return coney_amqp_channel_call(channel,
                                   ROW(50, 10, NOTHING, TEXT(queue), coney_value_bool(passive), NOTHING,
                                       coney_value_bool(!passive), NOTHING, NOTHING, NOTHING),
                                   said, call);
}

static void a_raw_channel_declares_publishes_consumes_and_gets(void **state)
{
    (void)state;
    struct heard heard = {0};
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
    coney_amqp_channel *channel = channel_of(rabbit, &heard);
    coney_amqp_answer said;
    coney_call call = {0};
    if (declare(channel, "", false, &said, &call) != CONEY_OK)
        fail_msg("%s", call.text);
    assert_int_equal(said.method.class_id, 50);
    assert_int_equal(said.method.method_id, 11);
    char queue[256];
    coney_bytes named = said.method.fields[0].as.bytes;
    snprintf(queue, sizeof queue, "%.*s", (int)named.len, (const char *)named.data);
    assert_says(queue, "amq.gen");

    const coney_amqp_message message = {.body = CONEY_STR("by hand"), .content_type = CONEY_STR("text/plain")};
    assert_int_equal(coney_amqp_channel_send(channel, ROW(60, 40, NOTHING, TEXT(""), TEXT(queue), NOTHING, NOTHING), &message),
                     CONEY_OK);
    assert_int_equal(coney_amqp_channel_call(channel, ROW(60, 70, NOTHING, TEXT(queue), NOTHING), &said, &call), CONEY_OK);
    assert_int_equal(said.method.method_id, 71);
    assert_int_equal(heard.last_method, 71);
    assert_string_equal(heard.body, "by hand");
    assert_int_equal(coney_amqp_channel_send(channel, ROW(60, 80, said.method.fields[0], NOTHING), NULL), CONEY_OK);
    assert_int_equal(coney_amqp_channel_call(channel, ROW(60, 70, NOTHING, TEXT(queue), NOTHING), &said, &call), CONEY_OK);
    assert_int_equal(said.method.method_id, 72);

    assert_int_equal(
        coney_amqp_channel_call(channel, ROW(60, 20, NOTHING, TEXT(queue), TEXT("me"), NOTHING, YES, NOTHING, NOTHING, NOTHING),
                                &said, &call),
        CONEY_OK);
    assert_int_equal(coney_amqp_channel_send(channel, ROW(60, 40, NOTHING, TEXT(""), TEXT(queue), NOTHING, NOTHING), &message),
                     CONEY_OK);
    wait_for_method(&heard, 60);
    assert_int_equal(
        coney_amqp_channel_call(channel, ROW(50, 40, NOTHING, TEXT(queue), NOTHING, NOTHING, NOTHING), NULL, &call), CONEY_OK);
    wait_for_method(&heard, 30);
    assert_int_equal(coney_amqp_channel_close(&channel, &call), CONEY_OK);
    assert_null(channel);
    assert_int_equal(heard.closed, 0);
    coney_amqp_close(&rabbit, NULL);
    monitor_free(&heard.monitor);
}

static void G09_a_channel_that_the_broker_closes_says_why_in_every_use_from_there_on(void **state)
{
    (void)state;
    struct heard heard = {0};
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
    coney_amqp_channel *channel = channel_of(rabbit, &heard);
    coney_amqp_channel *other = channel_of(rabbit, NULL);
    coney_call call = {0};
    assert_int_equal(declare(channel, "no-such-queue", true, NULL, &call), CONEY_ENOTFOUND);
    assert_int_equal(call.code, 404);
    assert_says(call.text, "no queue 'no-such-queue'");
    assert_says(call.text, "queue.declare");
    wait_for_close(&heard);
    assert_int_equal(heard.code, 404);
    for (int i = 0; i < 2; i++) {
        call = (coney_call){0};
        assert_int_equal(declare(channel, "", false, NULL, &call), CONEY_ENOTFOUND);
        assert_int_equal(call.code, 404);
        assert_says(call.text, "no queue 'no-such-queue'");
        assert_int_equal(coney_amqp_channel_send(channel, ROW(60, 80, coney_value_i64(1), NOTHING), NULL), CONEY_ENOTFOUND);
    }
    assert_int_equal(declare(other, "", false, NULL, &call), CONEY_OK);
    assert_int_equal(coney_amqp_channel_close(&channel, &call), CONEY_OK);
    assert_int_equal(coney_amqp_channel_close(&other, &call), CONEY_OK);
    assert_int_equal(stats_of(rabbit).connections_lost, 0);
    coney_amqp_close(&rabbit, NULL);
    monitor_free(&heard.monitor);
}

static void G06_a_publish_to_a_missing_exchange_costs_its_own_channel_only(void **state)
{
    (void)state;
    struct heard heard = {0};
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
    coney_amqp_channel *channel = channel_of(rabbit, &heard);
    coney_amqp_channel *other = channel_of(rabbit, NULL);
    coney_call call = {0};
    const coney_amqp_message message = {.body = CONEY_STR("lost")};
    assert_int_equal(
        coney_amqp_channel_send(channel, ROW(60, 40, NOTHING, TEXT("no-such-exchange"), TEXT(""), NOTHING, NOTHING), &message),
        CONEY_OK);
    wait_for_close(&heard);
    assert_int_equal(declare(channel, "", false, NULL, &call), CONEY_ENOTFOUND);
    assert_says(call.text, "no exchange 'no-such-exchange'");
    assert_int_equal(declare(other, "", false, NULL, &call), CONEY_OK);
    coney_amqp_channel_close(&channel, NULL);
    coney_amqp_channel_close(&other, NULL);
    coney_amqp_close(&rabbit, NULL);
    monitor_free(&heard.monitor);
}

static void G07_closes_that_cross_leave_the_connection_and_the_number_usable(void **state)
{
    (void)state;
    coney_amqp *rabbit = opened(uri_of("", "?channel_max=2"), NULL);
    const coney_amqp_message message = {.body = CONEY_STR("lost")};
    for (int i = 0; i < 200; i++) {
        coney_amqp_channel *channel = channel_of(rabbit, NULL);
        coney_status sent = coney_amqp_channel_send(
            channel, ROW(60, 40, NOTHING, TEXT("no-such-exchange"), TEXT(""), NOTHING, NOTHING), &message);
        assert_int_equal(sent, CONEY_OK);
        assert_int_equal(coney_amqp_channel_close(&channel, NULL), CONEY_OK);
    }
    assert_int_equal(stats_of(rabbit).connections_lost, 0);
    coney_amqp_close(&rabbit, NULL);
}

static void methods_that_cannot_be_sent_are_refused_before_they_are(void **state)
{
    (void)state;
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
    coney_amqp_channel *channel = channel_of(rabbit, NULL);
    coney_call call = {0};
    const coney_amqp_message message = {.body = CONEY_STR("x")};
    char long_name[300];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(declare(channel, long_name, false, NULL, &call), CONEY_EINVAL);
    assert_says(call.text, "queue_declare.queue");
    assert_int_equal(coney_amqp_channel_call(channel, ROW(60, 10, NOTHING), NULL, &call), CONEY_EINVAL);
    assert_int_equal(coney_amqp_channel_call(channel, ROW(60, 80, NOTHING, NOTHING), NULL, &call), CONEY_EINVAL);
    assert_says(call.text, "has no answer");
    assert_int_equal(coney_amqp_channel_call(channel, ROW(20, 40, NOTHING, NOTHING, NOTHING, NOTHING), NULL, &call),
                     CONEY_EINVAL);
    assert_int_equal(coney_amqp_channel_send(channel, ROW(60, 70, NOTHING, NOTHING, NOTHING), NULL), CONEY_EINVAL);
    assert_int_equal(coney_amqp_channel_send(channel, ROW(60, 80, NOTHING, NOTHING), &message), CONEY_EINVAL);
    assert_int_equal(coney_amqp_channel_send(channel, ROW(60, 40, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING), NULL),
                     CONEY_EINVAL);
    assert_int_equal(declare(channel, "", false, NULL, &call), CONEY_OK);
    coney_amqp_channel_close(&channel, NULL);
    coney_amqp_close(&rabbit, NULL);
}

static void a_large_message_goes_out_in_frames_and_in_the_order_of_the_calls(void **state)
{
    (void)state;
    struct heard heard = {0};
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
    coney_amqp_channel *channel = channel_of(rabbit, &heard);
    coney_amqp_answer said;
    coney_call call = {0};
    size_t len = 6u << 20;
    char *body = calloc(1, len);
    memcpy(body, "large", 5);
    char queue[80];
    fresh_name(queue, sizeof queue, "large");
    assert_int_equal(declare(channel, queue, false, NULL, &call), CONEY_OK);
    const coney_amqp_message message = {.body = coney_bytes_of(body, len)};
    for (int i = 0; i < 3; i++) {
        coney_status sent = CONEY_EAGAIN;
        for (int64_t until = now_ms() + SUPPORT_PATIENCE; sent == CONEY_EAGAIN && now_ms() < until;)
            sent = coney_amqp_channel_send(channel, ROW(60, 40, NOTHING, TEXT(""), TEXT(queue), NOTHING, NOTHING), &message);
        assert_int_equal(sent, CONEY_OK);
    }
    for (int i = 3; i > 0; i--) {
        assert_int_equal(coney_amqp_channel_call(channel, ROW(60, 70, NOTHING, TEXT(queue), YES), &said, &call), CONEY_OK);
        assert_int_equal(said.method.method_id, 71);
        assert_memory_equal(heard.body, "large", 5);
    }
    coney_amqp_channel_close(&channel, NULL);
    coney_amqp_close(&rabbit, NULL);
    free(body);
    monitor_free(&heard.monitor);
}

static void D05_a_channel_over_the_limit_is_never_asked_for(void **state)
{
    (void)state;
    coney_amqp *rabbit = opened(uri_of("", "?channel_max=3"), NULL);
    coney_amqp_channel *channels[10];
    coney_call call = {0};
    for (size_t i = 0; i < 10; i++)
        channels[i] = channel_of(rabbit, NULL);
    assert_int_equal(stats_of(rabbit).connections, 4);
    assert_int_equal(stats_of(rabbit).channels, 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(declare(channels[i], "", false, NULL, &call), CONEY_OK);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(coney_amqp_channel_close(&channels[i], NULL), CONEY_OK);
    assert_int_equal(stats_of(rabbit).connections_lost, 0);
    coney_amqp_close(&rabbit, NULL);
}

static void G11_a_number_comes_back_when_its_close_is_answered(void **state)
{
    (void)state;
    coney_amqp *rabbit = opened(uri_of("", "?channel_max=2"), NULL);
    coney_call call = {0};
    coney_amqp_channel *kept = channel_of(rabbit, NULL);
    for (int i = 0; i < 1000; i++) {
        coney_amqp_channel *channel = channel_of(rabbit, NULL);
        assert_int_equal(coney_amqp_channel_close(&channel, NULL), CONEY_OK);
    }
    assert_int_equal(declare(kept, "", false, NULL, &call), CONEY_OK);
    coney_amqp_channel_close(&kept, NULL);
    assert_int_equal(stats_of(rabbit).connections_lost, 0);
    coney_amqp_close(&rabbit, NULL);
}

static void G14_calls_and_closed_channels_leave_nothing_behind(void **state)
{
    (void)state;
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
    coney_amqp_channel *channel = channel_of(rabbit, NULL);
    coney_call call = {0};
    char queue[80];
    fresh_name(queue, sizeof queue, "flat");
    for (int i = 0; i < 3000; i++)
        assert_int_equal(declare(channel, queue, false, NULL, &call), CONEY_OK);
    for (int i = 0; i < 1000; i++) {
        coney_amqp_channel *closed = channel_of(rabbit, NULL);
        assert_int_equal(declare(closed, "no-such-queue", true, NULL, &call), CONEY_ENOTFOUND);
        assert_int_equal(coney_amqp_channel_close(&closed, NULL), CONEY_OK);
    }
    assert_int_equal(stats_of(rabbit).channels, 1);
    assert_int_equal(stats_of(rabbit).connections, 1);
    coney_amqp_channel_close(&channel, NULL);
    coney_amqp_close(&rabbit, NULL);
}

static void G12_all_numbers_may_be_used_at_once_and_cost_nothing_afterwards(void **state)
{
    (void)state;
    enum { CHANNELS = 2000 };
    static coney_amqp_channel *channels[CHANNELS];
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
    size_t before = 0;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < CHANNELS; i++)
            channels[i] = channel_of(rabbit, NULL);
        assert_int_equal(stats_of(rabbit).channels, CHANNELS);
        for (size_t i = 0; i < CHANNELS; i++)
            assert_int_equal(coney_amqp_channel_close(&channels[i], NULL), CONEY_OK);
        while (stats_of(rabbit).channels > 0) /* until each close is answered */
            sched_yield();
        size_t used = mallinfo2().uordblks;
        assert_true(round == 0 || used <= before + 64 * 1024);
        before = used;
    }
    assert_int_equal(stats_of(rabbit).connections, 1);
    coney_amqp_close(&rabbit, NULL);
}

static void A19_what_an_answer_holds_stays_as_it_was(void **state)
{
    (void)state;
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
    coney_amqp_channel *channel = channel_of(rabbit, NULL);
    coney_amqp_answer first;
    coney_amqp_answer other;
    coney_call call = {0};
    char name[256];
    assert_int_equal(declare(channel, "", false, &first, &call), CONEY_OK);
    coney_bytes named = first.method.fields[0].as.bytes;
    snprintf(name, sizeof name, "%.*s", (int)named.len, (const char *)named.data);
    for (int i = 0; i < 100; i++)
        assert_int_equal(declare(channel, "", false, &other, &call), CONEY_OK);
    assert_int_equal(first.values[0].as.bytes.len, strlen(name));
    assert_memory_equal(first.values[0].as.bytes.data, name, strlen(name));
    coney_amqp_channel_close(&channel, NULL);
    coney_amqp_close(&rabbit, NULL);
}

static void C05_what_fits_no_frame_is_refused_and_costs_nothing_else(void **state)
{
    (void)state;
    static uint8_t memory[300000];
    static char text[200000];
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
    coney_amqp_channel *channel = channel_of(rabbit, NULL);
    coney_call call = {0};
    coney_value table;
    coney_builder builder;
    coney_builder_init_table(&builder, memory, sizeof memory);
    coney_builder_begin(&builder, CONEY_VALUE_MAP);
    coney_builder_put(&builder, CONEY_STR("note"), coney_value_string(coney_bytes_of(text, sizeof text)));
    coney_builder_end(&builder);
    assert_int_equal(coney_builder_finish(&builder, &table), CONEY_OK);
    assert_int_equal(coney_amqp_channel_call(
                         channel, ROW(50, 10, NOTHING, TEXT(""), NOTHING, NOTHING, YES, NOTHING, NOTHING, table), NULL, &call),
                     CONEY_ETOOBIG);
    const coney_amqp_message message = {.body = CONEY_STR("x"), .header_table = &table};
    assert_int_equal(coney_amqp_channel_send(channel, ROW(60, 40, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING), &message),
                     CONEY_ETOOBIG);
    assert_int_equal(declare(channel, "", false, NULL, &call), CONEY_OK);
    assert_int_equal(stats_of(rabbit).connections_lost, 0);
    coney_amqp_channel_close(&channel, NULL);
    coney_amqp_close(&rabbit, NULL);
}

/* Closes what it was told to close, from inside a callback. */
struct closer {
    struct heard heard;
    coney_amqp **rabbit;
    coney_amqp_channel **channel;
    struct waited_call ended; /* the environment's close */
    bool at_once;             /* in on_method; otherwise in on_closed */
};

static void close_both(struct closer *closer)
{
    if (closer->channel != NULL)
        assert_int_equal(coney_amqp_channel_close(closer->channel, NULL), CONEY_OK);
    if (closer->rabbit != NULL && *closer->rabbit != NULL)
        assert_int_equal(coney_amqp_close(closer->rabbit, waited_call_of(&closer->ended, 0)), CONEY_OK);
}

static void close_on_method(void *ctx, const coney_amqp_method *method, const coney_amqp_delivery *content)
{
    struct closer *closer = ctx;
    if (closer->at_once)
        close_both(closer);
    on_method(&closer->heard, method, content);
}

static void close_on_closed(void *ctx, coney_status status, uint32_t code, const char *text)
{
    struct closer *closer = ctx;
    if (!closer->at_once)
        close_both(closer);
    on_closed(&closer->heard, status, code, text);
}

static void G13_a_callback_may_close_its_channel_and_its_environment(void **state)
{
    (void)state;
    for (unsigned what = 0; what < 8; what++) {
        struct closer closer = {.at_once = (what & 4) != 0};
        coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), NULL);
        coney_call call = {0};
        coney_amqp_channel_options options = {.on_method = close_on_method, .on_closed = close_on_closed, .ctx = &closer};
        coney_amqp_channel *channel = coney_amqp_channel_open(rabbit, &options, &call);
        assert_non_null(channel);
        coney_amqp_channel *mine = channel;
        closer.channel = (what & 1) != 0 ? &channel : NULL;
        closer.rabbit = (what & 2) != 0 ? &rabbit : NULL;
        const coney_amqp_message message = {.body = CONEY_STR("returned")};
        const char *exchange = closer.at_once ? "" : "no-such-exchange";
        assert_int_equal(
            coney_amqp_channel_send(mine, ROW(60, 40, NOTHING, TEXT(exchange), TEXT("no-such-queue"), YES, NOTHING), &message),
            CONEY_OK);
        if (closer.at_once)
            wait_for_method(&closer.heard, 50);
        else
            wait_for_close(&closer.heard);
        if (closer.rabbit != NULL)
            assert_int_equal(waited_call_wait(&closer.ended), CONEY_OK);
        else if (closer.channel == NULL)
            coney_amqp_channel_close(&channel, NULL);
        coney_amqp_close(&rabbit, NULL);
        waited_call_free(&closer.ended);
        monitor_free(&closer.heard.monitor);
    }
}

/* The end --------------------------------------------------------------------------------------------------------- */

static void L12_an_operator_who_closes_connections_is_told_of_and_got_over(void **state)
{
    (void)state;
    struct heard heard = {0};
    char name[80];
    fresh_name(name, sizeof name, "forced");
    struct events events = {0};
    coney_amqp_options options = {.on_event = events_add, .event_ctx = &events, .name = name};
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), &options);
    coney_amqp_channel *channel = channel_of(rabbit, &heard);
    coney_call call = {0};
    free(node_ctl(&node,
                  "-q close_connection \"$(%s -q list_connections pid client_properties | grep '%s' | cut -f1)\" maintenance",
                  node.ctl, name));
    struct event closed = events_wait(&events, CONEY_EVENT_SERVER_CLOSE, 0);
    assert_int_equal(closed.code, 320);
    assert_says(closed.text, "maintenance");
    wait_for_close(&heard);
    assert_int_equal(heard.status, CONEY_ELOST);
    assert_int_equal(declare(channel, "", false, NULL, &call), CONEY_ELOST);
    coney_amqp_channel_close(&channel, NULL);
    channel = channel_of(rabbit, NULL);
    assert_int_equal(declare(channel, "", false, NULL, &call), CONEY_OK);
    coney_amqp_channel_close(&channel, NULL);
    coney_amqp_close(&rabbit, NULL);
    monitor_free(&heard.monitor);
    events_free(&events);
}

static void an_environment_closes_what_is_open_on_it(void **state)
{
    (void)state;
    struct amqp_scene scene;
    struct outcomes outcomes = {0};
    struct heard heard = {0};
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, &outcomes, NULL);
    channel_of(scene.rabbit, &heard);
    channel_of(scene.rabbit, NULL);
    amqp_publish_numbered(publisher, 0, 100);
    coney_call call = {0};
    assert_int_equal(coney_amqp_close(&scene.rabbit, &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 100);
    scene.rabbit = opened(amqp_uri(node.amqp_port), NULL);
    amqp_scene_down(&scene);
    outcomes_free(&outcomes);
    monitor_free(&heard.monitor);
}

static void an_environment_on_a_users_loop_opens_calls_and_closes(void **state)
{
    (void)state;
    coney_loop *loop = coney_loop_new();
    coney_amqp *rabbit = opened(amqp_uri(node.amqp_port), &(coney_amqp_options){.loop = loop});
    coney_amqp_channel *channel = channel_of(rabbit, NULL);
    coney_call call = {0};
    assert_int_equal(declare(channel, "", false, NULL, &call), CONEY_OK);
    assert_int_equal(coney_amqp_channel_close(&channel, NULL), CONEY_OK);
    assert_int_equal(coney_amqp_close(&rabbit, NULL), CONEY_OK);
    coney_loop_free(&loop);
}

int main(void)
{
    if (!node_shared(&node) || node.amqp_port == 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_raw_channel_declares_publishes_consumes_and_gets),
        cmocka_unit_test(G09_a_channel_that_the_broker_closes_says_why_in_every_use_from_there_on),
        cmocka_unit_test(G06_a_publish_to_a_missing_exchange_costs_its_own_channel_only),
        cmocka_unit_test(G07_closes_that_cross_leave_the_connection_and_the_number_usable),
        cmocka_unit_test(methods_that_cannot_be_sent_are_refused_before_they_are),
        cmocka_unit_test(a_large_message_goes_out_in_frames_and_in_the_order_of_the_calls),
        cmocka_unit_test(D05_a_channel_over_the_limit_is_never_asked_for),
        cmocka_unit_test(G11_a_number_comes_back_when_its_close_is_answered),
        cmocka_unit_test(G14_calls_and_closed_channels_leave_nothing_behind),
        cmocka_unit_test(G12_all_numbers_may_be_used_at_once_and_cost_nothing_afterwards),
        cmocka_unit_test(A19_what_an_answer_holds_stays_as_it_was),
        cmocka_unit_test(C05_what_fits_no_frame_is_refused_and_costs_nothing_else),
        cmocka_unit_test(G13_a_callback_may_close_its_channel_and_its_environment),
        cmocka_unit_test(L12_an_operator_who_closes_connections_is_told_of_and_got_over),
        cmocka_unit_test(an_environment_closes_what_is_open_on_it),
        cmocka_unit_test(an_environment_on_a_users_loop_opens_calls_and_closes),
    };
    return run_tests(tests);
}
