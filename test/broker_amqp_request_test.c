/* Requests and replies over a real node: direct reply-to. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "scissors.h"

static struct node node;

/* A service on the scene's queue, on an environment of its own: answers "<body>!" unless told otherwise. */
struct service {
    struct amqp_scene scene;
    coney_amqp_publisher *publisher;
    coney_amqp_consumer *consumer;
    struct monitor monitor;
    size_t requests;
    size_t copies; /* replies to each request */
    bool silent;
    char correlation[64]; /* of the last request */
};

static coney_settle serve(void *ctx, const coney_amqp_delivery *delivery)
{
    struct service *service = ctx;
    char text[64];
    coney_amqp_properties properties;
    if (coney_amqp_delivery_properties(delivery, &properties) != CONEY_OK)
        return CONEY_REJECT;
    snprintf(text, sizeof text, "%.*s!", (int)delivery->body.len, (const char *)delivery->body.data);
    monitor_lock(&service->monitor);
    service->requests++;
    snprintf(service->correlation, sizeof service->correlation, "%.*s", (int)properties.correlation_id.len,
             (const char *)properties.correlation_id.data);
    size_t copies = service->silent ? 0 : service->copies;
    monitor_broadcast(&service->monitor);
    monitor_unlock(&service->monitor);
    for (size_t i = 0; i < copies; i++) {
        coney_amqp_message reply = {.body = coney_bytes_str(text), .content_type = CONEY_STR("text/plain")};
        if (coney_amqp_reply(service->publisher, delivery, &reply) != CONEY_OK)
            return CONEY_REJECT;
    }
    return CONEY_ACK;
}

static void service_up(struct service *service)
{
    *service = (struct service){.copies = 1};
    amqp_scene_up(&service->scene, &node);
    service->publisher = amqp_scene_publisher(&service->scene, NULL, NULL);
    coney_amqp_consumer_options options = {.on_delivery = serve, .ctx = service};
    coney_call call = {0};
    service->consumer = coney_amqp_consumer_open(service->scene.rabbit, service->scene.queue, &options, &call);
    if (service->consumer == NULL)
        fail_msg("%s", call.text);
}

static void service_down(struct service *service)
{
    assert_int_equal(coney_amqp_consumer_close(&service->consumer, NULL), CONEY_OK);
    amqp_publisher_close(&service->publisher);
    amqp_scene_down(&service->scene);
    monitor_free(&service->monitor);
}

static void service_wait(struct service *service, size_t requests)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&service->monitor);
    while (service->requests < requests && monitor_wait(&service->monitor, until))
        ;
    assert_true(service->requests >= requests);
    monitor_unlock(&service->monitor);
}

static coney_amqp_requester *requester_of(struct amqp_scene *scene, const char *routing_key, int64_t max_requests)
{
    coney_call call = {0};
    coney_amqp_requester_options options = {.routing_key = routing_key, .max_requests = max_requests};
    coney_amqp_requester *requester = coney_amqp_requester_open(scene->rabbit, &options, &call);
    if (requester == NULL)
        fail_msg("the requester did not open: %s", call.text);
    return requester;
}

static void is_answered(coney_amqp_requester *requester, const char *body)
{
    coney_call call = {0};
    coney_kept *reply = NULL;
    char expected[64];
    snprintf(expected, sizeof expected, "%s!", body);
    if (coney_amqp_request(requester, &(coney_amqp_message){.body = coney_bytes_str(body)}, &reply, &call) != CONEY_OK)
        fail_msg("'%s': %s: %s", body, coney_status_name(call.status), call.text);
    const coney_amqp_delivery *delivery = coney_amqp_kept_delivery(reply);
    assert_int_equal(delivery->body.len, strlen(expected));
    assert_memory_equal(delivery->body.data, expected, delivery->body.len);
    assert_int_equal(delivery->delivery_tag, 0);
    assert_string_equal(delivery->queue, "");
    assert_int_equal(coney_kept_settle(&reply, CONEY_ACK), CONEY_OK);
    assert_null(reply);
}

static void a_request_gets_its_reply(void **state)
{
    (void)state;
    struct service service;
    service_up(&service);
    coney_amqp_requester *requester = requester_of(&service.scene, service.scene.queue, 0);
    is_answered(requester, "one");
    is_answered(requester, "two");
    assert_int_equal(coney_amqp_requester_dropped(requester), 0);
    assert_int_equal(coney_amqp_requester_close(&requester, NULL), CONEY_OK);
    service_down(&service);
}

static void a_hundred_requests_at_once_get_each_its_own_reply(void **state)
{
    (void)state;
    struct service service;
    enum { COUNT = 100 };
    static struct waited_call calls[COUNT];
    static coney_kept *replies[COUNT];
    service_up(&service);
    memset(calls, 0, sizeof calls);
    coney_amqp_requester *requester = requester_of(&service.scene, service.scene.queue, 0);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(coney_amqp_request(requester, &(coney_amqp_message){.body = numbered(i)}, &replies[i],
                                            waited_call_of(&calls[i], 0)),
                         CONEY_OK);
    for (size_t i = 0; i < COUNT; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "m%zu!", i);
        assert_int_equal(waited_call_wait(&calls[i]), CONEY_OK);
        coney_bytes body = coney_amqp_kept_delivery(replies[i])->body;
        assert_int_equal(body.len, strlen(expected));
        assert_memory_equal(body.data, expected, body.len);
        coney_kept_settle(&replies[i], CONEY_ACK);
        waited_call_free(&calls[i]);
    }
    assert_int_equal(coney_amqp_requester_close(&requester, NULL), CONEY_OK);
    service_down(&service);
}

static void a_request_that_no_queue_takes_is_returned(void **state)
{
    (void)state;
    struct amqp_scene scene;
    amqp_scene_up(&scene, &node);
    coney_amqp_requester *requester = requester_of(&scene, "no service has this queue", 0);
    coney_call call = {0};
    coney_kept *reply = NULL;
    assert_int_equal(coney_amqp_request(requester, &(coney_amqp_message){.body = CONEY_STR("x")}, &reply, &call),
                     CONEY_ERETURNED);
    assert_int_equal(call.code, 312);
    assert_non_null(strstr(call.text, "no service has this queue"));
    assert_null(reply);
    assert_int_equal(coney_amqp_requester_close(&requester, NULL), CONEY_OK);
    amqp_scene_down(&scene);
}

static void a_request_to_a_missing_exchange_is_refused_and_the_next_one_works(void **state)
{
    (void)state;
    struct service service;
    service_up(&service);
    coney_amqp_requester *requester = requester_of(&service.scene, service.scene.queue, 0);
    coney_call call = {0};
    coney_kept *reply = NULL;
    coney_amqp_message lost = {.body = CONEY_STR("x"), .exchange = CONEY_STR("no such exchange")};
    assert_int_equal(coney_amqp_request(requester, &lost, &reply, &call), CONEY_ENOTFOUND);
    assert_int_equal(call.code, 404);
    events_wait(&service.scene.events, CONEY_EVENT_RECOVERED, 0);
    is_answered(requester, "after");
    assert_int_equal(coney_amqp_requester_close(&requester, NULL), CONEY_OK);
    service_down(&service);
}

static void M02_late_and_doubled_replies_are_dropped_and_counted(void **state)
{
    (void)state;
    struct service service;
    service_up(&service);
    service.copies = 3;
    coney_amqp_requester *requester = requester_of(&service.scene, service.scene.queue, 0);
    is_answered(requester, "three times");
    is_answered(requester, "again");
    monitor_lock(&service.monitor);
    service.silent = true;
    monitor_unlock(&service.monitor);
    coney_call call = {.deadline = 100 * CONEY_MILLISECOND};
    coney_kept *reply = NULL;
    assert_int_equal(coney_amqp_request(requester, &(coney_amqp_message){.body = CONEY_STR("late")}, &reply, &call),
                     CONEY_ETIMEDOUT);
    assert_null(reply);
    monitor_lock(&service.monitor);
    service.silent = false;
    monitor_unlock(&service.monitor);
    is_answered(requester, "once more");
    is_answered(requester, "and again"); /* behind the doubles of the one before */
    assert_in_range(coney_amqp_requester_dropped(requester), 6, 8);
    assert_int_equal(coney_amqp_requester_close(&requester, NULL), CONEY_OK);
    service_down(&service);
}

static void M04_no_two_requesters_have_a_correlation_id_in_common(void **state)
{
    (void)state;
    struct service service;
    char first[64];
    service_up(&service);
    for (int i = 0; i < 2; i++) {
        coney_amqp_requester *requester = requester_of(&service.scene, service.scene.queue, 0);
        is_answered(requester, "whose?");
        monitor_lock(&service.monitor);
        assert_int_equal(strlen(service.correlation), 32);
        if (i == 1)
            assert_string_not_equal(service.correlation, first);
        memcpy(first, service.correlation, sizeof first);
        monitor_unlock(&service.monitor);
        assert_int_equal(coney_amqp_requester_close(&requester, NULL), CONEY_OK);
    }
    service_down(&service);
}

static void beyond_max_requests_it_is_told_at_once(void **state)
{
    (void)state;
    struct service service;
    struct waited_call first = {0};
    coney_kept *kept = NULL, *reply = NULL;
    coney_call call = {0};
    service_up(&service);
    service.silent = true;
    coney_amqp_requester *requester = requester_of(&service.scene, service.scene.queue, 1);
    coney_amqp_message message = {.body = CONEY_STR("x")};
    assert_int_equal(coney_amqp_request(requester, &message, &kept, waited_call_of(&first, 0)), CONEY_OK);
    assert_int_equal(coney_amqp_request(requester, &message, &reply, &call), CONEY_EAGAIN);
    assert_non_null(strstr(call.text, "max_requests"));
    assert_int_equal(coney_call_cancel(first.call.id), CONEY_OK);
    assert_int_equal(waited_call_wait(&first), CONEY_ECANCELED);
    monitor_lock(&service.monitor);
    service.silent = false;
    monitor_unlock(&service.monitor);
    is_answered(requester, "room again");
    assert_int_equal(coney_amqp_requester_close(&requester, NULL), CONEY_OK);
    waited_call_free(&first);
    service_down(&service);
}

static void closing_ends_the_requests_that_are_under_way(void **state)
{
    (void)state;
    struct service service;
    struct waited_call first = {0};
    coney_kept *kept = NULL;
    service_up(&service);
    service.silent = true;
    coney_amqp_requester *requester = requester_of(&service.scene, service.scene.queue, 0);
    coney_amqp_message message = {.body = CONEY_STR("x")};
    assert_int_equal(coney_amqp_request(requester, &message, &kept, waited_call_of(&first, 0)), CONEY_OK);
    service_wait(&service, 1);
    assert_int_equal(coney_amqp_requester_close(&requester, NULL), CONEY_OK);
    assert_int_equal(waited_call_wait(&first), CONEY_ECLOSED);
    assert_null(kept);
    waited_call_free(&first);
    service_down(&service);
}

static void M03_what_is_under_way_at_a_cut_is_lost_at_once_and_later_requests_work(void **state)
{
    (void)state;
    struct service service;
    struct amqp_scene scene;
    service_up(&service);
    struct scissors *scissors = scissors_start(node.amqp_port);
    char uri[100];
    snprintf(uri, sizeof uri, "amqp%s", strchr(scissors_uri(scissors), ':'));
    amqp_scene_set(&scene);
    amqp_scene_open(&scene, uri);
    coney_amqp_requester *requester = requester_of(&scene, service.scene.queue, 0);
    for (size_t round = 0; round < 3; round++) {
        is_answered(requester, "before");
        scissors_cut_after(scissors, true, 1); /* the reply */
        coney_call call = call_within(20000);
        coney_kept *reply = NULL;
        int64_t began = now_ms();
        assert_int_equal(coney_amqp_request(requester, &(coney_amqp_message){.body = CONEY_STR("x")}, &reply, &call),
                         CONEY_ELOST);
        assert_true(now_ms() - began < scaled_ms(5000));
        assert_string_not_equal(call.text, "");
        scissors_cut_after(scissors, true, 0);
        events_wait(&scene.events, CONEY_EVENT_RECOVERED, round);
    }
    is_answered(requester, "after");
    assert_int_equal(coney_amqp_requester_close(&requester, NULL), CONEY_OK);
    amqp_scene_down(&scene);
    scissors_stop(&scissors);
    service_down(&service);
}

static void a_message_without_a_reply_address_cannot_be_replied_to(void **state)
{
    (void)state;
    struct amqp_scene scene;
    amqp_scene_up(&scene, &node);
    coney_amqp_publisher *publisher = amqp_scene_publisher(&scene, NULL, NULL);
    assert_int_equal(coney_amqp_publish_wait(publisher, &(coney_amqp_message){.body = CONEY_STR("x")}, NULL), CONEY_OK);
    coney_kept *kept = NULL;
    assert_int_equal(coney_amqp_get(scene.rabbit, scene.queue, &kept, NULL), CONEY_OK);
    assert_non_null(kept);
    coney_amqp_message reply = {.body = CONEY_STR("y")};
    assert_int_equal(coney_amqp_reply(publisher, coney_amqp_kept_delivery(kept), &reply), CONEY_EINVAL);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    amqp_publisher_close(&publisher);
    amqp_scene_down(&scene);
}

int main(void)
{
    if (!node_shared(&node) || node.amqp_port == 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_gets_its_reply),
        cmocka_unit_test(a_hundred_requests_at_once_get_each_its_own_reply),
        cmocka_unit_test(a_request_that_no_queue_takes_is_returned),
        cmocka_unit_test(a_request_to_a_missing_exchange_is_refused_and_the_next_one_works),
        cmocka_unit_test(M02_late_and_doubled_replies_are_dropped_and_counted),
        cmocka_unit_test(M04_no_two_requesters_have_a_correlation_id_in_common),
        cmocka_unit_test(beyond_max_requests_it_is_told_at_once),
        cmocka_unit_test(closing_ends_the_requests_that_are_under_way),
        cmocka_unit_test(M03_what_is_under_way_at_a_cut_is_lost_at_once_and_later_requests_work),
        cmocka_unit_test(a_message_without_a_reply_address_cannot_be_replied_to),
    };
    return run_tests(tests);
}
