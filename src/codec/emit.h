/* emit.h: the walk over a struct that writes it, once for each encoding: a codec's file defines how items are written, and then
 * includes this.
 *
 *   enum { MAPS_ARE_COUNTED = … }                   1: put_map needs the count
 *   put_bool, put_unsigned, put_signed, put_f32, put_f64, put_text, put_binary, put_time, put_raw
 *   put_quick(sink, member, value, index)           a key and its value in one go; false: nothing was written
 *   put_list(b, sink, count), put_next(b, sink, index) before each element, put_list_end
 *   put_map(b, sink, count), put_key(b, sink, key, index) before each value, put_map_end
 *
 * All others take (struct bind *, coney_sink *, …) and return false with a fault when the value has no form on the wire. That
 * memory was out stands in the sink. */
#include "codec/bind.h"
#include "codec/sink.h"

static bool emit_message(struct bind *b, coney_sink *sink, const coney_type *type, const uint8_t *value);

static bool emit_enum(struct bind *b, coney_sink *sink, const coney_type *type, const uint8_t *at)
{
    coney_bytes text = type_constant_text(type, at);
    return text.data != NULL ? put_text(b, sink, text) : bind_fail(b, "a number that is no constant of %s", type->name);
}

static inline bool emit_value(struct bind *b, coney_sink *sink, struct element element, const uint8_t *at)
{
    const void *value = at;
    switch ((coney_kind)element.kind) {
    case CONEY_KIND_BOOL:
        return put_bool(b, sink, *(const bool *)value);
    case CONEY_KIND_I8:
        return put_signed(b, sink, *(const int8_t *)value);
    case CONEY_KIND_I16:
        return put_signed(b, sink, *(const int16_t *)value);
    case CONEY_KIND_I32:
        return put_signed(b, sink, *(const int32_t *)value);
    case CONEY_KIND_I64:
        return put_signed(b, sink, *(const int64_t *)value);
    case CONEY_KIND_U8:
        return put_unsigned(b, sink, *(const uint8_t *)value);
    case CONEY_KIND_U16:
        return put_unsigned(b, sink, *(const uint16_t *)value);
    case CONEY_KIND_U32:
        return put_unsigned(b, sink, *(const uint32_t *)value);
    case CONEY_KIND_U64:
        return put_unsigned(b, sink, *(const uint64_t *)value);
    case CONEY_KIND_F32:
        return put_f32(b, sink, *(const float *)value);
    case CONEY_KIND_F64:
        return put_f64(b, sink, *(const double *)value);
    case CONEY_KIND_STRING:
        return put_text(b, sink, *(const coney_bytes *)value);
    case CONEY_KIND_BYTES:
        return put_binary(b, sink, *(const coney_bytes *)value);
    case CONEY_KIND_TIME:
        return put_time(b, sink, *(const int64_t *)value);
    case CONEY_KIND_RAW:
        return put_raw(b, sink, *(const coney_bytes *)value);
    case CONEY_KIND_ENUM:
        return emit_enum(b, sink, element.type, at);
    case CONEY_KIND_MESSAGE:
        return emit_message(b, sink, element.type, at);
    case CONEY_KIND_SET:
        break;
    }
    return bind_fail(b, "a set, which no member can hold");
}

static bool emit_elements(struct bind *b, coney_sink *sink, struct element element, const coney_list_bytes *list,
                          struct step *step)
{
    uint32_t size = type_layout(element).size;
    const uint8_t *items = (const uint8_t *)list->items;
    if (!put_list(b, sink, list->count))
        return false;
    for (; step->index < list->count; step->index++)
        if (!put_next(b, sink, step->index) || !emit_value(b, sink, element, items + step->index * size))
            return false;
    return put_list_end(b, sink);
}

static bool emit_entries(struct bind *b, coney_sink *sink, struct element element, const coney_map_bytes *map,
                         struct step *step)
{
    struct layout layout = type_layout(element);
    const uint8_t *entry = (const uint8_t *)map->items;
    if (!put_map(b, sink, map->count))
        return false;
    for (size_t i = 0; i < map->count; i++, entry += layout.entry_size) {
        coney_bytes key;
        memcpy(&key, entry, sizeof key);
        step->at = key.data != NULL ? key.data : "";
        step->index = key.len;
        if (!put_key(b, sink, key, i) || !emit_value(b, sink, element, entry + layout.entry_value))
            return false;
    }
    return put_map_end(b, sink);
}

static bool emit_container(struct bind *b, coney_sink *sink, const coney_member *member, const void *at)
{
    bool list = member->shape == CONEY_SHAPE_LIST;
    struct element element = type_element(member);
    struct step *step = bind_enter(b, list ? STEP_ELEMENT : STEP_ENTRY);
    if (step == NULL)
        return false;
    bool ok = list ? emit_elements(b, sink, element, at, step) : emit_entries(b, sink, element, at, step);
    bind_leave(b);
    return ok;
}

static bool emit_rare(struct bind *b, coney_sink *sink, const coney_member *member, const uint8_t *at)
{
    if (member->shape >= CONEY_SHAPE_LIST)
        return emit_container(b, sink, member, at);
    struct element element = type_element(member);
    if (member->shape == CONEY_SHAPE_OPTIONAL)
        at += type_layout(element).optional_value;
    return emit_value(b, sink, element, at);
}

static inline bool emit_member(struct bind *b, coney_sink *sink, const coney_member *member, const uint8_t *at)
{
    if (__builtin_expect(member->shape == CONEY_SHAPE_ONE && member->type == NULL, 1))
        return emit_value(b, sink, (struct element){NULL, member->kind}, at);
    return emit_rare(b, sink, member, at);
}

static inline bool emit_is_absent(const coney_member *member, const uint8_t *at)
{
    return member->shape == CONEY_SHAPE_OPTIONAL && !*(const bool *)(const void *)at;
}

static size_t emit_count(const coney_type *type, const uint8_t *value)
{
    size_t count = 0;
    for (uint32_t i = 0; i < type->member_count; i++)
        count += !emit_is_absent(&type->members[i], value + type->members[i].offset);
    return count;
}

static bool emit_fields(struct bind *b, coney_sink *sink, const coney_type *type, const uint8_t *value, struct step *step)
{
    size_t index = 0;
    const coney_member *end = type->members + type->member_count;
    if (!put_map(b, sink, MAPS_ARE_COUNTED ? emit_count(type, value) : 0))
        return false;
    for (const coney_member *member = type->members; member < end; member++) {
        const uint8_t *at = value + member->offset;
        if (__builtin_expect(put_quick(sink, member, at, index), 1)) {
            index++;
            continue;
        }
        if (emit_is_absent(member, at))
            continue;
        step->at = member;
        if (!put_key(b, sink, type_wire_name(member), index++) || !emit_member(b, sink, member, at))
            return false;
    }
    return put_map_end(b, sink);
}

static bool emit_message(struct bind *b, coney_sink *sink, const coney_type *type, const uint8_t *value)
{
    struct step *step = bind_enter(b, STEP_FIELD);
    if (step == NULL)
        return false;
    bool ok = emit_fields(b, sink, type, value, step);
    bind_leave(b);
    return ok;
}

/* The encode of a codec. */
static coney_status emit_body(const coney_type *type, const void *value, coney_sink *sink, coney_arena *arena,
                              coney_fault *fault)
{
    struct bind b;
    bind_begin(&b, arena, fault, CONEY_EINVAL, false);
    if (!emit_message(&b, sink, type, value))
        return b.status;
    return sink->failed == 0 ? CONEY_OK : CONEY_ENOMEM;
}
