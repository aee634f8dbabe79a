/* format.h: how consume writes a message: a template of letters and escapes, or JSON. */
#ifndef CLI_FORMAT_H
#define CLI_FORMAT_H

#include <coney/stream.h>

#include <stdio.h>

/* NULL, or a static sentence that says what is wrong with the template. "json" is one, too. */
const char *format_check(const char *format);

/* Writes one message by a checked template. `body` is its content (format_body). What goes wrong with `out` is left to ferror. */
void format_write(FILE *out, const char *format, const coney_stream_delivery *delivery, coney_bytes body);

/* Memory for bodies that have to be put together. Begins zeroed; free(data) ends it. */
struct format_space {
    void *data;
    size_t cap;
};

/* The content of a message: data sections joined, a text or binary value, and of anything else the bytes as encoded. Valid until
 * the next call or the end of the delivery. */
coney_bytes format_body(const coney_stream_delivery *delivery, struct format_space *space);

#endif
