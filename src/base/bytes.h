/* bytes.h: reading and writing integers in network order, with every length checked.
 *
 * A reader walks over borrowed bytes and never past their end: after the first short read it is `failed`, every later read
 * gives zero or an empty view, and `field` names the first read that did not fit. A caller checks once, at the end.
 * A writer fills memory that the caller owns and counts on past its end, so that one pass with no memory gives the size.
 * No allocation, no I/O. Not thread-safe by itself.
 */
#ifndef CONEY_BASE_BYTES_H
#define CONEY_BASE_BYTES_H

#include <coney/coney.h>

#include <endian.h>
#include <string.h>

static inline uint16_t load16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return be16toh(v);
}

static inline uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return be32toh(v);
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return be64toh(v);
}

/* Whether the four bytes are those of `v`, a constant: compared as they stand, which spares the swap. */
static inline bool are32(const uint8_t *p, uint32_t v)
{
    uint32_t raw;
    memcpy(&raw, p, sizeof raw);
    return raw == htobe32(v);
}

static inline void store16(uint8_t *p, uint16_t v)
{
    v = htobe16(v);
    memcpy(p, &v, sizeof v);
}

static inline void store32(uint8_t *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof v);
}

static inline void store64(uint8_t *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof v);
}

static inline bool bytes_equal(coney_bytes a, coney_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Copies up to COPY_TINY bytes by loads and stores that may overlap: a third of what a call of memcpy costs. */
#define COPY_TINY 16

static inline void copy_tiny(uint8_t *to, const uint8_t *from, size_t len)
{
    if (__builtin_expect(len >= 8, 1)) {
        uint64_t head, tail;
        memcpy(&head, from, 8);
        memcpy(&tail, from + len - 8, 8);
        memcpy(to, &head, 8);
        memcpy(to + len - 8, &tail, 8);
        return;
    }
    for (size_t i = 0; i < len; i++)
        to[i] = from[i];
}

/* For what is mostly short. `from` may be NULL when `len` is 0. */
static inline void copy_short(uint8_t *to, const void *from, size_t len)
{
    if (__builtin_expect(len <= COPY_TINY, 1))
        copy_tiny(to, from, len);
    else
        memcpy(to, from, len);
}

/* bytes_equal for what is mostly short: compared by loads that may overlap, without a call. */
static inline bool bytes_equal_short(coney_bytes left, coney_bytes right)
{
    const char *a = left.data;
    const char *b = right.data;
    size_t len = left.len;
    uint64_t x, y;
    uint32_t p, q;
    if (len != right.len)
        return false;
    if (len < 4)
        return len == 0 || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
    if (len < 8) {
        memcpy(&p, a, 4);
        memcpy(&q, b, 4);
        if (p != q)
            return false;
        memcpy(&p, a + len - 4, 4);
        memcpy(&q, b + len - 4, 4);
        return p == q;
    }
    for (size_t i = 0; i < len; i += 8) {
        size_t at = i + 8 <= len ? i : len - 8;
        memcpy(&x, a + at, 8);
        memcpy(&y, b + at, 8);
        if (x != y)
            return false;
    }
    return true;
}

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    const char *field; /* the first field that did not fit; NULL while all is well */
};

static inline struct reader reader_of(const void *data, size_t len)
{
    const uint8_t *at = data;
    return (struct reader){.at = at, .end = len > 0 ? at + len : at, .field = NULL};
}

static inline size_t reader_left(const struct reader *r)
{
    return (size_t)(r->end - r->at);
}

static inline bool reader_ok(const struct reader *r)
{
    return r->field == NULL;
}

/* Marks the reader as failed at `field`, unless it failed before, and moves it to its end. */
static inline void reader_fail(struct reader *r, const char *field)
{
    if (r->field == NULL)
        r->field = field;
    r->at = r->end;
}

/* The next `len` bytes as a view, empty after a failure. */
static inline coney_bytes read_bytes(struct reader *r, size_t len, const char *field)
{
    if (reader_left(r) < len) {
        reader_fail(r, field);
        return (coney_bytes){0};
    }
    coney_bytes view = {r->at, len};
    if (len > 0)
        r->at += len;
    return view;
}

static inline uint8_t read8(struct reader *r, const char *field)
{
    coney_bytes b = read_bytes(r, 1, field);
    return b.len == 1 ? *(const uint8_t *)b.data : 0;
}

static inline uint16_t read16(struct reader *r, const char *field)
{
    coney_bytes b = read_bytes(r, 2, field);
    return b.len == 2 ? load16(b.data) : 0;
}

static inline uint32_t read32(struct reader *r, const char *field)
{
    coney_bytes b = read_bytes(r, 4, field);
    return b.len == 4 ? load32(b.data) : 0;
}

static inline uint64_t read64(struct reader *r, const char *field)
{
    coney_bytes b = read_bytes(r, 8, field);
    return b.len == 8 ? load64(b.data) : 0;
}

struct writer {
    uint8_t *data; /* may be NULL when `cap` is 0 */
    size_t cap;
    size_t len; /* bytes written or, past `cap`, that would have been */
};

static inline struct writer writer_of(void *data, size_t cap)
{
    return (struct writer){.data = data, .cap = cap, .len = 0};
}

/* True when all that was written fitted. */
static inline bool writer_ok(const struct writer *w)
{
    return w->len <= w->cap;
}

static inline void write_bytes(struct writer *w, const void *data, size_t len)
{
    if (len > 0 && w->len <= w->cap && len <= w->cap - w->len)
        memcpy(w->data + w->len, data, len);
    w->len += len;
}

static inline void write8(struct writer *w, uint8_t v)
{
    write_bytes(w, &v, 1);
}

static inline void write16(struct writer *w, uint16_t v)
{
    uint8_t b[2];
    store16(b, v);
    write_bytes(w, b, sizeof b);
}

static inline void write32(struct writer *w, uint32_t v)
{
    uint8_t b[4];
    store32(b, v);
    write_bytes(w, b, sizeof b);
}

static inline void write64(struct writer *w, uint64_t v)
{
    uint8_t b[8];
    store64(b, v);
    write_bytes(w, b, sizeof b);
}

#endif
