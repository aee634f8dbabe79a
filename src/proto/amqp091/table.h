/* table.h: field tables, both directions.
 *
 * A table is read through once, where it enters; what comes back is a coney_value of the encoding CONEY_ENCODING_AMQP091, a
 * map whose walk (coney_value_next, coney_value_find) cannot fail. An array of the wire is a CONEY_VALUE_LIST, a table a
 * CONEY_VALUE_MAP. Equal keys stay as they came; the first counts for coney_value_find. Pure, no allocation, any thread.
 *
 *   tag  value                        tag  value
 *   t    bool                         f d  f32, f64
 *   b B  i8, u8                       D    decimal: as.bytes is u8 scale, u32 number
 *   s u  i16, u16                     S x  string, binary
 *   I i  i32, u32                     T    timestamp: seconds on the wire, milliseconds in the value
 *   l L  i64; written as l            F A  map, list
 *   V    null
 *
 * Written besides: u64 as l when it fits. char, uuid, symbol, array, described and what is encoded for AMQP 1.0 are refused.
 * A timestamp that milliseconds cannot hold reads as the nearest that they can.
 */
#ifndef CONEY_PROTO_AMQP091_TABLE_H
#define CONEY_PROTO_AMQP091_TABLE_H

#include "base/bytes.h"

#include <coney/value.h>

/* Reads `u32 length | entries`. False, and `r` failed, when the table does not fit, is damaged or nested deeper than
 * CONEY_VALUE_DEPTH: `r->field` is then `field`, or, for a tag that is not in the list, a static text that names the tag. */
bool amqp_table_read(struct reader *r, const char *field, coney_value *out);

/* The same for entries whose length is known already, as the response of AMQPLAIN. NULL, or what is wrong: "table" or a tag. */
const char *amqp_table_parse(coney_bytes entries, coney_value *out);

/* Whether the value can stand where the wire has a table: a sound map of this encoding, or null. */
bool amqp_table_valid(const coney_value *table);

/* The bytes that `count` entries take, without the length before them. CONEY_EINVAL, *size 0 and *field what is wrong: "key"
 * (over 255 bytes), or the name of a type that the wire does not have or whose number does not fit. CONEY_ETOOBIG: 4 GiB. */
coney_status amqp_table_size(const coney_field *fields, size_t count, size_t *size, const char **field);

/* Writes exactly the bytes that amqp_table_size counted and returns where they end. The fields have passed it. */
uint8_t *amqp_table_write(uint8_t *at, const coney_field *fields, size_t count);

/* Entries as amqp_table_write wrote them, as a value. */
coney_value amqp_table_value(const void *entries, size_t len, size_t count);

#endif
