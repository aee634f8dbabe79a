/* properties.h: the properties of a message, both directions.
 *
 * Two octets of flags say which properties follow, in the order of their bits. Pure functions of bytes; any thread.
 */
#ifndef CONEY_PROTO_AMQP091_PROPERTIES_H
#define CONEY_PROTO_AMQP091_PROPERTIES_H

#include "base/bytes.h"

#include <coney/value.h>

enum amqp_property {
    AMQP_CONTENT_TYPE = 0x8000,
    AMQP_CONTENT_ENCODING = 0x4000,
    AMQP_HEADERS = 0x2000,
    AMQP_DELIVERY_MODE = 0x1000,
    AMQP_PRIORITY = 0x0800,
    AMQP_CORRELATION_ID = 0x0400,
    AMQP_REPLY_TO = 0x0200,
    AMQP_EXPIRATION = 0x0100,
    AMQP_MESSAGE_ID = 0x0080,
    AMQP_TIMESTAMP = 0x0040,
    AMQP_TYPE = 0x0020,
    AMQP_USER_ID = 0x0010,
    AMQP_APP_ID = 0x0008,
    AMQP_CLUSTER_ID = 0x0004
};

enum { AMQP_TRANSIENT = 1, AMQP_PERSISTENT = 2 }; /* delivery modes; absent is transient */

struct amqp_properties {
    uint16_t flags; /* those that are there: enum amqp_property, or-ed; other members are zero once read, and not written */
    uint8_t delivery_mode;
    uint8_t priority;
    uint64_t timestamp; /* seconds since 1970 */
    coney_bytes content_type;
    coney_bytes content_encoding;
    coney_bytes correlation_id;
    coney_bytes reply_to;
    coney_bytes expiration; /* whole milliseconds in decimal digits: amqp_expiration_write */
    coney_bytes message_id;
    coney_bytes type;
    coney_bytes user_id;
    coney_bytes app_id;
    coney_bytes cluster_id;
    coney_value headers;       /* a table, see table.h; null is an empty one */
    const coney_field *fields; /* writing: entries of the headers that stand behind those of `headers` */
    size_t field_count;
};

/* Reads properties, flags first. NULL, or what is wrong: a property's name ("correlation_id"), "flags" (a second flag word),
 * "properties.end" (bytes left over). Views point into `encoded`. */
const char *amqp_properties_read(coney_bytes encoded, struct amqp_properties *out);

/* Checks the properties and gives the bytes that amqp_properties_write will write, flags included. When it fails, *size is 0
 * and *field the static name of the property at fault (for headers: of the type or "key" at fault).
 * CONEY_EINVAL: a string over 255 bytes, an expiration that is no number, headers that have no form on the wire.
 * CONEY_ETOOBIG: headers over 4 GiB. */
coney_status amqp_properties_size(const struct amqp_properties *p, size_t *size, const char **field);

/* The same of the headers alone, which must be there. */
coney_status amqp_headers_size(const struct amqp_properties *p, size_t *size, const char **field);

/* Writes exactly that many bytes and returns where they end. `p` has passed amqp_properties_size, unchanged since. */
uint8_t *amqp_properties_write(uint8_t *at, const struct amqp_properties *p);

/* Writes `ms` in decimal digits, which are what it returns: a view of `digits`. */
enum { AMQP_EXPIRATION_MAX = 20 };
coney_bytes amqp_expiration_write(char digits[AMQP_EXPIRATION_MAX], uint64_t ms);

#endif
