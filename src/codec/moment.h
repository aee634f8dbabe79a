/* moment.h: times as text, RFC 3339. Any thread; no allocation, no time zone of the system. */
#ifndef CONEY_CODEC_MOMENT_H
#define CONEY_CODEC_MOMENT_H

#include <coney/coney.h>

enum { MOMENT_MAX = 25 }; /* "2026-11-30T17:45:00.125Z" and its NUL */

/* Milliseconds since 1970 of "2026-11-30T18:45:00.125+01:00": any offset, any number of digits of a second, of which three
 * count; a leap second is the second before it. False: it is none, or in UTC it is out of the years 0 to 9999. */
bool moment_parse(coney_bytes text, int64_t *ms);

/* Writes it in UTC, milliseconds only where there are any, with a NUL; returns its length. 0: a year before 0 or after 9999. */
size_t moment_print(int64_t ms, char *buf);

#endif
