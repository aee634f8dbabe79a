/* msgpack.c: reading MessagePack with the parser template of msgpack-c, one item at a time: the head of a list or map ends a run,
 * so that nothing is kept, however deep the body nests, and no count is believed. */
#include "codec/msgpack.h"

#include "codec/missing.h"

#ifdef CONEY_HAVE_MSGPACK

#include <msgpack.h>

#define SEQUENCE_NAME "MessagePack"
#include "codec/sequence.h"

/* The parser ----------------------------------------------------------------------------------------------------- */

enum { HEAD_OF_CONTAINER = -100, BROKEN = -101 };

static inline int token_on_root(struct item **user)
{
    (void)user;
    return 0;
}

static inline int on_unsigned(struct item **user, uint64_t number)
{
    (*user)->type = ITEM_UNSIGNED;
    (*user)->number = number;
    return 0;
}

static inline int on_signed(struct item **user, int64_t number)
{
    (*user)->type = number < 0 ? ITEM_NEGATIVE : ITEM_UNSIGNED;
    (*user)->number = number < 0 ? ~(uint64_t)number : (uint64_t)number;
    return 0;
}

static inline int on_real(struct item **user, double number)
{
    (*user)->type = ITEM_REAL;
    (*user)->real = number;
    return 0;
}

static inline int on_null(struct item **user)
{
    (*user)->type = ITEM_NULL;
    return 0;
}

static inline int on_bool(struct item **user, bool boolean)
{
    (*user)->type = ITEM_BOOL;
    (*user)->boolean = boolean;
    return 0;
}

/* Where nothing follows, `data` is not set. */
static inline int on_bytes(struct item **user, uint8_t type, const char *data, unsigned len)
{
    (*user)->type = type;
    (*user)->bytes = coney_bytes_of(len > 0 ? data : "", len);
    return 0;
}

static inline int on_container(struct item **user, uint8_t type, unsigned count)
{
    (*user)->type = type;
    (*user)->count = count;
    return HEAD_OF_CONTAINER;
}

/* False: no int64_t of milliseconds. What is before 1970 is counted down from the second after it, so that the least one fits. */
static bool time_of(const msgpack_timestamp *ts, int64_t *ms)
{
    bool before = ts->tv_sec < 0;
    int64_t rest = (int64_t)(ts->tv_nsec / 1000000) - (before ? 1000 : 0);
    return !__builtin_mul_overflow(ts->tv_sec + before, 1000, ms) && !__builtin_add_overflow(*ms, rest, ms);
}

/* Timestamps are the only extension that a member can hold. */
static int on_extension(struct item **user, const char *data, unsigned len)
{
    msgpack_timestamp ts;
    if (len == 0)
        return BROKEN;
    msgpack_object object = {.type = MSGPACK_OBJECT_EXT,
                             .via.ext = {.type = (int8_t)data[0], .size = len - 1, .ptr = data + 1}};
    bool is_time = msgpack_object_to_timestamp(&object, &ts) && ts.tv_nsec <= 999999999 && time_of(&ts, &(*user)->time);
    (*user)->type = is_time ? ITEM_TIME : ITEM_OTHER;
    return 0;
}

#define token_on_uint8(user, number, object) (*(object) = on_unsigned(user, number))
#define token_on_uint16(user, number, object) (*(object) = on_unsigned(user, number))
#define token_on_uint32(user, number, object) (*(object) = on_unsigned(user, number))
#define token_on_uint64(user, number, object) (*(object) = on_unsigned(user, number))
#define token_on_int8(user, number, object) (*(object) = on_signed(user, number))
#define token_on_int16(user, number, object) (*(object) = on_signed(user, number))
#define token_on_int32(user, number, object) (*(object) = on_signed(user, number))
#define token_on_int64(user, number, object) (*(object) = on_signed(user, number))
#define token_on_float(user, number, object) (*(object) = on_real(user, (double)(number)))
#define token_on_double(user, number, object) (*(object) = on_real(user, number))
#define token_on_nil(user, object) (*(object) = on_null(user))
#define token_on_true(user, object) (*(object) = on_bool(user, true))
#define token_on_false(user, object) (*(object) = on_bool(user, false))
#define token_on_array(user, count, object) (*(object) = on_container(user, ITEM_LIST, count))
#define token_on_array_item(user, list, object) ((void)(list), BROKEN)
#define token_on_map(user, count, object) (*(object) = on_container(user, ITEM_MAP, count))
#define token_on_map_item(user, map, key, object) ((void)(map), BROKEN)
#define token_on_str(user, base, data, len, object) (*(object) = on_bytes(user, ITEM_TEXT, data, len))
#define token_on_bin(user, base, data, len, object) (*(object) = on_bytes(user, ITEM_BINARY, data, len))
#define token_on_ext(user, base, data, len, object) (*(object) = on_extension(user, data, len))

#define MSGPACK_EMBED_STACK_SIZE 1
#include <msgpack/unpack_define.h>
#define msgpack_unpack_struct(name) struct token##name
#define msgpack_unpack_func(result, name) static inline result token##name
#define msgpack_unpack_callback(name) token_on##name
#define msgpack_unpack_object int
#define msgpack_unpack_user struct item *
#include <msgpack/unpack_template.h>

/* Items ---------------------------------------------------------------------------------------------------------- */

static bool next_item(struct walk *w, struct item *item)
{
    struct source *s = &w->source;
    struct token_context parser;
    size_t read = 0;
    item->open = false;
    parser.user = item;
    token_init(&parser);
    int result = token_execute(&parser, (const char *)s->at, (size_t)(s->end - s->at), &read);
    if (result == 0)
        return broken(w, "it ends too early");
    if (result != 1 && result != HEAD_OF_CONTAINER)
        return broken(w, "an unknown item");
    s->at += result == 1 ? read : read + 1;
    return true;
}

static bool next_head(struct walk *w, struct item *item)
{
    return next_item(w, item);
}

static inline bool source_more(struct walk *w, struct item *level)
{
    (void)w;
    return level->count-- > 0;
}

/* ---------------------------------------------------------------------------------------------------------------- */

coney_status codec_msgpack_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                                  coney_arena *arena, coney_fault *fault)
{
    (void)codec;
    return sequence_decode(body, type, out, arena, fault);
}

bool codec_msgpack_is_item(coney_bytes bytes, uint32_t depth)
{
    return sequence_is_item(bytes, depth);
}

static const coney_codec msgpack = {
    .name = "msgpack", .content_type = "application/msgpack", .decode = codec_msgpack_decode, .encode = codec_msgpack_encode};

#else

static const coney_codec msgpack = {
    .name = "msgpack", .content_type = "application/msgpack", .decode = missing_decode, .encode = missing_encode};

#endif

const coney_codec *coney_msgpack(void)
{
    return &msgpack;
}
