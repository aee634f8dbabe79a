/* decode.c: a message becomes a value: its content type, the variant of a set, the codec. */
#include "base/bytes.h"
#include "base/text.h"
#include "codec/arena.h"
#include "codec/set.h"
#include "service/dispatch.h"

static coney_settle refuse(coney_delivery *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static coney_settle refuse(coney_delivery *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    d->fault.path[0] = '\0';
    text_vprint(d->fault.text, sizeof d->fault.text, format, args);
    va_end(args);
    return SETTLE_UNDECODABLE;
}

/* For the usual ones: "application/json" is two words long. */
static inline bool is_same_text(coney_bytes a, coney_bytes b)
{
    if (a.len != b.len || a.len < 8 || a.len > 16)
        return bytes_equal(a, b);
    uint64_t heads[2];
    uint64_t tails[2];
    memcpy(&heads[0], a.data, 8);
    memcpy(&heads[1], b.data, 8);
    memcpy(&tails[0], (const uint8_t *)a.data + a.len - 8, 8);
    memcpy(&tails[1], (const uint8_t *)b.data + b.len - 8, 8);
    return heads[0] == heads[1] && tails[0] == tails[1];
}

static bool is_taken(coney_delivery *d, coney_bytes given)
{
    if (coney_codec_takes(d->subscription->codec, given))
        return true;
    char text[96];
    text_from_wire(text, sizeof text, given);
    refuse(d, "content type '%s' is not %s's (%s)", text, d->subscription->codec->name, d->subscription->codec->content_type);
    return false;
}

static coney_bytes text_of(const coney_value *value)
{
    bool is_text = value->type == CONEY_VALUE_STRING || value->type == CONEY_VALUE_SYMBOL || value->type == CONEY_VALUE_BINARY;
    return is_text ? value->as.bytes : coney_bytes_of(NULL, 0);
}

/* Every file that includes a type has a table of its own of it. */
static bool is_same_type(const coney_type *a, const coney_type *b)
{
    return a == b || (a->size == b->size && strcmp(a->name, b->name) == 0);
}

static const coney_member *variant_of_type(const coney_type *set, const coney_type *type)
{
    for (uint32_t i = 0; i < set->member_count; i++)
        if (is_same_type(set->members[i].type(), type))
            return &set->members[i];
    return NULL;
}

/* The variant that the subscription's function or the set's header names. */
static coney_settle choose_variant(struct dispatch *x, coney_delivery *d, const coney_member **variant)
{
    const struct subscription *s = d->subscription;
    const coney_type *set = s->type;
    if (s->options.choose != NULL) {
        const coney_type *type = s->options.choose(s->options.ctx, d);
        *variant = type != NULL ? variant_of_type(set, type) : NULL;
        if (*variant != NULL)
            return CONEY_OK;
        return type == NULL ? refuse(d, "no variant of %s was chosen", set->name)
                            : refuse(d, "%s was chosen, which is no variant of %s", type->name, set->name);
    }
    coney_value value;
    coney_bytes text = {NULL, 0};
    if (x->transport->header(d->m, coney_bytes_str(set->to), &value))
        text = text_of(&value);
    else if (strcmp(set->to, "type") == 0)
        text = delivery_info(d)->type;
    if (text.data == NULL)
        return refuse(d, "there is no header '%s', which chooses the variant of %s", set->to, set->name);
    *variant = set_find(set, text);
    if (*variant != NULL)
        return CONEY_OK;
    char shown[96];
    text_from_wire(shown, sizeof shown, text);
    return refuse(d, "header '%s' is '%s', which names no variant of %s", set->to, shown, set->name);
}

static coney_settle decode_set(struct dispatch *x, coney_delivery *d, void *out, coney_status *status)
{
    const struct subscription *s = d->subscription;
    const coney_member *variant = NULL;
    if (s->options.choose != NULL || s->type->to[0] != '\0') {
        coney_settle how = choose_variant(x, d, &variant);
        if (how != CONEY_OK)
            return how;
    }
    *status = set_decode(s->codec, d->m->body, s->type, variant, out, d->arena, &d->fault);
    return CONEY_OK;
}

static coney_settle fault_of(coney_delivery *d, coney_status status)
{
    if (status == CONEY_ECORRUPT)
        return SETTLE_UNDECODABLE;
    text_print(d->fault.text, sizeof d->fault.text, "decoding: %s", coney_status_text(status));
    return CONEY_FAILED;
}

static inline coney_settle decode(struct dispatch *x, coney_delivery *d, void *out)
{
    const struct subscription *s = d->subscription;
    if (x->checks_content_type) {
        coney_bytes given = x->transport->content_type(d->m);
        if (given.len > 0 && !is_same_text(given, x->content_type) && !is_taken(d, given))
            return SETTLE_UNDECODABLE;
    }
    coney_status status = CONEY_OK;
    if (__builtin_expect(s->type->kind == CONEY_KIND_MESSAGE, 1)) {
        memset(out, 0, s->type->size);
        status = s->codec->decode(s->codec, d->m->body, s->type, out, d->arena, &d->fault);
    } else {
        coney_settle how = decode_set(x, d, out, &status);
        if (how != CONEY_OK)
            return how;
    }
    if (__builtin_expect(status != CONEY_OK, 0))
        return fault_of(d, status);
    d->value = out;
    return CONEY_OK;
}

coney_settle dispatch_decode(struct dispatch *x, coney_delivery *d, void *out)
{
    d->used_arena = true;
    if (out == NULL)
        out = arena_take(d->arena, d->subscription->type->size);
    return out != NULL ? decode(x, d, out) : fault_of(d, CONEY_ENOMEM);
}
