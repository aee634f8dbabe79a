/* value.h: what an encoding of coney_value must offer, so that <coney/value.h> works on it.
 *
 * Each protocol with an encoding of its own registers it before main() begins, in the file that reads its values: a program
 * that has such values has that file. Nothing here allocates or blocks; any thread.
 */
#ifndef CONEY_BASE_VALUE_H
#define CONEY_BASE_VALUE_H

#include <coney/value.h>

struct value_encoding {
    /* Sets iter->at, end, left and element to the first element of a compound value, or iter->failed. The rest is set. */
    void (*enter)(const coney_value *value, coney_value_iter *iter);

    /* coney_value_next. */
    bool (*next)(coney_value_iter *iter, coney_value *out);

    /* coney_value_check for a value that is to stand in `depth` compound values, as the key of a map or not. */
    coney_status (*check)(const coney_value *value, uint8_t depth, bool key);

    /* The bytes that a value takes which has passed `check`; and writing them: returns where they end. */
    size_t (*size)(const coney_value *value, bool key);
    uint8_t *(*write)(uint8_t *at, const coney_value *value, bool key);

    /* What stands before `count` elements of `content` bytes: its size, at most VALUE_HEAD_MOST, and writing it. */
    size_t (*head_size)(uint8_t type, uint32_t count, size_t content);
    uint8_t *(*head_write)(uint8_t *at, uint8_t type, uint32_t count, size_t content);

    size_t content_max; /* bytes of a compound value at most */
    uint8_t outermost;  /* the only type that a builder may begin with; 0: any */
    uint8_t number;     /* a coney_value_encoding */
};

enum { VALUE_HEAD_MOST = 9, VALUE_ENCODINGS = 2 };

/* Makes values of the encoding readable. For constructors; `encoding` is static. */
void value_encoding_add(const struct value_encoding *encoding);

/* coney_builder_init for this encoding. */
void value_builder_init(coney_builder *builder, const struct value_encoding *encoding, void *memory, size_t cap);

static inline bool value_is_compound(const coney_value *value)
{
    return value->type >= CONEY_VALUE_LIST;
}

/* CONEY_OK when a value that is not compound can be what its type says, whatever its encoding; else CONEY_EINVAL. The length of
 * a decimal is not looked at. */
coney_status value_check_plain(const coney_value *value);

#endif
