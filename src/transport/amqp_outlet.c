/* amqp_outlet.c: what goes out: publishers, requests, transactions. */
#include "transport/amqp.h"

#include <stdlib.h>

enum { FIELDS_AT_HAND = 16 };

struct tamqp_outlet {
    struct outlet outlet; /* first */
    struct tamqp *amqp;
    coney_amqp_publisher *publisher;
    coney_bytes exchange; /* never NULL; in `memory` */
    bool transient;
    bool drop_unroutable;
    char memory[];
};

struct tamqp_tx {
    const struct tamqp_outlet *outlet;
    coney_amqp_tx *tx;
};

static struct tamqp_outlet *outlet_of(struct outlet *outlet)
{
    return (struct tamqp_outlet *)outlet;
}

/* Messages ----------------------------------------------------------------------------------------------------------------- */

static int64_t whole_milliseconds(int64_t ns)
{
    int64_t rest = ns > 0 ? ns % CONEY_MILLISECOND : 0;
    return rest == 0 ? ns : ns + (CONEY_MILLISECOND - rest);
}

/* Everything but the headers and what is the publisher's. */
static coney_amqp_message message_of(const struct outgoing *m, uint64_t tag)
{
    return (coney_amqp_message){
        .body = m->body,
        .exchange = m->to_requester ? CONEY_STR("") : coney_bytes_of(NULL, 0),
        .routing_key = m->to,
        .content_type = m->content_type,
        .correlation_id = m->correlation_id,
        .reply_to = m->reply_to,
        .message_id = m->message_id,
        .type = m->type,
        .headers = m->headers,
        .header_count = m->header_count,
        .expiration = whole_milliseconds(m->expiration),
        .timestamp = m->timestamp,
        .tag = tag,
        .priority = m->priority,
        .has_priority = m->has_priority,
        .transient = m->transient,
        .drop_unroutable = m->drop_unroutable || m->to_requester, /* that nobody waits for a reply any more is no failure */
    };
}

/* Hands the message on with the key among its headers. */
static coney_status with_key(coney_amqp_message *message, coney_bytes key,
                             coney_status (*hand_on)(void *to, const coney_amqp_message *message), void *to)
{
    coney_field at_hand[FIELDS_AT_HAND];
    size_t count = message->header_count;
    coney_field *fields = count < FIELDS_AT_HAND ? at_hand : calloc(count + 1, sizeof *fields);
    if (fields == NULL)
        return CONEY_ENOMEM;
    for (size_t i = 0; i < count; i++)
        fields[i] = message->headers[i];
    fields[count] = (coney_field){CONEY_STR(KEY_HEADER), coney_value_string(key)};
    message->headers = fields;
    message->header_count = count + 1;
    coney_status status = hand_on(to, message);
    if (fields != at_hand)
        free(fields);
    return status;
}

/* Publishing --------------------------------------------------------------------------------------------------------------- */

static coney_status publish(void *to, const coney_amqp_message *message)
{
    return coney_amqp_publish(to, message);
}

coney_status tamqp_publish(struct outlet *outlet, const struct outgoing *m, uint64_t tag)
{
    coney_amqp_publisher *publisher = outlet_of(outlet)->publisher;
    coney_amqp_message message = message_of(m, tag);
    if (m->key.len > 0)
        return with_key(&message, m->key, publish, publisher);
    return coney_amqp_publish(publisher, &message);
}

coney_status tamqp_open_outlet(void *self, const struct outlet_options *options, struct outlet **outlet, coney_call *call)
{
    struct tamqp *t = self;
    size_t len = options->exchange != NULL ? strlen(options->exchange) : 0;
    struct tamqp_outlet *mine = calloc(1, sizeof *mine + len + 1);
    if (mine == NULL)
        return app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    mine->outlet.transport = &tamqp_transport;
    mine->amqp = t;
    mine->exchange = coney_bytes_of(mine->memory, len);
    if (len > 0)
        memcpy(mine->memory, options->exchange, len);
    mine->transient = options->transient;
    mine->drop_unroutable = options->drop_unroutable;
    coney_amqp_publisher_options publisher = {
        .exchange = mine->memory,
        .name = options->name,
        .on_outcome = options->outcome,
        .ctx = options->ctx,
        .unconfirmed = options->policy == CONEY_PUBLISH_PLAIN,
        .transient = options->transient,
        .drop_unroutable = options->drop_unroutable,
    };
    mine->publisher = coney_amqp_publisher_open(tamqp_rabbit(t), &publisher, call);
    if (mine->publisher == NULL) {
        free(mine);
        return call->status;
    }
    *outlet = &mine->outlet;
    return CONEY_OK;
}

coney_status tamqp_flush(struct outlet *outlet, coney_call *call)
{
    return coney_amqp_publisher_flush(outlet_of(outlet)->publisher, call);
}

coney_status tamqp_close_outlet(struct outlet *outlet, coney_call *call)
{
    struct tamqp_outlet *mine = outlet_of(outlet);
    coney_status status = coney_amqp_publisher_close(&mine->publisher, call);
    free(mine);
    return status;
}

/* Requests ----------------------------------------------------------------------------------------------------------------- */

/* One for all outlets: every request says to which exchange it goes. Opened with the first. */
static coney_amqp_requester *requester_of(struct tamqp *t, coney_call *call)
{
    lock_acquire(&t->opening_lock);
    if (t->requester == NULL)
        t->requester = coney_amqp_requester_open(tamqp_rabbit(t), NULL, call);
    coney_amqp_requester *requester = t->requester;
    lock_release(&t->opening_lock);
    return requester;
}

struct asking {
    coney_amqp_requester *requester;
    coney_kept **kept;
    coney_call *call;
};

static coney_status ask(void *to, const coney_amqp_message *message)
{
    struct asking *asking = to;
    return coney_amqp_request(asking->requester, message, asking->kept, asking->call);
}

coney_status tamqp_request(struct outlet *outlet, const struct outgoing *m, struct incoming *reply, coney_call *call)
{
    const struct tamqp_outlet *mine = outlet_of(outlet);
    coney_kept *kept = NULL;
    struct asking asking = {.requester = requester_of(mine->amqp, call), .kept = &kept, .call = call};
    if (asking.requester == NULL)
        return call->status;
    coney_amqp_message message = message_of(m, 0);
    message.exchange = mine->exchange;
    message.correlation_id = message.reply_to = coney_bytes_of(NULL, 0); /* the client's own */
    coney_status status = m->key.len > 0 ? with_key(&message, m->key, ask, &asking) : ask(&asking, &message);
    if (status != CONEY_OK)
        return status;
    const coney_amqp_delivery *delivery = coney_amqp_kept_delivery(kept);
    *reply = (struct incoming){.body = delivery->body, .native = delivery, .kept = kept, .offset = UINT64_MAX};
    return CONEY_OK;
}

/* Transactions ------------------------------------------------------------------------------------------------------------- */

coney_status tamqp_tx_begin(struct outlet *outlet, void **tx, coney_call *call)
{
    struct tamqp_outlet *mine = outlet_of(outlet);
    struct tamqp_tx *begun = calloc(1, sizeof *begun);
    if (begun == NULL)
        return app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    begun->outlet = mine;
    begun->tx = coney_amqp_tx_begin(tamqp_rabbit(mine->amqp), call);
    if (begun->tx == NULL) {
        free(begun);
        return call->status;
    }
    *tx = begun;
    return CONEY_OK;
}

static coney_status add(void *to, const coney_amqp_message *message)
{
    return coney_amqp_tx_publish(to, message);
}

coney_status tamqp_tx_publish(void *tx, const struct outgoing *m)
{
    struct tamqp_tx *open = tx;
    coney_amqp_message message = message_of(m, 0);
    if (!m->to_requester)
        message.exchange = open->outlet->exchange;
    message.transient = message.transient || open->outlet->transient;
    message.drop_unroutable = message.drop_unroutable || open->outlet->drop_unroutable;
    return m->key.len > 0 ? with_key(&message, m->key, add, open->tx) : add(open->tx, &message);
}

coney_status tamqp_tx_commit(void *tx, coney_call *call)
{
    struct tamqp_tx *open = tx;
    coney_status status = coney_amqp_tx_commit(&open->tx, call);
    free(open);
    return status;
}

coney_status tamqp_tx_abort(void *tx, coney_call *call)
{
    struct tamqp_tx *open = tx;
    coney_status status = coney_amqp_tx_rollback(&open->tx, call);
    free(open);
    return status;
}
