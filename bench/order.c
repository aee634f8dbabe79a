/* order.c: see order.h. */
#include "order.h"

#include "measure.h"

#include <stdio.h>
#include <string.h>

enum { PAD = 16, AROUND_PAD = sizeof ",\"pad00\":\"\"" - 1 };

size_t order_json(char *out, size_t size)
{
    size_t len = (size_t)sprintf(out, "{\"id\":%d,\"quantity\":%d", ORDER_ID, ORDER_QUANTITY);
    for (unsigned i = 0; len + 1 < size; i++) {
        size_t left = size - 1 - len;
        if (i == 100 || left < AROUND_PAD)
            die("no message of %zu bytes can be made", size);
        size_t pad = left - AROUND_PAD;
        if (pad >= 2 * (PAD + AROUND_PAD) - AROUND_PAD)
            pad = PAD;
        len += (size_t)sprintf(out + len, ",\"pad%02u\":\"", i);
        memset(out + len, 'x', pad);
        out[len + pad] = '"';
        len += pad + 1;
    }
    out[len++] = '}';
    if (size != 0 && len != size)
        die("no message of %zu bytes can be made", size);
    return len;
}
