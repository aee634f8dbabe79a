/* format_stream.c: what messages of a stream have. */
#include "format.h"
#include "units.h"

#include <inttypes.h>
#include <stdlib.h>

static void put(FILE *out, char letter, const void *delivery)
{
    const coney_stream_delivery *d = delivery;
    char time[UNITS_TIME_SIZE];
    switch (letter) {
    case 'o':
        fprintf(out, "%" PRIu64, d->offset);
        break;
    case 't':
        fputs(units_time(d->timestamp, time), out);
        break;
    case 'T':
        fprintf(out, "%" PRId64, d->timestamp);
        break;
    case 'n':
        fputs(d->stream, out);
        break;
    }
}

static void members(struct json *j, const void *delivery)
{
    const coney_stream_delivery *d = delivery;
    char time[UNITS_TIME_SIZE];
    json_unsigned(j, "offset", d->offset);
    json_text(j, "timestamp", coney_bytes_str(units_time(d->timestamp, time)));
}

const struct format_kind format_stream = {.letters = "otTn", .put = put, .members = members};

static coney_bytes joined(const coney_message_view *view, struct format_space *space)
{
    size_t size = coney_message_body_size(view);
    if (size > space->cap) {
        void *data = realloc(space->data, size);
        if (data == NULL)
            return view->body;
        *space = (struct format_space){data, size};
    }
    return coney_bytes_of(space->data, coney_message_body_copy(view, space->data, size));
}

coney_bytes format_stream_body(const coney_stream_delivery *delivery, struct format_space *space)
{
    if (delivery->body_kind != CONEY_BODY_PARTS && delivery->body_kind != CONEY_BODY_VALUE)
        return delivery->body;
    coney_message_view view;
    if (coney_message_parse(delivery->encoded, &view) != CONEY_OK)
        return delivery->body;
    if (delivery->body_kind == CONEY_BODY_PARTS)
        return joined(&view, space);
    coney_bytes content = delivery->body;
    coney_value value;
    coney_body_iter iter = coney_message_body(&view);
    if (coney_message_body_next(&iter, &value))
        coney_value_to_bytes(&value, &content);
    return content;
}
