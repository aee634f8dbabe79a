/* amqp091_session_fuzz.c: any bytes as what a broker says to somebody who uses a connection: a publisher, a consumer, a requester, a get, a transaction,
 * a raw channel.
 *
 * The first byte picks who, the second how many bytes arrive at a time, the third after how many eights of bytes he acts; the rest is what the broker says
 * on that connection, its log-in included. A whole environment takes it, on a loop that is stepped here, over links of memory; the connection for
 * requests gets a log-in that is in order. Whatever comes: each call ends once, each accepted message has one outcome, a delivery can be read to its end. */
#define _GNU_SOURCE
#include "memory_link.h"
#include "proto/amqp091/codec.h"

#include <coney/amqp.h>
#include <coney/loop.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum actor { PUBLISHER, CONSUMER, CONSUMER_WITHOUT_ACK, REQUESTER, GET, TRANSACTION, RAW, ACTORS };

enum { MESSAGES = 5 };

struct play {
    coney_loop *loop;
    coney_amqp *rabbit;
    enum actor actor;
    unsigned calls; /* that were started */
    unsigned ends;
    unsigned accepted;
    unsigned outcomes;
    coney_kept *kept;
    coney_kept *shelf[4];
    unsigned deliveries;
};

/* Callbacks ---------------------------------------------------------------------------------------------------------- */

static void on_done(void *ctx, const coney_call *call)
{
    struct play *play = ctx;
    play->ends++;
    require(strlen(call->text) < sizeof call->text);
}

static coney_call *call_of(struct play *play, coney_call *call)
{
    *call = (coney_call){.on_done = on_done, .ctx = play};
    return call;
}

static void on_outcome(void *ctx, const coney_outcome *outcome)
{
    struct play *play = ctx;
    require(outcome->tag < play->accepted);
    require(coney_outcome_body(outcome).len == outcome->tag);
    play->outcomes++;
}

static void read_through(const coney_amqp_delivery *delivery)
{
    coney_amqp_properties properties;
    coney_value value;
    uint8_t sum = 0;
    for (size_t i = 0; i < delivery->body.len; i++)
        sum ^= ((const uint8_t *)delivery->body.data)[i];
    if (coney_amqp_delivery_properties(delivery, &properties) == CONEY_OK) {
        coney_field field;
        coney_value_iter it = coney_value_elements(&properties.headers);
        while (coney_value_next_field(&it, &field))
            sum ^= (uint8_t)field.key.len;
        require(coney_value_iter_ok(&it));
        (void)coney_amqp_delivery_header(delivery, CONEY_STR("x-death"), &value);
    }
    (void)coney_amqp_delivery_count(delivery);
    volatile uint8_t seen = sum;
    (void)seen;
}

/* Each settlement in turn; some are kept. */
static coney_settle on_delivery(void *ctx, const coney_amqp_delivery *delivery)
{
    static const coney_settle hows[] = {CONEY_ACK, CONEY_REJECT, CONEY_REQUEUE, CONEY_ACK, 1, CONEY_KEPT};
    struct play *play = ctx;
    coney_settle how = hows[play->deliveries++ % (sizeof hows / sizeof hows[0])];
    read_through(delivery);
    if (how != CONEY_KEPT)
        return how;
    coney_kept **place = &play->shelf[play->deliveries % 4];
    (void)coney_kept_settle(place, CONEY_ACK);
    *place = coney_amqp_keep(delivery);
    return CONEY_KEPT;
}

static void on_method(void *ctx, const coney_amqp_method *method, const coney_amqp_delivery *content)
{
    (void)ctx;
    for (uint32_t i = 0; i < method->field_count; i++)
        require(coney_value_check(&method->fields[i]) == CONEY_OK);
    if (content != NULL)
        read_through(content);
}

/* Acts ---------------------------------------------------------------------------------------------------------------- */

static void steps(struct play *play)
{
    for (int i = 0; i < 6 || coney_loop_step(play->loop); i++) {
        coney_loop_step(play->loop);
        for (struct link *link = links; link != NULL; link = link->next)
            take_bulk(link);
    }
}

/* A log-in that is in order, on the youngest link. */
static void log_in(struct play *play)
{
    uint8_t bytes[256];
    size_t len = 0;
    const struct amqp_method methods[] = {
        {.id = AMQP_CONNECTION_START, .connection_start = {.version_minor = 9, .mechanisms = CONEY_STR("PLAIN")}},
        {.id = AMQP_CONNECTION_TUNE, .connection_tune = {2047, 131072, 0}},
        {.id = AMQP_CONNECTION_OPEN_OK},
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        len += amqp_encode(0, &methods[i], bytes + len, sizeof bytes - len);
    require(links != NULL);
    links->owner->on_open(links->ctx);
    (void)feed(links, bytes, len, 0);
    steps(play);
}

/* Opens whoever acts; what he needs is asked for asynchronously. */
static void enter(struct play *play, coney_amqp_publisher **publisher, coney_amqp_consumer **consumer,
                  coney_amqp_requester **requester, coney_amqp_tx **tx, coney_amqp_channel **channel)
{
    coney_call call;
    coney_amqp_publisher_options publishing = {
        .routing_key = "q", .on_outcome = on_outcome, .ctx = play, .enqueue_timeout = CONEY_OFF};
    coney_amqp_consumer_options consuming = {
        .on_delivery = on_delivery, .ctx = play, .prefetch = 8, .no_ack = play->actor == CONSUMER_WITHOUT_ACK};
    coney_amqp_channel_options raw = {.on_method = on_method, .ctx = play};
    call_of(play, &call);
    play->calls++;
    switch (play->actor) {
    case PUBLISHER:
        require((*publisher = coney_amqp_publisher_open(play->rabbit, &publishing, &call)) != NULL);
        break;
    case CONSUMER:
    case CONSUMER_WITHOUT_ACK:
        require((*consumer = coney_amqp_consumer_open(play->rabbit, "q", &consuming, &call)) != NULL);
        break;
    case REQUESTER:
        require((*requester = coney_amqp_requester_open(play->rabbit, NULL, &call)) != NULL);
        break;
    case GET:
        require(coney_amqp_get(play->rabbit, "q", &play->kept, &call) == CONEY_OK);
        break;
    case TRANSACTION:
        require((*tx = coney_amqp_tx_begin(play->rabbit, &call)) != NULL);
        break;
    case RAW:
        require((*channel = coney_amqp_channel_open(play->rabbit, &raw, &call)) != NULL);
        break;
    case ACTORS:
        break;
    }
}

/* What he does once he may; refused when he may not. */
static void act(struct play *play, coney_amqp_publisher *publisher, coney_amqp_requester *requester, coney_amqp_tx **tx,
                coney_amqp_channel *channel)
{
    static const coney_amqp_method tx_select = {.class_id = 90, .method_id = 10};
    static const char body[MESSAGES];
    coney_call call;
    for (unsigned i = 0; publisher != NULL && i < MESSAGES; i++) {
        coney_amqp_message message = {.body = coney_bytes_of(body, play->accepted), .tag = play->accepted};
        play->accepted += coney_amqp_publish(publisher, &message) == CONEY_OK;
    }
    coney_amqp_message question = {.body = CONEY_STR("?"), .routing_key = CONEY_STR("q")};
    if (requester != NULL)
        play->calls += coney_amqp_request(requester, &question, &play->kept, call_of(play, &call)) == CONEY_OK;
    if (*tx != NULL && coney_amqp_tx_publish(*tx, &question) == CONEY_OK)
        play->calls += coney_amqp_tx_commit(tx, call_of(play, &call)) == CONEY_OK;
    if (channel != NULL)
        play->calls += coney_amqp_channel_call(channel, &tx_select, NULL, call_of(play, &call)) == CONEY_OK;
    steps(play);
}

/* Where the broker's bytes go: the connection that was made for him, or that for requests. */
static void broker_speaks(struct play *play, const uint8_t *data, size_t size, size_t piece, size_t first,
                          coney_amqp_publisher *publisher, coney_amqp_requester *requester, coney_amqp_tx **tx,
                          coney_amqp_channel *channel)
{
    struct link *link = links;
    bool fresh = link->out_len == 0;
    if (fresh)
        link->owner->on_open(link->ctx);
    first = first < size ? first : size;
    size_t taken = feed(link, data, first, piece);
    steps(play);
    act(play, publisher, requester, tx, channel);
    if (!link->closed)
        (void)feed(link, data + taken, size - taken, piece);
    steps(play);
}

static void run(struct play *play, size_t piece, size_t first, const uint8_t *data, size_t size)
{
    coney_amqp_options options = {.loop = play->loop, .no_recovery = true, .max_message = 1 << 20};
    coney_amqp_publisher *publisher = NULL;
    coney_amqp_consumer *consumer = NULL;
    coney_amqp_requester *requester = NULL;
    coney_amqp_tx *tx = NULL;
    coney_amqp_channel *channel = NULL;
    coney_call call;
    play->rabbit = coney_amqp_open("amqp://memory", &options, call_of(play, &call));
    play->calls++;
    require(play->rabbit != NULL);
    steps(play);
    log_in(play);
    enter(play, &publisher, &consumer, &requester, &tx, &channel);
    steps(play);
    broker_speaks(play, data, size, piece, first, publisher, requester, &tx, channel);
    hang_up();
    steps(play);
    play->calls++;
    coney_amqp_close(&play->rabbit, call_of(play, &call));
    steps(play);
    hang_up();
    steps(play);
    (void)coney_kept_settle(&play->kept, CONEY_ACK);
    for (size_t i = 0; i < 4; i++)
        (void)coney_kept_settle(&play->shelf[i], CONEY_REJECT);
    steps(play);
    require(play->ends == play->calls);
    require(play->outcomes == play->accepted);
    free_links();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    struct play play = {.actor = data[0] % ACTORS, .loop = coney_loop_new()};
    require(play.loop != NULL);
    run(&play, data[1], 8u * data[2], data + 3, size - 3);
    coney_loop_free(&play.loop);
    return 0;
}
