/* figures.c: named results as lines or as JSON. */
#include "figures.h"
#include "output.h"

#include <inttypes.h>

#define LINE "%-23s "

void figures_begin(struct figures *f, bool as_json)
{
    f->as_json = as_json;
    if (as_json)
        json_begin(&f->json, stdout);
}

void figures_end(struct figures *f)
{
    if (f->as_json)
        json_close(&f->json);
    output_flush();
}

void figures_unsigned(struct figures *f, const char *name, uint64_t number)
{
    if (f->as_json)
        json_unsigned(&f->json, name, number);
    else
        printf(LINE "%" PRIu64 "\n", name, number);
}

void figures_signed(struct figures *f, const char *name, int64_t number)
{
    if (f->as_json)
        json_signed(&f->json, name, number);
    else
        printf(LINE "%" PRId64 "\n", name, number);
}

void figures_decimal(struct figures *f, const char *name, double number)
{
    if (f->as_json)
        json_decimal(&f->json, name, number);
    else
        printf(LINE "%.3f\n", name, number);
}

void figures_text(struct figures *f, const char *name, const char *text)
{
    if (f->as_json)
        json_text(&f->json, name, coney_bytes_str(text));
    else
        printf(LINE "%s\n", name, text);
}

void figures_mark(struct figures *f, const char *name)
{
    if (f->as_json)
        json_bool(&f->json, name, true);
}

void figures_latency(struct figures *f, const struct histogram *h)
{
    const struct {
        const char *name;
        uint64_t ns;
    } times[] = {
        {"average_ms", histogram_average(h)},
        {"p50_ms", histogram_percentile(h, 0.5)},
        {"p99_ms", histogram_percentile(h, 0.99)},
        {"p999_ms", histogram_percentile(h, 0.999)},
        {"max_ms", h->max},
    };
    figures_unsigned(f, "messages", h->count);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (h->count > 0)
            figures_decimal(f, times[i].name, (double)times[i].ns / 1e6);
        else if (f->as_json)
            json_null(&f->json, times[i].name);
}
