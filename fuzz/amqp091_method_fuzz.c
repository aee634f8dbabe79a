/* amqp091_method_fuzz.c: any bytes as frames and as the fields of a method of AMQP 0-9-1.
 *
 * The first byte picks the channel; the second the method whose fields the rest is, or, when it is none, says that the rest is a
 * run of frames. What decodes must have tables that can be walked to their end, and encode to a frame that decodes to the same.
 * The data path's readers must agree with the codec. */
#include "proto/amqp091/content.h"
#include "proto/amqp091/layout.h"
#include "proto/amqp091/settle.h"
#include "proto/amqp091/table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAYLOAD_MAX = AMQP_FRAME_MAX_DEFAULT - AMQP_FRAME_BYTES };

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* A block of exactly that size. */
static uint8_t *exact_copy(const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    require(copy != NULL);
    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

static void walk(const coney_value *value)
{
    coney_value element;
    coney_value_iter iter = coney_value_elements(value);
    uint32_t count = 0;
    for (; coney_value_next(&iter, &element); count++)
        walk(&element);
    require(coney_value_iter_ok(&iter));
    require(value->type < CONEY_VALUE_LIST || count == value->count);
}

static void walk_tables(const struct amqp_method *method)
{
    const struct layout_method *layout = layout_method_of(method->id);
    for (const struct layout_field *field = layout->fields; field->name != NULL; field++) {
        if (field->kind != FIELD_TABLE)
            continue;
        coney_value table;
        memcpy(&table, (const char *)method + field->at, sizeof table);
        require(amqp_table_valid(&table));
        walk(&table);
    }
}

static void check_delivery(coney_bytes payload, const struct amqp_method *method, const char *fault)
{
    struct amqp_basic_deliver deliver;
    const char *field = amqp_deliver_read(payload, &deliver);
    require((field == NULL) == (fault == NULL));
    if (fault != NULL) {
        require(strcmp(field, fault) == 0);
        return;
    }
    require(deliver.delivery_tag == method->basic_deliver.delivery_tag);
    require(deliver.redelivered == method->basic_deliver.redelivered);
    require(bytes_equal(deliver.consumer_tag, method->basic_deliver.consumer_tag));
    require(bytes_equal(deliver.exchange, method->basic_deliver.exchange));
    require(bytes_equal(deliver.routing_key, method->basic_deliver.routing_key));
}

static void check_settlement(const uint8_t *frame, size_t len, const struct amqp_method *method)
{
    struct amqp_settle settle;
    bool settles = method->id == AMQP_BASIC_ACK || method->id == AMQP_BASIC_NACK || method->id == AMQP_BASIC_REJECT;
    require(amqp_settle_read(frame, len, &settle) == settles);
    if (settles)
        require(settle.id == method->id && settle.tag == method->basic_ack.delivery_tag);
}

/* The whole frame, in a block of its own. */
static uint8_t *encoded(uint16_t channel, const struct amqp_method *method, size_t *size)
{
    *size = amqp_encode(channel, method, NULL, 0);
    require(*size >= AMQP_BARE_BYTES);
    uint8_t *frame = malloc(*size);
    require(frame != NULL && amqp_encode(channel, method, frame, *size) == *size);
    const char *field;
    require(amqp_frame_size(frame, *size, UINT32_MAX, &field) == *size);
    require(amqp_frame_of(frame).channel == channel);
    return frame;
}

static void check_method(coney_bytes payload, uint16_t channel)
{
    struct amqp_method method, again;
    const char *fault = amqp_decode(payload, &method);
    if (method.id == AMQP_BASIC_DELIVER)
        check_delivery(payload, &method, fault);
    if (fault != NULL) {
        require(*fault != '\0');
        return;
    }
    walk_tables(&method);
    size_t first_size, second_size;
    uint8_t *first = encoded(channel, &method, &first_size);
    check_settlement(first, first_size, &method);
    require(amqp_decode(amqp_frame_of(first).payload, &again) == NULL);
    uint8_t *second = encoded(channel, &again, &second_size);
    require(first_size == second_size && memcmp(first, second, first_size) == 0);
    free(first);
    free(second);
}

static void check_frames(const uint8_t *at, size_t left)
{
    while (left > 0) {
        const char *field;
        size_t size = amqp_frame_size(at, left, PAYLOAD_MAX, &field);
        require(size <= PAYLOAD_MAX + AMQP_FRAME_BYTES && (field == NULL || size == 0));
        if (size == 0 || size > left)
            return;
        struct amqp_frame frame = amqp_frame_of(at);
        if (frame.type == AMQP_FRAME_METHOD)
            check_method(frame.payload, frame.channel);
        at += size;
        left -= size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (data[1] >= layout_method_count) {
        uint8_t *frames = exact_copy(data + 2, size - 2);
        check_frames(frames, size - 2);
        free(frames);
        return 0;
    }
    uint8_t *payload = malloc(size + 2);
    require(payload != NULL);
    store32(payload, layout_methods[data[1]].id);
    memcpy(payload + 4, data + 2, size - 2);
    check_method(coney_bytes_of(payload, size + 2), data[0]);
    free(payload);
    return 0;
}
