/* raw_call.c: methods to and from a raw channel, as rows of values. */
#include "amqp/message.h"
#include "amqp/raw.h"

#include "core/options.h"
#include "proto/amqp091/fields.h"

#include <stdlib.h>

#define QUEUED_MOST ((size_t)4 << 20) /* bytes that may wait to be written, unless it is one message alone */

/* From the broker ------------------------------------------------------------------------------------------------- */

static coney_amqp_method method_of(const struct amqp_method *method, const coney_value *values, size_t count)
{
    return (coney_amqp_method){.class_id = AMQP_CLASS_OF(method->id),
                               .method_id = AMQP_METHOD_OF(method->id),
                               .field_count = (uint32_t)count,
                               .fields = values};
}

/* What a delivery says beside its content: only those methods have an exchange and a key. */
static void set_route(coney_amqp_delivery *delivery, const struct amqp_method *method)
{
    if (method->id == AMQP_BASIC_DELIVER) {
        delivery->exchange = method->basic_deliver.exchange;
        delivery->routing_key = method->basic_deliver.routing_key;
        delivery->delivery_tag = method->basic_deliver.delivery_tag;
        delivery->redelivered = method->basic_deliver.redelivered;
    } else if (method->id == AMQP_BASIC_GET_OK) {
        delivery->exchange = method->basic_get_ok.exchange;
        delivery->routing_key = method->basic_get_ok.routing_key;
        delivery->delivery_tag = method->basic_get_ok.delivery_tag;
        delivery->redelivered = method->basic_get_ok.redelivered;
    } else if (method->id == AMQP_BASIC_RETURN) {
        delivery->exchange = method->basic_return.exchange;
        delivery->routing_key = method->basic_return.routing_key;
    }
}

void raw_tell(struct coney_amqp_channel *channel, const struct amqp_method *method, const struct amqp_unit *content)
{
    coney_value values[AMQP_FIELDS_MOST];
    if (channel->options.on_method == NULL || atomic_load(&channel->handle_closed))
        return;
    const coney_amqp_method told = method_of(method, values, amqp_fields_of(method, values));
    coney_amqp_delivery delivery = {.queue = ""};
    if (content != NULL) {
        delivery.body = content->body;
        delivery.encoded_properties = content->properties;
        set_route(&delivery, method);
    }
    channel->options.on_method(channel->options.ctx, &told, content != NULL ? &delivery : NULL);
}

/* False: its strings take more than the answer's memory. */
static bool make_answer(coney_amqp_answer *answer, const struct amqp_method *method)
{
    size_t used = 0;
    size_t count = amqp_fields_of(method, answer->values);
    answer->method = method_of(method, answer->values, count);
    for (size_t i = 0; i < count; i++) {
        coney_value *value = &answer->values[i];
        if (value->type != CONEY_VALUE_STRING && value->type != CONEY_VALUE_MAP)
            continue;
        if (value->as.bytes.len > sizeof answer->memory - used)
            return false;
        if (value->as.bytes.len > 0)
            memcpy(answer->memory + used, value->as.bytes.data, value->as.bytes.len);
        value->as.bytes.data = answer->memory + used;
        used += value->as.bytes.len;
    }
    return true;
}

static void copy_answer(coney_amqp_answer *to, const coney_amqp_answer *from)
{
    *to = *from;
    to->method.fields = to->values;
    for (size_t i = 0; i < from->method.field_count; i++)
        if (from->values[i].type == CONEY_VALUE_STRING || from->values[i].type == CONEY_VALUE_MAP)
            to->values[i].as.bytes.data = to->memory + ((const char *)from->values[i].as.bytes.data - from->memory);
}

void raw_answered(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                  const struct channel_content *content, const char *text)
{
    struct raw_op *raw = ctx;
    list_remove(&raw->in_sent);
    if (status != CONEY_OK) {
        op_end(&raw->op, status, code, 0, text);
    } else if (!op_ended(&raw->op)) {
        if (content != NULL)
            raw_tell(raw->channel, answer, &content->unit);
        bool fits = make_answer(&raw->answer, answer);
        if (fits && raw->wanted != NULL && raw->op.call.on_done != NULL)
            copy_answer(raw->wanted, &raw->answer);
        op_end(&raw->op, fits ? CONEY_OK : CONEY_ETOOBIG, 0, 0, fits ? NULL : "the answer's strings take more than its memory");
    }
    op_unref(&raw->op);
}

/* To the broker --------------------------------------------------------------------------------------------------- */

/* CONEY_OK and *out, or CONEY_EINVAL: no method, or none that a user may send on a channel. `waits`: as it must be. */
static coney_status read_method(const coney_amqp_method *method, bool waits, struct amqp_method *out, coney_call *call)
{
    if (method == NULL || (method->fields == NULL && method->field_count > 0))
        return op_refuse(call, CONEY_EINVAL, "there is no method, or it has no fields");
    uint32_t id = AMQP_METHOD_ID(method->class_id, method->method_id);
    const char *field = amqp_method_of_fields(id, method->fields, method->field_count, out);
    bool ours = method->class_id == AMQP_CLASS_CONNECTION || id == AMQP_CHANNEL_OPEN || id == AMQP_CHANNEL_CLOSE ||
                id == AMQP_CHANNEL_CLOSE_OK;
    if (field != NULL)
        return op_refuse(call, CONEY_EINVAL, "%s: the value does not fit '%s'", amqp_method_name(id), field);
    if (ours || !amqp_method_from(id, AMQP_FROM_CLIENT))
        return op_refuse(call, CONEY_EINVAL, "%s is not for a user of a channel to send", amqp_method_name(id));
    if (amqp_method_waits(out) != waits)
        return op_refuse(call, CONEY_EINVAL,
                         waits ? "%s has no answer: coney_amqp_channel_send" : "%s has an answer: coney_amqp_channel_call",
                         amqp_method_name(id));
    return CONEY_OK;
}

static coney_status check_use(struct coney_amqp_channel *channel, coney_call *call)
{
    if (channel == NULL)
        return op_refuse(call, CONEY_EINVAL, "the channel is NULL: it was never opened, or is closed");
    if (channel->amqp->env.fork != fork_generation())
        return op_refuse(call, CONEY_EFORKED, "%s", coney_status_text(CONEY_EFORKED));
    return raw_check(channel, call);
}

/* The method as an item; NULL and *status: CONEY_ENOMEM, or CONEY_ETOOBIG, it fits no frame. */
static struct raw_item *method_item(const struct coney_amqp_channel *channel, const struct amqp_method *method,
                                    coney_status *status)
{
    size_t len = amqp_encode(channel->number, method, NULL, 0);
    *status = CONEY_ETOOBIG;
    if (len == 0 || len > channel->payload_max + AMQP_FRAME_BYTES)
        return NULL;
    struct raw_item *item = raw_item_new(len);
    *status = item != NULL ? CONEY_OK : CONEY_ENOMEM;
    if (item != NULL)
        amqp_encode(channel->number, method, item->frames, len);
    return item;
}

coney_status coney_amqp_channel_call(coney_amqp_channel *channel, const coney_amqp_method *user_method,
                                     coney_amqp_answer *answer, coney_call *call)
{
    struct amqp_method method;
    coney_status status = check_use(channel, call);
    if (status == CONEY_OK)
        status = read_method(user_method, true, &method, call);
    if (status != CONEY_OK)
        return status;
    if (op_check(call) != CONEY_OK)
        return CONEY_EINVAL;
    struct raw_item *item = method_item(channel, &method, &status);
    struct raw_op *raw = item != NULL ? raw_op_new(channel, RAW_CALL, raw_begin) : NULL;
    if (raw == NULL) {
        free(item);
        status = status == CONEY_OK ? CONEY_ENOMEM : status;
        return op_refuse(call, status, "%s", coney_status_text(status));
    }
    raw->id = method.id;
    raw->wanted = answer;
    op_ref(&raw->op);
    lock_acquire(&channel->lock);
    raw_append_locked(channel, item, raw);
    lock_release(&channel->lock);
    status = op_run(&raw->op, call, channel->amqp->env.settings.call_deadline);
    bool blocking = call == NULL || call->on_done == NULL;
    if (status == CONEY_OK && blocking && answer != NULL)
        copy_answer(answer, &raw->answer);
    if (status == CONEY_EDEADLK || (status == CONEY_ENOMEM && !blocking))
        raw_take_back(channel, raw);
    op_unref(&raw->op);
    return status;
}

static coney_status message_item(const struct coney_amqp_channel *channel, const struct amqp_method *method,
                                 const coney_amqp_message *content, struct raw_item **out)
{
    uint8_t publish[MESSAGE_METHOD_MAX];
    struct message_form form;
    const struct message_target target = {.exchange = CONEY_STR(""), .routing_key = CONEY_STR("")};
    coney_amqp_message copy;
    const coney_amqp_message *message = message_known(content, sizeof *content, &copy);
    const char *field;
    coney_status status = message != NULL ? message_form_make(&form, message, &target, &field) : CONEY_EINVAL;
    if (status != CONEY_OK)
        return status;
    form.method = coney_bytes_of(publish, amqp_encode(channel->number, method, publish, sizeof publish));
    if (!message_form_fits(&form, channel->payload_max))
        return CONEY_ETOOBIG;
    *out = raw_item_new(message_form_size(&form, channel->payload_max));
    if (*out == NULL)
        return CONEY_ENOMEM;
    message_form_write(&form, (*out)->frames, channel->number, channel->payload_max);
    return CONEY_OK;
}

coney_status coney_amqp_channel_send(coney_amqp_channel *channel, const coney_amqp_method *user_method,
                                     const coney_amqp_message *content)
{
    struct amqp_method method;
    struct raw_item *item = NULL;
    coney_status status = check_use(channel, NULL);
    if (status == CONEY_OK)
        status = read_method(user_method, false, &method, NULL);
    if (status == CONEY_OK && amqp_method_has_content(method.id) != (content != NULL))
        status = CONEY_EINVAL;
    if (status != CONEY_OK)
        return status;
    if (content != NULL)
        status = message_item(channel, &method, content, &item);
    else
        item = method_item(channel, &method, &status);
    if (status != CONEY_OK)
        return status;
    lock_acquire(&channel->lock);
    bool full = channel->queued > 0 && channel->queued + item->len > QUEUED_MOST;
    status = channel->status != CONEY_OK ? channel->status : full ? CONEY_EAGAIN : CONEY_OK;
    if (status == CONEY_OK)
        raw_append_locked(channel, item, NULL);
    lock_release(&channel->lock);
    if (status != CONEY_OK)
        free(item);
    return status;
}
