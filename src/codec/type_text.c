/* type_text.c: values of the plain kinds as text, and back. */
#define _GNU_SOURCE
#include "codec/type.h"

#include "base/bytes.h"
#include "base/text.h"
#include "codec/moment.h"
#include "codec/utf8.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

bool type_has_text(struct element element)
{
    return element.kind != CONEY_KIND_BYTES && element.kind != CONEY_KIND_RAW && element.kind < CONEY_KIND_MESSAGE;
}

/* An integer of `bits` bits is what its lowest bytes say, on the little-endian machines that coney runs on and on others. */
static void store_integer(void *out, uint64_t number, uint32_t size)
{
    uint8_t n8 = (uint8_t)number;
    uint16_t n16 = (uint16_t)number;
    uint32_t n32 = (uint32_t)number;
    memcpy(out, size == 1 ? (void *)&n8 : size == 2 ? (void *)&n16 : size == 4 ? (void *)&n32 : (void *)&number, size);
}

static int64_t load_signed(const void *value, uint32_t size)
{
    int8_t n8;
    int16_t n16;
    int32_t n32;
    int64_t n64;
    memcpy(size == 1 ? (void *)&n8 : size == 2 ? (void *)&n16 : size == 4 ? (void *)&n32 : (void *)&n64, value, size);
    return size == 1 ? n8 : size == 2 ? n16 : size == 4 ? n32 : n64;
}

static uint64_t load_unsigned(const void *value, uint32_t size)
{
    return size == 8 ? (uint64_t)load_signed(value, 8) : (uint64_t)load_signed(value, size) & ((UINT64_C(1) << 8 * size) - 1);
}

static bool digits_of(coney_bytes text, uint64_t *number)
{
    const uint8_t *at = text.data;
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint64_t digit = (uint64_t)at[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n))
            return false;
    }
    *number = n;
    return text.len > 0;
}

static bool parse_integer(coney_bytes text, bool is_signed, uint32_t size, void *out)
{
    uint64_t number;
    bool negative = is_signed && text.len > 0 && *(const char *)text.data == '-';
    uint64_t most = is_signed ? (UINT64_C(1) << (8 * size - 1)) - !negative : UINT64_MAX >> (64 - 8 * size);
    if (negative)
        text = coney_bytes_of((const char *)text.data + 1, text.len - 1);
    if (!digits_of(text, &number) || number > most)
        return false;
    store_integer(out, negative ? 0 - number : number, size);
    return true;
}

/* Decimal only: no NaN, no infinity, nothing that the locale says. */
static bool parse_real(coney_bytes text, double *number)
{
    char copy[512]; /* what is longer in an integer is too large anyway */
    char *end;
    static const char allowed[] = "+-0123456789.eE";
    if (text.len == 0 || text.len >= sizeof copy)
        return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (strspn(copy, allowed) != text.len)
        return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        return false;
    *number = strtod_l(copy, &end, c);
    freelocale(c);
    return *end == '\0' && *number - *number == 0;
}

static bool parse_bool(coney_bytes text, void *out)
{
    bool yes = bytes_equal(text, CONEY_STR("true"));
    if (!yes && !bytes_equal(text, CONEY_STR("false")))
        return false;
    memcpy(out, &yes, sizeof yes);
    return true;
}

static bool parse_f32(coney_bytes text, void *out)
{
    double number;
    if (!parse_real(text, &number) || (float)number - (float)number != 0)
        return false;
    memcpy(out, &(float){(float)number}, sizeof(float));
    return true;
}

static bool parse_f64(coney_bytes text, void *out)
{
    double number;
    if (!parse_real(text, &number))
        return false;
    memcpy(out, &number, sizeof number);
    return true;
}

static bool parse_time(coney_bytes text, void *out)
{
    int64_t ms;
    if (!moment_parse(text, &ms))
        return false;
    memcpy(out, &ms, sizeof ms);
    return true;
}

bool type_text_parse(struct element element, coney_bytes text, void *out)
{
    const coney_member *constant;
    switch ((coney_kind)element.kind) {
    case CONEY_KIND_BOOL:
        return parse_bool(text, out);
    case CONEY_KIND_I8:
    case CONEY_KIND_I16:
    case CONEY_KIND_I32:
    case CONEY_KIND_I64:
        return parse_integer(text, true, type_layout(element).size, out);
    case CONEY_KIND_U8:
    case CONEY_KIND_U16:
    case CONEY_KIND_U32:
    case CONEY_KIND_U64:
        return parse_integer(text, false, type_layout(element).size, out);
    case CONEY_KIND_F32:
        return parse_f32(text, out);
    case CONEY_KIND_F64:
        return parse_f64(text, out);
    case CONEY_KIND_STRING:
        if (!utf8_valid(text))
            return false;
        memcpy(out, &text, sizeof text);
        return true;
    case CONEY_KIND_TIME:
        return parse_time(text, out);
    case CONEY_KIND_ENUM:
        constant = type_constant(element.type, text);
        if (constant != NULL)
            type_constant_store(element.type, constant, out);
        return constant != NULL;
    case CONEY_KIND_BYTES:
    case CONEY_KIND_RAW:
    case CONEY_KIND_MESSAGE:
    case CONEY_KIND_SET:
        break;
    }
    return false;
}

/* The fewest digits that read back as the number. */
static size_t print_real(double number, bool narrow, char *buf)
{
    double back;
    for (int digits = narrow ? 6 : 15; digits <= (narrow ? 9 : 17); digits++) {
        snprintf(buf, TYPE_TEXT_MAX, "%.*g", digits, number);
        for (char *c = buf; *c != '\0'; c++) /* the locale's point */
            if (strchr("+-0123456789einfa", *c) == NULL)
                *c = '.';
        if (!parse_real(coney_bytes_str(buf), &back) || (narrow ? (float)back == (float)number : back == number))
            break;
    }
    return strlen(buf);
}

coney_bytes type_text_of(struct element element, const void *value, char *buf)
{
    size_t len = 0;
    float f32;
    double f64;
    bool yes;
    coney_bytes text;
    switch ((coney_kind)element.kind) {
    case CONEY_KIND_BOOL:
        memcpy(&yes, value, sizeof yes);
        return yes ? CONEY_STR("true") : CONEY_STR("false");
    case CONEY_KIND_I8:
    case CONEY_KIND_I16:
    case CONEY_KIND_I32:
    case CONEY_KIND_I64:
        len = (size_t)snprintf(buf, TYPE_TEXT_MAX, "%" PRId64, load_signed(value, type_layout(element).size));
        break;
    case CONEY_KIND_U8:
    case CONEY_KIND_U16:
    case CONEY_KIND_U32:
    case CONEY_KIND_U64:
        len = (size_t)snprintf(buf, TYPE_TEXT_MAX, "%" PRIu64, load_unsigned(value, type_layout(element).size));
        break;
    case CONEY_KIND_F32:
        memcpy(&f32, value, sizeof f32);
        len = print_real((double)f32, true, buf);
        break;
    case CONEY_KIND_F64:
        memcpy(&f64, value, sizeof f64);
        len = print_real(f64, false, buf);
        break;
    case CONEY_KIND_STRING:
        memcpy(&text, value, sizeof text);
        return text.data == NULL ? CONEY_STR("") : text;
    case CONEY_KIND_TIME:
        len = moment_print(load_signed(value, 8), buf);
        break;
    case CONEY_KIND_ENUM:
        return type_constant_text(element.type, value);
    case CONEY_KIND_BYTES:
    case CONEY_KIND_RAW:
    case CONEY_KIND_MESSAGE:
    case CONEY_KIND_SET:
        break;
    }
    return len > 0 ? coney_bytes_of(buf, len) : coney_bytes_of(NULL, 0);
}
