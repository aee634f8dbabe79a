/* decode.c: a message becomes a value: its content type, the variant of a set, the codec. */
#include "base/bytes.h"
#include "base/text.h"
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

static bool content_type_fits(struct dispatch *x, coney_delivery *d)
{
    coney_bytes given = x->transport->content_type(d->m);
    if (given.len == 0 || bytes_equal(given, x->content_type) || coney_codec_takes(d->subscription->codec, given))
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

static const coney_member *variant_of_type(const coney_type *set, const coney_type *type)
{
    for (uint32_t i = 0; i < set->member_count; i++)
        if (set->members[i].type() == type)
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

coney_settle dispatch_decode(struct dispatch *x, coney_delivery *d, void *out)
{
    const struct subscription *s = d->subscription;
    coney_status status = CONEY_OK;
    if (x->checks_content_type && !content_type_fits(x, d))
        return SETTLE_UNDECODABLE;
    d->used_arena = true;
    if (s->type->kind == CONEY_KIND_SET) {
        coney_settle how = decode_set(x, d, out, &status);
        if (how != CONEY_OK)
            return how;
    } else {
        status = coney_decode(s->codec, d->m->body, s->type, out, d->arena, &d->fault);
    }
    if (__builtin_expect(status == CONEY_OK, 1)) {
        d->value = out;
        return CONEY_OK;
    }
    if (status == CONEY_ECORRUPT)
        return SETTLE_UNDECODABLE;
    text_print(d->fault.text, sizeof d->fault.text, "decoding: %s", coney_status_text(status));
    return CONEY_FAILED;
}
