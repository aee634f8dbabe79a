/* order.h: the message of the rows that decode: the one of the published figures that they stand beside. */
#ifndef BENCH_ORDER_H
#define BENCH_ORDER_H

#include <stddef.h>

/* {"id":1000000,"quantity":37}, and, to make it `size` bytes, more fields that nobody reads, of 16 characters but for the last one.
 * `size` 0: nothing more. Returns the bytes that it wrote, of which `out` must have room for as many, and ORDER_LEAST at least.
 * Sizes that cannot be had end the program. */
enum { ORDER_LEAST = 64, ORDER_ID = 1000000, ORDER_QUANTITY = 37 };
size_t order_json(char *out, size_t size);

#endif
