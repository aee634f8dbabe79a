/* special.h: finding what cannot stand in a JSON text as it is, sixteen bytes at a time: control characters, quotes, backslashes,
 * and what is not ASCII. Any thread. */
#ifndef CONEY_CODEC_SPECIAL_H
#define CONEY_CODEC_SPECIAL_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { SPECIAL_SPAN = 16 };

#ifdef __SSE2__

/* How many of the sixteen bytes at `at` come before the first that is special. */
static inline size_t special_find(const void *at)
{
    __m128i span = _mm_loadu_si128(at);
    __m128i above = _mm_cmpgt_epi8(span, _mm_set1_epi8(0x1f)); /* signed: what is not ASCII is not above */
    __m128i quote = _mm_cmpeq_epi8(span, _mm_set1_epi8('"'));
    __m128i backslash = _mm_cmpeq_epi8(span, _mm_set1_epi8('\\'));
    unsigned plain = (unsigned)_mm_movemask_epi8(_mm_andnot_si128(_mm_or_si128(quote, backslash), above));
    return (size_t)__builtin_ctz(~plain);
}

#else

static inline size_t special_find(const void *at)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    for (size_t i = 0; i < SPECIAL_SPAN; i += 8) {
        uint64_t eight;
        memcpy(&eight, (const uint8_t *)at + i, sizeof eight);
        eight = le64toh(eight);
        uint64_t quote = (eight ^ ones * '"') - ones;
        uint64_t backslash = (eight ^ ones * '\\') - ones;
        /* The lowest bit that is set is right, those above it may be too many. */
        uint64_t found = (eight | (eight - ones * 0x20) | quote | backslash) & ones * 0x80;
        if (found != 0)
            return i + (unsigned)__builtin_ctzll(found) / 8;
    }
    return SPECIAL_SPAN;
}

#endif

/* How many bytes from `at` on are not special; one must be, and SPECIAL_SPAN - 1 bytes behind it can be read. */
static inline size_t special_skip(const void *at)
{
    size_t done = 0;
    size_t plain;
    while ((plain = special_find((const uint8_t *)at + done)) == SPECIAL_SPAN)
        done += SPECIAL_SPAN;
    return done + plain;
}

#endif
