/* posting.c: entering a publisher, writing a message, what is refused. */
#include "service/posting.h"

#include "base/bytes.h"
#include "base/fork.h"
#include "base/text.h"
#include "codec/type.h"
#include "service/app.h"

#include <stdlib.h>
#include <string.h>

enum {
    SCRATCH_KEEP = 64 << 10, /* bytes of a body's buffer that are kept in any case */
    SCRATCH_CALM = 64,       /* messages in a row that needed no more, after which a larger one goes back */
};

/* Scratch --------------------------------------------------------------------------------------------------------- */

static void scratch_free(struct scratch *scratch)
{
    if (scratch == NULL)
        return;
    coney_sink_free(&scratch->body);
    coney_arena_free(&scratch->arena);
    free(scratch);
}

struct scratch *posting_scratch_new(void)
{
    struct scratch *scratch = calloc(1, sizeof *scratch);
    if (scratch == NULL)
        return NULL;
    scratch->arena = coney_arena_new();
    if (scratch->arena != NULL)
        return scratch;
    free(scratch);
    return NULL;
}

/* A message of a few bytes after a large one must not hold its memory for ever. */
static inline void scratch_calm(struct scratch *scratch)
{
    bool is_calm = scratch->body.cap > SCRATCH_KEEP && scratch->body.len <= SCRATCH_KEEP;
    scratch->calm = is_calm ? scratch->calm + 1 : 0;
    if (scratch->calm < SCRATCH_CALM)
        return;
    coney_sink_free(&scratch->body);
    scratch->calm = 0;
}

void posting_clean(struct scratch *scratch)
{
    scratch_calm(scratch);
    scratch->body.len = 0;
    scratch->body.failed = 0;
    scratch->is_used = false;
    coney_arena_reset(scratch->arena);
}

void posting_free_scratches(coney_publisher *p)
{
    for (struct scratch *scratch = p->spare; scratch != NULL;) {
        struct scratch *next = scratch->next;
        scratch_free(scratch);
        scratch = next;
    }
    p->spare = NULL;
}

/* Refusals -------------------------------------------------------------------------------------------------------- */

static const char *noun_of(const struct posting *g)
{
    return g->publisher != NULL ? g->publisher->name : "";
}

static const coney_app *app_of(const struct posting *g)
{
    return g->publisher != NULL ? g->publisher->broker->app : g->delivery != NULL ? g->delivery->subscription->app : NULL;
}

coney_status posting_refuse(struct posting *g, coney_status status, const char *format, ...)
{
    char text[sizeof((coney_fault *)NULL)->text];
    text_print(text, sizeof text, "publisher '%s': ", noun_of(g));
    size_t len = strlen(text);
    va_list args;
    va_start(args, format);
    text_vprint(text + len, sizeof text - len, format, args);
    va_end(args);
    if (g->delivery != NULL) {
        g->delivery->fault.path[0] = '\0';
        text_print(g->delivery->fault.text, sizeof g->delivery->fault.text, "%s", text);
    }
    if (app_of(g) != NULL)
        app_log(app_of(g), CONEY_LOG_WARNING, "%s", text);
    return app_refuse(g->call, status, "%s", text);
}

/* Begin and end --------------------------------------------------------------------------------------------------- */

static const coney_publish_options no_options;

static coney_status read_options(struct posting *g, const coney_publish_options *options, size_t size)
{
    if (options == NULL) {
        g->message.options = &no_options;
        return CONEY_OK;
    }
    g->message.options = options;
    if (__builtin_expect(size != sizeof *options, 0)) {
        if (!app_take_options(&g->own, sizeof g->own, options, size))
            return posting_refuse(g, CONEY_EUNSUPPORTED, "coney_publish_options " NEWER_TEXT);
        g->message.options = &g->own;
    }
    uint32_t reserved;
    memcpy(&reserved, g->message.options->reserved, sizeof reserved);
    if (reserved != 0)
        return posting_refuse(g, CONEY_EINVAL,
                              "coney_publish_options: a reserved member is not zero: zero the whole struct first");
    return CONEY_OK;
}

static coney_status enter(struct posting *g)
{
    coney_publisher *p = g->publisher;
    if (__builtin_expect(p->broker->app->born != fork_generation(), 0))
        return app_refuse(g->call, CONEY_EFORKED, "publisher '%s': the app runs in the parent process", p->name);
    lock_acquire(&p->lock);
    g->outlet = p->outlet;
    g->scratch = NULL;
    if (g->outlet != NULL) {
        p->users++;
        g->scratch = p->spare;
        if (g->scratch != NULL)
            p->spare = g->scratch->next;
    }
    lock_release(&p->lock);
    if (g->outlet == NULL)
        return app_refuse(g->call, CONEY_ECLOSED, "publisher '%s': the app does not run", p->name);
    if (g->scratch == NULL)
        g->scratch = posting_scratch_new();
    return g->scratch != NULL ? CONEY_OK : posting_end(g, CONEY_ENOMEM);
}

coney_status posting_begin_with_care(struct posting *g, const coney_publish_options *options, size_t size)
{
    if (g->publisher == NULL)
        return posting_refuse(g, CONEY_EINVAL, "there is none: it could not be made, or it is NULL");
    g->transport = g->publisher->broker->transport;
    if (g->delivery != NULL && !delivery_is_open(g->delivery)) {
        g->delivery = NULL;
        return posting_refuse(g, CONEY_EINVAL, "the delivery is settled: what is published after it goes out by the publisher");
    }
    coney_status status = read_options(g, options, size);
    return status == CONEY_OK ? enter(g) : status;
}

coney_publish_options *posting_own_options(struct posting *g)
{
    if (g->message.options != &g->own) {
        g->own = *g->message.options;
        g->message.options = &g->own;
    }
    return &g->own;
}

void posting_left(coney_publisher *p)
{
    if (p->users == 0)
        cond_wake_all(&p->left);
}

/* Destination ----------------------------------------------------------------------------------------------------- */

/* Text with the values of members, or plain text, which is taken as it stands. */
static coney_status fill_in(struct posting *g, const char *to, const coney_type *type, const void *value)
{
    if (strchr(to, '{') == NULL) {
        g->message.to = coney_bytes_str(to);
        return CONEY_OK;
    }
    if (type == NULL)
        return posting_refuse(g, CONEY_EINVAL, "the destination '%s' names members of a message, and raw bytes have none", to);
    coney_type named = *type;
    named.to = to;
    coney_status status = type_expand_to(&named, value, g->to, sizeof g->to);
    if (status == CONEY_ETOOBIG)
        return posting_refuse(g, status, "the destination '%s' of %s is longer than %d bytes", to, type->name,
                              (int)POSTING_LONGEST_TO);
    if (status != CONEY_OK)
        return posting_refuse(
            g, status, "the destination '%s' of %s cannot be written: a member that it names is not there, or has no text", to,
            type->name);
    g->message.to = coney_bytes_str(g->to);
    return CONEY_OK;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static coney_status address_by_default(struct posting *g, const coney_type *type, const void *value)
{
    if (type != NULL && is_given(type->to))
        return fill_in(g, type->to, type, value);
    if (is_given(g->publisher->options.to))
        return fill_in(g, g->publisher->options.to, type, value);
    g->message.to = coney_bytes_of("", 0);
    return CONEY_OK;
}

static inline coney_status address(struct posting *g, const coney_type *type, const void *value)
{
    const char *to = g->message.options->to;
    if (g->is_reply)
        return CONEY_OK;
    if (!is_given(to))
        return address_by_default(g, type, value);
    g->message.to = coney_bytes_of(to, strlen(to));
    return CONEY_OK;
}

/* Headers --------------------------------------------------------------------------------------------------------- */

static bool has_field(const coney_field *fields, size_t count, coney_bytes key)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(fields[i].key, key))
            return true;
    return false;
}

static coney_status encode_typed(struct posting *g, const coney_field **fields, size_t *count)
{
    const coney_publish_options *options = g->message.options;
    if (options->header_type == NULL)
        return CONEY_OK;
    if (options->header_value == NULL)
        return posting_refuse(g, CONEY_EINVAL, "header_value is NULL, and header_type is not");
    coney_fault fault;
    coney_status status =
        coney_headers_encode(options->header_type, options->header_value, posting_scratch(g)->arena, fields, count, &fault);
    if (status == CONEY_EINVAL || status == CONEY_ECORRUPT)
        return posting_refuse(g, CONEY_EINVAL, "%s cannot be written as headers: %s", options->header_type->name, fault.text);
    return status;
}

/* Typed headers over plain ones of the same name; and `chosen`, which names the variant of a set, where neither says otherwise. */
static coney_status merge_headers(struct posting *g, const coney_field *chosen)
{
    const coney_publish_options *options = g->message.options;
    const coney_field *typed = NULL;
    size_t typed_count = 0;
    coney_status status = encode_typed(g, &typed, &typed_count);
    if (status != CONEY_OK)
        return status;
    coney_field *all = coney_arena_alloc(posting_scratch(g)->arena, (options->header_count + typed_count + 1) * sizeof *all);
    if (all == NULL)
        return CONEY_ENOMEM;
    size_t count = 0;
    for (size_t i = 0; i < options->header_count; i++)
        if (!has_field(typed, typed_count, options->headers[i].key))
            all[count++] = options->headers[i];
    for (size_t i = 0; i < typed_count; i++)
        all[count++] = typed[i];
    if (chosen != NULL && !has_field(all, count, chosen->key))
        all[count++] = *chosen;
    g->message.headers = all;
    g->message.header_count = count;
    return CONEY_OK;
}

static inline coney_status write_headers(struct posting *g, const coney_field *chosen)
{
    const coney_publish_options *options = g->message.options;
    if (__builtin_expect(options->header_type != NULL || chosen != NULL, 0))
        return merge_headers(g, chosen);
    g->message.headers = options->headers;
    g->message.header_count = options->header_count;
    return CONEY_OK;
}

/* Body ------------------------------------------------------------------------------------------------------------ */

/* The variant that a set holds. Each file that includes a type has a table of its own for it: a name that is the same will do. */
static const coney_member *variant_of(const coney_type *set, const coney_type *is)
{
    for (uint32_t i = 0; i < set->member_count; i++)
        if (set->members[i].type() == is)
            return &set->members[i];
    for (uint32_t i = 0; is != NULL && i < set->member_count; i++)
        if (strcmp(set->members[i].name, is->name) == 0 && set->members[i].type()->size == is->size)
            return &set->members[i];
    return NULL;
}

/* What stands inside a set is published; *chosen gets the header that says which it is, where that is no property. */
static coney_status open_set(struct posting *g, const coney_type **type, const void **value, coney_field *chosen)
{
    const coney_type *set = *type;
    const coney_type *is;
    memcpy(&is, *value, sizeof is);
    const coney_member *variant = variant_of(set, is);
    if (variant == NULL)
        return posting_refuse(g, CONEY_EINVAL, "the `is` of %s is none of its types", set->name);
    *type = variant->type();
    *value = (const uint8_t *)*value + variant->offset;
    if (!is_given(set->to))
        return CONEY_OK;
    if (strcmp(set->to, "type") != 0) {
        *chosen = (coney_field){coney_bytes_str(set->to), coney_value_string(type_wire_name(variant))};
        return CONEY_OK;
    }
    if (g->message.options->type.len == 0)
        posting_own_options(g)->type = type_wire_name(variant);
    return CONEY_OK;
}

static coney_status not_encoded(struct posting *g, const coney_codec *codec, const coney_type *type, coney_status status,
                                const coney_fault *fault)
{
    if (status == CONEY_EUNSUPPORTED)
        return posting_refuse(g, status, "this coney was built without the codec %s", codec->name);
    if (status == CONEY_ENOMEM)
        return status;
    return posting_refuse(g, CONEY_EINVAL, "%s cannot be written as %s: %s", type->name, codec->name, fault->text);
}

static inline __attribute__((always_inline)) coney_status encode(struct posting *g, const coney_type *type, const void *value)
{
    const coney_codec *codec = g->message.options->codec;
    g->message.content_type = g->publisher->content_type;
    if (codec == NULL)
        codec = g->publisher->codec;
    else
        g->message.content_type = coney_bytes_str(codec->content_type);
    struct scratch *scratch = posting_scratch(g);
    coney_sink *body = &scratch->body;
    coney_fault fault;
    coney_status status = codec->encode(codec, type, value, body, scratch->arena, &fault);
    if (__builtin_expect(status != CONEY_OK, 0))
        return not_encoded(g, codec, type, status, &fault);
    g->message.body = coney_bytes_of(body->data, body->len);
    return body->failed == 0 ? CONEY_OK : CONEY_ENOMEM;
}

static inline __attribute__((always_inline)) coney_status write_message(struct posting *g, const coney_type *type,
                                                                        const void *value, const coney_field *chosen)
{
    coney_status status = encode(g, type, value);
    if (status == CONEY_OK)
        status = write_headers(g, chosen);
    return status == CONEY_OK ? address(g, type, value) : status;
}

static coney_status write_set(struct posting *g, const coney_type *type, const void *value)
{
    if (type->kind != CONEY_KIND_SET)
        return posting_refuse(g, CONEY_EINVAL, "%s is no message", type->name);
    coney_field chosen = {0};
    coney_status status = open_set(g, &type, &value, &chosen);
    return status == CONEY_OK ? write_message(g, type, value, chosen.key.len > 0 ? &chosen : NULL) : status;
}

coney_status posting_write(struct posting *g, const coney_type *type, const void *value)
{
    if (type == NULL || value == NULL)
        return posting_refuse(g, CONEY_EINVAL, "the %s is NULL", type == NULL ? "type of the message" : "message");
    if (__builtin_expect(type->kind != CONEY_KIND_MESSAGE, 0))
        return write_set(g, type, value);
    return write_message(g, type, value, NULL);
}

coney_status posting_write_raw_with_care(struct posting *g)
{
    coney_status status = write_headers(g, NULL);
    return status == CONEY_OK ? address(g, NULL, NULL) : status;
}

_Static_assert(offsetof(coney_publish_options, reserved) + 4 - offsetof(coney_publish_options, priority) == 8 &&
                   offsetof(coney_publisher_options, reserved) + 4 - offsetof(coney_publisher_options, priority) == 8,
               "posting_has_marks reads eight bytes from `priority` on");

void posting_mark(const struct posting *g, const coney_publish_options *options, struct outgoing *outgoing)
{
    const coney_publisher_options *defaults = &g->publisher->options;
    outgoing->priority = options->has_priority ? options->priority : defaults->priority;
    outgoing->has_priority = options->has_priority || defaults->has_priority;
    outgoing->transient = options->transient || (defaults->transient && !options->persistent);
    outgoing->drop_unroutable = defaults->drop_unroutable || g->is_reply;
    outgoing->to_requester = g->is_reply;
}

coney_status posting_refuse_nowhere(struct posting *g)
{
    return posting_refuse(g, CONEY_EINVAL,
                          "the message has no destination: neither the call, nor its type, nor the publisher names one");
}
