/* methods.c: the methods of AMQP 0-9-1, as RabbitMQ speaks it, in one table. */
#include "proto/amqp091/layout.h"

/* clang-format off */
#define AT(member) offsetof(struct amqp_method, member), #member
#define U8(member) {FIELD_U8, AT(member)}
#define U16(member) {FIELD_U16, AT(member)}
#define U32(member) {FIELD_U32, AT(member)}
#define U64(member) {FIELD_U64, AT(member)}
#define SHORT(member) {FIELD_SHORT, AT(member)}
#define LONG(member) {FIELD_LONG, AT(member)}
#define BIT(member) {FIELD_BIT, AT(member)}
#define TABLE(member) {FIELD_TABLE, AT(member)}
#define RESERVED(kind, method) {FIELD_RESERVED_##kind, 0, #method ".reserved"}
#define END {FIELD_U8, 0, NULL}
/* clang-format on */

static const struct layout_field none[] = {END};
static const struct layout_field connection_start[] = {
    U8(connection_start.version_major), U8(connection_start.version_minor), TABLE(connection_start.server_properties),
    LONG(connection_start.mechanisms),  LONG(connection_start.locales),     END};
static const struct layout_field connection_start_ok[] = {
    TABLE(connection_start_ok.client_properties), SHORT(connection_start_ok.mechanism), LONG(connection_start_ok.response),
    SHORT(connection_start_ok.locale), END};
static const struct layout_field connection_secure[] = {LONG(connection_secure.challenge), END};
static const struct layout_field connection_secure_ok[] = {LONG(connection_secure_ok.response), END};
static const struct layout_field connection_tune[] = {U16(connection_tune.channel_max), U32(connection_tune.frame_max),
                                                      U16(connection_tune.heartbeat), END};
static const struct layout_field connection_open[] = {SHORT(connection_open.vhost), RESERVED(SHORT, connection_open),
                                                      RESERVED(BIT, connection_open), END};
static const struct layout_field connection_open_ok[] = {RESERVED(SHORT, connection_open_ok), END};
static const struct layout_field close[] = {U16(close.code), SHORT(close.text), U16(close.failed_class),
                                            U16(close.failed_method), END};
static const struct layout_field connection_blocked[] = {SHORT(connection_blocked.reason), END};
static const struct layout_field connection_update_secret[] = {LONG(connection_update_secret.secret),
                                                               SHORT(connection_update_secret.reason), END};
static const struct layout_field channel_open[] = {RESERVED(SHORT, channel_open), END};
static const struct layout_field channel_open_ok[] = {RESERVED(LONG, channel_open_ok), END};
static const struct layout_field channel_flow[] = {BIT(channel_flow.active), END};
static const struct layout_field access_request[] = {SHORT(access_request.realm),
                                                     BIT(access_request.exclusive),
                                                     BIT(access_request.passive),
                                                     BIT(access_request.active),
                                                     BIT(access_request.write),
                                                     BIT(access_request.read),
                                                     END};
static const struct layout_field access_request_ok[] = {U16(access_request_ok.ticket), END};
static const struct layout_field exchange_declare[] = {RESERVED(U16, exchange_declare),   SHORT(exchange_declare.exchange),
                                                       SHORT(exchange_declare.type),      BIT(exchange_declare.passive),
                                                       BIT(exchange_declare.durable),     BIT(exchange_declare.auto_delete),
                                                       BIT(exchange_declare.internal),    BIT(exchange_declare.nowait),
                                                       TABLE(exchange_declare.arguments), END};
static const struct layout_field exchange_delete[] = {RESERVED(U16, exchange_delete), SHORT(exchange_delete.exchange),
                                                      BIT(exchange_delete.if_unused), BIT(exchange_delete.nowait), END};
static const struct layout_field exchange_bind[] = {RESERVED(U16, exchange_bind),
                                                    SHORT(exchange_bind.destination),
                                                    SHORT(exchange_bind.source),
                                                    SHORT(exchange_bind.routing_key),
                                                    BIT(exchange_bind.nowait),
                                                    TABLE(exchange_bind.arguments),
                                                    END};
static const struct layout_field queue_declare[] = {
    RESERVED(U16, queue_declare), SHORT(queue_declare.queue),     BIT(queue_declare.passive),
    BIT(queue_declare.durable),   BIT(queue_declare.exclusive),   BIT(queue_declare.auto_delete),
    BIT(queue_declare.nowait),    TABLE(queue_declare.arguments), END};
static const struct layout_field queue_declare_ok[] = {SHORT(queue_declare_ok.queue), U32(queue_declare_ok.messages),
                                                       U32(queue_declare_ok.consumers), END};
static const struct layout_field queue_bind[] = {RESERVED(U16, queue_bind),
                                                 SHORT(queue_bind.queue),
                                                 SHORT(queue_bind.exchange),
                                                 SHORT(queue_bind.routing_key),
                                                 BIT(queue_bind.nowait),
                                                 TABLE(queue_bind.arguments),
                                                 END};
static const struct layout_field queue_unbind[] = {RESERVED(U16, queue_unbind),   SHORT(queue_unbind.queue),
                                                   SHORT(queue_unbind.exchange),  SHORT(queue_unbind.routing_key),
                                                   TABLE(queue_unbind.arguments), END};
static const struct layout_field queue_purge[] = {RESERVED(U16, queue_purge), SHORT(queue_purge.queue), BIT(queue_purge.nowait),
                                                  END};
static const struct layout_field queue_delete[] = {RESERVED(U16, queue_delete), SHORT(queue_delete.queue),
                                                   BIT(queue_delete.if_unused), BIT(queue_delete.if_empty),
                                                   BIT(queue_delete.nowait),    END};
static const struct layout_field queue_messages[] = {U32(queue_messages.messages), END};
static const struct layout_field basic_qos[] = {U32(basic_qos.prefetch_size), U16(basic_qos.prefetch_count),
                                                BIT(basic_qos.global), END};
static const struct layout_field basic_consume[] = {
    RESERVED(U16, basic_consume), SHORT(basic_consume.queue),     SHORT(basic_consume.consumer_tag),
    BIT(basic_consume.no_local),  BIT(basic_consume.no_ack),      BIT(basic_consume.exclusive),
    BIT(basic_consume.nowait),    TABLE(basic_consume.arguments), END};
static const struct layout_field basic_consumer[] = {SHORT(basic_consumer.consumer_tag), END};
static const struct layout_field basic_cancel[] = {SHORT(basic_cancel.consumer_tag), BIT(basic_cancel.nowait), END};
static const struct layout_field basic_publish[] = {RESERVED(U16, basic_publish),     SHORT(basic_publish.exchange),
                                                    SHORT(basic_publish.routing_key), BIT(basic_publish.mandatory),
                                                    BIT(basic_publish.immediate),     END};
static const struct layout_field basic_return[] = {U16(basic_return.code), SHORT(basic_return.text),
                                                   SHORT(basic_return.exchange), SHORT(basic_return.routing_key), END};
static const struct layout_field basic_deliver[] = {SHORT(basic_deliver.consumer_tag), U64(basic_deliver.delivery_tag),
                                                    BIT(basic_deliver.redelivered),    SHORT(basic_deliver.exchange),
                                                    SHORT(basic_deliver.routing_key),  END};
static const struct layout_field basic_get[] = {RESERVED(U16, basic_get), SHORT(basic_get.queue), BIT(basic_get.no_ack), END};
static const struct layout_field basic_get_ok[] = {U64(basic_get_ok.delivery_tag), BIT(basic_get_ok.redelivered),
                                                   SHORT(basic_get_ok.exchange),   SHORT(basic_get_ok.routing_key),
                                                   U32(basic_get_ok.messages),     END};
static const struct layout_field basic_get_empty[] = {RESERVED(SHORT, basic_get_empty), END};
static const struct layout_field basic_ack[] = {U64(basic_ack.delivery_tag), BIT(basic_ack.multiple), END};
static const struct layout_field basic_reject[] = {U64(basic_reject.delivery_tag), BIT(basic_reject.requeue), END};
static const struct layout_field basic_recover[] = {BIT(basic_recover.requeue), END};
static const struct layout_field basic_nack[] = {U64(basic_nack.delivery_tag), BIT(basic_nack.multiple),
                                                 BIT(basic_nack.requeue), END};
static const struct layout_field confirm_select[] = {BIT(confirm_select.nowait), END};

enum { SERVER = AMQP_FROM_SERVER, CLIENT = AMQP_FROM_CLIENT, EITHER = AMQP_FROM_SERVER | AMQP_FROM_CLIENT };

/* clang-format off */
#define METHOD(id, name, senders, fields) {id, name, senders, false, {0, 0}, fields}
#define CONTENT(id, name, senders, fields) {id, name, senders, true, {0, 0}, fields}
#define CALL(id, name, senders, fields, ...) {id, name, senders, false, {__VA_ARGS__}, fields}
/* clang-format on */

const struct layout_method layout_methods[] = {
    CALL(AMQP_CONNECTION_START, "connection.start", SERVER, connection_start, AMQP_CONNECTION_START_OK),
    METHOD(AMQP_CONNECTION_START_OK, "connection.start-ok", CLIENT, connection_start_ok),
    CALL(AMQP_CONNECTION_SECURE, "connection.secure", SERVER, connection_secure, AMQP_CONNECTION_SECURE_OK),
    METHOD(AMQP_CONNECTION_SECURE_OK, "connection.secure-ok", CLIENT, connection_secure_ok),
    CALL(AMQP_CONNECTION_TUNE, "connection.tune", SERVER, connection_tune, AMQP_CONNECTION_TUNE_OK),
    METHOD(AMQP_CONNECTION_TUNE_OK, "connection.tune-ok", CLIENT, connection_tune),
    CALL(AMQP_CONNECTION_OPEN, "connection.open", CLIENT, connection_open, AMQP_CONNECTION_OPEN_OK),
    METHOD(AMQP_CONNECTION_OPEN_OK, "connection.open-ok", SERVER, connection_open_ok),
    CALL(AMQP_CONNECTION_CLOSE, "connection.close", EITHER, close, AMQP_CONNECTION_CLOSE_OK),
    METHOD(AMQP_CONNECTION_CLOSE_OK, "connection.close-ok", EITHER, none),
    METHOD(AMQP_CONNECTION_BLOCKED, "connection.blocked", SERVER, connection_blocked),
    METHOD(AMQP_CONNECTION_UNBLOCKED, "connection.unblocked", SERVER, none),
    CALL(AMQP_CONNECTION_UPDATE_SECRET, "connection.update-secret", CLIENT, connection_update_secret,
         AMQP_CONNECTION_UPDATE_SECRET_OK),
    METHOD(AMQP_CONNECTION_UPDATE_SECRET_OK, "connection.update-secret-ok", SERVER, none),
    CALL(AMQP_CHANNEL_OPEN, "channel.open", CLIENT, channel_open, AMQP_CHANNEL_OPEN_OK),
    METHOD(AMQP_CHANNEL_OPEN_OK, "channel.open-ok", SERVER, channel_open_ok),
    CALL(AMQP_CHANNEL_FLOW, "channel.flow", EITHER, channel_flow, AMQP_CHANNEL_FLOW_OK),
    METHOD(AMQP_CHANNEL_FLOW_OK, "channel.flow-ok", EITHER, channel_flow),
    CALL(AMQP_CHANNEL_CLOSE, "channel.close", EITHER, close, AMQP_CHANNEL_CLOSE_OK),
    METHOD(AMQP_CHANNEL_CLOSE_OK, "channel.close-ok", EITHER, none),
    CALL(AMQP_ACCESS_REQUEST, "access.request", CLIENT, access_request, AMQP_ACCESS_REQUEST_OK),
    METHOD(AMQP_ACCESS_REQUEST_OK, "access.request-ok", SERVER, access_request_ok),
    CALL(AMQP_EXCHANGE_DECLARE, "exchange.declare", CLIENT, exchange_declare, AMQP_EXCHANGE_DECLARE_OK),
    METHOD(AMQP_EXCHANGE_DECLARE_OK, "exchange.declare-ok", SERVER, none),
    CALL(AMQP_EXCHANGE_DELETE, "exchange.delete", CLIENT, exchange_delete, AMQP_EXCHANGE_DELETE_OK),
    METHOD(AMQP_EXCHANGE_DELETE_OK, "exchange.delete-ok", SERVER, none),
    CALL(AMQP_EXCHANGE_BIND, "exchange.bind", CLIENT, exchange_bind, AMQP_EXCHANGE_BIND_OK),
    METHOD(AMQP_EXCHANGE_BIND_OK, "exchange.bind-ok", SERVER, none),
    CALL(AMQP_EXCHANGE_UNBIND, "exchange.unbind", CLIENT, exchange_bind, AMQP_EXCHANGE_UNBIND_OK),
    METHOD(AMQP_EXCHANGE_UNBIND_OK, "exchange.unbind-ok", SERVER, none),
    CALL(AMQP_QUEUE_DECLARE, "queue.declare", CLIENT, queue_declare, AMQP_QUEUE_DECLARE_OK),
    METHOD(AMQP_QUEUE_DECLARE_OK, "queue.declare-ok", SERVER, queue_declare_ok),
    CALL(AMQP_QUEUE_BIND, "queue.bind", CLIENT, queue_bind, AMQP_QUEUE_BIND_OK),
    METHOD(AMQP_QUEUE_BIND_OK, "queue.bind-ok", SERVER, none),
    CALL(AMQP_QUEUE_PURGE, "queue.purge", CLIENT, queue_purge, AMQP_QUEUE_PURGE_OK),
    METHOD(AMQP_QUEUE_PURGE_OK, "queue.purge-ok", SERVER, queue_messages),
    CALL(AMQP_QUEUE_DELETE, "queue.delete", CLIENT, queue_delete, AMQP_QUEUE_DELETE_OK),
    METHOD(AMQP_QUEUE_DELETE_OK, "queue.delete-ok", SERVER, queue_messages),
    CALL(AMQP_QUEUE_UNBIND, "queue.unbind", CLIENT, queue_unbind, AMQP_QUEUE_UNBIND_OK),
    METHOD(AMQP_QUEUE_UNBIND_OK, "queue.unbind-ok", SERVER, none),
    CALL(AMQP_BASIC_QOS, "basic.qos", CLIENT, basic_qos, AMQP_BASIC_QOS_OK),
    METHOD(AMQP_BASIC_QOS_OK, "basic.qos-ok", SERVER, none),
    CALL(AMQP_BASIC_CONSUME, "basic.consume", CLIENT, basic_consume, AMQP_BASIC_CONSUME_OK),
    METHOD(AMQP_BASIC_CONSUME_OK, "basic.consume-ok", SERVER, basic_consumer),
    CALL(AMQP_BASIC_CANCEL, "basic.cancel", EITHER, basic_cancel, AMQP_BASIC_CANCEL_OK),
    METHOD(AMQP_BASIC_CANCEL_OK, "basic.cancel-ok", EITHER, basic_consumer),
    CONTENT(AMQP_BASIC_PUBLISH, "basic.publish", CLIENT, basic_publish),
    CONTENT(AMQP_BASIC_RETURN, "basic.return", SERVER, basic_return),
    CONTENT(AMQP_BASIC_DELIVER, "basic.deliver", SERVER, basic_deliver),
    CALL(AMQP_BASIC_GET, "basic.get", CLIENT, basic_get, AMQP_BASIC_GET_OK, AMQP_BASIC_GET_EMPTY),
    CONTENT(AMQP_BASIC_GET_OK, "basic.get-ok", SERVER, basic_get_ok),
    METHOD(AMQP_BASIC_GET_EMPTY, "basic.get-empty", SERVER, basic_get_empty),
    METHOD(AMQP_BASIC_ACK, "basic.ack", EITHER, basic_ack),
    METHOD(AMQP_BASIC_REJECT, "basic.reject", CLIENT, basic_reject),
    METHOD(AMQP_BASIC_RECOVER_ASYNC, "basic.recover-async", CLIENT, basic_recover),
    CALL(AMQP_BASIC_RECOVER, "basic.recover", CLIENT, basic_recover, AMQP_BASIC_RECOVER_OK),
    METHOD(AMQP_BASIC_RECOVER_OK, "basic.recover-ok", SERVER, none),
    METHOD(AMQP_BASIC_NACK, "basic.nack", EITHER, basic_nack),
    CALL(AMQP_CONFIRM_SELECT, "confirm.select", CLIENT, confirm_select, AMQP_CONFIRM_SELECT_OK),
    METHOD(AMQP_CONFIRM_SELECT_OK, "confirm.select-ok", SERVER, none),
    CALL(AMQP_TX_SELECT, "tx.select", CLIENT, none, AMQP_TX_SELECT_OK),
    METHOD(AMQP_TX_SELECT_OK, "tx.select-ok", SERVER, none),
    CALL(AMQP_TX_COMMIT, "tx.commit", CLIENT, none, AMQP_TX_COMMIT_OK),
    METHOD(AMQP_TX_COMMIT_OK, "tx.commit-ok", SERVER, none),
    CALL(AMQP_TX_ROLLBACK, "tx.rollback", CLIENT, none, AMQP_TX_ROLLBACK_OK),
    METHOD(AMQP_TX_ROLLBACK_OK, "tx.rollback-ok", SERVER, none),
};

const size_t layout_method_count = sizeof layout_methods / sizeof *layout_methods;

const struct layout_method *layout_method_of(uint32_t id)
{
    size_t low = 0;
    size_t high = layout_method_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (layout_methods[middle].id == id)
            return &layout_methods[middle];
        if (layout_methods[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *amqp_method_name(uint32_t id)
{
    const struct layout_method *method = layout_method_of(id);
    return method == NULL ? "unknown method" : method->name;
}

bool amqp_method_from(uint32_t id, enum amqp_side side)
{
    const struct layout_method *method = layout_method_of(id);
    return method != NULL && (method->senders & side) != 0;
}

bool amqp_method_has_content(uint32_t id)
{
    const struct layout_method *method = layout_method_of(id);
    return method != NULL && method->content;
}

bool amqp_answers(uint32_t request, uint32_t answer)
{
    const struct layout_method *method = layout_method_of(request);
    return method != NULL && answer != 0 && (method->answers[0] == answer || method->answers[1] == answer);
}

bool amqp_is_request(uint32_t id)
{
    const struct layout_method *method = layout_method_of(id);
    return method != NULL && method->answers[0] != 0;
}
