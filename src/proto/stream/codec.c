/* codec.c: decoding and encoding, each one loop over a message's layout. */
#include "proto/stream/layout.h"

/* Decoding ------------------------------------------------------------------------------------------------------- */

static bool has_value(const struct stream_offset_spec *spec)
{
    return spec->type == STREAM_OFFSET_OFFSET || spec->type == STREAM_OFFSET_TIMESTAMP;
}

static void read_spec(struct reader *r, const struct layout_field *field, struct stream_offset_spec *spec)
{
    spec->type = read16(r, field->parts[0]);
    uint16_t lowest = field->kind == FIELD_START ? STREAM_OFFSET_FIRST : STREAM_OFFSET_NONE;
    if (spec->type < lowest || spec->type > STREAM_OFFSET_TIMESTAMP)
        reader_fail(r, field->parts[0]);
    else if (has_value(spec))
        spec->value = read64(r, field->parts[1]);
}

static bool read_bool(struct reader *r, const char *field)
{
    uint8_t value = read8(r, field);
    if (value > 1)
        reader_fail(r, field);
    return value == 1;
}

static coney_bytes read_long_bytes(struct reader *r, const char *field)
{
    uint32_t len = read32(r, field);
    return len == UINT32_MAX ? (coney_bytes){0} : read_bytes(r, len, field);
}

/* Brokers write a challenge as a string, the protocol's document says bytes; only one of the two ends where the frame does. */
static coney_bytes read_challenge(struct reader *r, const char *field)
{
    size_t left = reader_left(r);
    if (left == 0)
        return (coney_bytes){0};
    if (left >= 4 && (load32(r->at) == left - 4 || (left == 4 && load32(r->at) == UINT32_MAX)))
        return read_long_bytes(r, field);
    return read_string(r, field);
}

static void read_field(struct reader *r, const struct layout_field *field, struct stream_frame *out)
{
    void *at = (char *)out + field->at;

    switch (field->kind) {
    case FIELD_U8:
        *(uint8_t *)at = read8(r, field->name);
        break;
    case FIELD_BOOL:
        *(bool *)at = read_bool(r, field->name);
        break;
    case FIELD_U16:
        *(uint16_t *)at = read16(r, field->name);
        break;
    case FIELD_U32:
        *(uint32_t *)at = read32(r, field->name);
        break;
    case FIELD_U64:
        *(uint64_t *)at = read64(r, field->name);
        break;
    case FIELD_V2_U64:
        if (out->version > 1)
            *(uint64_t *)at = read64(r, field->name);
        break;
    case FIELD_STRING:
        *(coney_bytes *)at = read_string(r, field->name);
        break;
    case FIELD_BYTES:
        *(coney_bytes *)at = read_long_bytes(r, field->name);
        break;
    case FIELD_CHALLENGE:
        *(coney_bytes *)at = read_challenge(r, field->name);
        break;
    case FIELD_REST:
        *(coney_bytes *)at = read_bytes(r, reader_left(r), field->name);
        break;
    case FIELD_START:
    case FIELD_SPEC:
        read_spec(r, field, at);
        break;
    case FIELD_OPTIONAL_LIST:
        if (reader_left(r) > 0)
            list_read(r, field, out->version, at);
        break;
    case FIELD_LIST:
        list_read(r, field, out->version, at);
        break;
    }
}

static void read_message(struct reader *r, const struct stream_command *command, struct stream_frame *out)
{
    const struct stream_layout *layout = out->response ? command->answer : command->request;
    if (command->correlated)
        out->correlation = read32(r, "frame.correlation");
    if (layout->code) {
        out->code = read16(r, "frame.code");
        if (command->correlated && out->code != STREAM_CODE_OK && reader_left(r) == 0)
            return;
    }
    for (const struct layout_field *field = layout->fields; field->name != NULL && reader_ok(r); field++)
        read_field(r, field, out);
    if (reader_left(r) > 0)
        reader_fail(r, "frame.end");
}

static enum stream_side other_side(enum stream_side side)
{
    return side == STREAM_FROM_SERVER ? STREAM_FROM_CLIENT : STREAM_FROM_SERVER;
}

const char *stream_decode(coney_bytes body, enum stream_side from, struct stream_frame *out)
{
    struct reader r = reader_of(body.data, body.len);
    uint16_t key = read16(&r, "frame.key");
    uint16_t version = read16(&r, "frame.version");
    if (!reader_ok(&r))
        return r.field;

    const struct stream_command *command = stream_command_of(key & (uint16_t)~STREAM_RESPONSE_BIT);
    if (command == NULL)
        return "frame.key";
    bool response = (key & STREAM_RESPONSE_BIT) != 0 || (command->unmarked && (command->senders & from) == 0);
    enum stream_side asker = response ? other_side(from) : from;
    if ((command->senders & asker) == 0 || (response && command->answer == NULL))
        return "frame.key";
    if (version < 1 || version > command->version_max)
        return "frame.version";

    *out = (struct stream_frame){.key = command->key, .version = version, .response = response};
    read_message(&r, command, out);
    return r.field;
}

/* Encoding ------------------------------------------------------------------------------------------------------- */

static bool write_spec(struct writer *w, const struct layout_field *field, const struct stream_offset_spec *spec)
{
    if (spec->type > STREAM_OFFSET_TIMESTAMP || (field->kind == FIELD_START && spec->type == STREAM_OFFSET_NONE))
        return false;
    write16(w, spec->type);
    if (has_value(spec))
        write64(w, spec->value);
    return true;
}

static bool write_long_bytes(struct writer *w, const coney_bytes *value)
{
    if (value->len > INT32_MAX)
        return false;
    write32(w, (uint32_t)value->len);
    write_bytes(w, value->data, value->len);
    return true;
}

static bool write_challenge(struct writer *w, const coney_bytes *value)
{
    if (value->len == 0)
        return true;
    return value->len > STREAM_STRING_MAX ? write_long_bytes(w, value) : write_string(w, *value);
}

static void write_list(struct writer *w, const struct stream_list *list)
{
    write32(w, list->count);
    write_bytes(w, list->encoded, list->len);
}

static void write_rest(struct writer *w, const coney_bytes *bytes)
{
    write_bytes(w, bytes->data, bytes->len);
}

/* False when the field's value has no form on the wire. */
static bool write_field(struct writer *w, const struct layout_field *field, const struct stream_frame *in)
{
    const void *at = (const char *)in + field->at;

    switch (field->kind) {
    case FIELD_U8:
        write8(w, *(const uint8_t *)at);
        return true;
    case FIELD_BOOL:
        write8(w, *(const bool *)at);
        return true;
    case FIELD_U16:
        write16(w, *(const uint16_t *)at);
        return true;
    case FIELD_U32:
        write32(w, *(const uint32_t *)at);
        return true;
    case FIELD_U64:
        write64(w, *(const uint64_t *)at);
        return true;
    case FIELD_V2_U64:
        if (in->version > 1)
            write64(w, *(const uint64_t *)at);
        return true;
    case FIELD_STRING:
        return write_string(w, *(const coney_bytes *)at);
    case FIELD_BYTES:
        return write_long_bytes(w, at);
    case FIELD_CHALLENGE:
        return write_challenge(w, at);
    case FIELD_REST:
        write_rest(w, at);
        return true;
    case FIELD_START:
    case FIELD_SPEC:
        return write_spec(w, field, at);
    case FIELD_OPTIONAL_LIST:
        if (((const struct stream_list *)at)->count > 0)
            write_list(w, at);
        return true;
    case FIELD_LIST:
        write_list(w, at);
        return true;
    }
    return false;
}

static bool write_message(struct writer *w, const struct stream_frame *in, const struct stream_command *command)
{
    const struct stream_layout *layout = in->response ? command->answer : command->request;
    write16(w, in->response ? command->key | STREAM_RESPONSE_BIT : command->key);
    write16(w, in->version);
    if (command->correlated)
        write32(w, in->correlation);
    if (layout->code)
        write16(w, in->code);
    if (layout->ok_only && in->code != STREAM_CODE_OK)
        return true;
    for (const struct layout_field *field = layout->fields; field->name != NULL; field++)
        if (!write_field(w, field, in))
            return false;
    return true;
}

size_t stream_encode(const struct stream_frame *in, void *buf, size_t cap)
{
    const struct stream_command *command = stream_command_of(in->key);
    if (command == NULL || (in->response && command->answer == NULL))
        return 0;
    if (in->version < 1 || in->version > command->version_max)
        return 0;

    struct writer size = writer_of(NULL, 0);
    if (!write_message(&size, in, command) || size.len > UINT32_MAX)
        return 0;
    struct writer w = writer_of(buf, cap);
    if (cap < size.len + STREAM_SIZE_BYTES)
        return size.len + STREAM_SIZE_BYTES;
    write32(&w, (uint32_t)size.len);
    write_message(&w, in, command);
    return w.len;
}
