/* table_value.h: one value of a field table, as base/value.h asks for it; private to table_read.c and table_write.c. */
#ifndef CONEY_PROTO_AMQP091_TABLE_VALUE_H
#define CONEY_PROTO_AMQP091_TABLE_VALUE_H

#include "base/value.h"

coney_status amqp_value_check(const coney_value *value, uint8_t depth, bool key);
size_t amqp_value_size(const coney_value *value, bool key);
uint8_t *amqp_value_write(uint8_t *at, const coney_value *value, bool key);
size_t amqp_compound_head_size(uint8_t type, uint32_t count, size_t content);
uint8_t *amqp_compound_head_write(uint8_t *at, uint8_t type, uint32_t count, size_t content);

#endif
