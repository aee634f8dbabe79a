/* test_bytes.h: bytes written as text, for the tests of this folder.
 *
 * "000b 0015 'text' 2f": hex digits, blanks for reading, and text between single quotes as it stands. What comes back lies
 * in heap memory of exactly its size, so that a sanitizer sees the first byte read past it.
 */
#ifndef CONEY_PROTO_STREAM_TEST_BYTES_H
#define CONEY_PROTO_STREAM_TEST_BYTES_H

#include "base/bytes.h"

#include <stdlib.h>

static inline unsigned hex_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* `len` bytes in a block of their own; free it with release(). */
static inline coney_bytes exact_copy(const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL)
        abort();
    if (len > 0)
        memcpy(copy, data, len);
    return coney_bytes_of(copy, len);
}

static inline coney_bytes bytes_of(const char *text)
{
    uint8_t *room = malloc(strlen(text) + 1);
    if (room == NULL)
        abort();
    size_t len = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == ' ')
            continue;
        if (*c == '\'') {
            for (c++; *c != '\''; c++)
                room[len++] = (uint8_t)*c;
            continue;
        }
        room[len++] = (uint8_t)(hex_digit(c[0]) << 4 | hex_digit(c[1]));
        c++;
    }
    coney_bytes exact = exact_copy(room, len);
    free(room);
    return exact;
}

static inline void release(coney_bytes bytes)
{
    free((void *)(uintptr_t)bytes.data);
}

#endif
