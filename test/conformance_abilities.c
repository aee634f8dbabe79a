/* conformance_abilities.c: what a transport may have beyond the rest: seeks, requests, transactions. */
#define _GNU_SOURCE
#include "conformance.h"

static bool seeks(const struct conformance *what)
{
    return what->seeks;
}

static bool seeks_on_threads(const struct conformance *what)
{
    return what->seeks && what->step == NULL;
}

static bool requests(const struct conformance *what)
{
    return what->requests;
}

static bool requests_on_threads(const struct conformance *what)
{
    return what->requests && what->step == NULL;
}

static bool transactions(const struct conformance *what)
{
    return what->transactions;
}

/* Seeking --------------------------------------------------------------------------------------------------------------- */

static coney_status seek(struct listener *listener, coney_position position)
{
    coney_call call = stand_call();
    return listener->stand->transport->seek(listener->feed, &position, &call);
}

static void a_position_that_was_had_gives_that_message_and_the_ordered_rest(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 10);
    listener_wait(&listener, 10);
    uint64_t fifth = listener_of(&listener, 5).offset;
    must(seek(&listener, (coney_position){.at = CONEY_STREAM_OFFSET, .offset = fifth}), NULL, "seek");
    listener_wait(&listener, 15);
    for (size_t i = 5; i < 10; i++) {
        struct arrival arrival = listener_of(&listener, 5 + i);
        assert_int_equal(number_of_body(arrival.body), i);
        assert_int_equal(arrival.offset, listener_of(&listener, i).offset);
    }
    listener_mark(&listener, 0);
    assert_int_equal(listener_count(&listener), 16);
    listener_free(&listener);
    stand_down(&stand);
}

static void a_seek_to_the_first_message_begins_there(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 10);
    listener_wait(&listener, 10);
    must(seek(&listener, (coney_position){.at = CONEY_STREAM_FIRST}), NULL, "seek");
    listener_wait(&listener, 20);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(number_of_body(listener_of(&listener, 10 + i).body), i);
    listener_free(&listener);
    stand_down(&stand);
}

struct seeking {
    struct listener *listener;
    uint64_t offset;
    coney_status status;
};

static void *seek_to(void *ctx)
{
    struct seeking *seeking = ctx;
    seeking->status = seek(seeking->listener, (coney_position){.at = CONEY_STREAM_OFFSET, .offset = seeking->offset});
    return NULL;
}

/* From message 2 of 100, where the handler stands meanwhile, to message 90: whatever came before the move, the rest of the old position never comes
 * behind the new one. */
static void what_was_received_before_a_seek_and_not_handled_is_dropped(void **state)
{
    struct stand stand;
    struct listener listener = {.has_gate = true, .gate = 2};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 100);
    listener_wait_at_gate(&listener);
    struct seeking seeking = {.listener = &listener, .offset = listener_of(&listener, 0).offset + 90};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, seek_to, &seeking), 0);
    listener_open_gate(&listener);
    pthread_join(thread, NULL);
    must(seeking.status, NULL, "seek");
    listener_mark(&listener, 0);
    size_t count = listener_count(&listener);
    assert_true(count >= 3 + 10 + 1);
    for (size_t i = 0; i < count - 11; i++)
        assert_int_equal(number_of_body(listener_of(&listener, i).body), i);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(number_of_body(listener_of(&listener, count - 11 + i).body), 90 + i);
    listener_free(&listener);
    stand_down(&stand);
}

static void a_position_that_is_not_there_is_refused_and_the_reader_stays(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 3);
    listener_wait(&listener, 3);
    assert_int_equal(seek(&listener, (coney_position){.at = CONEY_STREAM_OFFSET, .offset = 1000000}), CONEY_ENOOFFSET);
    listener_mark(&listener, 0);
    assert_int_equal(listener_count(&listener), 4);
    listener_free(&listener);
    stand_down(&stand);
}

static void what_was_kept_before_a_seek_may_be_settled_after_it(void **state)
{
    struct stand stand;
    struct listener listener = {.keep = true};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    stand_publish_numbers(&stand, 0, 0, 3);
    listener_wait(&listener, 3);
    must(seek(&listener, (coney_position){.at = CONEY_STREAM_OFFSET, .offset = listener_of(&listener, 0).offset}), NULL,
         "seek");
    listener_wait(&listener, 6);
    assert_memory_equal(listener_of(&listener, 1).kept.body.data, "1", 1);
    for (size_t i = 0; i < 6; i++)
        (void)listener_settle(&listener, i, CONEY_ACK);
    listener_free(&listener);
    stand_down(&stand);
}

/* Requests ------------------------------------------------------------------------------------------------------------------ */

/* Answers what has a reply_to with "re: BODY"; ctx: how many to leave unanswered. */
static coney_settle answer(struct listener *listener, struct incoming *m, size_t nth)
{
    size_t *silent = listener->ctx;
    coney_delivery_info info = {0};
    listener->stand->transport->info(m, &info);
    if (silent != NULL && nth < *silent)
        return CONEY_ACK;
    char to[300] = "";
    char body[64];
    if (info.reply_to.len >= sizeof to)
        return CONEY_REJECT;
    memcpy(to, info.reply_to.data, info.reply_to.len);
    snprintf(body, sizeof body, "re: %.*s", (int)m->body.len, (const char *)m->body.data);
    struct stand *stand = listener->stand;
    const struct outgoing reply = {.to = coney_bytes_str(to),
                                   .body = coney_bytes_str(body),
                                   .correlation_id = info.correlation_id,
                                   .content_type = CONEY_STR("text/plain"),
                                   .to_requester = true,
                                   .drop_unroutable = true};
    coney_status status = stand->transport->publish(stand->outlet, &reply, 4000);
    return status == CONEY_OK ? CONEY_ACK : CONEY_REJECT;
}

static coney_status ask(struct stand *stand, const char *question, struct incoming *reply, int64_t ms)
{
    coney_call call = call_within(ms);
    const struct outgoing request = {.to = coney_bytes_str(stand->names[0]), .body = coney_bytes_str(question)};
    return stand->transport->request(stand->outlet, &request, reply, &call);
}

static void a_request_gets_its_own_reply(void **state)
{
    struct stand stand;
    struct listener listener = {.handle = answer};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    for (size_t i = 0; i < 3; i++) {
        char question[24];
        char expected[32];
        snprintf(question, sizeof question, "question %zu", i);
        snprintf(expected, sizeof expected, "re: %s", question);
        struct incoming reply = {0};
        must(ask(&stand, question, &reply, 10000), NULL, "request");
        assert_int_equal(reply.body.len, strlen(expected));
        assert_memory_equal(reply.body.data, expected, reply.body.len);
        assert_memory_equal(stand.transport->content_type(&reply).data, "text/plain", 10);
        stand.transport->settle(&reply, CONEY_ACK);
    }
    listener_free(&listener);
    stand_down(&stand);
}

struct asking {
    struct stand *stand;
    char question[24];
    bool right;
};

static void *ask_here(void *ctx)
{
    struct asking *asking = ctx;
    char expected[32];
    snprintf(expected, sizeof expected, "re: %s", asking->question);
    struct incoming reply = {0};
    if (ask(asking->stand, asking->question, &reply, 10000) != CONEY_OK)
        return NULL;
    asking->right = reply.body.len == strlen(expected) && memcmp(reply.body.data, expected, reply.body.len) == 0;
    asking->stand->transport->settle(&reply, CONEY_ACK);
    return NULL;
}

static void two_requests_at_a_time_get_each_its_own_reply(void **state)
{
    struct stand stand;
    struct listener listener = {.handle = answer};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    struct asking asking[2] = {{.stand = &stand, .question = "one"}, {.stand = &stand, .question = "two"}};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_here, &asking[i]), 0);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(asking[0].right && asking[1].right);
    listener_free(&listener);
    stand_down(&stand);
}

static void a_request_without_an_answer_times_out_and_the_next_is_answered(void **state)
{
    struct stand stand;
    size_t silent = 1;
    struct listener listener = {.handle = answer, .ctx = &silent};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    struct incoming reply = {0};
    assert_int_equal(ask(&stand, "unheard", &reply, 200), CONEY_ETIMEDOUT);
    must(ask(&stand, "heard", &reply, 10000), NULL, "request");
    assert_memory_equal(reply.body.data, "re: heard", 9);
    stand.transport->settle(&reply, CONEY_ACK);
    listener_free(&listener);
    stand_down(&stand);
}

/* Transactions ------------------------------------------------------------------------------------------------------------------ */

static void *begin(struct stand *stand)
{
    void *tx = NULL;
    coney_call call = stand_call();
    must(stand->transport->tx_begin(stand->outlet, &tx, &call), &call, "tx_begin");
    return tx;
}

static void put(struct stand *stand, void *tx, const char *body)
{
    const struct outgoing message = {.to = coney_bytes_str(stand->names[0]), .body = coney_bytes_str(body)};
    must(stand->transport->tx_publish(tx, &message), NULL, "tx_publish");
}

static void what_a_transaction_published_arrives_in_order_once_it_is_committed(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    void *tx = begin(&stand);
    put(&stand, tx, "a");
    put(&stand, tx, "b");
    listener_mark(&listener, 0);
    assert_int_equal(listener_count(&listener), 1);
    coney_call call = stand_call();
    must(stand.transport->tx_commit(tx, &call), &call, "tx_commit");
    listener_wait(&listener, 3);
    assert_string_equal(listener_of(&listener, 1).body, "a");
    assert_string_equal(listener_of(&listener, 2).body, "b");
    listener_free(&listener);
    stand_down(&stand);
}

static void what_was_aborted_never_arrives_and_others_do(void **state)
{
    struct stand stand;
    struct listener listener = {0};
    stand_up(&stand, *state, 1);
    listener_start(&listener, &stand, 0);
    void *dropped = begin(&stand);
    void *kept = begin(&stand);
    put(&stand, dropped, "dropped");
    put(&stand, kept, "kept");
    coney_call call = stand_call();
    must(stand.transport->tx_abort(dropped, &call), &call, "tx_abort");
    must(stand.transport->tx_commit(kept, &call), &call, "tx_commit");
    listener_wait(&listener, 1);
    listener_mark(&listener, 0);
    assert_int_equal(listener_times(&listener, "dropped"), 0);
    assert_int_equal(listener_times(&listener, "kept"), 1);
    listener_free(&listener);
    stand_down(&stand);
}

const struct scenario conformance_abilities[] = {
    {"a_position_that_was_had_gives_that_message_and_the_ordered_rest",
     a_position_that_was_had_gives_that_message_and_the_ordered_rest, seeks},
    {"a_seek_to_the_first_message_begins_there", a_seek_to_the_first_message_begins_there, seeks},
    {"what_was_received_before_a_seek_and_not_handled_is_dropped", what_was_received_before_a_seek_and_not_handled_is_dropped,
     seeks_on_threads},
    {"a_position_that_is_not_there_is_refused_and_the_reader_stays",
     a_position_that_is_not_there_is_refused_and_the_reader_stays, seeks},
    {"what_was_kept_before_a_seek_may_be_settled_after_it", what_was_kept_before_a_seek_may_be_settled_after_it, seeks},
    {"a_request_gets_its_own_reply", a_request_gets_its_own_reply, requests},
    {"two_requests_at_a_time_get_each_its_own_reply", two_requests_at_a_time_get_each_its_own_reply, requests_on_threads},
    {"a_request_without_an_answer_times_out_and_the_next_is_answered",
     a_request_without_an_answer_times_out_and_the_next_is_answered, requests},
    {"what_a_transaction_published_arrives_in_order_once_it_is_committed",
     what_a_transaction_published_arrives_in_order_once_it_is_committed, transactions},
    {"what_was_aborted_never_arrives_and_others_do", what_was_aborted_never_arrives_and_others_do, transactions},
    {NULL, NULL, NULL},
};
