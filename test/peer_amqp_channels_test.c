/* Channels and calls: closes that cross, numbers, what arrives for those that are gone, callbacks that close what they are called by, shutdown. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

#include <sched.h>
#include <signal.h>

/* Raw channels ------------------------------------------------------------------------------------------------------ */

struct heard {
    struct monitor monitor;
    size_t closed;
    size_t methods;
    coney_status status;
    uint32_t code;
    char text[512];
};

static void on_closed(void *ctx, coney_status status, uint32_t code, const char *text)
{
    struct heard *heard = ctx;
    monitor_lock(&heard->monitor);
    heard->closed++;
    heard->status = status;
    heard->code = code;
    snprintf(heard->text, sizeof heard->text, "%s", text);
    monitor_broadcast(&heard->monitor);
    monitor_unlock(&heard->monitor);
}

static void on_method(void *ctx, const coney_amqp_method *method, const coney_amqp_delivery *content)
{
    struct heard *heard = ctx;
    (void)method;
    (void)content;
    monitor_lock(&heard->monitor);
    heard->methods++;
    monitor_broadcast(&heard->monitor);
    monitor_unlock(&heard->monitor);
}

static void wait_for(struct heard *heard, const size_t *value, size_t least)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&heard->monitor);
    while (*value < least && monitor_wait(&heard->monitor, until))
        ;
    size_t got = *value;
    monitor_unlock(&heard->monitor);
    if (got < least)
        fail_msg("%zu came instead of %zu", got, least);
}

static coney_amqp_channel *raw_channel(struct amqp_stage *stage, struct heard *heard, coney_call *call)
{
    coney_amqp_channel_options options = {.on_method = on_method, .on_closed = on_closed, .ctx = heard};
    return coney_amqp_channel_open(stage->rabbit, &options, call);
}

static coney_amqp_channel *raw_channel_opened(struct amqp_stage *stage, struct heard *heard)
{
    coney_call call = {0};
    coney_amqp_channel *channel = raw_channel(stage, heard, &call);
    if (channel == NULL)
        fail_msg("no channel: %s", call.text);
    return channel;
}

static const coney_amqp_method tx_select = {.class_id = 90, .method_id = 10};

static void G05_a_message_for_a_channel_that_the_user_has_closed_is_dropped(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct heard heard = {0};
    amqp_stage_up(&stage);
    for (size_t piece = 0; piece < 3; piece++) {
        coney_amqp_channel *channel = raw_channel_opened(&stage, &heard);
        uint16_t number = amqp_peer_expect(stage.peer, AMQP_CHANNEL_OPEN)->channel;
        amqp_peer_hold(stage.peer, AMQP_CHANNEL_CLOSE, 1);
        struct waited_call closed = {0};
        assert_int_equal(coney_amqp_channel_close(&channel, waited_call_of(&closed, 0)), CONEY_OK);
        amqp_peer_wait_count(stage.peer, AMQP_CHANNEL_CLOSE, piece + 1);
        struct amqp_method deliver = {.id = AMQP_BASIC_DELIVER,
                                      .basic_deliver = {.consumer_tag = CONEY_STR("t"), .delivery_tag = 1}};
        amqp_peer_send_content(stage.peer, 0, number, &deliver, coney_bytes_of(NULL, 0), CONEY_STR("late"), piece);
        amqp_peer_release(stage.peer, AMQP_CHANNEL_CLOSE);
        assert_int_equal(waited_call_wait(&closed), CONEY_OK);
        waited_call_free(&closed);
    }
    coney_call call = {0};
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    assert_int_equal(heard.methods, 0);
    assert_int_equal(amqp_peer_accepted(stage.peer), 1);
    amqp_stage_down(&stage);
    monitor_free(&heard.monitor);
}

/* The broker closes the channel before it answers ours. */
static bool close_first(void *ctx, struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    (void)ctx;
    amqp_peer_close_channel(peer, (struct amqp_peer_place){record->connection, record->channel}, AMQP_CODE_NOT_FOUND,
                            "NOT_FOUND - crossing");
    return false;
}

static void G07_of_closes_that_cross_ours_returns_once_and_both_are_answered(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct heard heard = {0};
    coney_call call = {0};
    amqp_stage_set(&stage);
    stage.options.channel_max = 2;
    amqp_stage_open(&stage);
    amqp_peer_call_at(stage.peer, AMQP_CHANNEL_CLOSE, PEER_EVERY, close_first, NULL);
    for (size_t i = 1; i <= 6; i++) {
        coney_amqp_channel *channel = raw_channel_opened(&stage, &heard);
        assert_int_equal(coney_amqp_channel_close(&channel, &call), CONEY_OK);
        amqp_peer_wait_count(stage.peer, AMQP_CHANNEL_CLOSE_OK, i);
    }
    assert_int_equal(heard.closed, 0);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    assert_int_equal(amqp_peer_accepted(stage.peer), 1);
    amqp_stage_down(&stage);
    monitor_free(&heard.monitor);
}

/* The connection on which the next channel is opened. */
static int next_channel_is_on(struct amqp_stage *stage, struct heard *heard)
{
    coney_amqp_channel *channel = raw_channel_opened(stage, heard);
    int connection = amqp_peer_expect(stage->peer, AMQP_CHANNEL_OPEN)->connection;
    coney_call call = {0};
    assert_int_equal(coney_amqp_channel_close(&channel, &call), CONEY_OK);
    return connection;
}

static void G07_a_number_is_free_only_when_both_closes_are_answered(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct heard heard = {0};
    coney_call call = {0};
    amqp_stage_set(&stage);
    stage.options.channel_max = 1;
    amqp_stage_open(&stage);
    coney_amqp_channel *channel = raw_channel_opened(&stage, &heard);
    assert_int_equal(amqp_peer_expect(stage.peer, AMQP_CHANNEL_OPEN)->connection, 0);
    amqp_peer_ignore(stage.peer, AMQP_CHANNEL_CLOSE, 1);
    assert_int_equal(coney_amqp_channel_close(&channel, &call), CONEY_OK);
    amqp_peer_wait_count(stage.peer, AMQP_CHANNEL_CLOSE, 1);
    amqp_peer_close_channel(stage.peer, (struct amqp_peer_place){0, 1}, AMQP_CODE_NOT_FOUND, "NOT_FOUND - crossing");
    amqp_peer_wait_count(stage.peer, AMQP_CHANNEL_CLOSE_OK, 1);
    assert_int_equal(next_channel_is_on(&stage, &heard), 1); /* its only number rests all the same */
    amqp_peer_send(stage.peer, 0, 1, &(struct amqp_method){.id = AMQP_CHANNEL_CLOSE_OK});
    int connection = 1;
    for (int i = 0; i < 200 && connection == 1; i++)
        connection = next_channel_is_on(&stage, &heard);
    assert_int_equal(connection, 0);
    amqp_stage_down(&stage);
    monitor_free(&heard.monitor);
}

static void G10_a_close_absorbs_a_close_of_the_brokers_that_is_on_its_way(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct amqp_stage stage;
        struct heard heard = {0};
        coney_call call = {0};
        amqp_stage_up(&stage);
        coney_amqp_channel *channel = raw_channel_opened(&stage, &heard);
        uint16_t number = amqp_peer_expect(stage.peer, AMQP_CHANNEL_OPEN)->channel;
        if (i % 2 == 0)
            amqp_peer_close_channel(stage.peer, (struct amqp_peer_place){0, number}, AMQP_CODE_NOT_FOUND, "NOT_FOUND - x");
        else
            amqp_peer_close(stage.peer, 0, AMQP_CODE_CONNECTION_FORCED, "CONNECTION_FORCED - x");
        assert_int_equal(coney_amqp_channel_close(&channel, &call), CONEY_OK);
        assert_int_equal(coney_amqp_channel_close(&channel, &call), CONEY_OK);
        assert_int_equal(coney_amqp_close(&stage.rabbit, &call), CONEY_OK);
        assert_int_equal(coney_amqp_close(&stage.rabbit, &call), CONEY_OK);
        amqp_stage_down(&stage);
        monitor_free(&heard.monitor);
    }
}

/* Both send connection.close. */
static bool close_connection_first(void *ctx, struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    (void)ctx;
    amqp_peer_close(peer, record->connection, AMQP_CODE_CONNECTION_FORCED, "CONNECTION_FORCED - crossing");
    return false;
}

static void G10_connection_closes_that_cross_end_the_environment_in_order(void **state)
{
    (void)state;
    struct amqp_stage stage;
    coney_call call = {0};
    amqp_stage_up(&stage);
    amqp_peer_call_at(stage.peer, AMQP_CONNECTION_CLOSE, PEER_EVERY, close_connection_first, NULL);
    assert_int_equal(coney_amqp_close(&stage.rabbit, &call), CONEY_OK);
    amqp_peer_wait_open(stage.peer, 0);
    amqp_stage_down(&stage);
}

static void G09_a_call_on_a_closed_channel_names_code_words_class_and_method(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct heard heard = {0};
    coney_call call = {0};
    amqp_stage_up(&stage);
    coney_amqp_channel *channel = raw_channel_opened(&stage, &heard);
    amqp_peer_refuse(stage.peer, AMQP_TX_SELECT, 1, AMQP_CODE_PRECONDITION_FAILED, "PRECONDITION_FAILED - cannot switch");
    assert_int_equal(coney_amqp_channel_call(channel, &tx_select, NULL, &call), CONEY_EPRECONDITION);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(call.code, 406);
        assert_says(call.text, "PRECONDITION_FAILED - cannot switch");
        assert_says(call.text, "tx.select");
        assert_int_equal(coney_amqp_channel_call(channel, &tx_select, NULL, &call), CONEY_EPRECONDITION);
    }
    wait_for(&heard, &heard.closed, 1);
    assert_int_equal(heard.code, 406);
    assert_says(heard.text, "tx.select");
    coney_amqp_channel_close(&channel, NULL);
    amqp_stage_down(&stage);
    monitor_free(&heard.monitor);
}

static void C11_a_hard_error_is_told_on_every_channel_of_its_connection(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct heard heard[4] = {0};
    coney_amqp_channel *channels[4];
    amqp_stage_up(&stage);
    for (size_t i = 0; i < 4; i++)
        channels[i] = raw_channel_opened(&stage, &heard[i]);
    amqp_peer_close(stage.peer, 0, AMQP_CODE_NOT_IMPLEMENTED, "NOT_IMPLEMENTED - immediate=true");
    for (size_t i = 0; i < 4; i++) {
        wait_for(&heard[i], &heard[i].closed, 1);
        assert_int_equal(heard[i].code, 540);
        assert_says(heard[i].text, "immediate=true");
        coney_amqp_channel_close(&channels[i], NULL);
        assert_int_equal(heard[i].closed, 1);
    }
    amqp_stage_down(&stage);
    for (size_t i = 0; i < 4; i++)
        monitor_free(&heard[i].monitor);
}

/* Numbers ------------------------------------------------------------------------------------------------------------ */

static void G11_beyond_the_limit_another_connection_is_opened_and_numbers_stay_in_their_range(void **state)
{
    (void)state;
    enum { LIMIT = 10, CYCLES = 3000 };
    struct amqp_stage stage;
    struct heard heard = {0};
    coney_amqp_channel *channels[LIMIT];
    coney_call call = {0};
    amqp_stage_set(&stage);
    amqp_peer_set_tune(stage.peer, LIMIT, 131072, 60);
    amqp_stage_open(&stage);
    for (size_t i = 0; i < LIMIT; i++)
        channels[i] = raw_channel_opened(&stage, &heard);
    coney_amqp_channel *beyond = raw_channel_opened(&stage, &heard);
    amqp_peer_wait_count(stage.peer, AMQP_CHANNEL_OPEN, LIMIT + 1);
    assert_int_equal(amqp_peer_record_of(stage.peer, AMQP_CHANNEL_OPEN, LIMIT)->connection, 1);
    assert_int_equal(coney_amqp_channel_close(&beyond, &call), CONEY_OK);
    for (size_t i = 0; i < CYCLES; i++) {
        assert_int_equal(coney_amqp_channel_close(&channels[i % LIMIT], &call), CONEY_OK);
        channels[i % LIMIT] = raw_channel_opened(&stage, &heard);
    }
    for (size_t i = 0; i < LIMIT; i++)
        coney_amqp_channel_close(&channels[i], NULL);
    assert_int_equal(events_count(&stage.events, CONEY_EVENT_DISCONNECTED), 0);
    amqp_stage_down(&stage); /* the peer takes no number that is in use, is 0, or is above the limit */
    monitor_free(&heard.monitor);
}

static void G12_all_numbers_used_once_leave_no_memory_behind(void **state)
{
    (void)state;
    enum { ALL = 2047 };
    static coney_amqp_channel *channels[ALL];
    struct amqp_stage stage;
    struct heard heard = {0};
    coney_call call = {0};
    amqp_stage_up(&stage);
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < ALL; i++)
            channels[i] = raw_channel_opened(&stage, &heard);
        assert_int_equal(amqp_peer_channels(stage.peer), ALL);
        for (size_t i = 0; i < ALL; i++)
            assert_int_equal(coney_amqp_channel_close(&channels[i], &call), CONEY_OK);
    }
    coney_amqp_stats stats;
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    assert_int_equal(coney_amqp_get_stats(stage.rabbit, &stats), CONEY_OK);
    assert_true(stats.channels <= 2);
    assert_true(stats.memory_out + stats.memory_idle < (1u << 20));
    assert_int_equal(amqp_peer_accepted(stage.peer), 1);
    amqp_stage_down(&stage);
    monitor_free(&heard.monitor);
}

/* Callbacks that close ------------------------------------------------------------------------------------------------ */

enum place { IN_OPENED, IN_DELIVERY, IN_RETURN, IN_ACK, IN_NACK, IN_CANCEL, IN_CLOSED, PLACES };

struct closer {
    struct heard heard;
    coney_amqp_channel *channel;
    coney_amqp *rabbit;
    bool whole; /* the environment, too */
    bool done;
};

static void close_all(struct closer *closer)
{
    monitor_lock(&closer->heard.monitor);
    coney_amqp_channel_close(&closer->channel, &(coney_call){.on_done = NULL});
    if (closer->whole)
        coney_amqp_close(&closer->rabbit, NULL);
    closer->done = true;
    closer->heard.methods++;
    monitor_broadcast(&closer->heard.monitor);
    monitor_unlock(&closer->heard.monitor);
}

static void method_closes(void *ctx, const coney_amqp_method *method, const coney_amqp_delivery *content)
{
    (void)method;
    (void)content;
    close_all(ctx);
}

static void closed_closes(void *ctx, coney_status status, uint32_t code, const char *text)
{
    (void)status;
    (void)code;
    (void)text;
    close_all(ctx);
}

static void done_closes(void *ctx, const coney_call *call)
{
    (void)call;
    close_all(ctx);
}

static void provoke(struct amqp_peer *peer, enum place place, uint16_t number)
{
    struct amqp_peer_place where = {0, number};
    struct amqp_method method = {0};
    switch (place) {
    case IN_OPENED:
    case PLACES:
        break;
    case IN_DELIVERY:
        method = (struct amqp_method){.id = AMQP_BASIC_DELIVER, .basic_deliver = {.delivery_tag = 1}};
        amqp_peer_send_content(peer, 0, number, &method, coney_bytes_of(NULL, 0), CONEY_STR("x"), 0);
        amqp_peer_send_content(peer, 0, number, &method, coney_bytes_of(NULL, 0), CONEY_STR("y"), 0);
        break;
    case IN_RETURN:
        method = (struct amqp_method){.id = AMQP_BASIC_RETURN, .basic_return = {.code = 312}};
        amqp_peer_send_content(peer, 0, number, &method, coney_bytes_of(NULL, 0), CONEY_STR("x"), 0);
        break;
    case IN_ACK:
        amqp_peer_ack(peer, where, 1, false);
        amqp_peer_ack(peer, where, 2, true);
        break;
    case IN_NACK:
        amqp_peer_nack(peer, where, 1, false);
        break;
    case IN_CANCEL:
        method =
            (struct amqp_method){.id = AMQP_BASIC_CANCEL, .basic_cancel = {.consumer_tag = CONEY_STR("t"), .nowait = true}};
        amqp_peer_send(peer, 0, number, &method);
        break;
    case IN_CLOSED:
        amqp_peer_close_channel(peer, where, AMQP_CODE_NOT_FOUND, "NOT_FOUND - x");
        break;
    }
}

static void G13_every_callback_may_close_its_channel_and_the_environment(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * PLACES; i++) {
        struct amqp_stage stage;
        struct closer closer = {.whole = i % 2 == 1};
        amqp_stage_up(&stage);
        closer.rabbit = stage.rabbit;
        coney_amqp_channel_options options = {.on_method = method_closes, .on_closed = closed_closes, .ctx = &closer};
        coney_call call = {.on_done = i / 2 == IN_OPENED ? done_closes : NULL, .ctx = &closer};
        monitor_lock(&closer.heard.monitor);
        closer.channel = coney_amqp_channel_open(stage.rabbit, &options, &call);
        assert_non_null(closer.channel);
        monitor_unlock(&closer.heard.monitor);
        amqp_peer_hold(stage.peer, AMQP_CHANNEL_CLOSE, PEER_EVERY); /* until all is out that it provokes with */
        provoke(stage.peer, (enum place)(i / 2), amqp_peer_expect(stage.peer, AMQP_CHANNEL_OPEN)->channel);
        amqp_peer_release(stage.peer, AMQP_CHANNEL_CLOSE);
        wait_for(&closer.heard, &closer.heard.methods, 1);
        if (closer.whole)
            stage.rabbit = NULL;
        amqp_peer_wait_open(stage.peer, closer.whole ? 0 : 1);
        amqp_stage_down(&stage);
        monitor_free(&closer.heard.monitor);
    }
}

/* Shutdown and signals ------------------------------------------------------------------------------------------------ */

struct tally {
    struct monitor monitor;
    size_t done;
    size_t started;
};

static void count_done(void *ctx, const coney_call *call)
{
    struct tally *tally = ctx;
    (void)call;
    monitor_lock(&tally->monitor);
    tally->done++;
    monitor_broadcast(&tally->monitor);
    monitor_unlock(&tally->monitor);
}

struct submitter {
    struct amqp_stage *stage;
    struct tally tally;
    _Atomic bool stop;
};

static void start_one(struct submitter *submitter)
{
    coney_amqp_queue queue = {.name = "q"};
    coney_call call = {.on_done = count_done, .ctx = &submitter->tally};
    if (coney_amqp_queue_declare(submitter->stage->rabbit, &queue, &call) == CONEY_OK)
        submitter->tally.started++;
}

/* Keeps up to 64 calls under way. */
static void *submit(void *arg)
{
    struct submitter *submitter = arg;
    struct tally *tally = &submitter->tally;
    while (!submitter->stop) {
        start_one(submitter);
        monitor_lock(&tally->monitor);
        while (tally->started - tally->done >= 64 && !submitter->stop)
            monitor_wait(&tally->monitor, now_ms() + 100);
        monitor_unlock(&tally->monitor);
    }
    return NULL;
}

static void L10_every_call_ends_once_also_those_made_while_the_connection_comes_and_goes(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct submitter submitter = {.stage = &stage};
    pthread_t thread;
    amqp_stage_up(&stage);
    assert_int_equal(pthread_create(&thread, NULL, submit, &submitter), 0);
    for (size_t i = 1; i <= 10; i++) {
        amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, amqp_peer_count(stage.peer, AMQP_QUEUE_DECLARE) + 50);
        amqp_peer_cut(stage.peer, PEER_ALL, i % 2 == 0 ? PEER_RST : PEER_FIN);
    }
    submitter.stop = true;
    pthread_join(thread, NULL);
    coney_amqp_close(&stage.rabbit, NULL);
    assert_int_equal(submitter.tally.done, submitter.tally.started);
    amqp_stage_down(&stage);
    monitor_free(&submitter.tally.monitor);
}

static void L10_what_waits_at_a_close_ends_with_it(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call calls[20] = {0};
    amqp_stage_up(&stage);
    amqp_peer_ignore(stage.peer, AMQP_QUEUE_DECLARE, PEER_EVERY);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(amqp_stage_declare(&stage, "q", waited_call_of(&calls[i], CONEY_OFF)), CONEY_OK);
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 1);
    assert_int_equal(coney_amqp_close(&stage.rabbit, NULL), CONEY_OK);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(waited_call_wait(&calls[i]), CONEY_ECLOSED);
        assert_int_equal(waited_call_count(&calls[i]), 1);
        waited_call_free(&calls[i]);
    }
    amqp_stage_down(&stage);
}

static void L10_a_call_that_is_late_before_its_turn_comes_is_not_sent(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call late = {0};
    coney_call call = {0};
    amqp_stage_set(&stage);
    coney_loop *loop = coney_loop_new();
    stage.options.loop = loop;
    amqp_stage_open(&stage);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK);
    waited_call_of(&late, 0)->deadline = 1; /* a nanosecond */
    assert_int_equal(amqp_stage_declare(&stage, "late", &late.call), CONEY_OK);
    assert_int_equal(amqp_stage_declare(&stage, "q", &call), CONEY_OK); /* steps the loop */
    assert_int_equal(waited_call_wait(&late), CONEY_ETIMEDOUT);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_QUEUE_DECLARE), 2);
    assert_int_equal(amqp_peer_count(stage.peer, AMQP_CHANNEL_OPEN), 1);
    waited_call_free(&late);
    amqp_stage_down(&stage);
    coney_loop_free(&loop);
}

static _Atomic int signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

static void *declare_blocking(void *arg)
{
    static coney_call call;
    call = (coney_call){0};
    amqp_stage_declare(arg, "q", &call);
    return &call;
}

static void F07_a_signal_does_not_end_a_call_that_waits(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigaction(SIGUSR1, &action, &before); /* without SA_RESTART */
    amqp_stage_up(&stage);
    amqp_peer_hold(stage.peer, AMQP_QUEUE_DECLARE, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, declare_blocking, &stage), 0);
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 1);
    for (int i = 1; i <= 5; i++) {
        pthread_kill(thread, SIGUSR1);
        while (signals < i)
            sched_yield();
    }
    amqp_peer_release(stage.peer, AMQP_QUEUE_DECLARE);
    void *result;
    pthread_join(thread, &result);
    assert_int_equal(((coney_call *)result)->status, CONEY_OK);
    sigaction(SIGUSR1, &before, NULL);
    amqp_stage_down(&stage);
}

static void F07_a_call_that_waits_can_be_ended_from_another_thread(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct waited_call waited = {0};
    amqp_stage_up(&stage);
    amqp_peer_ignore(stage.peer, AMQP_QUEUE_DECLARE, 1);
    coney_call *call = waited_call_of(&waited, CONEY_OFF);
    assert_int_equal(amqp_stage_declare(&stage, "q", call), CONEY_OK);
    amqp_peer_wait_count(stage.peer, AMQP_QUEUE_DECLARE, 1);
    assert_int_equal(coney_call_cancel(call->id), CONEY_OK);
    assert_int_equal(waited_call_wait(&waited), CONEY_ECANCELED);
    amqp_stage_down(&stage);
    waited_call_free(&waited);
}

static void F06_publishing_into_a_reset_raises_no_signal_and_leaves_the_signal_mask(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct outcomes outcomes = {0};
    sigset_t before, after;
    sigemptyset(&before);
    sigemptyset(&after);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    struct sigaction action = {.sa_handler = on_signal}, was;
    sigaction(SIGPIPE, &action, &was);
    signals = 0;
    amqp_stage_up(&stage);
    coney_amqp_publisher *publisher = amqp_stage_publisher(&stage, &outcomes, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        amqp_peer_cut(stage.peer, amqp_peer_publisher(stage.peer).connection, PEER_RST);
        amqp_publish_numbered(publisher, i, 1);
        outcomes_wait(&outcomes, i + 1);
    }
    assert_int_equal(outcomes_with(&outcomes, CONEY_OK), 3);
    amqp_publisher_close(&publisher);
    amqp_stage_down(&stage);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    assert_int_equal(signals, 0);
    sigaction(SIGPIPE, &was, NULL);
    outcomes_free(&outcomes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(C11_a_hard_error_is_told_on_every_channel_of_its_connection),
        cmocka_unit_test(F06_publishing_into_a_reset_raises_no_signal_and_leaves_the_signal_mask),
        cmocka_unit_test(F07_a_signal_does_not_end_a_call_that_waits),
        cmocka_unit_test(F07_a_call_that_waits_can_be_ended_from_another_thread),
        cmocka_unit_test(G05_a_message_for_a_channel_that_the_user_has_closed_is_dropped),
        cmocka_unit_test(G07_of_closes_that_cross_ours_returns_once_and_both_are_answered),
        cmocka_unit_test(G07_a_number_is_free_only_when_both_closes_are_answered),
        cmocka_unit_test(G09_a_call_on_a_closed_channel_names_code_words_class_and_method),
        cmocka_unit_test(G10_a_close_absorbs_a_close_of_the_brokers_that_is_on_its_way),
        cmocka_unit_test(G10_connection_closes_that_cross_end_the_environment_in_order),
        cmocka_unit_test(G11_beyond_the_limit_another_connection_is_opened_and_numbers_stay_in_their_range),
        cmocka_unit_test(G12_all_numbers_used_once_leave_no_memory_behind),
        cmocka_unit_test(G13_every_callback_may_close_its_channel_and_the_environment),
        cmocka_unit_test(L10_every_call_ends_once_also_those_made_while_the_connection_comes_and_goes),
        cmocka_unit_test(L10_what_waits_at_a_close_ends_with_it),
        cmocka_unit_test(L10_a_call_that_is_late_before_its_turn_comes_is_not_sent),
    };
    return run_tests(tests);
}
