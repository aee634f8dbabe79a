/* memory_test.c: topics of the broker in memory: fan-out, patterns, retention, settlement; and its threads: order, back-pressure, end. */
#include "base/time.h"
#include "transport/memory_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* Topics, on one thread ------------------------------------------------------------------------------------------------------- */

static void every_subscription_of_a_topic_gets_each_message_and_nobody_what_came_before(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, NULL);
    scene_read(&s, CONEY_TOPIC("orders"));
    scene_read(&s, CONEY_TOPIC("orders"));
    scene_start(&s);
    assert_int_equal(scene_publish(&s, "nobody.listens", "x"), CONEY_OK);
    scene_publish(&s, "orders", "1");
    scene_publish(&s, "orders", "2");
    assert_string_equal(s.readers[0].got, "1 2");
    assert_string_equal(s.readers[1].got, "1 2");
    assert_int_equal(s.readers[0].offset, UINT64_MAX); /* nothing is kept, so there are no offsets */
    scene_end(&s);
}

static void patterns_get_what_matches_each_or_the_most_specific_alone(void **state)
{
    (void)state;
    for (int most_specific = 0; most_specific < 2; most_specific++) {
        struct scene s;
        scene_memory(&s, &(coney_memory_options){.most_specific = most_specific});
        scene_read(&s, CONEY_TOPIC("order.>"));
        scene_read(&s, CONEY_TOPIC("order.*"));
        scene_read(&s, CONEY_TOPIC("order.made"));
        scene_start(&s);
        scene_publish(&s, "order.made", "1");
        scene_publish(&s, "order.paid", "2");
        scene_publish(&s, "order.a.b", "3");
        assert_string_equal(s.readers[0].got, most_specific ? "3" : "1 2 3");
        assert_string_equal(s.readers[1].got, most_specific ? "2" : "1 2");
        assert_string_equal(s.readers[2].got, "1");
        scene_end(&s);
    }
}

static void a_message_comes_again_to_the_one_who_gave_it_back(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, NULL);
    scene_read(&s, CONEY_TOPIC("orders"));
    scene_read(&s, CONEY_TOPIC("orders"));
    scene_start(&s);
    assert_true(s.readers[0].feed->counts);
    s.readers[0].plan = "qr";
    scene_publish(&s, "orders", "1");
    assert_string_equal(s.readers[0].got, "1 1");
    assert_int_equal(s.readers[0].attempt, 2);
    assert_string_equal(s.readers[1].got, "1");
    s.readers[1].how = coney_retry_after(5 * CONEY_SECOND);
    scene_publish(&s, "orders", "2");
    s.readers[1].how = CONEY_ACK;
    scene_publish(&s, "orders", "3"); /* does not wait for the retry */
    assert_string_equal(s.readers[1].got, "1 2 3");
    scene_advance(&s, 5 * CONEY_SECOND);
    assert_string_equal(s.readers[1].got, "1 2 3 2");
    scene_end(&s);
}

static void a_kept_delivery_is_settled_later_and_may_come_again(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, NULL);
    scene_read(&s, CONEY_TOPIC("orders"));
    scene_start(&s);
    s.readers[0].plan = "kka";
    scene_publish(&s, "orders", "1");
    scene_publish(&s, "orders", "2");
    assert_int_equal(memory_open(s.broker), 2);
    assert_int_equal(s.broker->transport->settle(&s.readers[0].kept[0], CONEY_ACK), CONEY_OK);
    assert_int_equal(coney_kept_settle(&s.readers[0].kept[1].kept, CONEY_REQUEUE), CONEY_OK);
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "1 2 2");
    assert_int_equal(memory_open(s.broker), 0);
    scene_end(&s);
}

static void a_topic_that_keeps_its_last_messages_can_be_read_again(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, &(coney_memory_options){.retain_messages = 2});
    scene_read(&s, CONEY_TOPIC("log"));
    scene_read(&s, CONEY_TOPIC("log", .start = CONEY_STREAM_FIRST));
    scene_read(&s, CONEY_TOPIC(">"));
    const struct transport *t = s.broker->transport;
    assert_int_equal(t->connect(s.broker->self, s.broker, &s.call), CONEY_OK);
    s.outlet = scene_outlet(&s, NULL);
    for (int i = 0; i < 3; i++)
        scene_publish(&s, "log", (const char *[]){"0", "1", "2"}[i]);
    t->close_outlet(s.outlet, &s.call);
    scene_start(&s);
    scene_publish(&s, "log", "3");
    assert_string_equal(s.readers[0].got, "3");
    assert_string_equal(s.readers[1].got, "1 2 3");
    assert_int_equal(s.readers[1].offset, 3);
    assert_string_equal(s.readers[2].got, "3"); /* a pattern replays nothing */
    const coney_position there = {.at = CONEY_STREAM_OFFSET, .offset = 2};
    const coney_position evicted = {.at = CONEY_STREAM_OFFSET, .offset = 0};
    assert_int_equal(t->seek(s.readers[0].feed, &there, &s.call), CONEY_OK);
    assert_int_equal(t->seek(s.readers[0].feed, &evicted, &s.call), CONEY_ENOOFFSET);
    assert_int_equal(t->seek(s.readers[2].feed, &there, &s.call), CONEY_EUNSUPPORTED);
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "3 2 3");
    scene_end(&s);
}

static void a_seek_leaves_nothing_for_later(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, &(coney_memory_options){.retain_messages = 10});
    scene_read(&s, CONEY_TOPIC("log"));
    scene_start(&s);
    s.readers[0].how = coney_retry_after(CONEY_SECOND);
    scene_publish(&s, "log", "0");
    s.readers[0].how = CONEY_ACK;
    scene_publish(&s, "log", "1");
    const coney_position first = {.at = CONEY_STREAM_FIRST};
    assert_int_equal(s.broker->transport->seek(s.readers[0].feed, &first, &s.call), CONEY_OK);
    scene_run(&s);
    scene_advance(&s, 2 * CONEY_SECOND);
    assert_string_equal(s.readers[0].got, "0 1 0 1");
    assert_int_equal(memory_open(s.broker), 0);
    scene_end(&s);
}

static void the_newest_message_is_kept_however_large_it_is(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, &(coney_memory_options){.retain_bytes = 4});
    scene_start(&s);
    scene_publish(&s, "log", "ab");
    scene_publish(&s, "log", "cd");
    assert_int_equal(memory_ready(s.broker, "log"), 2);
    scene_publish(&s, "log", "longer than four");
    assert_int_equal(memory_ready(s.broker, "log"), 1);
    scene_end(&s);
}

static void names_that_are_no_topic_and_what_topics_do_not_have_are_refused(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, NULL);
    scene_start(&s);
    static const char *const bad[] = {"", "a..b", "a.*", ">", "a."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(scene_publish(&s, bad[i], "x"), CONEY_EINVAL);
    const struct outgoing expires = {.to = CONEY_STR("a"), .expiration = CONEY_SECOND};
    assert_int_equal(scene_send(&s, s.outlet, &expires), CONEY_EUNSUPPORTED);
    scene_end(&s);
}

static void read_all(struct reader *reader, struct incoming *m)
{
    const struct transport *t = m->feed->transport;
    coney_delivery_info *info = reader->ctx;
    coney_value value;
    t->info(m, info);
    assert_true(t->header(m, CONEY_STR("n"), &value));
    assert_int_equal(value.as.i64, -3);
    assert_false(t->header(m, CONEY_STR("none"), &value));
    assert_memory_equal(t->key(m, NULL).data, "ada", 3);
    assert_memory_equal(t->content_type(m).data, "text/plain", 10);
    assert_memory_equal(info->correlation_id.data, "c1", 2);
    assert_memory_equal(info->reply_to.data, "back", 4);
    assert_memory_equal(info->message_id.data, "m1", 2);
    assert_memory_equal(info->type.data, "order", 5);
    assert_memory_equal(info->source.data, "orders", 6);
    assert_int_equal(info->timestamp, 1234567);
}

static void properties_and_headers_arrive_as_they_were(void **state)
{
    (void)state;
    struct scene s;
    coney_delivery_info info = {0};
    scene_memory(&s, NULL);
    scene_read(&s, CONEY_TOPIC("orders"));
    scene_start(&s);
    s.readers[0].on_delivery = read_all;
    s.readers[0].ctx = &info;
    const coney_field header = {CONEY_STR_INIT("n"), coney_value_i32(-3)};
    const struct outgoing out = {.to = CONEY_STR("orders"),
                                 .body = CONEY_STR("b"),
                                 .content_type = CONEY_STR("text/plain"),
                                 .correlation_id = CONEY_STR("c1"),
                                 .reply_to = CONEY_STR("back"),
                                 .message_id = CONEY_STR("m1"),
                                 .type = CONEY_STR("order"),
                                 .key = CONEY_STR("ada"),
                                 .headers = &header,
                                 .header_count = 1,
                                 .timestamp = 1234567};
    assert_int_equal(scene_send(&s, s.outlet, &out), CONEY_OK);
    scene_run(&s);
    assert_int_equal(s.readers[0].count, 1);
    scene_end(&s);
}

static coney_status copied;

static void copy_told(void *ctx, const coney_outcome *outcome)
{
    (void)ctx;
    copied = outcome->status;
}

static void copy_to_dead(struct reader *reader, struct incoming *m)
{
    (void)reader;
    copied = CONEY_EUNKNOWN;
    assert_int_equal(m->feed->transport->copy(m, "dead", 3, 0, copy_told, NULL, 0), CONEY_OK);
    assert_int_equal(m->feed->transport->copy(m, NULL, 3, 0, copy_told, NULL, 0), CONEY_EUNSUPPORTED);
}

static void a_copy_to_a_dead_letter_says_how_often_it_was_delivered(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, NULL);
    scene_read(&s, CONEY_TOPIC("orders"));
    scene_read(&s, CONEY_TOPIC("dead"));
    scene_start(&s);
    s.readers[0].on_delivery = copy_to_dead;
    scene_publish(&s, "orders", "1");
    assert_int_equal(copied, CONEY_OK);
    assert_string_equal(s.readers[1].got, "1");
    assert_int_equal(s.readers[1].attempt, 4);
    scene_end(&s);
}

static void remember_who_asks(struct reader *reader, struct incoming *m)
{
    coney_delivery_info info = {0};
    m->feed->transport->info(m, &info);
    snprintf(reader->ctx, 64, "%.*s", (int)info.reply_to.len, (const char *)info.reply_to.data);
}

static void a_reply_that_nobody_waits_for_any_more_is_kept_by_no_topic(void **state)
{
    (void)state;
    struct scene s;
    char who[64] = "";
    scene_memory(&s, &(coney_memory_options){.retain_messages = 10});
    scene_read(&s, CONEY_TOPIC("ask"));
    scene_start(&s);
    s.readers[0].on_delivery = remember_who_asks;
    s.readers[0].ctx = who;
    struct incoming reply;
    const struct outgoing ask = {.to = CONEY_STR("ask"), .body = CONEY_STR("?")};
    coney_call call = {.deadline = CONEY_SECOND};
    assert_int_equal(s.broker->transport->request(s.outlet, &ask, &reply, &call), CONEY_ETIMEDOUT);
    assert_int_not_equal(who[0], '\0');
    const struct outgoing late = {.to = coney_bytes_str(who), .body = CONEY_STR("!"), .to_requester = true};
    assert_int_equal(scene_send(&s, s.outlet, &late), CONEY_OK);
    assert_int_equal(memory_ready(s.broker, who), SIZE_MAX);
    scene_end(&s);
}

static void after_the_end_everything_answers_closed(void **state)
{
    (void)state;
    struct scene s;
    scene_memory(&s, NULL);
    scene_start(&s);
    struct outlet *outlet = s.outlet;
    s.outlet = NULL;
    scene_close(&s);
    const struct outgoing out = {.to = CONEY_STR("a")};
    struct incoming reply;
    assert_int_equal(outlet->transport->publish(outlet, &out, 1), CONEY_ECLOSED);
    assert_int_equal(outlet->transport->request(outlet, &out, &reply, &s.call), CONEY_ECLOSED);
    assert_false(s.broker->transport->connected(s.broker->self));
    outlet->transport->close_outlet(outlet, &s.call);
    scene_end(&s);
}

/* Threads --------------------------------------------------------------------------------------------------------------------- */

struct counting {
    struct sink sink; /* first */
    struct feed *feed;
    _Atomic uint64_t count;
    _Atomic bool out_of_order;
    _Atomic bool begun;
    _Atomic bool go; /* handlers wait for it while `gated` */
    bool gated;
    uint64_t next;
    bool keeps;
    struct incoming kept[1000];
    _Atomic size_t kept_count;
};

static void wait_until(const char *what, bool (*is_so)(void *ctx), void *ctx)
{
    int64_t deadline = time_after(time_now(), 20 * CONEY_SECOND);
    while (!is_so(ctx)) {
        if (time_now() > deadline)
            fail_msg("in 20 s it did not come about that %s", what);
        usleep(500);
    }
}

static coney_settle count_one(struct sink *sink, struct incoming *m)
{
    struct counting *c = (struct counting *)sink;
    atomic_store(&c->begun, true);
    while (c->gated && !atomic_load(&c->go))
        usleep(200);
    uint64_t number = 0;
    memcpy(&number, m->body.data, sizeof number);
    if (number != c->next)
        atomic_store(&c->out_of_order, true);
    c->next = number + 1;
    if (c->keeps) {
        assert_true(m->feed->transport->keep(m));
        c->kept[atomic_load(&c->kept_count)] = *m;
        atomic_fetch_add(&c->kept_count, 1);
    }
    atomic_fetch_add(&c->count, 1);
    return c->keeps ? CONEY_KEPT : CONEY_ACK;
}

struct live {
    coney_app *app;
    coney_broker *broker;
    struct outlet *outlet;
    struct counting counting;
    _Atomic uint64_t confirmed;
    _Atomic bool squeezed; /* more than eight were taken before the handler went on */
};

static void live_outcome(void *ctx, const coney_outcome *outcome)
{
    struct live *l = ctx;
    if (outcome->status == CONEY_OK)
        atomic_fetch_add(&l->confirmed, 1);
}

static void live_subscribe(struct live *l, const coney_subscription *subscription)
{
    coney_call call = {0};
    l->counting.sink.deliver = count_one;
    assert_int_equal(
        l->broker->transport->subscribe(l->broker->self, subscription, &l->counting.sink, &l->counting.feed, &call), CONEY_OK);
}

static void live_start(struct live *l, coney_source source)
{
    memset(l, 0, sizeof *l);
    coney_call call = {0};
    l->app = coney_app_new("live", "1");
    l->broker = coney_app_memory(l->app, &(coney_memory_options){0});
    const struct transport *t = l->broker->transport;
    assert_int_equal(t->connect(l->broker->self, l->broker, &call), CONEY_OK);
    const struct outlet_options options = {.outcome = live_outcome, .ctx = l};
    assert_int_equal(t->open_outlet(l->broker->self, &options, &l->outlet, &call), CONEY_OK);
    const coney_subscription subscription = {.source = source};
    static coney_subscription kept;
    kept = subscription;
    live_subscribe(l, &kept);
}

static void live_end(struct live *l)
{
    coney_call call = {.deadline = 20 * CONEY_SECOND};
    const struct transport *t = l->broker->transport;
    if (l->counting.feed != NULL)
        assert_int_equal(t->unsubscribe(l->counting.feed, &call), CONEY_OK);
    assert_int_equal(t->close_outlet(l->outlet, &call), CONEY_OK);
    assert_int_equal(t->disconnect(l->broker->self, &call), CONEY_OK);
    coney_app_free(&l->app);
}

static coney_status live_publish(struct live *l, uint64_t number)
{
    const struct outgoing out = {.to = CONEY_STR("numbers"), .body = {&number, sizeof number}};
    return l->outlet->transport->publish(l->outlet, &out, number);
}

enum { MANY = 20000 };

static bool got_many(void *ctx)
{
    return atomic_load(&((struct live *)ctx)->counting.count) == MANY;
}

static void a_thread_gets_everything_in_order(void **state)
{
    (void)state;
    struct live l;
    live_start(&l, CONEY_TOPIC("numbers", .max_waiting = 100));
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(live_publish(&l, i), CONEY_OK);
    wait_until("all had come", got_many, &l);
    assert_false(l.counting.out_of_order);
    assert_int_equal(l.confirmed, MANY);
    live_end(&l);
}

static bool is_full(void *ctx)
{
    return atomic_load(&((struct live *)ctx)->confirmed) >= 8;
}

static void *publish_twenty(void *arg)
{
    struct live *l = arg;
    for (uint64_t i = 0; i < 20; i++) {
        if (live_publish(l, i) != CONEY_OK)
            return (void *)"refused";
        if (i >= 8 && !atomic_load(&l->counting.go))
            atomic_store(&l->squeezed, true);
    }
    return NULL;
}

static bool got_twenty(void *ctx)
{
    return atomic_load(&((struct live *)ctx)->counting.count) == 20;
}

static void a_publish_waits_for_room_and_goes_on_when_there_is_some(void **state)
{
    (void)state;
    struct live l;
    live_start(&l, CONEY_TOPIC("numbers", .max_waiting = 8));
    l.counting.gated = true;
    pthread_t thread;
    void *said = NULL;
    assert_int_equal(pthread_create(&thread, NULL, publish_twenty, &l), 0);
    wait_until("the topic was full", is_full, &l);
    assert_int_equal(atomic_load(&l.confirmed), 8);
    atomic_store(&l.counting.go, true);
    pthread_join(thread, &said);
    assert_null(said);
    assert_false(l.squeezed); /* the ninth had waited */
    wait_until("all had come", got_twenty, &l);
    assert_false(l.counting.out_of_order);
    live_end(&l);
}

static bool has_come(void *ctx)
{
    return atomic_load(&((struct live *)ctx)->counting.begun);
}

static void an_end_waits_for_the_handler_and_starts_no_other(void **state)
{
    (void)state;
    struct live l;
    live_start(&l, CONEY_TOPIC("numbers"));
    l.counting.gated = true;
    for (uint64_t i = 0; i < 5; i++)
        live_publish(&l, i);
    coney_call call = {.deadline = 20 * CONEY_MILLISECOND};
    const struct transport *t = l.broker->transport;
    wait_until("the handler had begun", has_come, &l);
    assert_int_equal(t->unsubscribe(l.counting.feed, &call), CONEY_ETIMEDOUT);
    atomic_store(&l.counting.go, true);
    call.deadline = 20 * CONEY_SECOND;
    assert_int_equal(t->unsubscribe(l.counting.feed, &call), CONEY_OK);
    l.counting.feed = NULL;
    assert_int_equal(atomic_load(&l.counting.count), 1);
    live_end(&l);
}

static void a_publish_does_not_wait_for_room_with_a_subscription_that_ends(void **state)
{
    (void)state;
    struct live l;
    live_start(&l, CONEY_TOPIC("numbers", .max_waiting = 8));
    l.counting.gated = true;
    pthread_t thread;
    void *said = NULL;
    assert_int_equal(pthread_create(&thread, NULL, publish_twenty, &l), 0);
    wait_until("the topic was full", is_full, &l);
    wait_until("the handler had begun", has_come, &l);
    coney_call call = {.deadline = CONEY_MILLISECOND};
    int64_t before = time_now();
    assert_int_equal(l.broker->transport->unsubscribe(l.counting.feed, &call), CONEY_ETIMEDOUT);
    pthread_join(thread, &said);
    assert_null(said);
    assert_true(time_now() - before < 5 * CONEY_SECOND);
    atomic_store(&l.counting.go, true);
    live_end(&l);
}

static bool kept_all(void *ctx)
{
    return atomic_load(&((struct live *)ctx)->counting.kept_count) == 1000;
}

static void *settle_half(void *arg)
{
    struct counting *c = arg;
    for (size_t i = 0; i < 1000; i += 2)
        c->kept[i].feed->transport->settle(&c->kept[i], CONEY_ACK);
    return NULL;
}

static void kept_deliveries_are_settled_from_several_threads(void **state)
{
    (void)state;
    struct live l;
    live_start(&l, CONEY_TOPIC("numbers"));
    l.counting.keeps = true;
    for (uint64_t i = 0; i < 1000; i++)
        live_publish(&l, i);
    wait_until("all were kept", kept_all, &l);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, settle_half, &l.counting), 0);
    for (size_t i = 1; i < 1000; i += 2)
        assert_int_equal(l.broker->transport->settle(&l.counting.kept[i], CONEY_ACK), CONEY_OK);
    pthread_join(thread, NULL);
    assert_int_equal(memory_open(l.broker), 0);
    live_end(&l);
}

static coney_settle retry_once(struct sink *sink, struct incoming *m)
{
    struct counting *c = (struct counting *)sink;
    atomic_fetch_add(&c->count, 1);
    return m->feed->transport->attempt(m) == 1 ? coney_retry_after(10 * CONEY_MILLISECOND) : CONEY_ACK;
}

static bool got_two(void *ctx)
{
    return atomic_load(&((struct live *)ctx)->counting.count) == 2;
}

static void a_retry_comes_when_its_time_is_over(void **state)
{
    (void)state;
    struct live l;
    live_start(&l, CONEY_TOPIC("numbers"));
    l.counting.sink.deliver = retry_once;
    int64_t before = time_now();
    live_publish(&l, 0);
    wait_until("it came again", got_two, &l);
    assert_true(time_now() - before >= 10 * CONEY_MILLISECOND);
    live_end(&l);
}

static struct live *asked;

static coney_settle answer(struct sink *sink, struct incoming *m)
{
    (void)sink;
    coney_delivery_info info = {0};
    m->feed->transport->info(m, &info);
    const struct outgoing out = {
        .to = info.reply_to, .body = m->body, .correlation_id = info.correlation_id, .to_requester = true};
    return asked->outlet->transport->publish(asked->outlet, &out, 0) == CONEY_OK ? CONEY_ACK : CONEY_REJECT;
}

static void a_request_waits_for_its_reply_and_not_for_ever(void **state)
{
    (void)state;
    struct live l;
    live_start(&l, CONEY_TOPIC("numbers"));
    l.counting.sink.deliver = answer;
    asked = &l;
    struct incoming reply;
    coney_call call = {.deadline = 10 * CONEY_SECOND};
    const struct transport *t = l.broker->transport;
    const struct outgoing ask = {.to = CONEY_STR("numbers"), .body = CONEY_STR("question")};
    assert_int_equal(t->request(l.outlet, &ask, &reply, &call), CONEY_OK);
    assert_memory_equal(reply.body.data, "question", 8);
    assert_int_equal(t->settle(&reply, CONEY_ACK), CONEY_OK);
    const struct outgoing nobody = {.to = CONEY_STR("nobody"), .body = CONEY_STR("question")};
    assert_int_equal(t->request(l.outlet, &nobody, &reply, &call), CONEY_ERETURNED);
    l.counting.gated = true;
    l.counting.sink.deliver = count_one;
    call.deadline = 20 * CONEY_MILLISECOND;
    assert_int_equal(t->request(l.outlet, &ask, &reply, &call), CONEY_ETIMEDOUT);
    atomic_store(&l.counting.go, true);
    live_end(&l);
}

static coney_settle publish_to_itself(struct sink *sink, struct incoming *m)
{
    struct counting *c = (struct counting *)sink;
    (void)m;
    uint64_t number = 0;
    const struct outgoing out = {.to = CONEY_STR("numbers"), .body = {&number, sizeof number}};
    coney_status status = CONEY_OK;
    for (int i = 0; i < 100 && status == CONEY_OK; i++)
        status = asked->outlet->transport->publish(asked->outlet, &out, 0);
    if (atomic_load(&c->count) == 0)
        atomic_store(&c->count, status);
    return CONEY_ACK;
}

static bool was_told(void *ctx)
{
    return atomic_load(&((struct live *)ctx)->counting.count) != 0;
}

static void a_handler_does_not_wait_for_room_that_it_would_have_to_make(void **state)
{
    (void)state;
    struct live l;
    live_start(&l, CONEY_TOPIC("numbers", .max_waiting = 4));
    l.counting.sink.deliver = publish_to_itself;
    asked = &l;
    live_publish(&l, 0);
    wait_until("it was told", was_told, &l);
    assert_int_equal(atomic_load(&l.counting.count), CONEY_EAGAIN);
    live_end(&l);
}

/* Many at once ---------------------------------------------------------------------------------------------------------------- */

enum { PUBLISHERS = 2, EACH = 5000 };

struct crowd {
    struct live live;
    _Atomic uint32_t next_publisher;
    uint64_t expected[PUBLISHERS];
    _Atomic uint64_t count;
    _Atomic uint64_t misplaced;
};

static struct crowd *crowd;

static coney_settle count_by_publisher(struct sink *sink, struct incoming *m)
{
    uint64_t number[2];
    (void)sink;
    memcpy(number, m->body.data, sizeof number);
    if (number[1] == 0)
        crowd->expected[number[0]] = 0; /* from the start, or once more after the seek */
    if (crowd->expected[number[0]]++ != number[1])
        atomic_fetch_add(&crowd->misplaced, 1);
    atomic_fetch_add(&crowd->count, 1);
    return CONEY_ACK;
}

static coney_settle count_nothing(struct sink *sink, struct incoming *m)
{
    (void)sink;
    (void)m;
    return CONEY_ACK;
}

static void *publish_each(void *arg)
{
    (void)arg;
    uint64_t number[2] = {atomic_fetch_add(&crowd->next_publisher, 1), 0};
    const struct outgoing out = {.to = CONEY_STR("crowd.here"), .body = {number, sizeof number}};
    for (; number[1] < EACH; number[1]++)
        if (crowd->live.outlet->transport->publish(crowd->live.outlet, &out, 0) != CONEY_OK)
            return (void *)"refused";
    return NULL;
}

static bool has_counted(void *wanted)
{
    return atomic_load(&crowd->count) >= *(uint64_t *)wanted;
}

static void subscriptions_come_and_go_while_publishers_publish(void **state)
{
    (void)state;
    static struct crowd c;
    memset(&c, 0, sizeof c);
    crowd = &c;
    coney_call call = {0};
    c.live.app = coney_app_new("live", "1");
    c.live.broker = coney_app_memory(c.live.app, &(coney_memory_options){.retain_messages = PUBLISHERS * EACH});
    const struct transport *t = c.live.broker->transport;
    void *self = c.live.broker->self;
    assert_int_equal(t->connect(self, c.live.broker, &call), CONEY_OK);
    const struct outlet_options options = {.outcome = live_outcome, .ctx = &c.live};
    assert_int_equal(t->open_outlet(self, &options, &c.live.outlet, &call), CONEY_OK);
    const coney_subscription all = {.source = CONEY_TOPIC("crowd.here", .max_waiting = 500)};
    const coney_subscription others = {.source = CONEY_TOPIC("crowd.*", .max_waiting = 50)};
    struct sink counting = {.deliver = count_by_publisher};
    struct sink passing = {.deliver = count_nothing};
    struct feed *feed;
    assert_int_equal(t->subscribe(self, &all, &counting, &feed, &call), CONEY_OK);

    pthread_t threads[PUBLISHERS];
    for (size_t i = 0; i < PUBLISHERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, publish_each, NULL), 0);
    for (int i = 0; i < 50; i++) {
        struct feed *passer;
        assert_int_equal(t->subscribe(self, &others, &passing, &passer, &call), CONEY_OK);
        assert_int_equal(t->unsubscribe(passer, &call), CONEY_OK);
    }
    for (size_t i = 0; i < PUBLISHERS; i++) {
        void *said = NULL;
        pthread_join(threads[i], &said);
        assert_null(said);
    }
    uint64_t wanted = PUBLISHERS * EACH;
    wait_until("all had come", has_counted, &wanted);
    const coney_position first = {.at = CONEY_STREAM_FIRST};
    assert_int_equal(t->seek(feed, &first, &call), CONEY_OK);
    wanted *= 2;
    wait_until("all had come again", has_counted, &wanted);
    assert_int_equal(atomic_load(&c.misplaced), 0);
    assert_int_equal(t->unsubscribe(feed, &call), CONEY_OK);
    live_end(&c.live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_subscription_of_a_topic_gets_each_message_and_nobody_what_came_before),
        cmocka_unit_test(patterns_get_what_matches_each_or_the_most_specific_alone),
        cmocka_unit_test(a_message_comes_again_to_the_one_who_gave_it_back),
        cmocka_unit_test(a_kept_delivery_is_settled_later_and_may_come_again),
        cmocka_unit_test(a_topic_that_keeps_its_last_messages_can_be_read_again),
        cmocka_unit_test(a_seek_leaves_nothing_for_later),
        cmocka_unit_test(the_newest_message_is_kept_however_large_it_is),
        cmocka_unit_test(names_that_are_no_topic_and_what_topics_do_not_have_are_refused),
        cmocka_unit_test(properties_and_headers_arrive_as_they_were),
        cmocka_unit_test(a_copy_to_a_dead_letter_says_how_often_it_was_delivered),
        cmocka_unit_test(a_reply_that_nobody_waits_for_any_more_is_kept_by_no_topic),
        cmocka_unit_test(after_the_end_everything_answers_closed),
        cmocka_unit_test(a_thread_gets_everything_in_order),
        cmocka_unit_test(a_publish_waits_for_room_and_goes_on_when_there_is_some),
        cmocka_unit_test(an_end_waits_for_the_handler_and_starts_no_other),
        cmocka_unit_test(a_publish_does_not_wait_for_room_with_a_subscription_that_ends),
        cmocka_unit_test(kept_deliveries_are_settled_from_several_threads),
        cmocka_unit_test(a_retry_comes_when_its_time_is_over),
        cmocka_unit_test(a_request_waits_for_its_reply_and_not_for_ever),
        cmocka_unit_test(a_handler_does_not_wait_for_room_that_it_would_have_to_make),
        cmocka_unit_test(subscriptions_come_and_go_while_publishers_publish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
