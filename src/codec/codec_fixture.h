/* codec_fixture.h: types with every kind in every shape, and decoding and encoding them in a line. For tests and fuzzers. */
#ifndef CONEY_CODEC_CODEC_FIXTURE_H
#define CONEY_CODEC_CODEC_FIXTURE_H

#include <coney/codec.h>

#include <math.h>
#include <string.h>

#define PHASE(E) E(PHASE_NEW, "new") E(PHASE_PAID, "paid") E(PHASE_SENT, "sent \"off\"")
CONEY_ENUM(phase, PHASE);

#define LINE(F) F(string, sku) F(u16, quantity, default("1")) F(optional, note, string)
CONEY_TYPE(line, LINE, strict);

#define ONES(F)                                                                                                                \
    F(bool, yes)                                                                                                               \
    F(i8, a8)                                                                                                                  \
    F(i16, a16)                                                                                                                \
    F(i32, a32)                                                                                                                \
    F(i64, a64)                                                                                                                \
    F(u8, b8)                                                                                                                  \
    F(u16, b16)                                                                                                                \
    F(u32, b32)                                                                                                                \
    F(u64, b64)                                                                                                                \
    F(f32, c32)                                                                                                                \
    F(f64, c64)                                                                                                                \
    F(string, text)                                                                                                            \
    F(bytes, blob)                                                                                                             \
    F(time, at)                                                                                                                \
    F(raw, any)                                                                                                                \
    F(enum, status, phase)                                                                                                     \
    F(message, first, line)
CONEY_TYPE(ones, ONES);

#define PLAIN_(F, shape)                                                                                                       \
    F(shape, yes, bool)                                                                                                        \
    F(shape, a8, i8)                                                                                                           \
    F(shape, a16, i16)                                                                                                         \
    F(shape, a32, i32)                                                                                                         \
    F(shape, a64, i64)                                                                                                         \
    F(shape, b8, u8)                                                                                                           \
    F(shape, b16, u16)                                                                                                         \
    F(shape, b32, u32)                                                                                                         \
    F(shape, b64, u64)                                                                                                         \
    F(shape, c32, f32)                                                                                                         \
    F(shape, c64, f64)                                                                                                         \
    F(shape, text, string)                                                                                                     \
    F(shape, blob, bytes)                                                                                                      \
    F(shape, at, time)                                                                                                         \
    F(shape, any, raw)                                                                                                         \
    F(shape##_of, status, phase)                                                                                               \
    F(shape##_of, first, line)

#define OPTIONALS(F) PLAIN_(F, optional)
CONEY_TYPE(optionals, OPTIONALS);

#define LISTS(F) PLAIN_(F, list)
CONEY_TYPE(lists, LISTS);

#define MAPS(F) PLAIN_(F, map)
CONEY_TYPE(maps, MAPS);

/* Whether this build has the codec's library. */
static inline bool codec_is_here(const coney_codec *codec)
{
    line value = {.quantity = 1};
    coney_sink sink = {0};
    coney_status status = coney_encode(codec, line_type(), &value, &sink, NULL, NULL);
    coney_sink_free(&sink);
    return status != CONEY_EUNSUPPORTED;
}

/* All of them, in lists of itself, too. */
#define EVERYTHING(F)                                                                                                          \
    F(optional_of, o, ones)                                                                                                    \
    F(message, p, optionals)                                                                                                   \
    F(message, l, lists)                                                                                                       \
    F(message, m, maps)                                                                                                        \
    F(list_of, children, everything)                                                                                           \
    F(map_of, by, everything)
CONEY_TYPE(everything, EVERYTHING);

#endif
