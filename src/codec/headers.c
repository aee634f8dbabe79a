/* headers.c: typed headers: a flat type read from a map of values, and written as fields. */
#include "codec/bind.h"
#include "codec/utf8.h"

#include <coney/value.h>

static struct item item_of(const coney_value *value)
{
    struct item item = {.type = ITEM_OTHER};
    switch ((coney_value_type)value->type) {
    case CONEY_VALUE_NULL:
        item.type = ITEM_NULL;
        return item;
    case CONEY_VALUE_BOOL:
        item.type = ITEM_BOOL;
        item.boolean = value->as.boolean;
        return item;
    case CONEY_VALUE_I8:
    case CONEY_VALUE_I16:
    case CONEY_VALUE_I32:
    case CONEY_VALUE_I64:
        item.type = value->as.i64 < 0 ? ITEM_NEGATIVE : ITEM_UNSIGNED;
        item.number = value->as.i64 < 0 ? ~value->as.u64 : value->as.u64;
        return item;
    case CONEY_VALUE_U8:
    case CONEY_VALUE_U16:
    case CONEY_VALUE_U32:
    case CONEY_VALUE_U64:
        item.type = ITEM_UNSIGNED;
        item.number = value->as.u64;
        return item;
    case CONEY_VALUE_F32:
        item.type = ITEM_REAL;
        item.real = (double)value->as.f32;
        return item;
    case CONEY_VALUE_F64:
        item.type = ITEM_REAL;
        item.real = value->as.f64;
        return item;
    case CONEY_VALUE_TIMESTAMP:
        item.type = ITEM_TIME;
        item.time = value->as.i64;
        return item;
    case CONEY_VALUE_BINARY:
    case CONEY_VALUE_STRING:
    case CONEY_VALUE_SYMBOL:
        item.type = value->type == CONEY_VALUE_BINARY ? ITEM_BINARY : ITEM_TEXT;
        item.bytes = value->as.bytes;
        return item;
    case CONEY_VALUE_LIST:
    case CONEY_VALUE_ARRAY:
        item.type = ITEM_LIST;
        return item;
    case CONEY_VALUE_MAP:
        item.type = ITEM_MAP;
        return item;
    case CONEY_VALUE_CHAR:
    case CONEY_VALUE_UUID:
    case CONEY_VALUE_DECIMAL:
    case CONEY_VALUE_DESCRIBED:
        return item;
    }
    return item;
}

static bool is_flat(const coney_member *member, struct element element)
{
    return member->shape <= CONEY_SHAPE_OPTIONAL && element.kind != CONEY_KIND_RAW && element.kind < CONEY_KIND_MESSAGE;
}

/* Senders differ in what they call a text and what binary, and some write everything as text. */
static bool bind_header(struct bind *b, const coney_member *member, struct element element, struct item *item, uint8_t *at)
{
    bool text = item->type == ITEM_TEXT || item->type == ITEM_BINARY;
    if (!text)
        return bind_plain(b, member, element, item, at);
    if (element.kind == CONEY_KIND_STRING || element.kind == CONEY_KIND_ENUM || element.kind == CONEY_KIND_BYTES) {
        item->type = element.kind == CONEY_KIND_BYTES ? ITEM_BINARY : ITEM_TEXT;
        return bind_plain(b, member, element, item, at);
    }
    return type_text_parse(element, item->bytes, at) || bind_mismatch(b, member, item);
}

static bool decode_header(struct bind *b, const coney_member *member, const coney_value *value, uint8_t *at)
{
    struct element element = type_element(member);
    struct item item = item_of(value);
    bool present = true;
    if (!is_flat(member, element))
        return bind_fail(b, "headers are flat: one value or an optional one, no raw, no message");
    if (item.type == ITEM_NULL)
        return bind_absent(b, member, "null", at);
    if (member->shape == CONEY_SHAPE_ONE)
        return bind_header(b, member, element, &item, at);
    memcpy(at, &present, sizeof present);
    return bind_header(b, member, element, &item, at + type_layout(element).optional_value);
}

static bool decode_headers(struct bind *b, const coney_value *map, const coney_type *type, uint8_t *out)
{
    coney_value_iter iter = coney_value_elements(map);
    coney_field header;
    struct fields fields;
    struct step *step = bind_enter(b, STEP_FIELD);
    if (!fields_begin(b, &fields, type, 0))
        return false;
    while (coney_value_next_field(&iter, &header)) {
        uint32_t index = fields_find(&fields, header.key);
        if (index == type->member_count) {
            if ((type->flags & CONEY_TYPE_STRICT) != 0)
                return bind_unknown(b, type, step, header.key);
            continue;
        }
        const coney_member *member = &type->members[index];
        step->at = member;
        if (!fields_mark(b, &fields, index) || !decode_header(b, member, &header.value, out + member->offset))
            return false;
    }
    step->at = NULL;
    if (!coney_value_iter_ok(&iter))
        return bind_fail(b, "headers that cannot be read");
    return fields_end(b, &fields, step, out);
}

coney_status coney_headers_decode(const coney_value *map, const coney_type *type, void *out, coney_arena *arena,
                                  coney_fault *fault)
{
    static const coney_value none = {.type = CONEY_VALUE_NULL};
    struct bind b;
    bind_begin(&b, arena, fault, CONEY_EINVAL, false);
    if (type == NULL || out == NULL || arena == NULL || type->kind != CONEY_KIND_MESSAGE) {
        bind_fail(&b, "type, out or arena is NULL, or the type is no message");
        return b.status;
    }
    b.refusal = CONEY_ECORRUPT;
    memset(out, 0, type->size);
    if (!decode_headers(&b, map != NULL ? map : &none, type, out))
        memset(out, 0, type->size);
    return b.status;
}

/* Writing -------------------------------------------------------------------------------------------------------- */

static bool value_of(struct bind *b, struct element element, const void *at, coney_value *value)
{
    coney_bytes text;
    switch ((coney_kind)element.kind) {
    case CONEY_KIND_BOOL:
        *value = coney_value_bool(*(const bool *)at);
        return true;
    case CONEY_KIND_I8:
        *value = coney_value_i8(*(const int8_t *)at);
        return true;
    case CONEY_KIND_I16:
        *value = coney_value_i16(*(const int16_t *)at);
        return true;
    case CONEY_KIND_I32:
        *value = coney_value_i32(*(const int32_t *)at);
        return true;
    case CONEY_KIND_I64:
        *value = coney_value_i64(*(const int64_t *)at);
        return true;
    case CONEY_KIND_U8:
        *value = coney_value_u8(*(const uint8_t *)at);
        return true;
    case CONEY_KIND_U16:
        *value = coney_value_u16(*(const uint16_t *)at);
        return true;
    case CONEY_KIND_U32:
        *value = coney_value_u32(*(const uint32_t *)at);
        return true;
    case CONEY_KIND_U64:
        *value = coney_value_u64(*(const uint64_t *)at);
        return true;
    case CONEY_KIND_F32:
        *value = coney_value_f32(*(const float *)at);
        return true;
    case CONEY_KIND_F64:
        *value = coney_value_f64(*(const double *)at);
        return true;
    case CONEY_KIND_STRING:
        *value = coney_value_string(*(const coney_bytes *)at);
        return utf8_valid(value->as.bytes) || bind_fail(b, "a text that is not UTF-8");
    case CONEY_KIND_BYTES:
        *value = coney_value_binary(*(const coney_bytes *)at);
        return true;
    case CONEY_KIND_TIME:
        *value = coney_value_timestamp(*(const int64_t *)at);
        return true;
    case CONEY_KIND_ENUM:
        text = type_constant_text(element.type, at);
        *value = coney_value_string(text);
        return text.data != NULL || bind_fail(b, "a number that is no constant of %s", element.type->name);
    case CONEY_KIND_RAW:
    case CONEY_KIND_MESSAGE:
    case CONEY_KIND_SET:
        break;
    }
    return bind_fail(b, "headers are flat: one value or an optional one, no raw, no message");
}

static bool encode_header(struct bind *b, const coney_member *member, const uint8_t *at, coney_field *fields, size_t *count)
{
    struct element element = type_element(member);
    if (!is_flat(member, element))
        return bind_fail(b, "headers are flat: one value or an optional one, no raw, no message");
    if (member->shape == CONEY_SHAPE_OPTIONAL) {
        if (!*(const bool *)(const void *)at)
            return true;
        at += type_layout(element).optional_value;
    }
    coney_field *field = &fields[(*count)++];
    field->key = type_wire_name(member);
    return value_of(b, element, at, &field->value);
}

coney_status coney_headers_encode(const coney_type *type, const void *value, coney_arena *arena, const coney_field **fields,
                                  size_t *count, coney_fault *fault)
{
    struct bind b;
    bind_begin(&b, arena, fault, CONEY_EINVAL, false);
    if (type == NULL || value == NULL || arena == NULL || type->kind != CONEY_KIND_MESSAGE) {
        bind_fail(&b, "type, value or arena is NULL, or the type is no message");
        return b.status;
    }
    coney_field *made = arena_take(arena, type->member_count * sizeof *made);
    struct step *step = bind_enter(&b, STEP_FIELD);
    bool ok = made != NULL || bind_no_memory(&b);
    *count = 0;
    for (uint32_t i = 0; ok && i < type->member_count; i++) {
        const coney_member *member = &type->members[i];
        step->at = member;
        ok = encode_header(&b, member, (const uint8_t *)value + member->offset, made, count);
    }
    *fields = made;
    if (!ok)
        *count = 0;
    return b.status;
}
