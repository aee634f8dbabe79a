/* type.c: field tables: their sizes, their words, and the faults that no compiler sees in them. */
#include "codec/type.h"

#include "base/bytes.h"
#include "base/text.h"

#define PLAIN(kind, word, ctype, container)                                                                                    \
    [CONEY_KIND_##kind] = {word,                                                                                               \
                           {sizeof(ctype), sizeof(coney_entry_##container), offsetof(coney_entry_##container, value),          \
                            offsetof(coney_optional_##container, value)}}

static const struct {
    const char *word;
    struct layout layout;
} plain[] = {
    PLAIN(BOOL, "bool", bool, boolean),
    PLAIN(I8, "i8", int8_t, i8),
    PLAIN(I16, "i16", int16_t, i16),
    PLAIN(I32, "i32", int32_t, i32),
    PLAIN(I64, "i64", int64_t, i64),
    PLAIN(U8, "u8", uint8_t, u8),
    PLAIN(U16, "u16", uint16_t, u16),
    PLAIN(U32, "u32", uint32_t, u32),
    PLAIN(U64, "u64", uint64_t, u64),
    PLAIN(F32, "f32", float, f32),
    PLAIN(F64, "f64", double, f64),
    PLAIN(STRING, "string", coney_bytes, string),
    PLAIN(BYTES, "bytes", coney_bytes, bytes),
    PLAIN(TIME, "time", int64_t, time),
    PLAIN(RAW, "raw", coney_bytes, raw),
};

struct layout type_layout(struct element element)
{
    const coney_type *type = element.type;
    if (type == NULL)
        return plain[element.kind].layout;
    return (struct layout){type->size, type->entry_size, type->entry_value, type->optional_value};
}

const char *type_word(struct element element)
{
    return element.type == NULL ? plain[element.kind].word : element.type->name;
}

const coney_member *type_constant(const coney_type *type, coney_bytes text)
{
    for (uint32_t i = 0; i < type->member_count; i++)
        if (bytes_equal(type_wire_name(&type->members[i]), text))
            return &type->members[i];
    return NULL;
}

/* An enum may be as small as its constants allow. */
static uint32_t load_constant(const coney_type *type, const void *value)
{
    uint8_t n8;
    uint16_t n16;
    uint32_t n32;
    memcpy(type->size == 1 ? (void *)&n8 : type->size == 2 ? (void *)&n16 : (void *)&n32, value, type->size);
    return type->size == 1 ? n8 : type->size == 2 ? n16 : n32;
}

coney_bytes type_constant_text(const coney_type *type, const void *value)
{
    uint32_t number = load_constant(type, value);
    if (number < type->member_count && type->members[number].offset == number)
        return type_wire_name(&type->members[number]);
    return coney_bytes_of(NULL, 0);
}

void type_constant_store(const coney_type *type, const coney_member *constant, void *out)
{
    uint8_t n8 = (uint8_t)constant->offset;
    uint16_t n16 = (uint16_t)constant->offset;
    memcpy(out, type->size == 1 ? (void *)&n8 : type->size == 2 ? (void *)&n16 : (const void *)&constant->offset, type->size);
}

/* Checking ------------------------------------------------------------------------------------------------------- */

/* The types inside which one stands, and where to say what is wrong. */
struct inspection {
    const struct inspection *outer;
    const coney_type *type;
    char *text;
    size_t cap;
};

static coney_status complain(const struct inspection *in, const char *format, ...) __attribute__((format(printf, 2, 3)));

static coney_status complain(const struct inspection *in, const char *format, ...)
{
    va_list args;
    text_print(in->text, in->cap, "type %s: ", in->type->name);
    size_t len = in->cap > 0 ? strlen(in->text) : 0;
    va_start(args, format);
    text_vprint(in->text + len, in->cap - len, format, args);
    va_end(args);
    return CONEY_EINVAL;
}

static coney_status check_names(const struct inspection *in, const char *what)
{
    const coney_type *type = in->type;
    for (uint32_t i = 0; i < type->member_count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (bytes_equal(type_wire_name(&type->members[i]), type_wire_name(&type->members[j])))
                return complain(in, "%s and %s are both \"%s\" %s", type->members[j].name, type->members[i].name,
                                (const char *)type_wire_name(&type->members[i]).data, what);
    return CONEY_OK;
}

static coney_status check_default(const struct inspection *in, const coney_member *member)
{
    uint64_t room[4];
    struct element element = type_element(member);
    if (member->fallback == NULL)
        return CONEY_OK;
    if (member->shape != CONEY_SHAPE_ONE || !type_has_text(element))
        return complain(in, "member %s cannot have a default: only bool, numbers, string, time and enum can", member->name);
    if (!type_text_parse(element, coney_bytes_of(member->fallback, member->fallback_len), room))
        return complain(in, "the default of member %s, \"%s\", is no %s", member->name, member->fallback, type_word(element));
    return CONEY_OK;
}

/* The next "{x}" of a destination: false at its end, or *name.data NULL where a brace stands alone. *before is what comes first. */
static bool next_placeholder(const char **at, coney_bytes *before, coney_bytes *name)
{
    size_t len = strcspn(*at, "{}");
    *before = coney_bytes_of(*at, len);
    *at += len;
    if (**at == '\0')
        return false;
    size_t inside = **at == '{' ? strcspn(*at + 1, "{}") : 0;
    bool closed = **at == '{' && (*at)[1 + inside] == '}';
    *name = closed ? coney_bytes_of(*at + 1, inside) : coney_bytes_of(NULL, 0);
    if (closed)
        *at += inside + 2;
    return true;
}

static const coney_member *member_named(const coney_type *type, coney_bytes name)
{
    for (uint32_t i = 0; i < type->member_count; i++)
        if (bytes_equal(coney_bytes_of(type->members[i].name, type->members[i].name_len), name))
            return &type->members[i];
    return NULL;
}

static coney_status check_destination(const struct inspection *in)
{
    const char *at = in->type->to;
    coney_bytes before;
    coney_bytes name;
    while (next_placeholder(&at, &before, &name)) {
        if (name.data == NULL)
            return complain(in, "the destination \"%s\" has a brace too many: it names members as {member}", in->type->to);
        const coney_member *member = member_named(in->type, name);
        if (member == NULL)
            return complain(in, "the destination \"%s\" names %.*s, which is no member", in->type->to, (int)name.len,
                            (const char *)name.data);
        if (member->shape > CONEY_SHAPE_OPTIONAL || !type_has_text(type_element(member)))
            return complain(in, "the destination \"%s\" names %s, which has no text form", in->type->to, member->name);
    }
    return CONEY_OK;
}

static coney_status check_type(const struct inspection *in);

static coney_status check_inner(const struct inspection *in, const coney_type *type)
{
    for (const struct inspection *outer = in; outer != NULL; outer = outer->outer)
        if (outer->type == type)
            return CONEY_OK;
    return check_type(&(struct inspection){in, type, in->text, in->cap});
}

static coney_status check_members(const struct inspection *in)
{
    coney_status status = CONEY_OK;
    for (uint32_t i = 0; status == CONEY_OK && i < in->type->member_count; i++) {
        const coney_member *member = &in->type->members[i];
        struct element element = type_element(member);
        if (element.kind == CONEY_KIND_SET)
            return complain(in, "member %s is a set: only a message as a whole can be one", member->name);
        status = check_default(in, member);
        if (status == CONEY_OK && element.type != NULL)
            status = check_inner(in, element.type);
    }
    return status;
}

static coney_status check_variants(const struct inspection *in)
{
    coney_status status = CONEY_OK;
    for (uint32_t i = 0; status == CONEY_OK && i < in->type->member_count; i++) {
        const coney_type *variant = in->type->members[i].type();
        if (variant->kind != CONEY_KIND_MESSAGE)
            return complain(in, "variant %s is no message", variant->name);
        status = check_inner(in, variant);
    }
    return status;
}

static coney_status check_type(const struct inspection *in)
{
    bool is_message = in->type->kind == CONEY_KIND_MESSAGE;
    coney_status status = check_names(in, in->type->kind == CONEY_KIND_SET ? "in the header" : "on the wire");
    if (status != CONEY_OK || in->type->kind == CONEY_KIND_ENUM)
        return status;
    status = is_message ? check_destination(in) : CONEY_OK;
    if (status != CONEY_OK)
        return status;
    return is_message ? check_members(in) : check_variants(in);
}

coney_status coney_type_check(const coney_type *type, char *text, size_t cap)
{
    text_print(text, cap, "%s", "");
    if (type != NULL)
        return check_type(&(struct inspection){NULL, type, text, cap});
    text_print(text, cap, "the type is NULL");
    return CONEY_EINVAL;
}

/* Destinations --------------------------------------------------------------------------------------------------- */

static coney_status text_of_member(const coney_type *type, coney_bytes name, const uint8_t *value, char *room,
                                   coney_bytes *text)
{
    const coney_member *member = member_named(type, name);
    if (member == NULL)
        return CONEY_EINVAL;
    struct element element = type_element(member);
    const uint8_t *at = value + member->offset;
    if (member->shape == CONEY_SHAPE_OPTIONAL) {
        bool present;
        memcpy(&present, at, sizeof present);
        if (!present)
            return CONEY_EINVAL;
        at += type_layout(element).optional_value;
    }
    *text = type_text_of(element, at, room);
    bool has_nul = text->len > 0 && memchr(text->data, '\0', text->len) != NULL;
    return text->data != NULL && !has_nul ? CONEY_OK : CONEY_EINVAL;
}

coney_status type_expand_to(const coney_type *type, const void *value, char *buf, size_t cap)
{
    const char *at = type->to;
    struct writer w = writer_of(buf, cap);
    coney_bytes before;
    coney_bytes name;
    coney_status status = CONEY_OK;
    while (status == CONEY_OK && next_placeholder(&at, &before, &name)) {
        char room[TYPE_TEXT_MAX];
        coney_bytes text = {0};
        write_bytes(&w, before.data, before.len);
        status = text_of_member(type, name, value, room, &text);
        write_bytes(&w, text.data, text.len);
    }
    write_bytes(&w, before.data, before.len);
    write8(&w, '\0');
    if (status == CONEY_OK && !writer_ok(&w))
        status = CONEY_ETOOBIG;
    if (status != CONEY_OK && cap > 0)
        buf[0] = '\0';
    return status;
}
