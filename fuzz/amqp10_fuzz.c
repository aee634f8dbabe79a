/* amqp10_fuzz.c: any bytes as an AMQP 1.0 message.
 *
 * What parses is read to its last byte, then sent again as a literal, parsed once more and compared value by value. The body
 * finder and the fast check must agree with the parser. */
#include "base/bytes.h"
#include "proto/amqp10/body.h"
#include "proto/amqp10/data.h"
#include "proto/amqp10/message.h"
#include "proto/amqp10/value.h"
#include "proto/amqp10/visit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool same_value(const coney_value *a, const coney_value *b)
{
    if (a->type != b->type || a->count != b->count)
        return false;
    if (a->type == CONEY_VALUE_BOOL)
        return a->as.boolean == b->as.boolean;
    if (a->type == CONEY_VALUE_F32)
        return memcmp(&a->as.f32, &b->as.f32, sizeof a->as.f32) == 0;
    if (a->type < CONEY_VALUE_UUID)
        return a->as.u64 == b->as.u64;
    return bytes_equal(a->as.bytes, b->as.bytes);
}

/* A value alone, written and read again. */
static void check_value(const coney_value *value)
{
    size_t size = amqp10_value_size(value);
    uint8_t *bytes = malloc(size);
    require(bytes != NULL && coney_value_check(value) == CONEY_OK);
    require(amqp10_value_write(bytes, value) == bytes + size);
    struct reader r = reader_of(bytes, size);
    coney_value again;
    require(amqp10_value_read(&r, 0, "value", &again) && reader_left(&r) == 0);
    require(same_value(value, &again));
    free(bytes);
}

/* The entries of a map that a message literal can carry. The caller frees *fields. */
static size_t take_fields(const coney_value *map, bool annotations, coney_field **fields)
{
    size_t count = 0;
    coney_field field;
    *fields = calloc(map->count / 2 + 1, sizeof **fields);
    require(*fields != NULL);
    for (coney_value_iter iter = coney_value_elements(map); coney_value_next_field(&iter, &field);) {
        bool x = field.key.len >= 2 && memcmp(field.key.data, "x-", 2) == 0;
        if (annotations ? x : !value_is_compound(&field.value))
            (*fields)[count++] = field;
    }
    return count;
}

static void compare_fields(const coney_field *fields, size_t count, const coney_value *map)
{
    coney_value_iter iter = coney_value_elements(map);
    coney_field field;
    for (size_t i = 0; i < count; i++) {
        require(coney_value_next_field(&iter, &field));
        require(bytes_equal(fields[i].key, field.key) && same_value(&fields[i].value, &field.value));
    }
    require(!coney_value_next_field(&iter, &field));
}

static bool same_properties(const coney_message_properties *a, const coney_message_properties *b)
{
    return same_value(&a->message_id, &b->message_id) && bytes_equal(a->user_id, b->user_id) && bytes_equal(a->to, b->to) &&
           bytes_equal(a->subject, b->subject) && bytes_equal(a->reply_to, b->reply_to) &&
           same_value(&a->correlation_id, &b->correlation_id) && bytes_equal(a->content_type, b->content_type) &&
           bytes_equal(a->content_encoding, b->content_encoding) &&
           same_value(&a->absolute_expiry_time, &b->absolute_expiry_time) && same_value(&a->creation_time, &b->creation_time) &&
           bytes_equal(a->group_id, b->group_id) && same_value(&a->group_sequence, &b->group_sequence) &&
           bytes_equal(a->reply_to_group_id, b->reply_to_group_id);
}

static bool same_header(const coney_message_header *a, const coney_message_header *b)
{
    return same_value(&a->durable, &b->durable) && same_value(&a->priority, &b->priority) && same_value(&a->ttl, &b->ttl) &&
           same_value(&a->first_acquirer, &b->first_acquirer) && same_value(&a->delivery_count, &b->delivery_count);
}

static void compare(const coney_message *m, const coney_message_view *view)
{
    coney_message_header header;
    coney_message_properties properties;
    coney_value body;
    coney_message_get_header(view, &header);
    coney_message_get_properties(view, &properties);
    require(same_header(&m->header, &header));
    require(same_properties(&m->properties, &properties));
    compare_fields(m->application_properties, m->application_property_count, &view->application_properties);
    compare_fields(m->message_annotations, m->message_annotation_count, &view->message_annotations);
    compare_fields(m->delivery_annotations, m->delivery_annotation_count, &view->delivery_annotations);
    compare_fields(m->footer, m->footer_count, &view->footer);

    coney_body_iter iter = coney_message_body(view);
    require(view->body_kind == m->body_kind && view->body_sections == 1 && coney_message_body_next(&iter, &body));
    require(m->body_kind == CONEY_BODY_DATA ? bytes_equal(m->body, body.as.bytes) : same_value(&m->value, &body));
}

static void send_again(const coney_message *m)
{
    size_t size;
    coney_message_view view;
    require(amqp10_message_size(m, &size, NULL) == CONEY_OK);
    uint8_t *bytes = malloc(size);
    require(bytes != NULL);
    amqp10_message_write(m, bytes);
    require(coney_message_parse(coney_bytes_of(bytes, size), &view) == CONEY_OK);
    visit_message(&view);
    compare(m, &view);
    free(bytes);
}

/* The first section of a body that is no data, all of one that is. The caller frees what it points to for data. */
static void take_body(const coney_message_view *view, coney_message *m, uint8_t **joined)
{
    coney_body_iter iter = coney_message_body(view);
    size_t len = coney_message_body_size(view);
    m->body_kind = view->body_kind == CONEY_BODY_NONE ? CONEY_BODY_DATA : view->body_kind;
    *joined = malloc(len + 1);
    require(*joined != NULL && coney_message_body_copy(view, *joined, len) == len);
    if (m->body_kind == CONEY_BODY_DATA)
        m->body = coney_bytes_of(*joined, len);
    else
        require(coney_message_body_next(&iter, &m->value));
}

static void resend(const coney_message_view *view)
{
    coney_message m = {0};
    coney_field *maps[4];
    uint8_t *joined;
    coney_message_get_header(view, &m.header);
    coney_message_get_properties(view, &m.properties);
    m.application_property_count = take_fields(&view->application_properties, false, &maps[0]);
    m.message_annotation_count = take_fields(&view->message_annotations, true, &maps[1]);
    m.delivery_annotation_count = take_fields(&view->delivery_annotations, true, &maps[2]);
    m.footer_count = take_fields(&view->footer, true, &maps[3]);
    m.application_properties = maps[0];
    m.message_annotations = maps[1];
    m.delivery_annotations = maps[2];
    m.footer = maps[3];
    take_body(view, &m, &joined);
    send_again(&m);
    for (size_t i = 0; i < 4; i++)
        free(maps[i]);
    free(joined);
}

/* The kind of body that the finder must report for a message that parses. */
static coney_body_kind expected_body(const coney_message_view *view)
{
    if (view->body_kind == CONEY_BODY_DATA)
        return view->body_sections == 1 ? CONEY_BODY_DATA : CONEY_BODY_PARTS;
    if (view->body_kind == CONEY_BODY_VALUE)
        return CONEY_BODY_VALUE;
    return view->body_kind == CONEY_BODY_SEQUENCE ? CONEY_BODY_SEQUENCE : CONEY_BODY_NONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    coney_bytes encoded = coney_bytes_of(data, size), body, only;
    coney_message_view view;
    coney_status status = coney_message_parse(encoded, &view);
    coney_body_kind kind = amqp10_body_find(encoded, &body);
    require((status == CONEY_OK) == (view.error == NULL));
    if (amqp10_data_only(encoded, &only))
        require(status == CONEY_OK && kind == CONEY_BODY_DATA && bytes_equal(only, body));
    if (status != CONEY_OK)
        return 0;
    require(kind == expected_body(&view));
    visit_message(&view);
    check_value(&view.header);
    check_value(&view.message_annotations);
    check_value(&view.application_properties);
    resend(&view);
    return 0;
}
