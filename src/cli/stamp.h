/* stamp.h: the first bytes of a message that measures latency: whose run it belongs to, and when it was sent. */
#ifndef CLI_STAMP_H
#define CLI_STAMP_H

#include <coney/coney.h>

#include <string.h>

enum { STAMP_SIZE = 12 };

/* `run` is never 0 in a message that counts. `at`: of the clock of clock.h. */
static inline void stamp_write(void *body, uint32_t run, int64_t at)
{
    memcpy(body, &run, sizeof run);
    memcpy((char *)body + sizeof run, &at, sizeof at);
}

/* False: not stamped by this run. */
static inline bool stamp_read(coney_bytes body, uint32_t run, int64_t *at)
{
    uint32_t found;
    if (body.len < STAMP_SIZE)
        return false;
    memcpy(&found, body.data, sizeof found);
    memcpy(at, (const char *)body.data + sizeof found, sizeof *at);
    return found == run;
}

#endif
