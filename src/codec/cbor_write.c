/* cbor_write.c: writing CBOR with libcbor's encoders: definite lengths, each head as short as it can be. */
#include "codec/cbor.h"

#ifdef CONEY_HAVE_CBOR

#include "codec/bind.h"
#include "codec/sink.h"
#include "codec/utf8.h"

#include <cbor.h>

enum { HEAD_MOST = 9 };

/* Adds what an encoder writes: at most a head. */
#define PUT(encoder, value)                                                                                                    \
    do {                                                                                                                       \
        uint8_t *room = sink_room(sink, HEAD_MOST);                                                                            \
        if (room != NULL)                                                                                                      \
            sink->len += encoder(value, room, HEAD_MOST);                                                                      \
        return true;                                                                                                           \
    } while (0)

static bool put_bool(struct bind *b, coney_sink *sink, bool yes)
{
    (void)b;
    PUT(cbor_encode_bool, yes);
}

static bool put_unsigned(struct bind *b, coney_sink *sink, uint64_t number)
{
    (void)b;
    PUT(cbor_encode_uint, number);
}

static bool put_negative(coney_sink *sink, int64_t number)
{
    PUT(cbor_encode_negint, ~(uint64_t)number);
}

static bool put_signed(struct bind *b, coney_sink *sink, int64_t number)
{
    return number < 0 ? put_negative(sink, number) : put_unsigned(b, sink, (uint64_t)number);
}

static bool put_f32(struct bind *b, coney_sink *sink, float number)
{
    (void)b;
    PUT(cbor_encode_single, number);
}

static bool put_f64(struct bind *b, coney_sink *sink, double number)
{
    (void)b;
    PUT(cbor_encode_double, number);
}

static bool put_text_head(coney_sink *sink, size_t len)
{
    PUT(cbor_encode_string_start, len);
}

static bool put_text(struct bind *b, coney_sink *sink, coney_bytes text)
{
    if (!utf8_valid(text))
        return bind_fail(b, "a text that is not UTF-8");
    put_text_head(sink, text.len);
    sink_bytes(sink, text.data, text.len);
    return true;
}

static bool put_binary_head(coney_sink *sink, size_t len)
{
    PUT(cbor_encode_bytestring_start, len);
}

static bool put_binary(struct bind *b, coney_sink *sink, coney_bytes bytes)
{
    (void)b;
    put_binary_head(sink, bytes.len);
    sink_bytes(sink, bytes.data, bytes.len);
    return true;
}

static bool put_tag(coney_sink *sink, uint64_t tag)
{
    PUT(cbor_encode_tag, tag);
}

static bool put_time(struct bind *b, coney_sink *sink, int64_t ms)
{
    bool whole = ms % 1000 == 0;
    if (!whole && (ms > CBOR_TIME_MOST || ms < -CBOR_TIME_MOST))
        return bind_fail(b, "a time too far away to be told to the millisecond");
    put_tag(sink, 1);
    return whole ? put_signed(b, sink, ms / 1000) : put_f64(b, sink, (double)ms / 1000);
}

static bool put_raw(struct bind *b, coney_sink *sink, coney_bytes raw)
{
    if (!codec_cbor_is_item(raw, b->depth))
        return bind_fail(b, "raw, but not one item of CBOR");
    sink_bytes(sink, raw.data, raw.len);
    return true;
}

static bool put_list(struct bind *b, coney_sink *sink, size_t count)
{
    (void)b;
    PUT(cbor_encode_array_start, count);
}

static bool put_map(struct bind *b, coney_sink *sink, size_t count)
{
    (void)b;
    PUT(cbor_encode_map_start, count);
}

#include "codec/sequence_write.h"

coney_status codec_cbor_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                               coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    return emit_body(type, value, sink, arena, fault);
}

#endif
