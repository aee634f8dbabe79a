/* request.c: asking and waiting for the reply, and reading it. */
#include "base/text.h"
#include "codec/set.h"
#include "service/app.h"
#include "service/posting.h"

#include <stdlib.h>
#include <string.h>

struct coney_reply_message {
    struct incoming in;
    const struct transport *transport;
    const coney_codec *codec;
    coney_arena *arena;
    coney_delivery_info info;
    bool has_info;
};

/* Asking ---------------------------------------------------------------------------------------------------------- */

static coney_reply_message *reply_new(const struct posting *g)
{
    coney_reply_message *reply = calloc(1, sizeof *reply);
    if (reply == NULL)
        return NULL;
    reply->arena = coney_arena_new();
    reply->transport = g->transport;
    reply->codec = g->message.options->codec != NULL ? g->message.options->codec : g->publisher->codec;
    if (reply->arena != NULL)
        return reply;
    free(reply);
    return NULL;
}

static coney_status ask(struct posting *g, coney_reply_message **reply, coney_call *call)
{
    struct outgoing outgoing;
    coney_status status = posting_outgoing(g, &g->message, &outgoing);
    if (status != CONEY_OK)
        return status;
    status = publish_probe_failure(g);
    if (status != CONEY_OK)
        return app_refuse(call, status, "%s", coney_status_text(status));
    coney_reply_message *message = reply_new(g);
    if (message == NULL)
        return app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    status = g->transport->request(g->outlet, &outgoing, &message->in, call);
    if (status != CONEY_OK) {
        coney_arena_free(&message->arena);
        free(message);
        return status;
    }
    g->accepted++;
    publish_probe_published(g, &outgoing);
    atomic_fetch_add_explicit(&g->publisher->stats.confirmed, 1, memory_order_relaxed);
    *reply = message;
    return CONEY_OK;
}

static coney_status check_request(struct posting *g, const coney_call *call)
{
    if (g->transport->request == NULL)
        return posting_refuse(g, CONEY_EUNSUPPORTED, "%s has no requests and replies", g->transport->name);
    if (call->on_done != NULL)
        return posting_refuse(g, CONEY_EINVAL, "a request waits for its reply: leave out on_done");
    return CONEY_OK;
}

/* What is asked: a value of a type, or bytes as they are. */
struct question {
    const coney_type *type;
    const void *value;
    bool is_raw; /* then, in place of the two above: */
    coney_bytes body;
    coney_bytes content_type;
    const coney_publish_options *options;
    size_t size; /* of the options, as the caller knows them */
};

static coney_status request(coney_publisher *publisher, const struct question *question, coney_reply_message **reply,
                            coney_call *call)
{
    if (reply == NULL)
        return app_refuse(call, CONEY_EINVAL, "a request needs a place for its reply, and it is NULL");
    *reply = NULL;
    coney_call own = {0};
    if (call == NULL)
        call = &own;
    struct posting g;
    coney_out out = coney_out_by_publisher(publisher);
    coney_status status = posting_begin(&g, &out, question->options, question->size, call);
    if (status != CONEY_OK)
        return status;
    status = check_request(&g, call);
    if (status == CONEY_OK)
        status = question->is_raw ? posting_write_raw(&g, question->body, question->content_type)
                                  : posting_write(&g, question->type, question->value);
    return posting_end(&g, status == CONEY_OK ? ask(&g, reply, call) : status);
}

coney_status coney_request_sized(coney_publisher *publisher, const coney_type *type, const void *value,
                                 const coney_publish_options *options, size_t size, coney_reply_message **reply,
                                 coney_call *call)
{
    return request(publisher, &(struct question){.type = type, .value = value, .options = options, .size = size}, reply, call);
}

coney_status coney_request_raw_sized(coney_publisher *publisher, coney_bytes body, coney_bytes content_type,
                                     const coney_publish_options *options, size_t size, coney_reply_message **reply,
                                     coney_call *call)
{
    const struct question question = {
        .is_raw = true, .body = body, .content_type = content_type, .options = options, .size = size};
    return request(publisher, &question, reply, call);
}

/* The reply ------------------------------------------------------------------------------------------------------- */

coney_bytes coney_reply_body(const coney_reply_message *reply)
{
    return reply->in.body;
}

const coney_delivery_info *coney_reply_info(const coney_reply_message *reply)
{
    coney_reply_message *filled = (coney_reply_message *)(uintptr_t)reply;
    if (!reply->has_info) {
        filled->transport->info(&reply->in, &filled->info);
        filled->has_info = true;
    }
    return &reply->info;
}

/* The variant of a set that a header of the reply, or its type, chooses; NULL: none does. */
static const coney_member *chosen_variant(const coney_reply_message *reply, const coney_type *set)
{
    coney_value value;
    if (set->to[0] == '\0')
        return NULL;
    if (reply->transport->header(&reply->in, coney_bytes_str(set->to), &value) &&
        (value.type == CONEY_VALUE_STRING || value.type == CONEY_VALUE_SYMBOL || value.type == CONEY_VALUE_BINARY))
        return set_find(set, value.as.bytes);
    return strcmp(set->to, "type") == 0 ? set_find(set, coney_reply_info(reply)->type) : NULL;
}

static coney_status wrong_content_type(const coney_reply_message *reply, coney_bytes content_type, coney_fault *fault)
{
    if (fault == NULL)
        return CONEY_ECORRUPT;
    char found[128];
    text_from_wire(found, sizeof found, content_type);
    fault->path[0] = '\0';
    text_print(fault->text, sizeof fault->text, "the reply is '%s', and the codec %s reads '%s'", found, reply->codec->name,
               reply->codec->content_type);
    return CONEY_ECORRUPT;
}

coney_status coney_reply_decode(coney_reply_message *reply, const coney_type *type, const void **value, coney_fault *fault)
{
    if (reply == NULL || type == NULL || value == NULL)
        return CONEY_EINVAL;
    coney_bytes content_type = reply->transport->content_type(&reply->in);
    if (!coney_codec_takes(reply->codec, content_type))
        return wrong_content_type(reply, content_type, fault);
    void *out = coney_arena_alloc(reply->arena, type->size);
    if (out == NULL)
        return CONEY_ENOMEM;
    const coney_member *variant = type->kind == CONEY_KIND_SET ? chosen_variant(reply, type) : NULL;
    coney_fault ignored;
    coney_status status = variant != NULL ? set_decode(reply->codec, reply->in.body, type, variant, out, reply->arena,
                                                       fault != NULL ? fault : &ignored)
                                          : coney_decode(reply->codec, reply->in.body, type, out, reply->arena, fault);
    if (status == CONEY_OK)
        *value = out;
    return status;
}

void coney_reply_free(coney_reply_message **reply)
{
    if (reply == NULL || *reply == NULL)
        return;
    coney_reply_message *message = *reply;
    *reply = NULL;
    message->transport->settle(&message->in, CONEY_ACK);
    coney_arena_free(&message->arena);
    free(message);
}
