/* text.c: sentences in fixed buffers. */
#define _GNU_SOURCE
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* How many bytes the UTF-8 character at `at` has, at most `have`; 0 = not a character, or a part of one. */
static size_t character(const uint8_t *at, size_t have)
{
    uint8_t first = at[0];
    size_t len = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (len == 0 || len > have)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool too_long = (first == 0xe0 && at[1] < 0xa0) || (first == 0xf0 && at[1] < 0x90);
    bool surrogate = first == 0xed && at[1] >= 0xa0;
    bool past_the_last = first == 0xf4 && at[1] >= 0x90;
    return too_long || surrogate || past_the_last ? 0 : len;
}

/* Takes the start of a character off the end of `buf`, if one was cut there. */
static void drop_cut_character(char *buf, size_t len)
{
    const uint8_t *bytes = (const uint8_t *)buf;
    size_t start = len;
    while (start > 0 && len - start < 4 && (bytes[start - 1] & 0xc0) == 0x80)
        start--;
    if (start > 0 && bytes[start - 1] >= 0xc0 && character(bytes + start - 1, len - start + 1) == 0)
        buf[start - 1] = '\0';
}

void text_vprint(char *buf, size_t cap, const char *format, va_list args)
{
    if (cap == 0)
        return;
    int len = vsnprintf(buf, cap, format, args);
    if (len < 0)
        buf[0] = '\0';
    else if ((size_t)len >= cap)
        drop_cut_character(buf, cap - 1);
}

void text_print(char *buf, size_t cap, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_vprint(buf, cap, format, args);
    va_end(args);
}

void text_append(char *buf, size_t cap, const char *format, ...)
{
    size_t len = strnlen(buf, cap);
    va_list args;
    va_start(args, format);
    text_vprint(buf + len, cap - len, format, args);
    va_end(args);
}

bool text_is_utf8(const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t left = strlen(text);
    while (left > 0) {
        size_t size = character(at, left);
        if (size == 0)
            return false;
        at += size;
        left -= size;
    }
    return true;
}

/* Control characters: C0, delete, and C1 in its two bytes. */
static bool is_control(const uint8_t *at)
{
    return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
}

void text_from_wire(char *buf, size_t cap, coney_bytes bytes)
{
    if (cap == 0)
        return;
    const uint8_t *at = bytes.data;
    size_t left = bytes.len;
    size_t len = 0;
    while (left > 0) {
        size_t size = character(at, left);
        bool shown = size > 0 && !is_control(at);
        size_t out = shown ? size : 1;
        if (len + out >= cap)
            break;
        if (shown)
            memcpy(buf + len, at, size);
        else
            buf[len] = '?';
        len += out;
        size_t taken = size > 0 ? size : 1;
        at += taken;
        left -= taken;
    }
    buf[len] = '\0';
}

void text_errno(char *buf, size_t cap, int error)
{
    char words[128];
    text_print(buf, cap, "%s", strerror_r(error, words, sizeof words));
}
