/* publisher_test.c: publishers from their description to their close. */
#include "service/publish_fixture.h"

#include <pthread.h>

static void refused(struct rig *rig, const coney_publisher_options *options, const char *text)
{
    coney_publisher *p = coney_publisher_new(rig->broker, options);
    struct mistakes mistakes = {.subject = "app"};
    publisher_check(p, &mistakes);
    if (mistakes.text == NULL || strstr(mistakes.text, text) == NULL)
        fail_msg("'%s' is not in: %s", text, mistakes.text != NULL ? mistakes.text : "nothing");
    assert_string_equal(mistakes.subject, "app");
    mistakes_free(&mistakes);
}

static coney_status not_built(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                              coney_arena *arena, coney_fault *fault)
{
    (void)codec, (void)type, (void)value, (void)sink, (void)arena, (void)fault;
    return CONEY_EUNSUPPORTED;
}

static coney_status not_read(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out, coney_arena *arena,
                             coney_fault *fault)
{
    (void)codec, (void)body, (void)type, (void)out, (void)arena, (void)fault;
    return CONEY_EUNSUPPORTED;
}

static void every_mistake_is_named_with_publisher_and_field(void **state)
{
    struct rig *rig = *state;
    static const coney_codec missing = {.name = "morse", .content_type = "text/morse", .decode = not_read, .encode = not_built};
    static const coney_codec empty = {.name = "empty", .content_type = ""};
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    refused(rig, &(coney_publisher_options){.to = "x", .policy = (coney_publish_policy)7}, "publisher 'x': policy: 7 is none");
    refused(rig, &(coney_publisher_options){.to = "a.{b"}, "publisher 'a.{b': to: 'a.{b' has a { without its }");
    refused(rig, &(coney_publisher_options){.to = "a.{{b}}"}, "to: 'a.{{b}}' has a brace too many");
    refused(rig, &(coney_publisher_options){.to = "a.b}"}, "has a brace too many");
    refused(rig, &(coney_publisher_options){.name = name}, "name: has 299 bytes");
    refused(rig, &(coney_publisher_options){.to = "\xff"}, "to: is not UTF-8");
    refused(rig, &(coney_publisher_options){.exchange = "wrong"}, "publisher 'wrong': exchange: 'wrong' is wrong");
    refused(rig, &(coney_publisher_options){.codec = &missing}, "codec: this build of coney has no morse");
    refused(rig, &(coney_publisher_options){.codec = &empty}, "codec: 'empty' lacks one of");
    refused(rig, &(coney_publisher_options){.expiration = -1}, "expiration: -1 ns is less than nothing");
    refused(rig, &(coney_publisher_options){.priority = 4}, "priority: 4, and has_priority is not set");
    refused(rig, &(coney_publisher_options){.reserved = {0, 1}}, "publisher: a reserved member is not zero");
}

static void options_of_a_newer_version_are_a_mistake(void **state)
{
    struct rig *rig = *state;
    struct {
        coney_publisher_options known;
        uint64_t more;
    } newer = {.known.name = "new", .more = 1};
    coney_publisher_new_sized(rig->broker, &newer.known, sizeof newer);
    assert_non_null(rig->app->built.text);
    assert_non_null(strstr(rig->app->built.text, "'new' has members that this library does not know"));
}

static void a_publisher_is_named_by_what_it_says_first(void **state)
{
    struct rig *rig = *state;
    const coney_publisher *named =
        coney_publisher_new(rig->broker, &(coney_publisher_options){.name = "n", .to = "t", .exchange = "e"});
    const coney_publisher *to = coney_publisher_new(rig->broker, &(coney_publisher_options){.to = "t", .exchange = "e"});
    const coney_publisher *exchange = coney_publisher_new(rig->broker, &(coney_publisher_options){.exchange = "e"});
    coney_broker_label(rig->broker, "rabbit");
    rig_open(rig);
    assert_string_equal(named->name, "n");
    assert_string_equal(to->name, "t");
    assert_string_equal(exchange->name, "e");
    assert_string_equal(rig->broker->publishers->name, "rabbit");
}

static void a_null_broker_makes_no_publisher(void **state)
{
    (void)state;
    assert_null(coney_publisher_new(NULL, NULL));
}

static void an_outlet_that_does_not_open_leaves_the_publisher_closed(void **state)
{
    struct rig *rig = *state;
    fake_transport.connect(&rig->fake, rig->broker, NULL);
    rig->fake.fail_at = "open_outlet";
    coney_call call = {0};
    assert_int_equal(publisher_open(rig->broker->publishers, &call), CONEY_ELOST);
    assert_string_equal(call.text, "the fake was told to fail at open_outlet");
    assert_int_equal(publisher_close(rig->broker->publishers, NULL), CONEY_OK);
    assert_null(strstr(rig->journal.text, "close_outlet"));
}

static void a_close_counts_what_had_no_good_outcome(void **state)
{
    struct rig *rig = *state;
    rig->fake.outcome_with = CONEY_EREFUSED;
    rig_open(rig);
    order o = {0};
    assert_int_equal(order_publish(coney_out_of_broker(rig->broker), "x", &o), CONEY_OK);
    coney_call call = {0};
    assert_int_equal(publisher_close(rig->broker->publishers, &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    assert_string_equal(rig->journal.text, "publish(x) close_outlet(fake)");
}

/* A publish that does not end until the test lets it. */
struct gate {
    struct rig *rig;
    struct lock lock;
    struct cond changed;
    bool is_inside;
    bool may_go;
};

static void gate_set(struct gate *gate, bool *what)
{
    lock_acquire(&gate->lock);
    *what = true;
    cond_wake_all(&gate->changed);
    lock_release(&gate->lock);
}

static void gate_await(struct gate *gate, const bool *what)
{
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    lock_acquire(&gate->lock);
    while (!*what && cond_wait(&gate->changed, &gate->lock, deadline))
        ;
    assert_true(*what);
    lock_release(&gate->lock);
}

static coney_status stand_in_the_way(void *ctx, const coney_publish *message, coney_publish_next *next)
{
    struct gate *gate = ctx;
    gate_set(gate, &gate->is_inside);
    gate_await(gate, &gate->may_go);
    return coney_publish_next_run(next, message);
}

static void *publish_one(void *ctx)
{
    struct gate *gate = ctx;
    order o = {0};
    return order_publish(coney_out_of_broker(gate->rig->broker), "x", &o) == CONEY_OK ? gate : NULL;
}

static void a_close_waits_for_publishes_under_way_up_to_its_deadline(void **state)
{
    struct rig *rig = *state;
    struct gate gate = {.rig = rig};
    coney_app_use_publish(rig->app, stand_in_the_way, &gate);
    rig_open(rig);
    struct outlet *outlet = rig->broker->publishers->outlet;
    pthread_t thread;
    pthread_create(&thread, NULL, publish_one, &gate);
    gate_await(&gate, &gate.is_inside);
    coney_call call = {.deadline = 20 * CONEY_MILLISECOND};
    assert_int_equal(publisher_close(rig->broker->publishers, &call), CONEY_ETIMEDOUT);
    assert_string_equal(call.text, "publisher 'fake': a publish or a request has not ended in time");
    assert_null(strstr(rig->journal.text, "close_outlet"));
    gate_set(&gate, &gate.may_go);
    void *published;
    pthread_join(thread, &published);
    assert_ptr_equal(published, &gate);
    fake_transport.close_outlet(outlet, NULL);
}

static void *close_it(void *ctx)
{
    struct rig *rig = ctx;
    return publisher_close(rig->broker->publishers, NULL) == CONEY_OK ? rig : NULL;
}

static void a_close_goes_on_when_the_last_publish_has_ended(void **state)
{
    struct rig *rig = *state;
    struct gate gate = {.rig = rig};
    coney_app_use_publish(rig->app, stand_in_the_way, &gate);
    rig_open(rig);
    pthread_t publisher, closer;
    pthread_create(&publisher, NULL, publish_one, &gate);
    gate_await(&gate, &gate.is_inside);
    pthread_create(&closer, NULL, close_it, rig);
    gate_set(&gate, &gate.may_go);
    void *closed;
    pthread_join(closer, &closed);
    pthread_join(publisher, NULL);
    assert_ptr_equal(closed, rig);
    assert_non_null(strstr(rig->journal.text, "close_outlet(fake)"));
}

static void never_done(void *ctx, const coney_call *call)
{
    (void)ctx, (void)call;
    abort();
}

static void a_flush_is_the_transports(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = rig->broker->publishers;
    coney_call call = {0};
    assert_int_equal(coney_publisher_flush(p, &call), CONEY_ECLOSED);
    assert_string_equal(call.text, "publisher 'fake': the app does not run");
    rig_open(rig);
    assert_int_equal(coney_publisher_flush(p, NULL), CONEY_OK);
    assert_string_equal(rig->journal.text, "flush(fake)");
    rig->fake.fail_at = "flush";
    rig->fake.fail_status = CONEY_ETIMEDOUT;
    assert_int_equal(coney_publisher_flush(p, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.status, CONEY_ETIMEDOUT);
    call.on_done = never_done;
    assert_int_equal(coney_publisher_flush(p, &call), CONEY_EINVAL);
    assert_int_equal(coney_publisher_flush(NULL, NULL), CONEY_EINVAL);
    struct transport bare = fake_transport;
    bare.flush = NULL;
    rig->broker->transport = &bare;
    assert_int_equal(coney_publisher_flush(p, NULL), CONEY_OK);
    rig->broker->transport = &fake_transport;
}

int main(void)
{
#define RIGGED(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        RIGGED(every_mistake_is_named_with_publisher_and_field),
        RIGGED(options_of_a_newer_version_are_a_mistake),
        RIGGED(a_publisher_is_named_by_what_it_says_first),
        cmocka_unit_test(a_null_broker_makes_no_publisher),
        RIGGED(an_outlet_that_does_not_open_leaves_the_publisher_closed),
        RIGGED(a_close_counts_what_had_no_good_outcome),
        RIGGED(a_close_waits_for_publishes_under_way_up_to_its_deadline),
        RIGGED(a_close_goes_on_when_the_last_publish_has_ended),
        RIGGED(a_flush_is_the_transports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
