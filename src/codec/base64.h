/* base64.h: RFC 4648, section 4: the standard alphabet, padded. Any thread; no allocation. */
#ifndef CONEY_CODEC_BASE64_H
#define CONEY_CODEC_BASE64_H

#include <coney/coney.h>

static inline size_t base64_size(size_t len)
{
    return (len + 2) / 3 * 4;
}

/* Writes base64_size(bytes.len) characters. */
void base64_write(char *to, coney_bytes bytes);

/* Writes at most text.len / 4 * 3 bytes and returns how many; SIZE_MAX: the text is not base64 (bits that padding leaves over
 * must be zero). */
size_t base64_read(uint8_t *to, coney_bytes text);

#endif
