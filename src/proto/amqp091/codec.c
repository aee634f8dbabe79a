/* codec.c: decoding and encoding, each one loop over a method's layout. */
#include "proto/amqp091/layout.h"
#include "proto/amqp091/table.h"

/* Bits that stand next to each other share an octet. */
struct bits {
    uint8_t octet;
    unsigned used; /* 0: no octet is open */
};

static bool is_bit(const struct layout_field *field)
{
    return field->kind == FIELD_BIT || field->kind == FIELD_RESERVED_BIT;
}

/* Decoding ------------------------------------------------------------------------------------------------------- */

static coney_bytes read_short(struct reader *r, const char *field)
{
    uint8_t len = read8(r, field);
    return read_bytes(r, len, field);
}

static coney_bytes read_long(struct reader *r, const char *field)
{
    uint32_t len = read32(r, field);
    return read_bytes(r, len, field);
}

static bool read_bit(struct reader *r, struct bits *bits, const char *field)
{
    if (bits->used == 0)
        bits->octet = read8(r, field);
    return (bits->octet >> bits->used++ & 1) != 0;
}

static void read_field(struct reader *r, const struct layout_field *field, struct bits *bits, struct amqp_method *out)
{
    void *at = (char *)out + field->at;
    if (!is_bit(field))
        bits->used = 0;

    switch (field->kind) {
    case FIELD_U8:
        *(uint8_t *)at = read8(r, field->name);
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
    case FIELD_SHORT:
        *(coney_bytes *)at = read_short(r, field->name);
        break;
    case FIELD_LONG:
        *(coney_bytes *)at = read_long(r, field->name);
        break;
    case FIELD_BIT:
        *(bool *)at = read_bit(r, bits, field->name);
        break;
    case FIELD_TABLE:
        amqp_table_read(r, field->name, at);
        break;
    case FIELD_RESERVED_U16:
        read16(r, field->name);
        break;
    case FIELD_RESERVED_SHORT:
        read_short(r, field->name);
        break;
    case FIELD_RESERVED_LONG:
        read_long(r, field->name);
        break;
    case FIELD_RESERVED_BIT:
        read_bit(r, bits, field->name);
        break;
    }
}

const char *amqp_decode(coney_bytes payload, struct amqp_method *out)
{
    struct reader r = reader_of(payload.data, payload.len);
    *out = (struct amqp_method){.id = read32(&r, "method.id")};
    const struct layout_method *method = layout_method_of(out->id);
    if (method == NULL)
        return "method.id";

    struct bits bits = {0};
    for (const struct layout_field *field = method->fields; field->name != NULL && reader_ok(&r); field++)
        read_field(&r, field, &bits, out);
    if (reader_left(&r) > 0)
        reader_fail(&r, "method.end");
    return r.field;
}

/* Encoding ------------------------------------------------------------------------------------------------------- */

static bool write_short(struct writer *w, const coney_bytes *value)
{
    if (value->len > AMQP_SHORT_MAX)
        return false;
    write8(w, (uint8_t)value->len);
    write_bytes(w, value->data, value->len);
    return true;
}

static bool write_long(struct writer *w, const coney_bytes *value)
{
    if (value->len > UINT32_MAX)
        return false;
    write32(w, (uint32_t)value->len);
    write_bytes(w, value->data, value->len);
    return true;
}

static bool write_table(struct writer *w, const coney_value *table)
{
    static const coney_bytes none = {0};
    if (!amqp_table_valid(table))
        return false;
    return write_long(w, table->type == CONEY_VALUE_NULL ? &none : &table->as.bytes);
}

/* Adds a bit; writes the octet when the next field is none. */
static void write_bit(struct writer *w, const struct layout_field *field, struct bits *bits, bool set)
{
    if (bits->used == 0)
        bits->octet = 0;
    bits->octet = (uint8_t)(bits->octet | (unsigned)set << bits->used++);
    if (field[1].name != NULL && is_bit(&field[1]))
        return;
    write8(w, bits->octet);
    bits->used = 0;
}

/* False when the field's value has no form on the wire. */
static bool write_field(struct writer *w, const struct layout_field *field, struct bits *bits, const struct amqp_method *in)
{
    const void *at = (const char *)in + field->at;

    switch (field->kind) {
    case FIELD_U8:
        write8(w, *(const uint8_t *)at);
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
    case FIELD_SHORT:
        return write_short(w, at);
    case FIELD_LONG:
        return write_long(w, at);
    case FIELD_BIT:
        write_bit(w, field, bits, *(const bool *)at);
        return true;
    case FIELD_TABLE:
        return write_table(w, at);
    case FIELD_RESERVED_U16:
        write16(w, 0);
        return true;
    case FIELD_RESERVED_SHORT:
        write8(w, 0);
        return true;
    case FIELD_RESERVED_LONG:
        write32(w, 0);
        return true;
    case FIELD_RESERVED_BIT:
        write_bit(w, field, bits, false);
        return true;
    }
    return false;
}

static bool write_fields(struct writer *w, const struct layout_method *method, const struct amqp_method *in)
{
    struct bits bits = {0};
    for (const struct layout_field *field = method->fields; field->name != NULL; field++)
        if (!write_field(w, field, &bits, in))
            return false;
    return true;
}

size_t amqp_encode(uint16_t channel, const struct amqp_method *in, void *buf, size_t cap)
{
    const struct layout_method *method = layout_method_of(in->id);
    struct writer size = writer_of(NULL, 0);
    if (method == NULL || !write_fields(&size, method, in) || size.len > UINT32_MAX - sizeof in->id)
        return 0;

    size_t payload = sizeof in->id + size.len;
    if (cap < payload + AMQP_FRAME_BYTES)
        return payload + AMQP_FRAME_BYTES;
    struct writer w = writer_of(buf, cap);
    write8(&w, AMQP_FRAME_METHOD);
    write16(&w, channel);
    write32(&w, (uint32_t)payload);
    write32(&w, in->id);
    write_fields(&w, method, in);
    write8(&w, AMQP_END);
    return w.len;
}
