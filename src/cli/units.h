/* units.h: what a user writes on the command line, as numbers: counts, sizes, durations, places in a stream.
 *
 * Each function reads the whole of `text` and returns NULL, or a static sentence that says what is wrong with it; *out is then
 * unchanged. None allocates.
 */
#ifndef CLI_UNITS_H
#define CLI_UNITS_H

#include <coney/stream.h>
#include <coney/value.h>

/* "1000". Whole and not negative. */
const char *units_count(const char *text, int64_t *out);

/* "200", "1.5KB" (1000), "10KiB" (1024), up to TB and TiB; upper or lower case. */
const char *units_size(const char *text, int64_t *out);

/* "500ms", "1.5s", "5m", "7d" (us, ms, s, m, h, d), up to a hundred years, in nanoseconds. A number alone is refused: its unit would be
 * a guess. */
const char *units_duration(const char *text, int64_t *out);

/* Where a consumer begins. */
struct place {
    coney_stream_start start;
    uint64_t offset;
    int64_t time; /* milliseconds since 1970 */
};

/* "first", "last", "next", an offset, a time by RFC 3339 ("2026-01-31T09:00:00Z", "…+01:00"), or "@" and milliseconds since 1970. */
const char *units_place(const char *text, struct place *out);

/* "name=value": a whole number, true and false are sent as such, anything else as text, and what stands in double quotes as the text
 * between them. *out points into `text`. */
const char *units_field(const char *text, coney_field *out);

enum { UNITS_TIME_SIZE = 32 };

/* "2026-01-31T09:00:00.000Z"; returns `into`. A time that no calendar holds is written as "@" and its milliseconds. */
const char *units_time(int64_t ms, char into[static UNITS_TIME_SIZE]);

#endif
