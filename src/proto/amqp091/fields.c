/* fields.c: see fields.h. */
#include "proto/amqp091/fields.h"

#include "proto/amqp091/layout.h"
#include "proto/amqp091/table.h"

/* Out of a method ------------------------------------------------------------------------------------------------- */

static coney_value value_of(const struct layout_field *field, const struct amqp_method *method)
{
    const void *at = (const char *)method + field->at;
    switch (field->kind) {
    case FIELD_U8:
        return coney_value_unsigned(CONEY_VALUE_U8, *(const uint8_t *)at);
    case FIELD_U16:
        return coney_value_unsigned(CONEY_VALUE_U16, *(const uint16_t *)at);
    case FIELD_U32:
        return coney_value_unsigned(CONEY_VALUE_U32, *(const uint32_t *)at);
    case FIELD_U64:
        return coney_value_unsigned(CONEY_VALUE_U64, *(const uint64_t *)at);
    case FIELD_SHORT:
    case FIELD_LONG:
        return coney_value_string(*(const coney_bytes *)at);
    case FIELD_BIT:
        return coney_value_bool(*(const bool *)at);
    case FIELD_TABLE:
        return *(const coney_value *)at;
    case FIELD_RESERVED_U16:
        return coney_value_unsigned(CONEY_VALUE_U16, 0);
    case FIELD_RESERVED_SHORT:
    case FIELD_RESERVED_LONG:
        return coney_value_string(coney_bytes_of(NULL, 0));
    case FIELD_RESERVED_BIT:
        return coney_value_bool(false);
    }
    return coney_value_null();
}

size_t amqp_fields_of(const struct amqp_method *method, coney_value values[AMQP_FIELDS_MOST])
{
    const struct layout_method *layout = layout_method_of(method->id);
    size_t count = 0;
    for (const struct layout_field *field = layout != NULL ? layout->fields : NULL;
         field != NULL && field->name != NULL && count < AMQP_FIELDS_MOST; field++)
        values[count++] = value_of(field, method);
    return count;
}

/* Into a method --------------------------------------------------------------------------------------------------- */

static bool number_of(const coney_value *value, uint64_t most, uint64_t *out)
{
    *out = 0;
    return value->type == CONEY_VALUE_NULL || (coney_value_to_u64(value, out) && *out <= most);
}

static bool string_of(const coney_value *value, size_t most, coney_bytes *out)
{
    *out = coney_bytes_of(NULL, 0);
    return value->type == CONEY_VALUE_NULL || (coney_value_to_bytes(value, out) && out->len <= most);
}

/* False when the value does not fit the field. */
static bool set_field(const struct layout_field *field, const coney_value *value, struct amqp_method *out)
{
    void *at = (char *)out + field->at;
    uint64_t number;
    switch (field->kind) {
    case FIELD_U8:
        if (!number_of(value, UINT8_MAX, &number))
            return false;
        *(uint8_t *)at = (uint8_t)number;
        return true;
    case FIELD_U16:
        if (!number_of(value, UINT16_MAX, &number))
            return false;
        *(uint16_t *)at = (uint16_t)number;
        return true;
    case FIELD_U32:
        if (!number_of(value, UINT32_MAX, &number))
            return false;
        *(uint32_t *)at = (uint32_t)number;
        return true;
    case FIELD_U64:
        if (!number_of(value, UINT64_MAX, &number))
            return false;
        *(uint64_t *)at = number;
        return true;
    case FIELD_SHORT:
        return string_of(value, AMQP_SHORT_MAX, at);
    case FIELD_LONG:
        return string_of(value, UINT32_MAX, at);
    case FIELD_BIT:
        *(bool *)at = value->type == CONEY_VALUE_BOOL && value->as.boolean;
        return value->type == CONEY_VALUE_BOOL || value->type == CONEY_VALUE_NULL;
    case FIELD_TABLE:
        *(coney_value *)at = *value;
        return amqp_table_valid(value);
    case FIELD_RESERVED_U16:
    case FIELD_RESERVED_SHORT:
    case FIELD_RESERVED_LONG:
    case FIELD_RESERVED_BIT:
        return true;
    }
    return false;
}

const char *amqp_method_of_fields(uint32_t id, const coney_value *values, size_t count, struct amqp_method *out)
{
    const struct layout_method *layout = layout_method_of(id);
    *out = (struct amqp_method){.id = id};
    if (layout == NULL)
        return "method.id";
    size_t used = 0;
    for (const struct layout_field *field = layout->fields; field->name != NULL; field++, used++) {
        if (used == count)
            return "method.fields";
        if (!set_field(field, &values[used], out))
            return field->name;
    }
    return used == count ? NULL : "method.fields";
}

bool amqp_method_waits(const struct amqp_method *method)
{
    static const char nowait[] = ".nowait";
    const struct layout_method *layout = layout_method_of(method->id);
    if (layout == NULL || layout->answers[0] == 0)
        return false;
    for (const struct layout_field *field = layout->fields; field->name != NULL; field++) {
        const char *last = strrchr(field->name, '.');
        if (field->kind == FIELD_BIT && last != NULL && strcmp(last, nowait) == 0)
            return !*(const bool *)((const char *)method + field->at);
    }
    return true;
}
