/* value.h: one value in the AMQP 1.0 encoding, both directions.
 *
 * Reading is shallow: a compound value is framed by its size and its count is held against its bytes, but what it holds is
 * looked at only by amqp10_value_check or by whoever walks it. Nothing recurses. Writing picks the shortest encoding.
 * Pure, no allocation, any thread.
 */
#ifndef CONEY_PROTO_AMQP10_VALUE_H
#define CONEY_PROTO_AMQP10_VALUE_H

#include "base/bytes.h"
#include "base/value.h"
#include <coney/value.h>

/* Reads one value, constructor first, as it stands in `depth` compound values. On failure `r` has failed at `field` and *out
 * is null. A described value must have a ulong or a symbol for its descriptor; other descriptors are reserved by the
 * standard. */
bool amqp10_value_read(struct reader *r, uint8_t depth, const char *field, coney_value *out);

/* coney_value_elements and coney_value_next for this encoding. */
coney_value_iter amqp10_elements(const coney_value *value);
bool amqp10_next(coney_value_iter *iter, coney_value *out);

/* coney_value_check for a value that is to stand in `depth` compound values. */
coney_status amqp10_value_check(const coney_value *value, uint8_t depth);

/* Whether `len` bytes can be `count` elements of a compound value. Each takes a byte at least, but for those of arrays, which
 * are held against the bytes where their constructor is known. */
bool amqp10_count_fits(uint8_t type, uint32_t count, size_t len);

/* Bytes that the value takes, constructor included. The value has passed amqp10_value_check. */
size_t amqp10_value_size(const coney_value *value);

/* Writes amqp10_value_size bytes and returns where they end. */
uint8_t *amqp10_value_write(uint8_t *at, const coney_value *value);

/* Constructor, size and count of a list or map (`type`) of `count` elements that take `content` bytes. The size is 1, 3 or 9.
 * `content` is at most AMQP10_CONTENT_MAX. */
#define AMQP10_CONTENT_MAX (UINT32_MAX - 4)
size_t amqp10_compound_head_size(uint8_t type, uint32_t count, size_t content);
uint8_t *amqp10_compound_head_write(uint8_t *at, uint8_t type, uint32_t count, size_t content);

#endif
