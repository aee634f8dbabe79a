/* json.c: the JSON writer. */
#include "json.h"
#include "units.h"

#include <inttypes.h>
#include <math.h>

static void put_comma(struct json *j)
{
    if (j->started && !j->named)
        fputc(',', j->out);
    j->started = true;
    j->named = false;
}

static void put_key(struct json *j, const char *key)
{
    put_comma(j);
    if (key != NULL)
        fprintf(j->out, "\"%s\":", key);
}

static void open_with(struct json *j, char open, char close)
{
    fputc(open, j->out);
    j->close[j->depth++] = close;
    j->started = false;
}

void json_begin(struct json *j, FILE *out)
{
    *j = (struct json){.out = out};
    open_with(j, '{', '}');
}

void json_array(struct json *j, const char *key)
{
    put_key(j, key);
    open_with(j, '[', ']');
}

void json_object(struct json *j, const char *key)
{
    put_key(j, key);
    open_with(j, '{', '}');
}

void json_close(struct json *j)
{
    fputc(j->close[--j->depth], j->out);
    j->started = true;
    if (j->depth == 0)
        fputc('\n', j->out);
}

/* How many bytes the UTF-8 character at `at` has, or 0 when it is none: cut short, overlong, a surrogate, beyond U+10FFFF. */
static size_t character_size(const uint8_t *at, size_t left)
{
    uint8_t first = at[0];
    if (first < 0x80)
        return 1;
    size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || left < size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (first == 0xe0 && at[1] < 0xa0) || (first == 0xf0 && at[1] < 0x90);
    bool outside = (first == 0xed && at[1] >= 0xa0) || (first == 0xf4 && at[1] >= 0x90);
    return overlong || outside ? 0 : size;
}

bool json_is_text(coney_bytes bytes)
{
    const uint8_t *at = bytes.data;
    for (size_t left = bytes.len, size; left > 0; at += size, left -= size) {
        size = character_size(at, left);
        if (size == 0)
            return false;
    }
    return true;
}

static void put_character(FILE *out, const uint8_t *at, size_t size)
{
    static const char short_names[] = "btn\0fr"; /* of 8 … 13 */
    if (size == 0)
        fputs("\\ufffd", out);
    else if (*at == '"' || *at == '\\')
        fprintf(out, "\\%c", *at);
    else if (*at >= 8 && *at <= 13 && *at != 11)
        fprintf(out, "\\%c", short_names[*at - 8]);
    else if (*at < 0x20 || *at == 0x7f)
        fprintf(out, "\\u%04x", *at);
    else
        fwrite(at, 1, size, out);
}

static void put_text(struct json *j, coney_bytes text)
{
    fputc('"', j->out);
    const uint8_t *at = text.data;
    for (size_t left = text.len; left > 0;) {
        size_t size = character_size(at, left);
        size_t step = size == 0 ? 1 : size;
        put_character(j->out, at, size);
        at += step;
        left -= step;
    }
    fputc('"', j->out);
}

void json_text(struct json *j, const char *key, coney_bytes text)
{
    put_key(j, key);
    put_text(j, text);
}

void json_name(struct json *j, coney_bytes name)
{
    put_comma(j);
    put_text(j, name);
    fputc(':', j->out);
    j->named = true;
}

void json_base64(struct json *j, const char *key, coney_bytes bytes)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    put_key(j, key);
    fputc('"', j->out);
    const uint8_t *at = bytes.data;
    for (size_t left = bytes.len; left > 0;) {
        size_t n = left < 3 ? left : 3;
        unsigned three = (unsigned)at[0] << 16 | (n > 1 ? (unsigned)at[1] << 8 : 0) | (n > 2 ? at[2] : 0);
        for (unsigned i = 0; i < 4; i++)
            fputc(i <= n ? alphabet[three >> (18 - 6 * i) & 63] : '=', j->out);
        at += n;
        left -= n;
    }
    fputc('"', j->out);
}

void json_signed(struct json *j, const char *key, int64_t number)
{
    put_key(j, key);
    fprintf(j->out, "%" PRId64, number);
}

void json_unsigned(struct json *j, const char *key, uint64_t number)
{
    put_key(j, key);
    fprintf(j->out, "%" PRIu64, number);
}

void json_decimal(struct json *j, const char *key, double number)
{
    put_key(j, key);
    fprintf(j->out, "%.3f", number);
}

void json_bool(struct json *j, const char *key, bool is)
{
    put_key(j, key);
    fputs(is ? "true" : "false", j->out);
}

void json_null(struct json *j, const char *key)
{
    put_key(j, key);
    fputs("null", j->out);
}

static void put_number(struct json *j, const char *key, double number)
{
    put_key(j, key);
    if (isfinite(number))
        fprintf(j->out, "%.17g", number);
    else
        fputs("null", j->out);
}

static void put_compound(struct json *j, const char *key, const coney_value *value)
{
    coney_value_iter iter = coney_value_elements(value);
    if (value->type == CONEY_VALUE_MAP) {
        coney_field field;
        json_object(j, key);
        while (coney_value_next_field(&iter, &field)) {
            json_name(j, field.key);
            json_value(j, NULL, &field.value);
        }
    } else {
        coney_value element;
        json_array(j, key);
        while (coney_value_next(&iter, &element))
            json_value(j, NULL, &element);
    }
    json_close(j);
}

void json_value(struct json *j, const char *key, const coney_value *value)
{
    char time[UNITS_TIME_SIZE];
    switch ((coney_value_type)value->type) {
    case CONEY_VALUE_NULL:
        json_null(j, key);
        break;
    case CONEY_VALUE_BOOL:
        json_bool(j, key, value->as.boolean);
        break;
    case CONEY_VALUE_I8:
    case CONEY_VALUE_I16:
    case CONEY_VALUE_I32:
    case CONEY_VALUE_I64:
        json_signed(j, key, value->as.i64);
        break;
    case CONEY_VALUE_U8:
    case CONEY_VALUE_U16:
    case CONEY_VALUE_U32:
    case CONEY_VALUE_U64:
    case CONEY_VALUE_CHAR:
        json_unsigned(j, key, value->as.u64);
        break;
    case CONEY_VALUE_F32:
        put_number(j, key, (double)value->as.f32);
        break;
    case CONEY_VALUE_F64:
        put_number(j, key, value->as.f64);
        break;
    case CONEY_VALUE_TIMESTAMP:
        json_text(j, key, coney_bytes_str(units_time(value->as.i64, time)));
        break;
    case CONEY_VALUE_STRING:
    case CONEY_VALUE_SYMBOL:
        json_text(j, key, value->as.bytes);
        break;
    case CONEY_VALUE_UUID:
    case CONEY_VALUE_DECIMAL:
    case CONEY_VALUE_BINARY:
        json_base64(j, key, value->as.bytes);
        break;
    case CONEY_VALUE_LIST:
    case CONEY_VALUE_MAP:
    case CONEY_VALUE_ARRAY:
    case CONEY_VALUE_DESCRIBED:
        put_compound(j, key, value);
        break;
    }
}
