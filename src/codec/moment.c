/* moment.c: dates of the Gregorian calendar, counted in days from 1970. */
#include "codec/moment.h"

#include "base/text.h"

#define DAY_MS INT64_C(86400000)

/* What RFC 3339 can say: the years 0 to 9999. */
#define FIRST_MS INT64_C(-62167219200000)
#define LAST_MS INT64_C(253402300799999)

/* 400 years have 146097 days; a year begins in March, so that a leap day is its last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of(int64_t days, int64_t *year, int64_t *month, int64_t *day)
{
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t of_era = shifted - era * 146097;
    int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    int64_t m = (5 * of_year + 2) / 153;
    *day = of_year - (153 * m + 2) / 5 + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = y + era * 400 + (*month <= 2);
}

static int64_t days_in(int64_t year, int64_t month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
}

struct scan {
    const char *at;
    size_t left;
    bool failed;
};

static int64_t number(struct scan *s, size_t digits)
{
    int64_t n = 0;
    if (s->left < digits) {
        s->failed = true;
        return 0;
    }
    for (size_t i = 0; i < digits; i++, s->at++, s->left--) {
        if (*s->at < '0' || *s->at > '9')
            s->failed = true;
        n = n * 10 + (*s->at - '0');
    }
    return n;
}

/* Takes one character of `any`. */
static char one_of(struct scan *s, const char *any)
{
    for (; s->left > 0 && *any != '\0'; any++) {
        if (*s->at == *any) {
            s->at++;
            s->left--;
            return *any;
        }
    }
    s->failed = true;
    return '\0';
}

static int64_t fraction_ms(struct scan *s)
{
    int64_t ms = 0;
    int64_t worth = 100;
    if (s->left == 0 || *s->at != '.')
        return 0;
    one_of(s, ".");
    ms += number(s, 1) * worth;
    while (s->left > 0 && *s->at >= '0' && *s->at <= '9') {
        worth /= 10;
        ms += number(s, 1) * worth;
    }
    return ms;
}

static int64_t offset_ms(struct scan *s)
{
    char sign = one_of(s, "Zz+-");
    if (sign == 'Z' || sign == 'z' || s->failed)
        return 0;
    int64_t hours = number(s, 2);
    one_of(s, ":");
    int64_t minutes = number(s, 2);
    if (hours > 23 || minutes > 59)
        s->failed = true;
    return (sign == '-' ? -1 : 1) * (hours * 60 + minutes) * 60000;
}

bool moment_parse(coney_bytes text, int64_t *ms)
{
    struct scan s = {text.data, text.len, false};
    int64_t year = number(&s, 4);
    one_of(&s, "-");
    int64_t month = number(&s, 2);
    one_of(&s, "-");
    int64_t day = number(&s, 2);
    one_of(&s, "Tt ");
    int64_t hour = number(&s, 2);
    one_of(&s, ":");
    int64_t minute = number(&s, 2);
    one_of(&s, ":");
    int64_t second = number(&s, 2);
    int64_t fraction = fraction_ms(&s);
    int64_t offset = offset_ms(&s);
    if (s.failed || s.left > 0 || month < 1 || month > 12 || day < 1 || day > days_in(year, month))
        return false;
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    if (second == 60) {
        second = 59;
        fraction = 999;
    }
    *ms = days_of(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + fraction - offset;
    return *ms >= FIRST_MS && *ms <= LAST_MS;
}

size_t moment_print(int64_t ms, char *buf)
{
    if (ms < FIRST_MS || ms > LAST_MS)
        return 0;
    int64_t days = ms / DAY_MS - (ms % DAY_MS < 0);
    int64_t of_day = ms - days * DAY_MS;
    int64_t year, month, day;
    date_of(days, &year, &month, &day);
    text_print(buf, MOMENT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d", (int)year, (int)month, (int)day, (int)(of_day / 3600000),
               (int)(of_day / 60000 % 60), (int)(of_day / 1000 % 60));
    size_t len = 19;
    if (of_day % 1000 != 0) {
        text_print(buf + len, MOMENT_MAX - len, ".%03d", (int)(of_day % 1000));
        len += 4;
    }
    buf[len++] = 'Z';
    buf[len] = '\0';
    return len;
}
