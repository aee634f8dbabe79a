/* format.c: messages as text: what is the same for every protocol. */
#define _GNU_SOURCE
#include "format.h"

#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The byte that the escape after a backslash stands for, and in *size how long the escape is; -1 when it is none. */
static int escape(const char *at, size_t *size)
{
    static const char letters[] = "ntr0\\";
    static const char bytes[] = "\n\t\r\0\\";
    *size = 1;
    const char *found = *at == '\0' ? NULL : strchr(letters, *at);
    if (found != NULL)
        return (unsigned char)bytes[found - letters];
    if (*at != 'x' || hex_digit(at[1]) < 0 || hex_digit(at[2]) < 0)
        return -1;
    *size = 3;
    return hex_digit(at[1]) * 16 + hex_digit(at[2]);
}

static const char own_letters[] = "bsx%";

const char *format_check(const char *format, const struct format_kind *kind)
{
    if (strcmp(format, "json") == 0)
        return NULL;
    size_t size;
    for (const char *at = format; *at != '\0'; at++) {
        if (*at == '%' && (*++at == '\0' || (strchr(own_letters, *at) == NULL && strchr(kind->letters, *at) == NULL)))
            return "after % a letter is expected that the command's help lists";
        if (*at == '\\') {
            if (escape(++at, &size) < 0)
                return "after \\ one of n t r 0 \\ or xHH is expected";
            at += size - 1;
        }
    }
    return NULL;
}

static void put_hex(FILE *out, coney_bytes bytes)
{
    const uint8_t *at = bytes.data;
    for (size_t i = 0; i < bytes.len; i++) {
        putc_unlocked("0123456789abcdef"[at[i] >> 4], out);
        putc_unlocked("0123456789abcdef"[at[i] & 15], out);
    }
}

static void put_field(FILE *out, char letter, const struct format_kind *kind, const void *delivery, coney_bytes body)
{
    switch (letter) {
    case 'b':
        if (body.len > 0)
            fwrite_unlocked(body.data, 1, body.len, out);
        break;
    case 's':
        fprintf(out, "%zu", body.len);
        break;
    case 'x':
        put_hex(out, body);
        break;
    case '%':
        putc_unlocked('%', out);
        break;
    default:
        kind->put(out, letter, delivery);
        break;
    }
}

static void put_json(FILE *out, const struct format_kind *kind, const void *delivery, coney_bytes body)
{
    struct json j;
    json_begin(&j, out);
    kind->members(&j, delivery);
    if (json_is_text(body))
        json_text(&j, "body", body);
    else
        json_base64(&j, "body_base64", body);
    json_close(&j);
}

void format_write(FILE *out, const char *format, const struct format_kind *kind, const void *delivery, coney_bytes body)
{
    if (strcmp(format, "json") == 0) {
        put_json(out, kind, delivery, body);
        return;
    }
    for (const char *at = format; *at != '\0'; at++) {
        size_t size;
        if (*at == '%') {
            put_field(out, *++at, kind, delivery, body);
        } else if (*at == '\\') {
            putc_unlocked(escape(++at, &size), out);
            at += size - 1;
        } else {
            putc_unlocked(*at, out);
        }
    }
}
