/* wire.h: a bare connection over a plain socket, for the floors that coney is measured against.
 *
 * Knows one address, no recovery, no checks but those that keep a measurement honest: what was not due ends the program.
 * Independent of coney on purpose: a yardstick must not share the code that it measures. A connection belongs to one thread
 * at a time. What it speaks: stream_wire.h, amqp_wire.h.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { RECEIVE_BUFFER = 1 << 18 }; /* fits a core's own cache: larger ones are slower, smaller ones cost system calls */

static inline uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return be16toh(v);
}

static inline uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return be32toh(v);
}

static inline uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return be64toh(v);
}

static inline uint8_t *put8(uint8_t *p, uint8_t v)
{
    *p = v;
    return p + 1;
}

static inline uint8_t *put16(uint8_t *p, uint16_t v)
{
    v = htobe16(v);
    return (uint8_t *)memcpy(p, &v, sizeof v) + sizeof v;
}

static inline uint8_t *put32(uint8_t *p, uint32_t v)
{
    v = htobe32(v);
    return (uint8_t *)memcpy(p, &v, sizeof v) + sizeof v;
}

static inline uint8_t *put64(uint8_t *p, uint64_t v)
{
    v = htobe64(v);
    return (uint8_t *)memcpy(p, &v, sizeof v) + sizeof v;
}

static inline uint8_t *put_bytes(uint8_t *p, const void *data, size_t len)
{
    return (uint8_t *)memcpy(p, data, len) + len;
}

struct wire {
    int fd;
    uint32_t correlation; /* of the last request; where the protocol has them */
    uint8_t *buffer;      /* received and not yet taken: [start, end) */
    size_t cap;
    size_t start;
    size_t end;
};

/* What a URI names. */
struct address {
    char user[128];
    char password[128];
    char host[256];
    char port[8];
};

/* `scheme://user:password@host:port`, without escapes; user, password and port may be left out. */
struct address address_of(const char *uri, const char *default_port);

/* A connection with an empty receive buffer of `buffer` bytes. A read that takes longer than 30 seconds ends the program. */
struct wire wire_connect(const struct address *address, size_t buffer);

/* The same around a socket that is connected. */
struct wire wire_around(int fd, size_t buffer);

void wire_close(struct wire *w);

/* Writes all of it, waiting as long as that takes. */
void wire_write(struct wire *w, const uint8_t *data, size_t len);

/* Moves what is left in the buffer to its front unless there is room for `want` bytes from `start` on, and grows it if need be. */
void wire_make_room(struct wire *w, size_t want);

/* One recv with `flags` into the free part of the buffer. False when it would have blocked and MSG_DONTWAIT is set. */
bool wire_fill(struct wire *w, int flags);

#endif
