/* base64.c: three bytes are four characters. */
#include "codec/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(char *to, coney_bytes bytes)
{
    const uint8_t *at = bytes.data;
    for (size_t left = bytes.len; left > 0; at += 3, to += 4) {
        uint32_t three = (uint32_t)at[0] << 16;
        if (left > 1)
            three |= (uint32_t)at[1] << 8;
        if (left > 2)
            three |= at[2];
        to[0] = alphabet[three >> 18];
        to[1] = alphabet[three >> 12 & 63];
        to[2] = left > 1 ? alphabet[three >> 6 & 63] : '=';
        to[3] = left > 2 ? alphabet[three & 63] : '=';
        left -= left > 3 ? 3 : left;
    }
}

/* 64: no character of the alphabet. */
static uint32_t digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return (uint32_t)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (uint32_t)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

size_t base64_read(uint8_t *to, coney_bytes text)
{
    const uint8_t *at = text.data;
    size_t len = 0;
    if (text.len % 4 != 0)
        return SIZE_MAX;
    for (size_t left = text.len; left > 0; left -= 4, at += 4) {
        unsigned padding = left > 4 || at[3] != '=' ? 0 : at[2] != '=' ? 1 : 2;
        uint32_t group = 0;
        for (unsigned i = 0; i < 4 - padding; i++) {
            uint32_t bits = digit(at[i]);
            if (bits == 64)
                return SIZE_MAX;
            group |= bits << (18 - 6 * i);
        }
        if ((padding == 1 && (group & 0xff) != 0) || (padding == 2 && (group & 0xffff) != 0))
            return SIZE_MAX;
        to[len++] = (uint8_t)(group >> 16);
        if (padding < 2)
            to[len++] = (uint8_t)(group >> 8);
        if (padding < 1)
            to[len++] = (uint8_t)group;
    }
    return len;
}
