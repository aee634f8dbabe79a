/* test_bytes.h: bytes written as text, for the tests of this folder.
 *
 * "0032 000a 05'queue' ce": hex digits, blanks for reading, and text between single quotes as it stands. What comes back lies
 * in heap memory of exactly its size, so that a sanitizer sees the first byte read past it; free it with release().
 */
#ifndef CONEY_PROTO_AMQP091_TEST_BYTES_H
#define CONEY_PROTO_AMQP091_TEST_BYTES_H

#include "base/bytes.h"

#include <stdio.h>
#include <stdlib.h>

static inline uint8_t *exact_room(size_t len)
{
    uint8_t *room = malloc(len > 0 ? len : 1);
    if (room == NULL)
        abort();
    return room;
}

static inline coney_bytes exact_copy(const void *data, size_t len)
{
    uint8_t *copy = exact_room(len);
    if (len > 0)
        memcpy(copy, data, len);
    return coney_bytes_of(copy, len);
}

static inline coney_bytes bytes_of(const char *text)
{
    uint8_t *room = exact_room(strlen(text));
    size_t len = 0;
    bool quoted = false;
    for (; *text != '\0'; text++) {
        unsigned byte;
        if (*text == '\'')
            quoted = !quoted;
        else if (quoted)
            room[len++] = (uint8_t)*text;
        else if (*text != ' ' && sscanf(text++, "%2x", &byte) == 1)
            room[len++] = (uint8_t)byte;
        else if (*text != ' ')
            abort();
    }
    coney_bytes exact = exact_copy(room, len);
    free(room);
    return exact;
}

/* Text that lives as long as the program: a view of a literal. */
static inline coney_bytes text(const char *literal)
{
    return coney_bytes_of(literal, strlen(literal));
}

static inline void release(coney_bytes bytes)
{
    free((void *)(uintptr_t)bytes.data);
}

#endif
