/* figures.h: named results on standard output: a line each, or one JSON object.
 *
 *     struct figures f;
 *     figures_begin(&f, settings->json);
 *     figures_unsigned(&f, "first_offset", 0);
 *     figures_end(&f);
 */
#ifndef CLI_FIGURES_H
#define CLI_FIGURES_H

#include "histogram.h"
#include "json.h"

struct figures {
    bool as_json;
    struct json json;
};

void figures_begin(struct figures *f, bool as_json);
void figures_end(struct figures *f);

void figures_unsigned(struct figures *f, const char *name, uint64_t number);
void figures_signed(struct figures *f, const char *name, int64_t number);
void figures_decimal(struct figures *f, const char *name, double number);
void figures_text(struct figures *f, const char *name, const char *text);

/* Only in JSON. */
void figures_mark(struct figures *f, const char *name);

/* messages, average_ms, p50_ms, p99_ms, p999_ms, max_ms; without messages the times are null, and no lines. */
void figures_latency(struct figures *f, const struct histogram *h);

#endif
