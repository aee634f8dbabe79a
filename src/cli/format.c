/* format.c: messages as text. */
#define _GNU_SOURCE
#include "format.h"
#include "json.h"
#include "units.h"

#include <inttypes.h>
#include <stdlib.h>
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

const char *format_check(const char *format)
{
    if (strcmp(format, "json") == 0)
        return NULL;
    size_t size;
    for (const char *at = format; *at != '\0'; at++) {
        if (*at == '%' && (*++at == '\0' || strchr("botTsxn%", *at) == NULL))
            return "after % one of b o t T s x n % is expected";
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

static void put_field(FILE *out, char letter, const coney_stream_delivery *d, coney_bytes body)
{
    char time[UNITS_TIME_SIZE];
    switch (letter) {
    case 'b':
        fwrite_unlocked(body.data, 1, body.len, out);
        break;
    case 'o':
        fprintf(out, "%" PRIu64, d->offset);
        break;
    case 't':
        fputs(units_time(d->timestamp, time), out);
        break;
    case 'T':
        fprintf(out, "%" PRId64, d->timestamp);
        break;
    case 's':
        fprintf(out, "%zu", body.len);
        break;
    case 'x':
        put_hex(out, body);
        break;
    case 'n':
        fputs(d->stream, out);
        break;
    case '%':
        putc_unlocked('%', out);
        break;
    }
}

static void put_json(FILE *out, const coney_stream_delivery *d, coney_bytes body)
{
    char time[UNITS_TIME_SIZE];
    struct json j;
    json_begin(&j, out);
    json_unsigned(&j, "offset", d->offset);
    json_text(&j, "timestamp", coney_bytes_str(units_time(d->timestamp, time)));
    if (json_is_text(body))
        json_text(&j, "body", body);
    else
        json_base64(&j, "body_base64", body);
    json_close(&j);
}

void format_write(FILE *out, const char *format, const coney_stream_delivery *delivery, coney_bytes body)
{
    if (strcmp(format, "json") == 0) {
        put_json(out, delivery, body);
        return;
    }
    for (const char *at = format; *at != '\0'; at++) {
        size_t size;
        if (*at == '%') {
            put_field(out, *++at, delivery, body);
        } else if (*at == '\\') {
            putc_unlocked(escape(++at, &size), out);
            at += size - 1;
        } else {
            putc_unlocked(*at, out);
        }
    }
}

static coney_bytes joined(const coney_message_view *view, struct format_space *space)
{
    size_t size = coney_message_body_size(view);
    if (size > space->cap) {
        void *data = realloc(space->data, size);
        if (data == NULL)
            return view->body;
        *space = (struct format_space){data, size};
    }
    return coney_bytes_of(space->data, coney_message_body_copy(view, space->data, size));
}

coney_bytes format_body(const coney_stream_delivery *delivery, struct format_space *space)
{
    if (delivery->body_kind != CONEY_BODY_PARTS && delivery->body_kind != CONEY_BODY_VALUE)
        return delivery->body;
    coney_message_view view;
    if (coney_message_parse(delivery->encoded, &view) != CONEY_OK)
        return delivery->body;
    if (delivery->body_kind == CONEY_BODY_PARTS)
        return joined(&view, space);
    coney_bytes content = delivery->body;
    coney_value value;
    coney_body_iter iter = coney_message_body(&view);
    if (coney_message_body_next(&iter, &value))
        coney_value_to_bytes(&value, &content);
    return content;
}
