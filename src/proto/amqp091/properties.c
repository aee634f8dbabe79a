/* properties.c: one table of the properties; reading, measuring and writing are loops over it. */
#include "proto/amqp091/properties.h"
#include "proto/amqp091/table.h"

enum property_kind { PROPERTY_SHORT, PROPERTY_DIGITS, PROPERTY_TABLE, PROPERTY_U8, PROPERTY_U64 };

struct property {
    uint16_t at; /* offset in struct amqp_properties */
    enum property_kind kind;
    const char *name;
};

#define AT(kind, member) offsetof(struct amqp_properties, member), PROPERTY_##kind, #member

/* In wire order: the flag of property `i` is 0x8000 >> i. */
static const struct property table[] = {
    {AT(SHORT, content_type)}, {AT(SHORT, content_encoding)}, {AT(TABLE, headers)},  {AT(U8, delivery_mode)},
    {AT(U8, priority)},        {AT(SHORT, correlation_id)},   {AT(SHORT, reply_to)}, {AT(DIGITS, expiration)},
    {AT(SHORT, message_id)},   {AT(U64, timestamp)},          {AT(SHORT, type)},     {AT(SHORT, user_id)},
    {AT(SHORT, app_id)},       {AT(SHORT, cluster_id)},
};

enum { FLAG_BYTES = 2, SHORT_MAX = 255, CONTINUED = 0x0001, USED = 0xfffc };

/* Takes the first property out of a set of them that is not empty. */
static const struct property *take_first(unsigned *flags)
{
    int first = __builtin_clz(*flags) - 16;
    *flags &= ~(0x8000u >> first);
    return &table[first];
}

/* Reading --------------------------------------------------------------------------------------------------------- */

static void read_property(struct reader *r, const struct property *property, struct amqp_properties *out)
{
    void *at = (char *)out + property->at;
    switch (property->kind) {
    case PROPERTY_SHORT:
    case PROPERTY_DIGITS: {
        uint8_t len = read8(r, property->name);
        *(coney_bytes *)at = read_bytes(r, len, property->name);
        break;
    }
    case PROPERTY_TABLE:
        amqp_table_read(r, property->name, at);
        break;
    case PROPERTY_U8:
        *(uint8_t *)at = read8(r, property->name);
        break;
    case PROPERTY_U64:
        *(uint64_t *)at = read64(r, property->name);
        break;
    }
}

const char *amqp_properties_read(coney_bytes encoded, struct amqp_properties *out)
{
    struct reader r = reader_of(encoded.data, encoded.len);
    uint16_t flags = read16(&r, "flags");
    *out = (struct amqp_properties){.flags = flags & USED};
    if (flags & CONTINUED)
        reader_fail(&r, "flags");
    for (unsigned left = flags & USED; left != 0 && reader_ok(&r);)
        read_property(&r, take_first(&left), out);
    if (reader_left(&r) > 0)
        reader_fail(&r, "properties.end");
    return r.field;
}

/* Writing --------------------------------------------------------------------------------------------------------- */

static bool digits(coney_bytes text)
{
    const uint8_t *at = text.data;
    for (size_t i = 0; i < text.len; i++)
        if (at[i] < '0' || at[i] > '9')
            return false;
    return text.len > 0;
}

/* The entries of a null value: none. */
static coney_bytes entries_of(const coney_value *headers)
{
    return headers->type == CONEY_VALUE_NULL ? coney_bytes_of(NULL, 0) : headers->as.bytes;
}

coney_status amqp_headers_size(const struct amqp_properties *p, size_t *size, const char **field)
{
    size_t fields;
    *field = "headers";
    if (!amqp_table_valid(&p->headers))
        return CONEY_EINVAL;
    coney_status status = amqp_table_size(p->fields, p->field_count, &fields, field);
    size_t entries = entries_of(&p->headers).len + fields;
    if (status == CONEY_OK && entries > UINT32_MAX)
        status = CONEY_ETOOBIG;
    *size = sizeof(uint32_t) + entries;
    return status;
}

static coney_status size_property(const struct property *property, const struct amqp_properties *p, size_t *size,
                                  const char **field)
{
    const coney_bytes *text = (const void *)((const char *)p + property->at);
    *field = property->name;
    switch (property->kind) {
    case PROPERTY_SHORT:
        *size = 1 + text->len;
        return text->len <= SHORT_MAX ? CONEY_OK : CONEY_EINVAL;
    case PROPERTY_DIGITS:
        *size = 1 + text->len;
        return text->len <= SHORT_MAX && digits(*text) ? CONEY_OK : CONEY_EINVAL;
    case PROPERTY_TABLE:
        return amqp_headers_size(p, size, field);
    case PROPERTY_U8:
        *size = sizeof(uint8_t);
        break;
    case PROPERTY_U64:
        *size = sizeof(uint64_t);
        break;
    }
    return CONEY_OK;
}

coney_status amqp_properties_size(const struct amqp_properties *p, size_t *size, const char **field)
{
    size_t sum = FLAG_BYTES;
    *size = 0;
    for (unsigned left = p->flags & USED; left != 0;) {
        size_t bytes = 0;
        coney_status status = size_property(take_first(&left), p, &bytes, field);
        if (status != CONEY_OK)
            return status;
        sum += bytes;
    }
    *size = sum;
    *field = NULL;
    return CONEY_OK;
}

static uint8_t *write_headers(uint8_t *at, const struct amqp_properties *p)
{
    coney_bytes entries = entries_of(&p->headers);
    uint8_t *to = at + sizeof(uint32_t);
    if (entries.len > 0)
        memcpy(to, entries.data, entries.len);
    uint8_t *end = amqp_table_write(to + entries.len, p->fields, p->field_count);
    store32(at, (uint32_t)(end - to));
    return end;
}

static inline uint8_t *write_text(uint8_t *at, const coney_bytes *text)
{
    *at++ = (uint8_t)text->len;
    copy_short(at, text->data, text->len);
    return at + text->len;
}

static uint8_t *write_property(uint8_t *at, const struct property *property, const struct amqp_properties *p)
{
    const void *from = (const char *)p + property->at;
    switch (property->kind) {
    case PROPERTY_SHORT:
    case PROPERTY_DIGITS:
        return write_text(at, from);
    case PROPERTY_TABLE:
        return write_headers(at, p);
    case PROPERTY_U8:
        *at = *(const uint8_t *)from;
        return at + sizeof(uint8_t);
    case PROPERTY_U64:
        store64(at, *(const uint64_t *)from);
        return at + sizeof(uint64_t);
    }
    return at;
}

uint8_t *amqp_properties_write(uint8_t *at, const struct amqp_properties *p)
{
    store16(at, p->flags & USED);
    at += FLAG_BYTES;
    for (unsigned left = p->flags & USED; left != 0;)
        at = write_property(at, take_first(&left), p);
    return at;
}

coney_bytes amqp_expiration_write(char out[AMQP_EXPIRATION_MAX], uint64_t ms)
{
    size_t at = AMQP_EXPIRATION_MAX;
    do {
        out[--at] = (char)('0' + ms % 10);
        ms /= 10;
    } while (ms > 0);
    return coney_bytes_of(out + at, AMQP_EXPIRATION_MAX - at);
}
