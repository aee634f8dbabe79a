/* special.h: finding what cannot stand in a JSON text as it is: control characters, quotes, backslashes, and what is not ASCII.
 * Any thread. */
#ifndef CONEY_CODEC_SPECIAL_H
#define CONEY_CODEC_SPECIAL_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SPECIAL_SPAN = 16 };

/* Sixteen bytes, which gcc and clang compare at once where the machine can. Signed: what is not ASCII is below zero. */
typedef int8_t special_span __attribute__((vector_size(SPECIAL_SPAN)));

/* How many of the sixteen bytes at `at` come before the first that is special. */
static inline size_t special_find(const void *at)
{
    special_span bytes;
    uint64_t found[2];
    memcpy(&bytes, at, sizeof bytes);
    special_span special = (bytes < 0x20) | (bytes == '"') | (bytes == '\\');
    memcpy(found, &special, sizeof found);
    if (found[0] != 0)
        return (size_t)__builtin_ctzll(le64toh(found[0])) / 8;
    return found[1] != 0 ? 8 + (size_t)__builtin_ctzll(le64toh(found[1])) / 8 : SPECIAL_SPAN;
}

/* How many bytes from `at` on are not special; one must be, and SPECIAL_SPAN - 1 bytes behind it can be read. */
static inline size_t special_skip(const void *at)
{
    size_t done = 0;
    size_t plain;
    while ((plain = special_find((const uint8_t *)at + done)) == SPECIAL_SPAN)
        done += SPECIAL_SPAN;
    return done + plain;
}

#endif
