/* format.h: how consume writes a message: a template of letters and escapes, or JSON. */
#ifndef CLI_FORMAT_H
#define CLI_FORMAT_H

#include "json.h"

#include <coney/amqp.h>
#include <coney/stream.h>

/* What a protocol's messages have beside %b body, %s its size, %x in hexadecimal, and %%. `delivery` is the protocol's own. */
struct format_kind {
    const char *letters;
    void (*put)(FILE *out, char letter, const void *delivery);
    void (*members)(struct json *j, const void *delivery); /* in JSON, before the body */
};

extern const struct format_kind format_stream; /* %o offset, %t time, %T in milliseconds, %n stream; coney_stream_delivery */
extern const struct format_kind
    format_amqp; /* %n queue, %e exchange, %k key, %r reply-to, %i correlation id; coney_amqp_delivery */

/* NULL, or a static sentence that says what is wrong with the template. "json" is one, too. */
const char *format_check(const char *format, const struct format_kind *kind);

/* Writes one message by a checked template. What goes wrong with `out` is left to ferror. */
void format_write(FILE *out, const char *format, const struct format_kind *kind, const void *delivery, coney_bytes body);

/* Memory for bodies that have to be put together. Begins zeroed; free(data) ends it. */
struct format_space {
    void *data;
    size_t cap;
};

/* The content of a stream's message: data sections joined, a text or binary value, and of anything else the bytes as encoded. Valid
 * until the next call or the end of the delivery. */
coney_bytes format_stream_body(const coney_stream_delivery *delivery, struct format_space *space);

#endif
