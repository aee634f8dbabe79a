/* How the scripted AMQP broker answers by default: like a node that has every exchange and every queue. */
#define _GNU_SOURCE
#include "amqp_peer_internal.h"

static void answer(struct amqp_peer *peer, const struct amqp_peer_record *record, const struct amqp_method *method)
{
    amqp_peer_send(peer, record->connection, record->channel, method);
}

static void answer_bare(struct amqp_peer *peer, const struct amqp_peer_record *record, uint32_t id)
{
    answer(peer, record, &(struct amqp_method){.id = id});
}

static coney_bytes text_of(const char *text)
{
    return coney_bytes_of(text, strlen(text));
}

/* Refusals ---------------------------------------------------------------------------------------------------------- */

void amqp_peer_answer(struct burrow *burrow, const struct burrow_rule *rule, struct burrow_entry *entry)
{
    struct amqp_peer *peer = peer_of(burrow);
    const struct amqp_peer_record *record = &((struct entry *)entry)->record;
    bool soft = record->channel != 0 && amqp_code_is_soft(rule->code);
    struct amqp_method close = {.id = soft ? AMQP_CHANNEL_CLOSE : AMQP_CONNECTION_CLOSE,
                                .close = {.code = rule->code,
                                          .text = coney_bytes_of(rule->raw, rule->raw_len),
                                          .failed_class = AMQP_CLASS_OF(record->method.id),
                                          .failed_method = AMQP_METHOD_OF(record->method.id)}};
    struct channel *channel = amqp_peer_channel_at(peer, record->connection, record->channel);
    if (soft && channel == NULL) /* it is channel.open that is refused */
        channel = amqp_peer_channel_open(peer, record->connection, record->channel);
    if (soft)
        channel->closing = true;
    else
        amqp_peer_connection_at(peer, record->connection)->closing = true;
    amqp_peer_send(peer, record->connection, soft ? record->channel : 0, &close);
}

/* The connection ---------------------------------------------------------------------------------------------------- */

static void treat_greeting(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    static const char *const capabilities[] = {"publisher_confirms", "basic.nack", "consumer_cancel_notify",
                                               "connection.blocked"};
    uint8_t room[512];
    coney_builder builder;
    coney_builder_init_table(&builder, room, sizeof room);
    coney_builder_begin(&builder, CONEY_VALUE_MAP);
    coney_builder_put(&builder, CONEY_STR("product"), coney_value_string(CONEY_STR("RabbitMQ")));
    coney_builder_put(&builder, CONEY_STR("version"), coney_value_string(text_of(peer->version)));
    coney_builder_put_begin(&builder, CONEY_STR("capabilities"), CONEY_VALUE_MAP);
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++)
        coney_builder_put(&builder, text_of(capabilities[i]), coney_value_bool(true));
    coney_builder_end(&builder);
    coney_builder_end(&builder);
    struct amqp_method start = {
        .id = AMQP_CONNECTION_START,
        .connection_start = {.version_minor = 9, .mechanisms = text_of(peer->mechanisms), .locales = CONEY_STR("en_US")}};
    assert_int_equal(coney_builder_finish(&builder, &start.connection_start.server_properties), CONEY_OK);
    answer(peer, record, &start);
}

static void treat_start_ok(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    struct connection *c = amqp_peer_connection_at(peer, record->connection);
    coney_value name;
    if (coney_value_find(&record->method.connection_start_ok.client_properties, CONEY_STR("connection_name"), &name))
        snprintf(c->name, sizeof c->name, "%.*s", (int)name.as.bytes.len, (const char *)name.as.bytes.data);
    answer(peer, record, &(struct amqp_method){.id = AMQP_CONNECTION_TUNE, .connection_tune = peer->tune});
}

static void treat_tune_ok(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    amqp_peer_connection_at(peer, record->connection)->frame_max = record->method.connection_tune.frame_max;
}

static void treat_open(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    amqp_peer_connection_at(peer, record->connection)->opened = true;
    answer_bare(peer, record, AMQP_CONNECTION_OPEN_OK);
}

static void treat_close(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    answer_bare(peer, record, AMQP_CONNECTION_CLOSE_OK);
    burrow_hang_up_soon(&peer->burrow, record->connection);
}

static void treat_close_ok(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    burrow_hang_up_soon(&peer->burrow, record->connection);
}

/* Channels ---------------------------------------------------------------------------------------------------------- */

static void treat_channel_open(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    amqp_peer_channel_open(peer, record->connection, record->channel);
    answer_bare(peer, record, AMQP_CHANNEL_OPEN_OK);
}

/* When our own close is out the channel lives until that one is answered, too. */
static void treat_channel_close(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    const struct channel *channel = amqp_peer_channel_at(peer, record->connection, record->channel);
    if (channel != NULL && !channel->closing)
        amqp_peer_channel_end(peer, record->connection, record->channel);
    answer_bare(peer, record, AMQP_CHANNEL_CLOSE_OK);
}

static void treat_channel_close_ok(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    amqp_peer_channel_end(peer, record->connection, record->channel);
}

static void treat_qos(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    amqp_peer_channel_at(peer, record->connection, record->channel)->prefetch = record->method.basic_qos.prefetch_count;
    answer_bare(peer, record, AMQP_BASIC_QOS_OK);
}

static void treat_confirm_select(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    amqp_peer_channel_at(peer, record->connection, record->channel)->confirms = true;
    if (!record->method.confirm_select.nowait)
        answer_bare(peer, record, AMQP_CONFIRM_SELECT_OK);
}

static void treat_tx_select(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    amqp_peer_channel_at(peer, record->connection, record->channel)->transacts = true;
    answer_bare(peer, record, AMQP_TX_SELECT_OK);
}

/* Topology ---------------------------------------------------------------------------------------------------------- */

static void treat_queue_declare(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    char name[32];
    struct amqp_method ok = {.id = AMQP_QUEUE_DECLARE_OK, .queue_declare_ok = {.queue = record->method.queue_declare.queue}};
    if (ok.queue_declare_ok.queue.len == 0) {
        snprintf(name, sizeof name, "amq.gen-%u", peer->names_made++);
        ok.queue_declare_ok.queue = text_of(name);
    }
    if (!record->method.queue_declare.nowait)
        answer(peer, record, &ok);
}

static void treat_exchange_declare(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    if (!record->method.exchange_declare.nowait)
        answer_bare(peer, record, AMQP_EXCHANGE_DECLARE_OK);
}

static void treat_get(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    answer_bare(peer, record, AMQP_BASIC_GET_EMPTY);
}

static void treat_settle(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    struct amqp_peer_record *mutable = (struct amqp_peer_record *)(uintptr_t)record;
    mutable->wrong = amqp_peer_settle(peer, record);
}

/* The rest: its id is the answer's. */
static void treat_with_ok(struct amqp_peer *peer, const struct amqp_peer_record *record)
{
    uint32_t id = record->method.id;
    answer_bare(peer, record, id == AMQP_EXCHANGE_UNBIND ? AMQP_EXCHANGE_UNBIND_OK : id + 1);
}

/* The table ------------------------------------------------------------------------------------------------------ */

static const struct treatment {
    uint32_t key;
    void (*treat)(struct amqp_peer *peer, const struct amqp_peer_record *record);
} treatments[] = {
    {AMQP_PEER_GREETING, treat_greeting},
    {AMQP_CONNECTION_START_OK, treat_start_ok},
    {AMQP_CONNECTION_TUNE_OK, treat_tune_ok},
    {AMQP_CONNECTION_OPEN, treat_open},
    {AMQP_CONNECTION_CLOSE, treat_close},
    {AMQP_CONNECTION_CLOSE_OK, treat_close_ok},
    {AMQP_CONNECTION_UPDATE_SECRET, treat_with_ok},
    {AMQP_CHANNEL_OPEN, treat_channel_open},
    {AMQP_CHANNEL_CLOSE, treat_channel_close},
    {AMQP_CHANNEL_CLOSE_OK, treat_channel_close_ok},
    {AMQP_CHANNEL_FLOW, treat_with_ok},
    {AMQP_EXCHANGE_DECLARE, treat_exchange_declare},
    {AMQP_EXCHANGE_DELETE, treat_with_ok},
    {AMQP_EXCHANGE_BIND, treat_with_ok},
    {AMQP_EXCHANGE_UNBIND, treat_with_ok},
    {AMQP_QUEUE_DECLARE, treat_queue_declare},
    {AMQP_QUEUE_BIND, treat_with_ok},
    {AMQP_QUEUE_PURGE, treat_with_ok},
    {AMQP_QUEUE_DELETE, treat_with_ok},
    {AMQP_QUEUE_UNBIND, treat_with_ok},
    {AMQP_BASIC_QOS, treat_qos},
    {AMQP_BASIC_CONSUME, amqp_peer_treat_consume},
    {AMQP_BASIC_CANCEL, amqp_peer_treat_cancel},
    {AMQP_BASIC_PUBLISH, amqp_peer_treat_publish},
    {AMQP_BASIC_GET, treat_get},
    {AMQP_BASIC_ACK, treat_settle},
    {AMQP_BASIC_REJECT, treat_settle},
    {AMQP_BASIC_NACK, treat_settle},
    {AMQP_BASIC_RECOVER, treat_with_ok},
    {AMQP_CONFIRM_SELECT, treat_confirm_select},
    {AMQP_TX_SELECT, treat_tx_select},
    {AMQP_TX_COMMIT, treat_with_ok},
    {AMQP_TX_ROLLBACK, treat_with_ok},
};

/* A connection or a channel that the broker closes reads nothing but the answer to that, and the other side's own close. */
static bool is_passed_over(struct amqp_peer *peer, const struct burrow_entry *entry, const struct amqp_peer_record *record)
{
    const struct connection *c = amqp_peer_connection_at(peer, record->connection);
    const struct channel *channel = amqp_peer_channel_at(peer, record->connection, record->channel);
    uint32_t key = entry->key;
    if (c == NULL)
        return true;
    if (c->closing)
        return key != AMQP_CONNECTION_CLOSE_OK && key != AMQP_CONNECTION_CLOSE;
    if (record->channel != 0 && channel == NULL)
        return key != AMQP_CHANNEL_OPEN;
    return channel != NULL && channel->closing && key != AMQP_CHANNEL_CLOSE_OK && key != AMQP_CHANNEL_CLOSE;
}

void amqp_peer_treat_entry(struct burrow *burrow, struct burrow_entry *entry)
{
    struct amqp_peer *peer = peer_of(burrow);
    const struct amqp_peer_record *record = &((struct entry *)entry)->record;
    if (is_passed_over(peer, entry, record))
        return;
    for (size_t i = 0; i < sizeof treatments / sizeof treatments[0]; i++)
        if (treatments[i].key == entry->key)
            treatments[i].treat(peer, record);
}
