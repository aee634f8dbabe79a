/* conformance_life.c: how brokers, feeds and publishers begin and end. */
#define _GNU_SOURCE
#include "conformance.h"

#include "service/app.h"
#include "service/subscription.h"

static void a_constructor_connects_to_nothing(void **state)
{
    struct stand stand;
    stand_set(&stand, *state, 1);
    coney_app_free(&stand.app); /* a sanitizer's own thread comes with the first one */
    size_t descriptors = descriptors_open();
    size_t threads = threads_running();
    int64_t begun = now_ms();
    stand_set(&stand, *state, 1);
    assert_true(now_ms() - begun < 1000);
    assert_in_range(descriptors_open(), descriptors, descriptors);
    assert_in_range(threads_running(), threads, threads + 1); /* the worker */
    assert_false(stand.transport->connected(stand.self));
    coney_app_free(&stand.app);
}

static void a_broker_that_cannot_be_reached_is_named_within_the_deadline(void **state)
{
    const struct conformance *what = *state;
    coney_app *app = coney_app_new("conformance", "1.0.0");
    coney_broker *broker = what->unreachable(app);
    int64_t begun = now_ms();
    coney_call call = stand_call();
    assert_int_not_equal(broker->transport->connect(broker->self, broker, &call), CONEY_OK);
    assert_true(now_ms() - begun < scaled_ms(12000));
    assert_true(call.text[0] != '\0');
    assert_false(broker->transport->connected(broker->self));
    coney_app_free(&app);
}

static void after_disconnecting_a_broker_may_be_connected_again(void **state)
{
    struct stand stand;
    stand_up(&stand, *state, 2);
    for (size_t round = 0; round < 3; round++) {
        struct listener listener = {.keep = true};
        listener_start(&listener, &stand, 0);
        listener_mark(&listener, 0);
        must(listener_copy(&listener, 0, stand.names[1], 1, 0), NULL, "copy");
        for (size_t i = 0; i < listener_count(&listener); i++)
            must(listener_settle(&listener, i, CONEY_ACK), NULL, "settle");
        listener_free(&listener);
        stand_close(&stand);
        stand_open(&stand);
    }
    stand_down(&stand);
}

static void disconnecting_leaves_no_thread_and_no_descriptor(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_set(&stand, *state, 1);
    size_t descriptors = descriptors_open();
    size_t threads = threads_running();
    stand_open(&stand);
    listener_start(&listener, &stand, 0);
    listener_mark(&listener, 0);
    listener_free(&listener);
    stand_close(&stand);
    wait_for_descriptors(descriptors);
    wait_for_threads(threads);
    stand_down(&stand);
}

static void what_is_kept_outlives_the_broker(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    listener_mark(&listener, 0);
    listener_mark(&listener, 0);
    struct arrival first = listener_of(&listener, 0);
    struct arrival second = listener_of(&listener, 1);
    listener_stop(&listener);
    stand_down(&stand);
    bytes_are(first.kept.body, first.body);
    assert_int_equal(stand.transport->attempt(&first.kept), 1);
    assert_int_equal(stand.transport->settle(&first.kept, CONEY_ACK), CONEY_ECLOSED);
    assert_int_equal(stand.transport->settle(&second.kept, CONEY_REQUEUE), CONEY_ECLOSED);
    listener_free(&listener);
}

static void a_source_that_is_not_there_is_named(void **state)
{
    const struct conformance *what = *state;
    struct stand stand;
    struct listener listener = {0};
    struct conformance_source of = {0};
    stand_up(&stand, what, 1);
    what->missing("conformance-nowhere", &of);
    coney_call call = stand_call();
    const coney_subscription subscription = {.source = of.source};
    listener.sink = (struct sink){0};
    assert_int_not_equal(stand.transport->subscribe(stand.self, &subscription, &listener.sink, &listener.feed, &call),
                         CONEY_OK);
    assert_non_null(strstr(call.text, "conformance-nowhere"));
    listener.feed = NULL;
    stand_publish(&stand, 0, "the connection goes on");
    stand_down(&stand);
}

static void a_source_of_another_kind_is_a_mistake(void **state)
{
    struct stand stand;
    stand_set(&stand, *state, 1);
    const coney_source sources[] = {CONEY_QUEUE("q"), CONEY_STREAM("s"), CONEY_TOPIC("t"), {.kind = CONEY_SOURCE_NONE}};
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        struct mistakes mistakes = {.subject = "subscription 'x'"};
        stand.transport->check_source(stand.self, &(coney_subscription){.source = sources[i]}, &mistakes);
        assert_int_equal(mistakes.count > 0, sources[i].kind != stand.transport->source);
        mistakes_free(&mistakes);
    }
    coney_app_free(&stand.app);
}

static void a_description_has_no_credentials(void **state)
{
    struct stand stand;
    char host[300];
    const char *protocol;
    const char *version;
    stand_set(&stand, *state, 1);
    if (stand.transport->describe(stand.self, host, sizeof host, &protocol, &version)) {
        assert_null(strchr(host, '@'));
        assert_null(strstr(host, "guest"));
        assert_true(protocol[0] != '\0');
    }
    coney_app_free(&stand.app);
}

struct stopper {
    struct listener *listener;
    struct monitor monitor;
    bool done;
};

static void *stop(void *ctx)
{
    struct stopper *stopper = ctx;
    listener_stop(stopper->listener);
    monitor_lock(&stopper->monitor);
    stopper->done = true;
    monitor_unlock(&stopper->monitor);
    return NULL;
}

static bool is_done(struct stopper *stopper)
{
    monitor_lock(&stopper->monitor);
    bool done = stopper->done;
    monitor_unlock(&stopper->monitor);
    return done;
}

static void unsubscribing_waits_for_the_message_at_hand_and_none_follows(void **state)
{
    struct stand stand;
    struct listener listener = {.has_gate = true, .gate = 2};
    struct stopper stopper = {.listener = &listener};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 20);
    listener_wait_at_gate(&listener);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop, &stopper), 0);
    assert_false(is_done(&stopper));
    listener_open_gate(&listener);
    pthread_join(thread, NULL);
    size_t count = listener_count(&listener);
    assert_int_equal(listener.running, 0);
    stand_publish(&stand, 0, "nobody reads this");
    assert_int_equal(listener_count(&listener), count);
    listener_free(&listener);
    stand_down(&stand);
}

static void unsubscribing_gives_up_waiting_at_its_deadline(void **state)
{
    struct stand stand;
    struct listener listener = {.has_gate = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "stays");
    listener_wait_at_gate(&listener);
    coney_call call = {.deadline = 50 * CONEY_MILLISECOND};
    int64_t begun = now_ms();
    assert_int_equal(stand.transport->unsubscribe(listener.feed, &call), CONEY_ETIMEDOUT);
    assert_true(now_ms() - begun < scaled_ms(5000));
    listener.feed = NULL;
    listener_open_gate(&listener);
    listener_wait(&listener, 1);
    stand_down(&stand);
    listener_free(&listener);
}

static bool has_threads(const struct conformance *what)
{
    return what->step == NULL;
}

static bool can_be_unreachable(const struct conformance *what)
{
    return what->unreachable != NULL;
}

static bool can_be_missing(const struct conformance *what)
{
    return what->missing != NULL;
}

const struct scenario conformance_life[] = {
    {"a_constructor_connects_to_nothing", a_constructor_connects_to_nothing, NULL},
    {"a_broker_that_cannot_be_reached_is_named_within_the_deadline",
     a_broker_that_cannot_be_reached_is_named_within_the_deadline, can_be_unreachable},
    {"after_disconnecting_a_broker_may_be_connected_again", after_disconnecting_a_broker_may_be_connected_again, NULL},
    {"disconnecting_leaves_no_thread_and_no_descriptor", disconnecting_leaves_no_thread_and_no_descriptor, NULL},
    {"what_is_kept_outlives_the_broker", what_is_kept_outlives_the_broker, NULL},
    {"a_source_that_is_not_there_is_named", a_source_that_is_not_there_is_named, can_be_missing},
    {"a_source_of_another_kind_is_a_mistake", a_source_of_another_kind_is_a_mistake, NULL},
    {"a_description_has_no_credentials", a_description_has_no_credentials, NULL},
    {"unsubscribing_waits_for_the_message_at_hand_and_none_follows",
     unsubscribing_waits_for_the_message_at_hand_and_none_follows, has_threads},
    {"unsubscribing_gives_up_waiting_at_its_deadline", unsubscribing_gives_up_waiting_at_its_deadline, has_threads},
    {NULL, NULL, NULL},
};
