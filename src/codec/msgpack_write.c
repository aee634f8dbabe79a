/* msgpack_write.c: writing MessagePack with the packer of msgpack-c, which makes each item as short as it can be. */
#include "codec/msgpack.h"

#ifdef CONEY_HAVE_MSGPACK

#include "codec/bind.h"
#include "codec/sink.h"
#include "codec/utf8.h"

#include <msgpack.h>

static int on_packed(void *sink, const char *data, size_t len)
{
    sink_bytes(sink, data, len);
    return 0;
}

static inline msgpack_packer packer_of(coney_sink *sink)
{
    return (msgpack_packer){.data = sink, .callback = on_packed};
}

/* Hands a value to a function of the packer; what goes wrong stands in the sink. */
#define PUT(pack, ...)                                                                                                         \
    do {                                                                                                                       \
        msgpack_packer packer = packer_of(sink);                                                                               \
        pack(&packer, __VA_ARGS__);                                                                                            \
        return true;                                                                                                           \
    } while (0)

static bool put_bool(struct bind *b, coney_sink *sink, bool yes)
{
    (void)b;
    sink_byte(sink, yes ? 0xc3 : 0xc2);
    return true;
}

static bool put_unsigned(struct bind *b, coney_sink *sink, uint64_t number)
{
    (void)b;
    PUT(msgpack_pack_uint64, number);
}

static bool put_signed(struct bind *b, coney_sink *sink, int64_t number)
{
    (void)b;
    PUT(msgpack_pack_int64, number);
}

static bool put_f32(struct bind *b, coney_sink *sink, float number)
{
    (void)b;
    PUT(msgpack_pack_float, number);
}

static bool put_f64(struct bind *b, coney_sink *sink, double number)
{
    (void)b;
    PUT(msgpack_pack_double, number);
}

static bool is_countable(struct bind *b, size_t count)
{
    return count <= UINT32_MAX || bind_fail(b, "%zu, which is more than MessagePack can count", count);
}

static bool put_text(struct bind *b, coney_sink *sink, coney_bytes text)
{
    if (!is_countable(b, text.len))
        return false;
    if (!utf8_valid(text))
        return bind_fail(b, "a text that is not UTF-8");
    PUT(msgpack_pack_str_with_body, text.data, text.len);
}

static bool put_binary(struct bind *b, coney_sink *sink, coney_bytes bytes)
{
    if (!is_countable(b, bytes.len))
        return false;
    PUT(msgpack_pack_bin_with_body, bytes.data, bytes.len);
}

static bool put_time(struct bind *b, coney_sink *sink, int64_t ms)
{
    (void)b;
    int64_t rest = ms % 1000;
    msgpack_timestamp ts = {.tv_sec = ms / 1000 - (rest < 0), .tv_nsec = (uint32_t)(rest < 0 ? rest + 1000 : rest) * 1000000};
    PUT(msgpack_pack_timestamp, &ts);
}

static bool put_raw(struct bind *b, coney_sink *sink, coney_bytes raw)
{
    if (!codec_msgpack_is_item(raw, b->depth))
        return bind_fail(b, "raw, but not one item of MessagePack");
    sink_bytes(sink, raw.data, raw.len);
    return true;
}

static bool put_list(struct bind *b, coney_sink *sink, size_t count)
{
    if (!is_countable(b, count))
        return false;
    PUT(msgpack_pack_array, count);
}

static bool put_map(struct bind *b, coney_sink *sink, size_t count)
{
    if (!is_countable(b, count))
        return false;
    PUT(msgpack_pack_map, count);
}

#include "codec/sequence_write.h"

coney_status codec_msgpack_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                                  coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    return emit_body(type, value, sink, arena, fault);
}

#endif
