/* delivery.c: what a handler can ask of its delivery, and leave with it. */
#include "service/delivery.h"

#include "base/text.h"
#include "service/dispatch.h"

#include <inttypes.h>

static void read_info(coney_delivery *d)
{
    memset(&d->info, 0, sizeof d->info);
    d->dispatch->transport->info(d->m, &d->info);
    d->info.redelivered |= d->returns > 0;
    d->has_info = true;
}

bool delivery_hold(coney_delivery *d)
{
    if (d->is_held)
        return true;
    if (!d->dispatch->transport->keep(d->m))
        return false;
    d->in = *d->m;
    d->m = &d->in;
    d->is_held = true;
    if (d->has_info)
        read_info(d);
    return true;
}

const coney_delivery_info *delivery_info(coney_delivery *d)
{
    if (!d->has_info)
        read_info(d);
    return &d->info;
}

uint64_t delivery_attempt(const coney_delivery *d)
{
    uint64_t attempt = d->dispatch->transport->attempt(d->m) + d->returns;
    uint64_t turned_away = dispatch_turned_away(d->dispatch, d->m);
    return attempt > turned_away ? attempt - turned_away : 1;
}

void delivery_name(coney_delivery *d, char *buf, size_t cap)
{
    const coney_delivery_info *info = delivery_info(d);
    text_print(buf, cap, "a message");
    if (info->message_id.len > 0) {
        char id[96];
        text_from_wire(id, sizeof id, info->message_id);
        text_print(buf, cap, "message '%s'", id);
    }
    if (info->has_offset)
        text_append(buf, cap, " at offset %" PRIu64, info->offset);
}

/* The message ------------------------------------------------------------------------------------------------------------------ */

coney_bytes coney_delivery_body(const coney_delivery *delivery)
{
    return delivery->m->body;
}

const char *coney_delivery_subscription(const coney_delivery *delivery)
{
    return delivery->subscription->name;
}

coney_app *coney_delivery_app(const coney_delivery *delivery)
{
    return delivery->subscription->app;
}

void *coney_delivery_ctx(const coney_delivery *delivery)
{
    return delivery->subscription->options.ctx;
}

void *coney_state(const coney_delivery *delivery)
{
    return coney_app_state(delivery->subscription->app);
}

bool coney_delivery_stopping(const coney_delivery *delivery)
{
    const coney_app *app = delivery->dispatch->app;
    return dispatch_is_halted(delivery->dispatch) || atomic_load_explicit(&app->asked_to_stop, memory_order_relaxed) ||
           atomic_load_explicit(&app->draining, memory_order_relaxed);
}

uint64_t coney_delivery_attempt(const coney_delivery *delivery)
{
    return delivery_attempt(delivery);
}

/* The info is decoded into the delivery: no delivery is const in truth. */
const coney_delivery_info *coney_delivery_info_of(const coney_delivery *delivery)
{
    return delivery_info((coney_delivery *)(uintptr_t)delivery);
}

bool coney_delivery_header(const coney_delivery *delivery, coney_bytes name, coney_value *value)
{
    return delivery->dispatch->transport->header(delivery->m, name, value);
}

coney_status coney_delivery_headers(coney_delivery *delivery, const coney_type *type, void *out)
{
    if (type == NULL || out == NULL)
        return CONEY_EINVAL;
    delivery->used_arena = true;
    return coney_headers_decode(&delivery_info(delivery)->headers, type, out, delivery->arena, &delivery->fault);
}

const coney_amqp_delivery *coney_delivery_amqp(const coney_delivery *delivery)
{
    const struct transport *transport = delivery->dispatch->transport;
    return transport->amqp_delivery != NULL ? transport->amqp_delivery(delivery->m) : NULL;
}

const coney_stream_delivery *coney_delivery_stream(const coney_delivery *delivery)
{
    const struct transport *transport = delivery->dispatch->transport;
    return transport->stream_delivery != NULL ? transport->stream_delivery(delivery->m) : NULL;
}

/* What is left with it --------------------------------------------------------------------------------------------------------- */

coney_arena *coney_delivery_arena(coney_delivery *delivery)
{
    delivery->used_arena = true;
    return delivery->arena;
}

coney_status coney_delivery_put(coney_delivery *delivery, const void *key, void *value)
{
    for (struct bag *item = delivery->bag; item != NULL; item = item->next) {
        if (item->key != key)
            continue;
        item->value = value;
        return CONEY_OK;
    }
    struct bag *item = coney_arena_alloc(coney_delivery_arena(delivery), sizeof *item);
    if (item == NULL)
        return CONEY_ENOMEM;
    *item = (struct bag){delivery->bag, key, value};
    delivery->bag = item;
    return CONEY_OK;
}

void *coney_delivery_find(const coney_delivery *delivery, const void *key)
{
    for (const struct bag *item = delivery->bag; item != NULL; item = item->next)
        if (item->key == key)
            return item->value;
    return NULL;
}

coney_status coney_after(coney_delivery *delivery, void (*then)(void *ctx, coney_settle how), void *ctx)
{
    if (then == NULL || delivery->batch != NULL || !delivery_is_open(delivery))
        return CONEY_EINVAL;
    struct after *after = coney_arena_alloc(coney_delivery_arena(delivery), sizeof *after);
    if (after == NULL)
        return CONEY_ENOMEM;
    *after = (struct after){NULL, then, ctx};
    struct after **last = &delivery->afters;
    while (*last != NULL)
        last = &(*last)->next;
    *last = after;
    atomic_store_explicit(&delivery->is_special, true, memory_order_relaxed);
    return CONEY_OK;
}

/* Failures and keeping --------------------------------------------------------------------------------------------------------- */

static coney_settle fault(coney_delivery *delivery, const char *text, coney_settle how)
{
    if (text != NULL) {
        delivery->fault.path[0] = '\0';
        text_print(delivery->fault.text, sizeof delivery->fault.text, "%s", text);
    }
    if (!atomic_load_explicit(&delivery->user_kept, memory_order_relaxed))
        return how;
    struct dispatch *x = delivery->dispatch;
    if (!dispatch_enter(x))
        return CONEY_REQUEUE; /* the broker has it already, and the app may be gone */
    how = settle_fault(delivery, how);
    dispatch_leave(x);
    return how;
}

coney_settle coney_undecodable(coney_delivery *delivery, const char *text)
{
    return fault(delivery, text, SETTLE_UNDECODABLE);
}

coney_settle coney_failed(coney_delivery *delivery, const char *text)
{
    return fault(delivery, text, CONEY_FAILED);
}

static coney_status settle_kept(struct coney_kept *kept, coney_settle how)
{
    coney_delivery *d = container_of(kept, coney_delivery, handle);
    d->how = how;
    atomic_store_explicit(&d->user_kept, false, memory_order_relaxed);
    return settle_released(d);
}

coney_kept *coney_delivery_keep(coney_delivery *delivery)
{
    coney_delivery *d = delivery;
    if (!atomic_load_explicit(&d->in_handler, memory_order_relaxed) || d->batch != NULL || d->is_taken || !delivery_hold(d))
        return NULL;
    d->is_taken = true;
    atomic_store_explicit(&d->is_special, true, memory_order_relaxed);
    d->handle.settle = settle_kept;
    atomic_fetch_add_explicit(&d->waits, 1, memory_order_relaxed);
    atomic_store_explicit(&d->user_kept, true, memory_order_relaxed);
    return &d->handle;
}

coney_delivery *coney_kept_service_delivery(const coney_kept *kept)
{
    if (kept == NULL || kept->settle != settle_kept)
        return NULL;
    return (coney_delivery *)((char *)kept - offsetof(coney_delivery, handle));
}
