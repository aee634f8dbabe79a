/* stream_encode.c: what goes out over a stream, as a message of AMQP 1.0: the form that every client of a stream reads. */
#include "transport/stream.h"

#include <stdlib.h>
#include <string.h>

static bool is_set(coney_bytes bytes)
{
    return bytes.len > 0;
}

bool tstream_is_bare(const struct outgoing *message)
{
    return message->header_count == 0 && message->timestamp == 0 && !is_set(message->content_type) &&
           !is_set(message->correlation_id) && !is_set(message->reply_to) && !is_set(message->message_id) &&
           !is_set(message->type) && !is_set(message->key);
}

/* Room for fields; those of few headers stand in *encoded itself. NULL: memory is out. */
static coney_field *fields_of(struct tstream_encoded *encoded, size_t count)
{
    if (count <= sizeof encoded->few / sizeof encoded->few[0])
        return encoded->few;
    encoded->many = malloc(count * sizeof *encoded->many);
    return encoded->many;
}

static coney_value text_value(coney_bytes text)
{
    return is_set(text) ? coney_value_string(text) : coney_value_null();
}

static coney_bytes text_or_absent(coney_bytes text)
{
    return is_set(text) ? text : (coney_bytes){0};
}

/* The fields are filled in place by whoever calls this; the rest of *encoded may be as it was. */
static void begin(struct tstream_encoded *encoded)
{
    memset(&encoded->message, 0, sizeof encoded->message);
    encoded->many = NULL;
    encoded->annotations = NULL;
}

coney_status tstream_encode(struct tstream_encoded *encoded, const struct outgoing *message)
{
    begin(encoded);
    coney_message *out = &encoded->message;
    out->body = message->body;
    out->properties.message_id = text_value(message->message_id);
    out->properties.correlation_id = text_value(message->correlation_id);
    out->properties.subject = text_or_absent(message->type);
    out->properties.reply_to = text_or_absent(message->reply_to);
    out->properties.content_type = text_or_absent(message->content_type);
    if (message->timestamp != 0)
        out->properties.creation_time = coney_value_timestamp(message->timestamp);
    out->application_properties = message->headers;
    out->application_property_count = message->header_count;
    if (!is_set(message->key))
        return CONEY_OK;
    size_t count = message->header_count;
    coney_field *fields = fields_of(encoded, count + 1);
    if (fields == NULL)
        return CONEY_ENOMEM;
    if (count > 0)
        memcpy(fields, message->headers, count * sizeof *fields);
    fields[count] = (coney_field){CONEY_STR(KEY_HEADER), coney_value_string(message->key)};
    out->application_properties = fields;
    out->application_property_count = count + 1;
    return CONEY_OK;
}

/* Copies ---------------------------------------------------------------------------------------------------------------------- */

static size_t entries_of(const coney_value *map)
{
    return map->type == CONEY_VALUE_MAP ? map->count / 2 : 0;
}

/* The entries of a map but for `without`; how many. */
static size_t take_fields(const coney_value *map, coney_bytes without, coney_field *fields)
{
    size_t count = 0;
    coney_value_iter entries = coney_value_elements(map);
    while (coney_value_next_field(&entries, &fields[count])) {
        const coney_bytes *key = &fields[count].key;
        if (key->len != without.len || memcmp(key->data, without.data, without.len) != 0)
            count++;
    }
    return count;
}

static coney_status copy_properties(struct tstream_encoded *encoded, const coney_message_view *view, uint64_t attempts)
{
    coney_message *out = &encoded->message;
    coney_message_get_header(view, &out->header);
    coney_message_get_properties(view, &out->properties);
    coney_field *fields = fields_of(encoded, entries_of(&view->application_properties) + 1);
    size_t annotations = entries_of(&view->message_annotations);
    if (annotations > 0)
        encoded->annotations = malloc(annotations * sizeof *fields);
    if (fields == NULL || (annotations > 0 && encoded->annotations == NULL))
        return CONEY_ENOMEM;
    size_t count = take_fields(&view->application_properties, CONEY_STR(ATTEMPTS_HEADER), fields);
    fields[count] = (coney_field){CONEY_STR(ATTEMPTS_HEADER), coney_value_u64(attempts)};
    out->application_properties = fields;
    out->application_property_count = count + 1;
    out->message_annotations = encoded->annotations;
    if (annotations > 0)
        out->message_annotation_count =
            take_fields(&view->message_annotations, CONEY_STR(ATTEMPTS_HEADER), encoded->annotations);
    return CONEY_OK;
}

/* `out` has the bytes that the handler was given, which is all but for one value or one list. */
static coney_status copy_body(coney_message *out, const coney_message_view *view)
{
    if (view->body_kind != CONEY_BODY_VALUE && view->body_kind != CONEY_BODY_SEQUENCE)
        return CONEY_OK;
    out->body_kind = view->body_kind;
    out->body = (coney_bytes){0};
    coney_body_iter sections = coney_message_body(view);
    return view->body_sections == 1 && coney_message_body_next(&sections, &out->value) ? CONEY_OK : CONEY_EUNSUPPORTED;
}

coney_status tstream_encode_copy(struct tstream_encoded *encoded, const struct incoming *m, uint64_t attempts)
{
    begin(encoded);
    coney_message_view view = {0};
    if (coney_message_parse(tstream_delivery(m)->encoded, &view) != CONEY_OK)
        view = (coney_message_view){.body_kind = CONEY_BODY_DATA}; /* what nobody can read goes on as it came, as bytes */
    coney_status status = copy_properties(encoded, &view, attempts);
    encoded->message.body = m->body;
    return status != CONEY_OK ? status : copy_body(&encoded->message, &view);
}

void tstream_encoded_free(struct tstream_encoded *encoded)
{
    free(encoded->many);
    free(encoded->annotations);
}
