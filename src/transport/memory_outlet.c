/* memory_outlet.c: what goes out through the broker in memory: publishes, copies, transactions: see memory_bus.h. */
#include "base/bytes.h"
#include "base/time.h"
#include "transport/amqp.h"
#include "transport/memory_bus.h"
#include "transport/memory_match.h"

#include <stdlib.h>

enum { SHORT_TEXT_MAX = 255 };

#define AMQP_MESSAGE_MAX (16 * CONEY_MIB) /* max_message_size of a server */
#define STREAM_MESSAGE_MAX CONEY_MIB      /* its frame_max */
#define ROOM_WAIT (10 * CONEY_SECOND)
#define ROOM_PATIENCE CONEY_MILLISECOND

struct memory_outlet {
    struct outlet outlet; /* first */
    struct bus *bus;
    struct outlet_options options;
    coney_bytes exchange; /* in `text` */
    char text[];
};

struct memory_tx {
    struct memory_outlet *outlet;
    struct message *first;
    struct message **end;
};

static struct memory_outlet *of(struct outlet *outlet)
{
    return container_of(outlet, struct memory_outlet, outlet);
}

/* Encoding ---------------------------------------------------------------------------------------------------------------- */

static bool fits_amqp(const struct outgoing *out)
{
    return out->to.len <= SHORT_TEXT_MAX && out->content_type.len <= SHORT_TEXT_MAX &&
           out->correlation_id.len <= SHORT_TEXT_MAX && out->reply_to.len <= SHORT_TEXT_MAX &&
           out->message_id.len <= SHORT_TEXT_MAX && out->type.len <= SHORT_TEXT_MAX;
}

/* A topic that is known needs no look at its name. */
static coney_status check_out(const struct bus *bus, const struct outgoing *out, const struct queue *known)
{
    switch (bus->face) {
    case FACE_MEMORY:
        if (out->expiration != 0 || out->has_priority)
            return CONEY_EUNSUPPORTED;
        return known != NULL || memory_topic_is_single(out->to) ? CONEY_OK : CONEY_EINVAL;
    case FACE_AMQP:
        return fits_amqp(out) && out->expiration >= 0 ? CONEY_OK : CONEY_EINVAL;
    case FACE_STREAM:
        if (out->expiration != 0 || out->has_priority)
            return CONEY_EUNSUPPORTED;
        if (out->to.len == 0 || out->to.len > SHORT_TEXT_MAX)
            return CONEY_EINVAL;
        return (int64_t)out->body.len > STREAM_MESSAGE_MAX ? CONEY_ETOOBIG : CONEY_OK;
    }
    return CONEY_EINVAL;
}

static inline bool has_more(const struct outgoing *out)
{
    return (out->correlation_id.len | out->reply_to.len | out->message_id.len | out->type.len | out->key.len |
            out->header_count) != 0 ||
           out->expiration != 0 || out->timestamp != 0 || out->has_priority;
}

static coney_status fill_more(struct bus *bus, const struct outgoing *out, struct message_more *more)
{
    bool is_amqp = bus->face == FACE_AMQP;
    *more = (struct message_more){.correlation_id = out->correlation_id,
                                  .reply_to = out->reply_to,
                                  .message_id = out->message_id,
                                  .type = out->type,
                                  .expiration = out->expiration,
                                  .timestamp = is_amqp ? out->timestamp / 1000 * 1000 : out->timestamp,
                                  .priority = out->priority,
                                  .has_priority = out->has_priority};
    return message_headers(&bus->pool, is_amqp ? CONEY_ENCODING_AMQP091 : CONEY_ENCODING_AMQP10, NULL, out->headers,
                           out->header_count, out->key, &more->headers);
}

static coney_status encode(struct bus *bus, coney_bytes exchange, const struct outgoing *out, const struct queue *topic,
                           struct message **message)
{
    struct message_more more;
    coney_status status = check_out(bus, out, topic);
    struct message view;
    view.body = out->body;
    view.content_type = out->content_type;
    view.exchange = exchange;
    view.to = topic != NULL ? topic->name : out->to;
    view.more = NULL;
    if (status == CONEY_OK && has_more(out)) {
        status = fill_more(bus, out, &more);
        view.more = &more;
    }
    if (status != CONEY_OK)
        return status;
    *message = message_new(&bus->pool, &view, topic != NULL);
    return *message != NULL ? CONEY_OK : CONEY_ENOMEM;
}

coney_status memory_encode(struct bus *bus, coney_bytes exchange, const struct outgoing *out, struct message **message)
{
    return encode(bus, exchange, out, NULL, message);
}

static struct verdict deliver(struct bus *bus, struct message *message)
{
    if (bus->face == FACE_AMQP && (int64_t)message->body.len > AMQP_MESSAGE_MAX)
        return (struct verdict){CONEY_EREFUSED, 406,
                                "PRECONDITION_FAILED - the body is larger than a server takes: max_message_size is 16777216"};
    return memory_route(bus, message);
}

/* Publishing -------------------------------------------------------------------------------------------------------------- */

static struct listener *full_one(struct bus *bus, coney_bytes to, const struct queue *topic)
{
    size_t count = memory_topic_targets(bus, to, topic);
    for (size_t i = 0; i < count; i++)
        if (bus->targets[i]->waiting >= bus->targets[i]->most_waiting)
            return bus->targets[i];
    return NULL;
}

/* Waits, with the lock released, until every listener of the topic has room for one more: at first for as much as makes the wake-up worth while, then for any. */
static coney_status wait_for_room(struct bus *bus, const struct outgoing *out)
{
    int64_t now = time_now();
    int64_t deadline = time_after(now, ROOM_WAIT);
    int64_t until = time_after(now, ROOM_PATIENCE);
    for (bool in_time = true;; until = deadline) {
        struct listener *full = full_one(bus, out->to, memory_queue_find(bus, out->to));
        if (full == NULL)
            return CONEY_OK;
        if (bus->is_virtual || memory_is_listening(full))
            return CONEY_EAGAIN;
        if (!in_time && time_now() >= deadline)
            return CONEY_ETIMEDOUT;
        if (until == deadline)
            atomic_store_explicit(&full->look, true, memory_order_relaxed);
        bus->room_waiters++;
        in_time = cond_wait(&bus->changed, &bus->lock, until);
        bus->room_waiters--;
        if (!bus->is_connected)
            return CONEY_ECLOSED;
    }
}

static inline bool is_named(const struct queue *queue, coney_bytes name)
{
    return queue != NULL && bytes_equal_short(coney_bytes_of(queue->text, queue->name.len), name);
}

/* Nobody is there who would take the messages of a topic that has no queue. */
static inline bool is_unheard(const struct bus *bus)
{
    return list_empty(&bus->patterns) && list_empty(&bus->requests) && bus->options.retain_messages == 0 &&
           bus->options.retain_bytes == 0;
}

static void note_unheard(struct bus *bus, coney_bytes to)
{
    if (to.len > sizeof bus->unheard)
        return;
    memcpy(bus->unheard, to.data, to.len);
    bus->unheard_len = to.len;
}

/* Most bodies are short: without a call. */
static inline void copy_body(uint8_t *to, coney_bytes body)
{
    if (body.len <= 16 || body.len > 64) {
        copy_short(to, body.data, body.len);
        return;
    }
    const uint8_t *from = body.data;
    memcpy(to, from, 16);
    if (body.len > 32) {
        memcpy(to + 16, from + 16, 16);
        memcpy(to + body.len - 32, from + body.len - 32, 16);
    }
    memcpy(to + body.len - 16, from + body.len - 16, 16);
}

/* The way of nearly all messages of a running app: to a topic with one listener, which has room, or to one that nobody hears, and with no properties but the
 * content type. False: it is not so, and nothing was done. */
static inline bool publish_plain(struct bus *bus, const struct outgoing *out)
{
    if (out->to.len == 0 || has_more(out))
        return false;
    struct queue *topic = bus->recent[memory_recent(out->to)];
    if (!is_named(topic, out->to))
        return bytes_equal_short(coney_bytes_of(bus->unheard, bus->unheard_len), out->to) && is_unheard(bus) &&
               bus->is_connected;
    if (topic->only == NULL || topic->only->waiting >= topic->only->most_waiting)
        return false;
    struct message *message = message_take(&bus->pool, out->body.len + out->content_type.len);
    if (message == NULL)
        return false;
    uint8_t *at = (uint8_t *)message->data;
    message->body = coney_bytes_of(at, out->body.len);
    copy_body(at, out->body);
    message->content_type = coney_bytes_of(at + out->body.len, out->content_type.len);
    if (out->content_type.len > 0)
        copy_short(at + out->body.len, out->content_type.data, out->content_type.len);
    message->exchange = coney_bytes_of(NULL, 0);
    message->to = topic->name;
    message->entry_used = true;
    struct entry *entry = &message->entry;
    entry->queue = topic;
    entry->at = bus->next_at++;
    entry->returns = 0;
    entry->redelivered = entry->is_open = entry->is_reply = false;
    memory_listener_take(topic->only, entry);
    return true;
}

/* Under the lock. */
static coney_status publish(struct bus *bus, coney_bytes exchange, const struct outgoing *out, struct verdict *verdict)
{
    const struct queue *topic = NULL;
    coney_status status = CONEY_OK;
    if (!atomic_load_explicit(&bus->is_connected, memory_order_relaxed))
        return CONEY_ECLOSED;
    if (bus->face == FACE_MEMORY) {
        topic = memory_queue_find(bus, out->to);
        if (topic == NULL && is_unheard(bus) && !has_more(out)) {
            status = check_out(bus, out, NULL);
            if (status == CONEY_OK)
                note_unheard(bus, out->to);
            return status;
        }
        if (__builtin_expect(full_one(bus, out->to, topic) != NULL, 0))
            status = wait_for_room(bus, out);
        if (status != CONEY_OK)
            return status;
    }
    struct message *message;
    status = encode(bus, exchange, out, topic, &message);
    if (status != CONEY_OK)
        return status;
    *verdict = deliver(bus, message);
    message_unref(&bus->pool, message);
    return verdict->status == CONEY_ENOMEM ? CONEY_ENOMEM : CONEY_OK;
}

static void tell(coney_outcome_fn outcome, void *ctx, uint64_t tag, const struct verdict *verdict)
{
    const coney_outcome told = {.tag = tag, .status = verdict->status, .code = verdict->code, .text = verdict->text};
    outcome(ctx, &told);
}

/* Every other message; the lock is held, and released here. */
static __attribute__((noinline)) coney_status publish_any(struct memory_outlet *o, const struct outgoing *out, uint64_t tag)
{
    struct bus *bus = o->bus;
    struct verdict verdict = VERDICT_OK;
    coney_status status = publish(bus, out->to_requester ? (coney_bytes){0} : o->exchange, out, &verdict);
    lock_release(&bus->lock);
    if (status != CONEY_OK)
        return status;
    bool may_be_lost = out->drop_unroutable || out->to_requester || o->options.drop_unroutable;
    if (o->options.policy == CONEY_PUBLISH_PLAIN || (verdict.status == CONEY_ERETURNED && may_be_lost))
        verdict = VERDICT_OK;
    tell(o->options.outcome, o->options.ctx, tag, &verdict);
    return CONEY_OK;
}

coney_status memory_publish(struct outlet *outlet, const struct outgoing *out, uint64_t tag)
{
    struct memory_outlet *o = of(outlet);
    lock_acquire(&o->bus->lock);
    if (__builtin_expect(!publish_plain(o->bus, out), 0))
        return publish_any(o, out, tag);
    lock_release(&o->bus->lock);
    const coney_outcome told = {.tag = tag, .status = CONEY_OK, .text = ""};
    o->options.outcome(o->options.ctx, &told);
    return CONEY_OK;
}

coney_status memory_open_outlet(void *self, const struct outlet_options *options, struct outlet **outlet, coney_call *call)
{
    const char *exchange = options->exchange != NULL ? options->exchange : "";
    size_t len = strlen(exchange);
    struct bus *bus = self;
    struct memory_outlet *o = calloc(1, sizeof *o + len + 1);
    if (o == NULL)
        return memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    o->outlet.transport = bus->reply_feed.transport;
    o->bus = bus;
    o->options = *options;
    memcpy(o->text, exchange, len);
    o->exchange = coney_bytes_of(o->text, len);
    *outlet = &o->outlet;
    return CONEY_OK;
}

coney_status memory_close_outlet(struct outlet *outlet, coney_call *call)
{
    (void)call;
    free(of(outlet));
    return CONEY_OK;
}

/* Copies ------------------------------------------------------------------------------------------------------------------ */

bool memory_delays(const struct feed *feed)
{
    const struct listener *listener = container_of(feed, struct listener, feed);
    const coney_source *source = &listener->subscription->source;
    return source->kind == CONEY_SOURCE_QUEUE && ((const coney_queue_source *)source->of)->delay != CONEY_DELAY_HELD &&
           listener->queue->terms.kind != QUEUE_LOG;
}

static coney_status copy_message(struct bus *bus, const struct message *message, coney_bytes to, uint64_t attempts,
                                 struct message **copy)
{
    bool is_amqp = bus->face == FACE_AMQP;
    struct message_more more = {0};
    if (message->more != NULL)
        more = *message->more;
    const coney_field field = {CONEY_STR(ATTEMPTS_HEADER),
                               is_amqp ? coney_value_i64((int64_t)attempts) : coney_value_u64(attempts)};
    const coney_value headers = more.headers;
    coney_status status = message_headers(&bus->pool, is_amqp ? CONEY_ENCODING_AMQP091 : CONEY_ENCODING_AMQP10, &headers,
                                          &field, 1, (coney_bytes){0}, &more.headers);
    if (status != CONEY_OK)
        return status;
    struct message view = *message;
    view.more = &more;
    view.exchange = (coney_bytes){0};
    view.to = to;
    *copy = message_new(&bus->pool, &view, false);
    return *copy != NULL ? CONEY_OK : CONEY_ENOMEM;
}

/* The queue in which messages wait for so long, made when it is first needed. */
static struct queue *waiting_queue(struct bus *bus, struct queue *queue, int64_t delay)
{
    char name[SHORT_TEXT_MAX + 1];
    int64_t ms = tamqp_delay_class(delay);
    tamqp_waiting_queue_name(name, queue->text, ms);
    struct queue *waiting = memory_queue_find(bus, coney_bytes_str(name));
    if (waiting != NULL)
        return waiting;
    struct queue_terms terms = {.kind = queue->terms.kind,
                                .message_ttl = ms * CONEY_MILLISECOND,
                                .delivery_limit = CONEY_OFF,
                                .dead_letter_exchange = "",
                                .dead_letter_routing_key = queue->text};
    return memory_queue_new(bus, coney_bytes_str(name), &terms);
}

static coney_status delay_copy(struct listener *listener, struct message *copy, int64_t delay)
{
    struct bus *bus = listener->bus;
    const coney_queue_source *source = listener->subscription->source.of;
    if (source->delay == CONEY_DELAY_QUEUE) {
        struct queue *waiting = waiting_queue(bus, listener->queue, delay);
        return waiting != NULL ? memory_queue_append(bus, waiting, copy) : CONEY_ENOMEM;
    }
    struct entry *entry = memory_entry_new(bus, copy, listener->queue, 0);
    if (entry == NULL)
        return CONEY_ENOMEM;
    memory_delay(bus, entry, time_after(memory_now(bus), delay));
    return CONEY_OK;
}

/* Under the lock. */
static coney_status copy(struct listener *listener, const struct message *message, const char *to, uint64_t attempts,
                         int64_t delay, struct verdict *verdict)
{
    struct bus *bus = listener->bus;
    if (to == NULL && (listener->queue == NULL || listener->queue->terms.kind == QUEUE_LOG))
        return CONEY_EUNSUPPORTED;
    if (delay > 0 && (to != NULL || !memory_delays(&listener->feed)))
        return CONEY_EUNSUPPORTED;
    struct message *made;
    coney_bytes name = to != NULL ? coney_bytes_str(to) : listener->queue->name;
    coney_status status = copy_message(bus, message, name, attempts, &made);
    if (status != CONEY_OK)
        return status;
    *verdict = VERDICT_OK;
    if (delay > 0)
        status = delay_copy(listener, made, delay);
    else
        *verdict = memory_route(bus, made);
    message_unref(&bus->pool, made);
    return verdict->status == CONEY_ENOMEM ? CONEY_ENOMEM : status;
}

coney_status memory_copy(struct incoming *m, const char *to, uint64_t attempts, int64_t delay, coney_outcome_fn outcome,
                         void *ctx, uint64_t tag)
{
    const struct entry *entry = m->native;
    struct bus *bus = entry->bus;
    struct verdict verdict;
    lock_acquire(&bus->lock);
    coney_status status = entry->listener == NULL || !bus->is_connected
                              ? CONEY_ECLOSED
                              : copy(entry->listener, entry->message, to, attempts, delay, &verdict);
    lock_release(&bus->lock);
    if (status == CONEY_OK)
        tell(outcome, ctx, tag, &verdict);
    return status;
}

/* Transactions ------------------------------------------------------------------------------------------------------------ */

coney_status memory_tx_begin(struct outlet *outlet, void **tx, coney_call *call)
{
    struct memory_tx *begun = calloc(1, sizeof *begun);
    if (begun == NULL)
        return memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    begun->outlet = of(outlet);
    begun->end = &begun->first;
    *tx = begun;
    return CONEY_OK;
}

coney_status memory_tx_publish(void *tx, const struct outgoing *out)
{
    struct memory_tx *t = tx;
    struct bus *bus = t->outlet->bus;
    struct message *message;
    lock_acquire(&bus->lock);
    coney_status status = bus->is_connected ? memory_encode(bus, t->outlet->exchange, out, &message) : CONEY_ECLOSED;
    if (status == CONEY_OK) {
        message->next = NULL;
        *t->end = message;
        t->end = &message->next;
    }
    lock_release(&bus->lock);
    return status;
}

static void tx_free(struct memory_tx *t)
{
    for (struct message *message = t->first; message != NULL;) {
        struct message *next = message->next;
        message_unref(&t->outlet->bus->pool, message);
        message = next;
    }
    free(t);
}

/* What a server would refuse the whole of it for. */
static coney_status tx_check(const struct memory_tx *t, coney_call *call)
{
    struct bus *bus = t->outlet->bus;
    if (!bus->is_connected)
        return memory_fail(call, CONEY_ECLOSED, 0, "the broker is not connected");
    if (bus->face != FACE_AMQP)
        return CONEY_OK;
    if (t->outlet->exchange.len > 0 && memory_exchange_find(bus, t->outlet->exchange) == NULL)
        return memory_fail(call, CONEY_ENOTFOUND, 404, "NOT_FOUND - no exchange '%s'", t->outlet->text);
    for (const struct message *message = t->first; message != NULL; message = message->next)
        if ((int64_t)message->body.len > AMQP_MESSAGE_MAX)
            return memory_fail(
                call, CONEY_EPRECONDITION, 406,
                "PRECONDITION_FAILED - a body of %zu bytes is larger than a server takes: max_message_size is 16777216",
                message->body.len);
    return CONEY_OK;
}

coney_status memory_tx_commit(void *tx, coney_call *call)
{
    struct memory_tx *t = tx;
    struct bus *bus = t->outlet->bus;
    lock_acquire(&bus->lock);
    coney_status status = tx_check(t, call);
    for (struct message *message = t->first; message != NULL && status == CONEY_OK; message = message->next)
        memory_route(bus, message);
    tx_free(t);
    lock_release(&bus->lock);
    return status;
}

coney_status memory_tx_abort(void *tx, coney_call *call)
{
    struct memory_tx *t = tx;
    struct bus *bus = t->outlet->bus;
    (void)call;
    lock_acquire(&bus->lock);
    tx_free(t);
    lock_release(&bus->lock);
    return CONEY_OK;
}

/* For requests ------------------------------------------------------------------------------------------------------------ */

struct bus *memory_outlet_bus(struct outlet *outlet)
{
    return of(outlet)->bus;
}

coney_bytes memory_outlet_exchange(struct outlet *outlet)
{
    return of(outlet)->exchange;
}
