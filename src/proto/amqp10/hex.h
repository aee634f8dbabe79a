/* hex.h: bytes for the tests of this room, written as the standard writes them.
 *
 * hex("00 53 75 a0 01 'x'") is allocated in its exact size, so that AddressSanitizer sees a read past its end. Give it to
 * hex_free. Anything but hex digits, spaces and text in single quotes ends the test.
 */
#ifndef CONEY_PROTO_AMQP10_HEX_H
#define CONEY_PROTO_AMQP10_HEX_H

#include <coney/coney.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline coney_bytes hex_copy(const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL)
        abort();
    if (len > 0)
        memcpy(copy, data, len);
    return coney_bytes_of(copy, len);
}

static inline coney_bytes hex(const char *text)
{
    uint8_t bytes[1024];
    size_t len = 0;
    bool quoted = false;
    for (const char *at = text; *at != '\0'; at++) {
        unsigned byte;
        if (*at == '\'')
            quoted = !quoted;
        else if (quoted)
            bytes[len++] = (uint8_t)*at;
        else if (*at != ' ' && sscanf(at++, "%2x", &byte) == 1)
            bytes[len++] = (uint8_t)byte;
        else if (*at != ' ')
            abort();
    }
    return hex_copy(bytes, len);
}

static inline void hex_free(coney_bytes bytes)
{
    free((void *)(uintptr_t)bytes.data);
}

#endif
