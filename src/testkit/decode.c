/* decode.c: messages read anew, and headers as values. */
#include "base/bytes.h"
#include "base/text.h"
#include "codec/set.h"
#include "testkit/kit.h"

#include <inttypes.h>

/* Bodies ------------------------------------------------------------------------------------------------------------------------- */

static bool is_of(const coney_codec *codec, coney_bytes content_type)
{
    return codec != NULL && content_type.len > 0 && coney_codec_takes(codec, content_type);
}

const coney_codec *test_codec(const coney_test *t, const coney_broker *broker, coney_bytes content_type)
{
    for (const coney_publisher *p = broker->publishers; p != NULL; p = p->next)
        if (is_of(p->codec, content_type))
            return p->codec;
    for (const struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
        if (is_of(s->codec, content_type))
            return s->codec;
    const coney_codec *const known[] = {coney_json(), coney_cbor(), coney_msgpack()};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (is_of(known[i], content_type))
            return known[i];
    return broker->codec != NULL ? broker->codec : t->app->options.codec;
}

/* The variant of a set that the message names, or NULL. */
static const coney_member *chosen(const coney_type *set, const coney_delivery_info *info)
{
    coney_value value;
    coney_bytes text;
    if (set->to[0] == '\0')
        return NULL;
    if (coney_value_find(&info->headers, coney_bytes_str(set->to), &value) && coney_value_to_bytes(&value, &text))
        return set_find(set, text);
    return strcmp(set->to, "type") == 0 ? set_find(set, info->type) : NULL;
}

static coney_status decode(coney_test *t, const coney_codec *codec, coney_bytes body, const coney_delivery_info *info,
                           const coney_type *type, void *out, coney_fault *fault)
{
    const coney_member *variant = type->kind == CONEY_KIND_SET ? chosen(type, info) : NULL;
    if (variant != NULL)
        return set_decode(codec, body, type, variant, out, t->memory, fault);
    return coney_decode(codec, body, type, out, t->memory, fault);
}

const void *test_decode(coney_test *t, const coney_codec *codec, coney_bytes body, const coney_delivery_info *info,
                        const coney_type *type, const char *what)
{
    coney_fault fault = {0};
    lock_acquire(&t->lock);
    void *out = coney_arena_alloc(t->memory, type->size);
    coney_status status = out != NULL ? decode(t, codec, body, info, type, out, &fault) : CONEY_ENOMEM;
    lock_release(&t->lock);
    if (status == CONEY_OK)
        return out;
    char shown[256];
    text_from_wire(shown, sizeof shown, body);
    test_fail(t, "%s is no %s as %s reads it: %s; its body is '%s' (%zu bytes)", what, type->name, codec->name,
              fault.text[0] != '\0' ? fault.text : coney_status_text(status), shown, body.len);
    return NULL;
}

/* Headers ------------------------------------------------------------------------------------------------------------------------ */

static coney_status build(const coney_broker *broker, const struct outgoing *message, void *memory, size_t cap, size_t *needed,
                          coney_value *map)
{
    coney_builder builder;
    if (broker->transport->source == CONEY_SOURCE_QUEUE)
        coney_builder_init_table(&builder, memory, cap);
    else
        coney_builder_init(&builder, memory, cap);
    coney_builder_begin(&builder, CONEY_VALUE_MAP);
    for (size_t i = 0; i < message->header_count; i++)
        coney_builder_put(&builder, message->headers[i].key, message->headers[i].value);
    if (message->key.len > 0)
        coney_builder_put(&builder, CONEY_STR(KEY_HEADER), coney_value_string(message->key));
    coney_builder_end(&builder);
    coney_status status = coney_builder_finish(&builder, map);
    *needed = builder.needed;
    return status;
}

coney_value test_headers(coney_test *t, const coney_broker *broker, const struct outgoing *message)
{
    coney_value map = coney_value_null();
    size_t needed = 0;
    if (message->header_count == 0 && message->key.len == 0)
        return map;
    if (build(broker, message, NULL, 0, &needed, &map) != CONEY_ETOOBIG)
        return map;
    void *memory = coney_arena_alloc(t->memory, needed);
    if (memory == NULL || build(broker, message, memory, needed, &needed, &map) != CONEY_OK) {
        t->out_of_memory |= memory == NULL;
        return coney_value_null();
    }
    return map;
}

/* Values ------------------------------------------------------------------------------------------------------------------------- */

bool test_values_equal(const coney_value *a, const coney_value *b)
{
    int64_t numbers[2];
    uint64_t large[2];
    coney_bytes texts[2];
    if (coney_value_to_i64(a, &numbers[0]) && coney_value_to_i64(b, &numbers[1]))
        return numbers[0] == numbers[1];
    if (coney_value_to_u64(a, &large[0]) && coney_value_to_u64(b, &large[1]))
        return large[0] == large[1];
    if (coney_value_to_bytes(a, &texts[0]) && coney_value_to_bytes(b, &texts[1]))
        return bytes_equal(texts[0], texts[1]);
    if (a->type != b->type)
        return false;
    if (a->type == CONEY_VALUE_BOOL)
        return a->as.boolean == b->as.boolean;
    if (a->type == CONEY_VALUE_F32)
        return a->as.f32 == b->as.f32;
    if (a->type == CONEY_VALUE_F64)
        return a->as.f64 == b->as.f64;
    if (a->type == CONEY_VALUE_NULL)
        return true;
    if (a->type == CONEY_VALUE_CHAR)
        return a->as.u64 == b->as.u64;
    return a->encoding == b->encoding && a->count == b->count && bytes_equal(a->as.bytes, b->as.bytes);
}

void test_value_text(char *buf, size_t cap, const coney_value *value)
{
    int64_t number;
    uint64_t large;
    coney_bytes text;
    if (coney_value_to_i64(value, &number)) {
        text_print(buf, cap, "%" PRId64, number);
    } else if (coney_value_to_u64(value, &large)) {
        text_print(buf, cap, "%" PRIu64, large);
    } else if (coney_value_to_bytes(value, &text)) {
        char shown[128];
        text_from_wire(shown, sizeof shown, text);
        text_print(buf, cap, "'%s'", shown);
    } else if (value->type == CONEY_VALUE_BOOL) {
        text_print(buf, cap, "%s", value->as.boolean ? "true" : "false");
    } else if (value->type == CONEY_VALUE_F32 || value->type == CONEY_VALUE_F64) {
        text_print(buf, cap, "%.17g", value->type == CONEY_VALUE_F32 ? (double)value->as.f32 : value->as.f64);
    } else {
        text_print(buf, cap, "a value of type %s", coney_value_type_name(value->type));
    }
}
