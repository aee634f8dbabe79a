/* conformance_settlement.c: what becomes of a message: once, again, later, kept, given back, copied. */
#define _GNU_SOURCE
#include "conformance.h"

static bool remembers(const struct conformance *what)
{
    return what->remembers;
}

static bool gives_back(const struct conformance *what)
{
    return what->gives_back;
}

static void what_was_acked_does_not_come_again(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "once");
    listener_wait(&listener, 1);
    listener_mark(&listener, 0);
    assert_int_equal(listener_times(&listener, "once"), 1);
    listener_free(&listener);
    stand_down(&stand);
}

static void what_was_acked_does_not_come_to_the_next_feed(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    struct listener next = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "once");
    listener_wait(&listener, 1);
    listener_stop(&listener);
    listener_start(&next, &stand, 0);
    listener_mark(&next, 0);
    assert_int_equal(listener_times(&next, "once"), 0);
    listener_free(&listener);
    listener_free(&next);
    stand_down(&stand);
}

/* Treats the message "5" otherwise, the first two times. */
struct treatment {
    coney_settle how;
    size_t times;
};

static coney_settle treat(struct listener *listener, struct incoming *m, size_t nth)
{
    (void)nth;
    struct treatment *treatment = listener->ctx;
    bool is_it = m->body.len == 1 && *(const char *)m->body.data == '5';
    return is_it && treatment->times++ < 2 ? treatment->how : CONEY_ACK;
}

static void come_ten_with_one_three_times(struct stand *stand, struct listener *listener)
{
    stand_publish_numbers(stand, 0, 0, 10);
    listener_wait(listener, 12);
    listener_mark(listener, 0);
    for (size_t i = 0; i < 10; i++) {
        char body[24];
        snprintf(body, sizeof body, "%zu", i);
        assert_int_equal(listener_times(listener, body), i == 5 ? 3 : 1);
    }
}

/* The arrivals of "5", in order. */
static void its_arrivals(struct listener *listener, struct arrival *three)
{
    size_t found = 0;
    for (size_t i = 0; i < listener_count(listener); i++) {
        struct arrival arrival = listener_of(listener, i);
        if (strcmp(arrival.body, "5") == 0 && found < 3)
            three[found++] = arrival;
    }
    assert_int_equal(found, 3);
}

static void a_requeued_message_comes_again_and_is_counted(void **state)
{
    struct stand stand;
    struct treatment treatment = {.how = CONEY_REQUEUE};
    struct listener listener = {.handle = treat, .ctx = &treatment};
    struct arrival three[3];
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    come_ten_with_one_three_times(&stand, &listener);
    its_arrivals(&listener, three);
    assert_false(three[0].redelivered);
    assert_true(three[1].redelivered);
    for (uint64_t i = 0; i < 3 && listener.feed->counts; i++)
        assert_int_equal(three[i].attempt, i + 1);
    listener_free(&listener);
    stand_down(&stand);
}

static void a_message_to_be_tried_later_comes_after_its_time(void **state)
{
    struct stand stand;
    struct treatment treatment = {.how = coney_retry_after(300 * CONEY_MILLISECOND)};
    struct listener listener = {.handle = treat, .ctx = &treatment};
    struct arrival three[3];
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    come_ten_with_one_three_times(&stand, &listener);
    its_arrivals(&listener, three);
    for (size_t i = 1; i < 3; i++)
        assert_in_range(three[i].at - three[i - 1].at, 299, 300 + scaled_ms(10000));
    listener_free(&listener);
    stand_down(&stand);
}

static coney_settle reject(struct listener *listener, struct incoming *m, size_t nth)
{
    (void)listener;
    (void)m;
    return nth == 0 ? CONEY_REJECT : CONEY_ACK;
}

static void a_rejected_message_does_not_come_again(void **state)
{
    struct stand stand;
    struct listener listener = {.handle = reject};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "unwanted");
    listener_wait(&listener, 1);
    listener_mark(&listener, 0);
    assert_int_equal(listener_times(&listener, "unwanted"), 1);
    listener_free(&listener);
    stand_down(&stand);
}

/* Kept ------------------------------------------------------------------------------------------------------------------------------- */

static void a_kept_message_stays_readable_while_others_come(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 100);
    listener_wait(&listener, 100);
    for (size_t i = 100; i-- > 0;) {
        struct incoming kept = listener_of(&listener, i).kept;
        char expected[24];
        snprintf(expected, sizeof expected, "%zu", i);
        assert_int_equal(kept.body.len, strlen(expected));
        assert_memory_equal(kept.body.data, expected, kept.body.len);
        must(listener_settle(&listener, i, CONEY_ACK), NULL, "settle");
    }
    listener_free(&listener);
    stand_down(&stand);
}

struct settling {
    struct listener *listener;
    coney_settle how;
    coney_status status;
};

static void *settle_and_go(void *ctx)
{
    struct settling *settling = ctx;
    settling->status = listener_settle(settling->listener, 0, settling->how);
    return NULL;
}

static coney_settle keep_first(struct listener *listener, struct incoming *m, size_t nth)
{
    return nth == 0 && listener->stand->transport->keep(m) ? CONEY_KEPT : CONEY_ACK;
}

static void another_thread_settles_what_was_kept_and_ends(void **state)
{
    struct stand stand;
    struct listener listener = {.handle = keep_first};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "kept");
    listener_wait(&listener, 1);
    pthread_t thread;
    struct settling settling = {.listener = &listener, .how = CONEY_REQUEUE};
    assert_int_equal(pthread_create(&thread, NULL, settle_and_go, &settling), 0);
    pthread_join(thread, NULL);
    must(settling.status, NULL, "settle");
    listener_wait(&listener, 2);
    assert_string_equal(listener_of(&listener, 1).body, "kept");
    if (listener.feed->counts)
        assert_int_equal(listener_of(&listener, 1).attempt, 2);
    listener_mark(&listener, 0);
    assert_int_equal(listener_times(&listener, "kept"), 2);
    listener_free(&listener);
    stand_down(&stand);
}

/* Three are kept, the third is acked, the first two are not settled at all. */
static void what_was_not_settled_comes_to_the_next_feed(void **state)
{
    const struct conformance *what = *state;
    struct stand stand;
    struct listener listener = {.keep = true};
    struct listener next = {0};
    stand_up(&stand, what, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 3);
    listener_wait(&listener, 3);
    must(listener_settle(&listener, 2, CONEY_ACK), NULL, "settle");
    listener_stop(&listener);
    listener_start(&next, &stand, 0);
    listener_wait(&next, what->acks_singly ? 2 : 3);
    listener_mark(&next, 0);
    assert_int_equal(listener_times(&next, "0"), 1);
    assert_int_equal(listener_times(&next, "1"), 1);
    assert_int_equal(listener_times(&next, "2"), what->acks_singly ? 0 : 1);
    for (size_t i = 0; i < 2; i++)
        assert_int_not_equal(listener_settle(&listener, i, CONEY_ACK), CONEY_OK);
    listener_free(&listener);
    listener_free(&next);
    stand_down(&stand);
}

static void settling_after_the_end_of_the_feed_is_answered_and_harmless(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 4);
    listener_wait(&listener, 4);
    listener_stop(&listener);
    struct incoming kept = listener_of(&listener, 0).kept;
    assert_memory_equal(kept.body.data, "0", 1);
    assert_int_equal(listener_settle(&listener, 0, CONEY_ACK), CONEY_ECLOSED);
    assert_int_equal(listener_settle(&listener, 1, CONEY_REQUEUE), CONEY_ECLOSED);
    stand_close(&stand);
    kept = listener_of(&listener, 2).kept;
    assert_memory_equal(kept.body.data, "2", 1);
    assert_int_equal(stand.transport->attempt(&kept), 1);
    assert_int_equal(listener_settle(&listener, 2, CONEY_ACK), CONEY_ECLOSED);
    assert_int_equal(listener_settle(&listener, 3, coney_retry_after(1)), CONEY_ECLOSED);
    listener_free(&listener);
    stand_down(&stand);
}

/* Copies -------------------------------------------------------------------------------------------------------------------------------- */

static void send_with_header(struct stand *stand)
{
    const coney_field header = {CONEY_STR("tenant"), coney_value_string(CONEY_STR("ada"))};
    stand_send(stand, &(struct outgoing){.to = coney_bytes_str(stand->names[0]),
                                         .body = CONEY_STR("spent"),
                                         .content_type = CONEY_STR("text/plain"),
                                         .key = CONEY_STR("k"),
                                         .headers = &header,
                                         .header_count = 1});
    must(stand_outcomes(stand), NULL, "the outcome");
}

static void a_copy_has_all_that_the_message_had_and_the_attempts(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    struct listener dead = {.keep = true};
    stand_up(&stand, *state, 2);
    listener_start(&listener, &stand, 0);
    listener_start(&dead, &stand, 1);
    send_with_header(&stand);
    listener_wait(&listener, 1);
    must(listener_copy(&listener, 0, stand.names[1], 3, 0), NULL, "copy");
    must(listener_settle(&listener, 0, CONEY_ACK), NULL, "settle");
    listener_wait(&dead, 1);
    struct arrival copy = listener_of(&dead, 0);
    assert_string_equal(copy.body, "spent");
    assert_string_equal(copy.content_type, "text/plain");
    assert_int_equal(copy.attempt, 4);
    coney_value value;
    assert_true(stand.transport->header(&copy.kept, CONEY_STR("tenant"), &value));
    assert_memory_equal(value.as.bytes.data, "ada", 3);
    assert_memory_equal(stand.transport->key(&copy.kept, NULL).data, "k", 1);
    must(listener_settle(&dead, 0, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    listener_free(&dead);
    stand_down(&stand);
}

/* Copies the nth arrival back and settles it. */
static void copy_back(struct listener *listener, size_t nth, uint64_t attempts, int64_t delay)
{
    must(listener_copy(listener, nth, NULL, attempts, delay), NULL, "copy");
    must(listener_settle(listener, nth, CONEY_ACK), NULL, "settle");
}

/* A copy of a copy counts on; the count stands in the message once. */
static void a_copy_back_comes_to_its_source_with_its_attempts(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    send_with_header(&stand);
    for (uint64_t attempt = 1; attempt <= 3; attempt++) {
        listener_wait(&listener, attempt);
        assert_int_equal(listener_of(&listener, attempt - 1).attempt, attempt);
        copy_back(&listener, attempt - 1, attempt, 0);
    }
    listener_wait(&listener, 4);
    struct arrival last = listener_of(&listener, 3);
    assert_int_equal(last.attempt, 4);
    assert_string_equal(last.content_type, "text/plain");
    must(listener_settle(&listener, 3, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    stand_down(&stand);
}

static void a_copy_may_wait_and_a_short_one_does_not_wait_for_a_long_one(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    assert_true(stand.transport->delays(listener.feed));
    stand_publish(&stand, 0, "long");
    stand_publish(&stand, 0, "short");
    listener_wait(&listener, 2);
    copy_back(&listener, 0, 1, 1500 * CONEY_MILLISECOND);
    copy_back(&listener, 1, 4, 200 * CONEY_MILLISECOND);
    listener_wait(&listener, 4);
    struct arrival first = listener_of(&listener, 2);
    struct arrival second = listener_of(&listener, 3);
    assert_string_equal(first.body, "short");
    assert_string_equal(second.body, "long");
    assert_int_equal(first.attempt, 5);
    assert_int_equal(second.attempt, 2);
    assert_true(first.at - listener_of(&listener, 1).at >= 199);
    assert_true(second.at - listener_of(&listener, 0).at >= 1499);
    for (size_t i = 2; i < 4; i++)
        must(listener_settle(&listener, i, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    stand_down(&stand);
}

static void what_was_acked_and_published_right_before_the_end_is_done(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    struct listener next = {.keep = false};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "handled");
    listener_wait(&listener, 1);
    must(listener_settle(&listener, 0, CONEY_ACK), NULL, "settle");
    listener_stop(&listener);
    stand_send(&stand, &(struct outgoing){.to = coney_bytes_str(stand.names[0]), .body = CONEY_STR("last")});
    stand_close(&stand);
    stand_open(&stand);
    listener_start(&next, &stand, 0);
    listener_mark(&next, 0);
    assert_int_equal(listener_times(&next, "handled"), 0);
    assert_int_equal(listener_times(&next, "last"), 1);
    listener_free(&listener);
    listener_free(&next);
    stand_down(&stand);
}

static void a_source_that_takes_no_copies_back_says_so(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "spent");
    listener_wait(&listener, 1);
    assert_int_equal(listener_copy(&listener, 0, NULL, 1, 0), CONEY_EUNSUPPORTED);
    assert_false(stand.transport->delays(listener.feed));
    must(listener_settle(&listener, 0, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    stand_down(&stand);
}

static void a_copy_to_a_destination_that_is_not_there_fails(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish(&stand, 0, "spent");
    listener_wait(&listener, 1);
    coney_status status = listener_copy(&listener, 0, "conformance-nowhere", 1, 0);
    assert_true(status == CONEY_ENOTFOUND || status == CONEY_ERETURNED);
    must(listener_settle(&listener, 0, CONEY_ACK), NULL, "settle");
    listener_free(&listener);
    stand_down(&stand);
}

static bool has_threads(const struct conformance *what)
{
    return what->step == NULL;
}

static bool delays(const struct conformance *what)
{
    return what->delays;
}

static bool copies_back(const struct conformance *what)
{
    return what->copies_back;
}

static bool copies_not_back(const struct conformance *what)
{
    return !what->copies_back;
}

static bool misses_destinations(const struct conformance *what)
{
    return !what->drops_orphans;
}

const struct scenario conformance_settlement[] = {
    {"what_was_acked_does_not_come_again", what_was_acked_does_not_come_again, NULL},
    {"what_was_acked_does_not_come_to_the_next_feed", what_was_acked_does_not_come_to_the_next_feed, remembers},
    {"a_requeued_message_comes_again_and_is_counted", a_requeued_message_comes_again_and_is_counted, NULL},
    {"a_message_to_be_tried_later_comes_after_its_time", a_message_to_be_tried_later_comes_after_its_time, NULL},
    {"a_rejected_message_does_not_come_again", a_rejected_message_does_not_come_again, NULL},
    {"a_kept_message_stays_readable_while_others_come", a_kept_message_stays_readable_while_others_come, NULL},
    {"another_thread_settles_what_was_kept_and_ends", another_thread_settles_what_was_kept_and_ends, has_threads},
    {"what_was_not_settled_comes_to_the_next_feed", what_was_not_settled_comes_to_the_next_feed, gives_back},
    {"settling_after_the_end_of_the_feed_is_answered_and_harmless", settling_after_the_end_of_the_feed_is_answered_and_harmless,
     NULL},
    {"a_copy_has_all_that_the_message_had_and_the_attempts", a_copy_has_all_that_the_message_had_and_the_attempts, NULL},
    {"a_copy_back_comes_to_its_source_with_its_attempts", a_copy_back_comes_to_its_source_with_its_attempts, copies_back},
    {"a_copy_may_wait_and_a_short_one_does_not_wait_for_a_long_one",
     a_copy_may_wait_and_a_short_one_does_not_wait_for_a_long_one, delays},
    {"what_was_acked_and_published_right_before_the_end_is_done", what_was_acked_and_published_right_before_the_end_is_done,
     remembers},
    {"a_source_that_takes_no_copies_back_says_so", a_source_that_takes_no_copies_back_says_so, copies_not_back},
    {"a_copy_to_a_destination_that_is_not_there_fails", a_copy_to_a_destination_that_is_not_there_fails, misses_destinations},
    {NULL, NULL, NULL},
};
