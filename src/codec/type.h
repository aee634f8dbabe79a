/* type.h: what the field tables of <coney/codec.h> say, made handy: wire names, sizes, text forms. Any thread; no allocation. */
#ifndef CONEY_CODEC_TYPE_H
#define CONEY_CODEC_TYPE_H

#include <coney/codec.h>

/* A value of a kind, alone and in its containers. */
struct layout {
    uint32_t size;
    uint32_t entry_size;
    uint32_t entry_value;
    uint32_t optional_value;
};

/* What stands at one place of a message: the kind that a member's table leaves to its type, and that type. */
struct element {
    const coney_type *type; /* messages and enums; else NULL */
    uint8_t kind;           /* a coney_kind */
};

static inline struct element type_element(const coney_member *member)
{
    if (__builtin_expect(member->type == NULL, 1))
        return (struct element){NULL, member->kind};
    const coney_type *type = member->type();
    return (struct element){type, type->kind};
}

static inline coney_bytes type_wire_name(const coney_member *member)
{
    return member->rename_len > 0 ? coney_bytes_of(member->rename, member->rename_len)
                                  : coney_bytes_of(member->name, member->name_len);
}

struct layout type_layout(struct element element);

/* "u16", "order": the kind's word or the type's name. Static memory. */
const char *type_word(struct element element);

/* Enums: the constant of a text, or NULL; and the text of a constant, empty when the table has no such. */
const coney_member *type_constant(const coney_type *type, coney_bytes text);
coney_bytes type_constant_text(const coney_type *type, const void *value);
void type_constant_store(const coney_type *type, const coney_member *constant, void *out);

/* The text form of bool, numbers, string, time and enum, as in default("…") and in headers: "true", "-1", "9.5", any text,
 * RFC 3339, the constant's text. */
enum { TYPE_TEXT_MAX = 40 }; /* of all of them but texts and enums */

bool type_has_text(struct element element);

/* False, *out unchanged: the text is none of the kind. A string borrows the text. */
bool type_text_parse(struct element element, coney_bytes text, void *out);

/* The text form of *value, in `buf` of TYPE_TEXT_MAX bytes or borrowed from the value; .data NULL: it has none. */
coney_bytes type_text_of(struct element element, const void *value, char *buf);

/* Writes the destination of a message, to("…") with the texts of the members that it names, as a C string. A type without to(…)
 * gives "". CONEY_EINVAL: a member that it names is absent, is no constant of its enum, or is a text with a NUL;
 * CONEY_ETOOBIG: `cap` bytes are too few. `buf` is "" then. */
coney_status type_expand_to(const coney_type *type, const void *value, char *buf, size_t cap);

#endif
