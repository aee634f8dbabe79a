/* reply.c: answering a request: to where it asks for, with what it is known by. */
#include "service/posting.h"

static coney_status write_reply(struct posting *g, const coney_type *type, const void *value)
{
    const coney_delivery_info *info = coney_delivery_info_of(g->delivery);
    if (info->reply_to.len == 0)
        return posting_refuse(g, CONEY_EINVAL, "the message of the subscription '%s' has no reply_to: nobody waits for a reply",
                              g->delivery->subscription->name);
    coney_bytes to = coney_arena_copy(posting_scratch(g)->arena, info->reply_to);
    if (to.data == NULL)
        return CONEY_ENOMEM;
    coney_publish_options *own = posting_own_options(g);
    if (own->correlation_id.len == 0)
        own->correlation_id = info->correlation_id;
    g->message.to = to;
    g->is_reply = true;
    return posting_write(g, type, value);
}

coney_status coney_reply_sized(coney_delivery *delivery, const coney_type *type, const void *value,
                               const coney_publish_options *options, size_t size)
{
    struct posting g;
    coney_out out = coney_out_of(delivery);
    coney_status status = posting_begin(&g, &out, options, size, NULL);
    if (status != CONEY_OK)
        return status;
    status = write_reply(&g, type, value);
    return posting_end(&g, status == CONEY_OK ? publish_send(&g) : status);
}
