/* amqp.h: what options say, as the library's structs. */
#ifndef CLI_AMQP_H
#define CLI_AMQP_H

#include "commands.h"

/* What every message that is published has, but for its body and tag. A view of *settings. */
coney_amqp_message amqp_message(const struct settings *settings);

/* NULL, or a static sentence that says what is wrong with where messages are to go: to a queue, or to an exchange or by a key. */
const char *amqp_route_check(const struct settings *settings);

/* Where a consumer of a stream begins, as its argument: how many of these there are, 0 or 1. */
size_t amqp_start(const struct place *from, coney_field *argument);

#endif
