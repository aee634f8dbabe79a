/* Everything of an environment that opens while its connections come and go: each call ends once, whatever is closed or canceled before. */
#define _GNU_SOURCE
#include "amqp_peer_stage.h"

#include <coney/loop.h>

#include <poll.h>

#define CALLS_MOST 400

struct calls {
    struct monitor monitor;
    size_t started;
    size_t done;
    uint64_t ids[CALLS_MOST];
    unsigned ends[CALLS_MOST];
};

struct one {
    struct calls *calls;
    size_t number;
};

static void count_done(void *ctx, const coney_call *call)
{
    struct one *one = ctx;
    struct calls *calls = one->calls;
    (void)call;
    monitor_lock(&calls->monitor);
    calls->ends[one->number]++;
    calls->done++;
    monitor_broadcast(&calls->monitor);
    monitor_unlock(&calls->monitor);
    free(one);
}

/* A call for the next asynchronous use. */
static coney_call next_call(struct calls *calls)
{
    struct one *one = malloc(sizeof *one);
    assert_non_null(one);
    *one = (struct one){.calls = calls, .number = calls->started};
    return (coney_call){.on_done = count_done, .ctx = one};
}

/* What it came to: it will end, or was refused. */
static void started(struct calls *calls, const coney_call *call, bool accepted)
{
    if (!accepted) {
        free(call->ctx);
        return;
    }
    calls->ids[calls->started++] = call->id;
}

static void step(coney_loop *loop)
{
    struct pollfd readable = {.fd = coney_loop_fd(loop), .events = POLLIN};
    poll(&readable, 1, 5);
    while (coney_loop_step(loop))
        continue;
}

/* Lets things happen: until the next call has ended, or a moment. */
static void let_one_end(struct calls *calls, coney_loop *loop)
{
    int64_t until = now_ms() + 5;
    if (loop != NULL) {
        step(loop);
        return;
    }
    monitor_lock(&calls->monitor);
    size_t done = calls->done;
    while (calls->done == done && monitor_wait(&calls->monitor, until))
        continue;
    monitor_unlock(&calls->monitor);
}

static coney_settle ack(void *ctx, const coney_amqp_delivery *delivery)
{
    (void)ctx;
    (void)delivery;
    return CONEY_ACK;
}

/* What an environment has open. */
struct opened {
    struct calls calls;
    coney_loop *loop; /* of the test's thread; NULL: the environment has its own */
    coney_amqp *rabbit;
    coney_amqp_publisher *publisher;
    coney_amqp_consumer *consumer;
    coney_amqp_requester *requester;
    coney_amqp_channel *channel;
    coney_kept *kept[CALLS_MOST];
};

static void use_topology(struct opened *all, struct dice *dice)
{
    coney_call call = next_call(&all->calls);
    coney_amqp_queue queue = {.name = dice_roll(dice, 2) == 0 ? "q" : "mine"};
    coney_amqp_binding binding = {.source = "amq.direct", .destination = queue.name, .routing_key = "k"};
    coney_status status = CONEY_OK;
    queue.exclusive = queue.name[0] == 'm';
    queue.forget = dice_roll(dice, 4) == 0;
    switch (dice_roll(dice, 4)) {
    case 0:
        status = coney_amqp_queue_delete(all->rabbit, queue.name, 0, &call);
        break;
    case 1:
        status = coney_amqp_bind(all->rabbit, &binding, &call);
        break;
    case 2:
        status = coney_amqp_unbind(all->rabbit, &binding, &call);
        break;
    default:
        status = coney_amqp_queue_declare(all->rabbit, &queue, &call);
        break;
    }
    started(&all->calls, &call, status == CONEY_OK);
}

static void open_or_close_publisher(struct opened *all)
{
    coney_call call = next_call(&all->calls);
    coney_amqp_publisher_options options = {.routing_key = "q", .enqueue_timeout = CONEY_OFF};
    const coney_amqp_message message = {.body = CONEY_STR("m")};
    if (all->publisher != NULL) {
        (void)!coney_amqp_publish(all->publisher, &message);
        started(&all->calls, &call, coney_amqp_publisher_close(&all->publisher, &call) == CONEY_OK);
        return;
    }
    all->publisher = coney_amqp_publisher_open(all->rabbit, &options, &call);
    started(&all->calls, &call, all->publisher != NULL);
}

static void open_or_close_consumer(struct opened *all, struct dice *dice)
{
    coney_call call = next_call(&all->calls);
    coney_amqp_consumer_options options = {.on_delivery = ack, .keep_trying = dice_roll(dice, 2) == 0};
    if (all->consumer != NULL) {
        started(&all->calls, &call, coney_amqp_consumer_close(&all->consumer, &call) == CONEY_OK);
        return;
    }
    all->consumer = coney_amqp_consumer_open(all->rabbit, dice_roll(dice, 2) == 0 ? "q" : "mine", &options, &call);
    started(&all->calls, &call, all->consumer != NULL);
}

static void open_or_close_requester(struct opened *all)
{
    coney_call call = next_call(&all->calls);
    coney_amqp_requester_options options = {.routing_key = "q"};
    if (all->requester != NULL) {
        started(&all->calls, &call, coney_amqp_requester_close(&all->requester, &call) == CONEY_OK);
        return;
    }
    all->requester = coney_amqp_requester_open(all->rabbit, &options, &call);
    started(&all->calls, &call, all->requester != NULL);
}

static void open_or_close_channel(struct opened *all, struct dice *dice)
{
    coney_call call = next_call(&all->calls);
    coney_amqp_channel_options options = {.consuming = dice_roll(dice, 2) == 0};
    if (all->channel != NULL) {
        started(&all->calls, &call, coney_amqp_channel_close(&all->channel, &call) == CONEY_OK);
        return;
    }
    all->channel = coney_amqp_channel_open(all->rabbit, &options, &call);
    started(&all->calls, &call, all->channel != NULL);
}

static void get(struct opened *all)
{
    coney_call call = next_call(&all->calls);
    started(&all->calls, &call, coney_amqp_get(all->rabbit, "q", &all->kept[all->calls.started], &call) == CONEY_OK);
}

static void do_anything(struct opened *all, struct amqp_peer *peer, struct dice *dice)
{
    switch (dice_roll(dice, 12)) {
    case 0:
        open_or_close_publisher(all);
        break;
    case 1:
        open_or_close_consumer(all, dice);
        break;
    case 2:
        open_or_close_requester(all);
        break;
    case 3:
        open_or_close_channel(all, dice);
        break;
    case 4:
        get(all);
        break;
    case 5:
        if (all->calls.started > 0)
            coney_call_cancel(all->calls.ids[dice_roll(dice, all->calls.started)]);
        break;
    case 6:
        if (dice_roll(dice, 4) == 0)
            amqp_peer_cut(peer, PEER_ALL, dice_roll(dice, 2) == 0 ? PEER_RST : PEER_FIN);
        break;
    case 7:
    case 8:
        let_one_end(&all->calls, all->loop);
        break;
    default:
        use_topology(all, dice);
        break;
    }
}

static void wait_done(struct calls *calls, coney_loop *loop)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (loop != NULL && calls->done < calls->started && now_ms() < until)
        step(loop);
    monitor_lock(&calls->monitor);
    while (calls->done < calls->started && monitor_wait(&calls->monitor, until))
        continue;
    size_t done = calls->done;
    monitor_unlock(&calls->monitor);
    if (done != calls->started)
        fail_msg("%zu calls have ended of %zu", done, calls->started);
    for (size_t i = 0; i < calls->started; i++)
        assert_int_equal(calls->ends[i], 1);
    monitor_free(&calls->monitor);
}

/* Opens, does so many things of all kinds, and closes. */
static void open_and_close(struct amqp_stage *stage, struct dice *dice, size_t things)
{
    struct opened all = {.loop = dice_roll(dice, 3) == 0 ? coney_loop_new() : NULL};
    coney_amqp_options options = stage->options;
    options.loop = all.loop;
    options.handler_thread = dice_roll(dice, 2) == 0;
    options.keep_trying = dice_roll(dice, 2) == 0;
    coney_call call = next_call(&all.calls);
    all.rabbit = coney_amqp_open(amqp_peer_uri(stage->peer), &options, &call);
    assert_non_null(all.rabbit);
    started(&all.calls, &call, true);
    while (things-- > 0)
        do_anything(&all, stage->peer, dice);
    if (dice_roll(dice, 4) == 0) {
        call = next_call(&all.calls);
        started(&all.calls, &call, coney_amqp_close(&all.rabbit, &call) == CONEY_OK);
    } else {
        assert_int_equal(coney_amqp_close(&all.rabbit, NULL), CONEY_OK);
    }
    wait_done(&all.calls, all.loop);
    for (size_t i = 0; i < CALLS_MOST; i++)
        coney_kept_settle(&all.kept[i], CONEY_ACK);
    coney_loop_free(&all.loop);
}

static void L10_whatever_is_opened_used_canceled_cut_and_closed_each_call_ends_once(void **state)
{
    (void)state;
    struct amqp_stage stage;
    struct dice dice = dice_of(4711);
    amqp_stage_set(&stage);
    size_t threads = threads_running();
    amqp_peer_allow_nonsense(stage.peer); /* a cut makes the script forget what a frame on its way is about */
    for (size_t i = 0; i < 120; i++)
        open_and_close(&stage, &dice, dice_roll(&dice, 60));
    wait_for_threads(threads);
    amqp_stage_down(&stage);
}

/* Calls that block ---------------------------------------------------------------------------------------------------------- */

enum blocking { PUBLISHER, CONSUMER, REQUESTER, TRANSACTION, CHANNEL, DECLARATION, GET, BLOCKING };

struct blocked {
    coney_amqp *rabbit;
    enum blocking what;
    coney_call call;
    void *handle;
};

static void *block(void *arg)
{
    struct blocked *blocked = arg;
    coney_amqp_publisher_options publisher = {.routing_key = "q"};
    coney_amqp_consumer_options consumer = {.on_delivery = ack};
    coney_amqp_requester_options requester = {.routing_key = "q"};
    coney_amqp_channel_options channel = {0};
    coney_amqp_queue queue = {.name = "q"};
    coney_kept *kept;
    switch (blocked->what) {
    case PUBLISHER:
        blocked->handle = coney_amqp_publisher_open(blocked->rabbit, &publisher, &blocked->call);
        break;
    case CONSUMER:
        blocked->handle = coney_amqp_consumer_open(blocked->rabbit, "q", &consumer, &blocked->call);
        break;
    case REQUESTER:
        blocked->handle = coney_amqp_requester_open(blocked->rabbit, &requester, &blocked->call);
        break;
    case TRANSACTION:
        blocked->handle = coney_amqp_tx_begin(blocked->rabbit, &blocked->call);
        break;
    case CHANNEL:
        blocked->handle = coney_amqp_channel_open(blocked->rabbit, &channel, &blocked->call);
        break;
    case DECLARATION:
        coney_amqp_queue_declare(blocked->rabbit, &queue, &blocked->call);
        break;
    case GET:
        coney_amqp_get(blocked->rabbit, "q", &kept, &blocked->call);
        break;
    case BLOCKING:
        break;
    }
    return NULL;
}

static void calls_that_block_end_when_another_thread_closes_the_environment(void **state)
{
    (void)state;
    for (enum blocking what = 0; what < BLOCKING; what++) {
        struct amqp_stage stage;
        pthread_t thread;
        amqp_stage_up(&stage);
        amqp_peer_ignore(stage.peer, AMQP_CHANNEL_OPEN, PEER_EVERY);
        amqp_peer_allow_nonsense(stage.peer); /* it is closed, although the peer has no such channel */
        struct blocked blocked = {.rabbit = stage.rabbit, .what = what};
        assert_int_equal(pthread_create(&thread, NULL, block, &blocked), 0);
        amqp_peer_wait_count(stage.peer, AMQP_CHANNEL_OPEN, 1);
        assert_int_equal(coney_amqp_close(&stage.rabbit, NULL), CONEY_OK);
        pthread_join(thread, NULL);
        assert_int_equal(blocked.call.status, CONEY_ECLOSED);
        assert_null(blocked.handle);
        amqp_stage_down(&stage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(L10_whatever_is_opened_used_canceled_cut_and_closed_each_call_ends_once),
        cmocka_unit_test(calls_that_block_end_when_another_thread_closes_the_environment),
    };
    return run_tests(tests);
}
