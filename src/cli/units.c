/* units.c: counts, sizes, durations and places in a stream, read from text and checked. */
#define _GNU_SOURCE
#include "units.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* Of a duration: may be added to the clock. */
#define LONGEST (36500 * (86400 * CONEY_SECOND))

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit sizes[] = {
    {"", 1},
    {"b", 1},
    {"kb", 1000},
    {"mb", 1000 * 1000},
    {"gb", 1000 * 1000 * 1000},
    {"tb", INT64_C(1000) * 1000 * 1000 * 1000},
    {"kib", CONEY_KIB},
    {"mib", CONEY_MIB},
    {"gib", CONEY_GIB},
    {"tib", CONEY_GIB * 1024},
    {NULL, 0},
};

static const struct unit durations[] = {
    {"us", CONEY_MICROSECOND},  {"ms", CONEY_MILLISECOND},   {"s", CONEY_SECOND}, {"m", 60 * CONEY_SECOND},
    {"h", 3600 * CONEY_SECOND}, {"d", 86400 * CONEY_SECOND}, {NULL, 0},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

const char *units_count(const char *text, int64_t *out)
{
    if (text[strspn(text, "0123456789")] != '\0' || text[0] == '\0')
        return "a whole number is expected, like 1000";
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno != 0)
        return "the number is too large";
    *out = number;
    return NULL;
}

/* The digits at `text` as a fraction of one; a double holds no more than fifteen of them. */
static double fraction_of(const char *text)
{
    double digits = 0, scale = 1;
    for (int i = 0; i < 15 && is_digit(*text); i++, text++) {
        digits = digits * 10 + (*text - '0');
        scale *= 10;
    }
    return digits / scale;
}

/* A decimal number times the unit that follows it, rounded to a whole nanosecond or byte. */
static const char *scaled(const char *text, const struct unit *unit, const char *expected, int64_t *out)
{
    static const char too_large[] = "the number is too large";
    const char *rest = text;
    int64_t whole = 0;
    for (; is_digit(*rest); rest++)
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *rest - '0', &whole))
            return too_large;
    if (rest == text)
        return expected;
    const char *fraction = *rest == '.' ? ++rest : "";
    rest += strspn(rest, "0123456789");

    while (unit->name != NULL && strcasecmp(unit->name, rest) != 0)
        unit++;
    if (unit->name == NULL)
        return expected;
    int64_t value;
    int64_t part = llround((double)unit->factor * fraction_of(fraction));
    if (__builtin_mul_overflow(whole, unit->factor, &value) || __builtin_add_overflow(value, part, &value))
        return too_large;
    *out = value;
    return NULL;
}

const char *units_size(const char *text, int64_t *out)
{
    return scaled(text, sizes, "a size is expected, like 200, 10KB or 5GiB", out);
}

const char *units_duration(const char *text, int64_t *out)
{
    int64_t ns;
    const char *wrong = scaled(text, durations, "a duration with its unit is expected, like 500ms, 5s, 10m, 2h or 7d", &ns);
    if (wrong == NULL && ns > LONGEST)
        wrong = "that is too long: a hundred years (36500d) are the most";
    if (wrong == NULL)
        *out = ns;
    return wrong;
}

/* "Z", "+01:00", "-05:30" as seconds east of UTC. */
static bool read_zone(const char *text, int64_t *seconds)
{
    if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0) {
        *seconds = 0;
        return true;
    }
    if ((text[0] != '+' && text[0] != '-') || strlen(text) != 6 || text[3] != ':')
        return false;
    if (!is_digit(text[1]) || !is_digit(text[2]) || !is_digit(text[4]) || !is_digit(text[5]))
        return false;
    int hours = (text[1] - '0') * 10 + text[2] - '0';
    int minutes = (text[4] - '0') * 10 + text[5] - '0';
    if (hours > 23 || minutes > 59)
        return false;
    *seconds = (text[0] == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

static const char *read_time(const char *text, int64_t *ms)
{
    static const char expected[] = "a time is expected like 2026-01-31T09:00:00Z or 2026-01-31T09:00:00.5+01:00";
    static const char shape[] = "0000-00-00T00:00:00";
    if (strlen(text) < sizeof shape)
        return expected;
    for (size_t i = 0; i < sizeof shape - 1; i++)
        if (shape[i] == '0' ? !is_digit(text[i]) : shape[i] != text[i])
            return expected;

    struct tm asked = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &asked);
    if (rest == NULL)
        return expected;
    struct tm real = asked;
    time_t seconds = timegm(&real);
    if (real.tm_mday != asked.tm_mday)
        return "there is no such day in that month";
    int64_t fraction = 0;
    if (*rest == '.') {
        rest++;
        if (!is_digit(*rest))
            return expected;
        for (int64_t worth = 100; is_digit(*rest); rest++, worth /= 10)
            fraction += worth * (*rest - '0');
    }
    int64_t east;
    if (!read_zone(rest, &east))
        return expected;
    *ms = ((int64_t)seconds - east) * 1000 + fraction;
    return NULL;
}

static const char *read_milliseconds(const char *text, int64_t *ms)
{
    int64_t number;
    bool negative = *text == '-';
    if (units_count(text + negative, &number) != NULL)
        return "after @ the milliseconds since 1970 are expected, like @1767225600000";
    *ms = negative ? -number : number;
    return NULL;
}

const char *units_place(const char *text, struct place *out)
{
    static const struct {
        const char *word;
        coney_stream_start start;
    } words[] = {{"first", CONEY_STREAM_FIRST}, {"last", CONEY_STREAM_LAST}, {"next", CONEY_STREAM_NEXT}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i].word) == 0) {
            *out = (struct place){.start = words[i].start};
            return NULL;
        }
    int64_t number;
    if (units_count(text, &number) == NULL) {
        *out = (struct place){.start = CONEY_STREAM_OFFSET, .offset = (uint64_t)number};
        return NULL;
    }
    if (!is_digit(text[0]) && text[0] != '@')
        return "first, last, next, an offset, or a time like 2026-01-31T09:00:00Z or @1767225600000 is expected";
    const char *wrong = text[0] == '@' ? read_milliseconds(text + 1, &number) : read_time(text, &number);
    if (wrong == NULL)
        *out = (struct place){.start = CONEY_STREAM_TIMESTAMP, .time = number};
    return wrong;
}

static coney_value value_of(const char *text)
{
    size_t size = strlen(text);
    int64_t number;
    bool negative = *text == '-';
    if (size >= 2 && text[0] == '"' && text[size - 1] == '"')
        return coney_value_string(coney_bytes_of(text + 1, size - 2));
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return coney_value_bool(*text == 't');
    if (units_count(text + negative, &number) == NULL)
        return coney_value_i64(negative ? -number : number);
    return coney_value_string(coney_bytes_of(text, size));
}

const char *units_field(const char *text, coney_field *out)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        return "a name, an equals sign and a value are expected, like region=eu";
    *out = (coney_field){coney_bytes_of(text, (size_t)(equals - text)), value_of(equals + 1)};
    return NULL;
}

const char *units_time(int64_t ms, char into[static UNITS_TIME_SIZE])
{
    int64_t rest = ms % 1000;
    int64_t whole = ms / 1000;
    if (rest < 0) {
        rest += 1000;
        whole--;
    }
    time_t seconds = whole;
    struct tm tm;
    if (gmtime_r(&seconds, &tm) == NULL || tm.tm_year < -1900 || tm.tm_year > 8099) {
        snprintf(into, UNITS_TIME_SIZE, "@%" PRId64, ms);
        return into;
    }
    size_t used = strftime(into, UNITS_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(into + used, UNITS_TIME_SIZE - used, ".%03dZ", (int)rest);
    return into;
}
