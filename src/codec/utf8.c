/* utf8.c: ASCII eight bytes at a time, the rest character by character. */
#include "codec/utf8.h"

#include <string.h>

/* The bytes of the character at `at`, of which `left` are there; 0: it is none. */
static size_t character(const uint8_t *at, size_t left)
{
    uint8_t first = at[0];
    size_t len = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (len <= 1 || len > left)
        return len == 1 ? 1 : 0;
    uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < least || at[1] > most)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

bool utf8_valid(coney_bytes bytes)
{
    const uint8_t *at = bytes.data;
    size_t left = bytes.len;
    while (left > 0) {
        uint64_t eight;
        size_t len = 8;
        if (left >= 8)
            memcpy(&eight, at, 8);
        if (left < 8 || (eight & UINT64_C(0x8080808080808080)) != 0)
            len = character(at, left);
        if (len == 0)
            return false;
        at += len;
        left -= len;
    }
    return true;
}
