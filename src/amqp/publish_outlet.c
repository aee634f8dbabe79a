/* publish_outlet.c: entries that are whole publishes: room for them, their channel, their parts. */
#include "amqp/publish_outlet.h"

#include "base/text.h"

#include <assert.h>
#include <stdlib.h>

static_assert(offsetof(struct outlet, sender) == 0, "a sender stands first");

#define BODY_MOST (512u << 20) /* beyond it RabbitMQ, whatever its max_message_size, closes the whole connection */

static void run_settle(struct task *task);

bool outlet_init(struct outlet *outlet, const struct sender_kind *kind, const struct member_kind *member_kind,
                 struct coney_amqp *amqp, const char *name, const struct sender_options *options, bool keep_trying)
{
    place_init(&outlet->place);
    outlet->settle_task.run = run_settle;
    return sender_init(&outlet->sender, kind, member_kind, &amqp->env, name, options, keep_trying);
}

void outlet_free(struct outlet *outlet)
{
    sender_free(&outlet->sender);
    free(outlet->body);
}

struct place *outlet_place_of(struct member *member)
{
    return &outlet_of_member(member)->place;
}

/* Appending ------------------------------------------------------------------------------------------------------- */

coney_status outlet_make_room(struct sender_visit *visit, size_t method, size_t properties, size_t body, size_t *size)
{
    struct sender *sender = visit->sender;
    if (body > BODY_MOST)
        return CONEY_ETOOBIG;
    for (;;) {
        coney_status status = (coney_status)atomic_load(&sender->open);
        if (status != CONEY_OK)
            return status;
        uint32_t payload_max = (uint32_t)sender->limit;
        *size = 1; /* before it was open once there is no room for anything */
        if (payload_max > 0) {
            *size = amqp_publish_size(method, properties, body, payload_max);
            if (properties > amqp_properties_max(payload_max) || *size > UINT32_MAX)
                return CONEY_ETOOBIG;
        }
        if (outbox_has_room(&sender->outbox, *size))
            return CONEY_OK;
        status = sender_wait_for_room(visit, *size);
        if (status != CONEY_OK)
            return status;
    }
}

coney_status outlet_append(struct sender_visit *visit, const struct message_form *form, uint64_t tag)
{
    struct sender *sender = visit->sender;
    struct outbox *outbox = &sender->outbox;
    size_t size;
    coney_status status = outlet_make_room(visit, form->method.len, form->properties_size, form->body.len, &size);
    if (status != CONEY_OK)
        return status;
    const struct slot *slot = outbox_append(outbox, size, tag, form->mandatory ? SLOT_MANDATORY : 0);
    if (slot == NULL)
        return CONEY_ENOMEM;
    message_form_write(form, slot->entry, outlet_of(sender)->number, (uint32_t)sender->limit);
    visit->tell |= outbox_commit(outbox, size);
    return CONEY_OK;
}

coney_status outlet_append_held(struct sender_visit *visit, const struct message_held *held, uint64_t tag, uint8_t flags)
{
    struct sender *sender = visit->sender;
    struct outbox *outbox = &sender->outbox;
    size_t size;
    coney_status status = outlet_make_room(visit, held->method, held->properties, held->body, &size);
    if (status != CONEY_OK)
        return status;
    if (held->mandatory)
        flags |= SLOT_MANDATORY;
    const struct slot *slot = outbox_append(outbox, size, tag, flags);
    if (slot == NULL)
        return CONEY_ENOMEM;
    message_held_write(held, slot->entry, outlet_of(sender)->number, (uint32_t)sender->limit);
    visit->tell |= outbox_commit(outbox, size);
    return CONEY_OK;
}

void outlet_explain_size(const struct sender *sender, coney_bytes held_bytes, char *text, size_t cap)
{
    const struct message_held *held = held_bytes.data;
    if (message_held_fits(held, (uint32_t)sender->limit))
        text_print(text, cap, "the body is %zu bytes; no broker takes more than 512 MiB", held->body);
    else
        text_print(
            text, cap,
            "the properties take %zu bytes and cannot be split; a frame holds %zu of them on this connection (frame_max)",
            held->properties, amqp_properties_max((uint32_t)sender->limit));
}

/* Writing --------------------------------------------------------------------------------------------------------- */

size_t outlet_fill(struct sender *sender, struct iovec *slices, size_t cap, size_t *bytes)
{
    struct outbox_run run;
    size_t taken = outbox_take(&sender->outbox, OUTLET_FILL_BYTES, slices, cap, &run);
    *bytes += run.bytes;
    return taken;
}

void outlet_limits_changed(struct sender *sender)
{
    (void)sender;
}

void outlet_describe(const struct sender *sender, uint64_t number, const struct slot *slot, coney_outcome *outcome)
{
    (void)sender;
    (void)number;
    (void)slot;
    (void)outcome;
}

/* Entries --------------------------------------------------------------------------------------------------------- */

struct outlet_entry outlet_entry_read(const struct slot *slot)
{
    const uint8_t *method = slot->entry;
    const uint8_t *exchange = method + AMQP_HEAD_BYTES + 4 + 2;
    const uint8_t *routing_key = exchange + 1 + exchange[0];
    const uint8_t *header = method + load32(method + 3) + AMQP_FRAME_BYTES;
    uint32_t header_size = load32(header + 3);
    return (struct outlet_entry){
        .exchange = coney_bytes_of(exchange + 1, exchange[0]),
        .routing_key = coney_bytes_of(routing_key + 1, routing_key[0]),
        .properties = coney_bytes_of(header + AMQP_HEAD_BYTES + AMQP_PROPERTIES_AT, header_size - AMQP_PROPERTIES_AT),
        .body_size = load64(header + AMQP_HEAD_BYTES + 4),
        .bodies = header + header_size + AMQP_FRAME_BYTES,
        .end = slot->entry + slot->size,
    };
}

size_t outlet_limit(const struct sender *sender)
{
    return amqp_payload_max(sender->member.conn->frame_max);
}

bool outlet_fits(const struct sender *sender, const struct slot *slot)
{
    const uint8_t *end = slot->entry + slot->size;
    for (const uint8_t *at = slot->entry; at < end;) {
        size_t payload = load32(at + 3);
        if (payload > sender->limit)
            return false;
        at += payload + AMQP_FRAME_BYTES;
    }
    return true;
}

static bool reserve_body(struct outlet *outlet, size_t size)
{
    if (size <= outlet->body_cap)
        return true;
    uint8_t *larger = realloc(outlet->body, size);
    if (larger == NULL)
        return false;
    outlet->body = larger;
    outlet->body_cap = size;
    return true;
}

/* A body in several frames is put together in memory of the outlet's, for the next one to use again. */
coney_bytes outlet_body(const struct sender *sender, const struct slot *slot)
{
    struct outlet *outlet = outlet_of(sender);
    struct outlet_entry entry = outlet_entry_read(slot);
    coney_bytes piece = outlet_entry_body(&entry);
    if (piece.len == entry.body_size)
        return piece;
    if (!reserve_body(outlet, entry.body_size))
        return coney_bytes_of(NULL, 0);
    for (size_t at = 0; piece.len > 0; piece = outlet_entry_body(&entry)) {
        memcpy(outlet->body + at, piece.data, piece.len);
        at += piece.len;
    }
    return coney_bytes_of(outlet->body, entry.body_size);
}

/* The channel ------------------------------------------------------------------------------------------------------- */

/* What is in hand goes out on the new channel; whoever appends writes its number from here on. Nothing is being written. */
static void readdress(struct outlet *outlet)
{
    struct outbox *outbox = &outlet->sender.outbox;
    uint16_t number = outlet->place.channel->number;
    lock_acquire(&outbox->lock);
    bool other = outlet->number != number;
    outlet->number = number;
    outlet->sender.kind->limits_changed(&outlet->sender);
    uint64_t tail = atomic_load(&outbox->tail);
    lock_release(&outbox->lock);
    for (uint64_t at = atomic_load(&outbox->head); other && at < tail; at++) {
        const struct slot *slot = outbox_slot(outbox, at);
        amqp_retarget(slot->entry, slot->size, number);
    }
}

void outlet_active(struct member *member)
{
    readdress(outlet_of_member(member));
    sender_active(member);
}

void outlet_tell_returned(struct member *member, const struct amqp_basic_return *returned)
{
    char routing_key[AMQP_SHORT_MAX + 1];
    char words[AMQP_SHORT_MAX + 1];
    text_from_wire(routing_key, sizeof routing_key, returned->routing_key);
    text_from_wire(words, sizeof words, returned->text);
    env_event(member->env,
              &(coney_event){.type = CONEY_EVENT_RETURNED,
                             .status = CONEY_ERETURNED,
                             .code = returned->code,
                             .name = member->name,
                             .handle = member},
              "no queue took a message of the %s '%s' with the routing key '%s': %s (code %u)", member->kind->noun,
              member->name, routing_key, words, (unsigned)returned->code);
}

/* Settling ---------------------------------------------------------------------------------------------------------- */

void outlet_settle_soon(struct outlet *outlet)
{
    if (outlet->settling)
        return;
    outlet->settling = true;
    member_ref(&outlet->sender.member);
    loop_defer(outlet->sender.member.env->loop, &outlet->settle_task);
}

void outlet_written(struct sender *sender)
{
    struct outlet *outlet = outlet_of(sender);
    outlet->written = sender->outbox.cursor;
    outlet_settle_soon(outlet);
}

static void settle_written(struct outlet *outlet)
{
    struct sender *sender = &outlet->sender;
    struct sender_report report;
    sender_report_init(sender, &report, CONEY_OK);
    for (uint64_t number = atomic_load(&sender->outbox.head); number < outlet->written; number++) {
        const struct slot *slot = outbox_settle(&sender->outbox, number);
        if (slot == NULL)
            continue;
        counter_add(&sender->confirmed, 1);
        sender_report(sender, slot, &report);
    }
}

/* What has been written is not taken again. */
void outlet_lost(struct member *member)
{
    struct outlet *outlet = outlet_of_member(member);
    settle_written(outlet);
    outlet->written = 0;
    sender_lost(member);
}

static void run_settle(struct task *task)
{
    struct outlet *outlet = container_of(task, struct outlet, settle_task);
    struct member *member = &outlet->sender.member;
    outlet->settling = false;
    settle_written(outlet);
    sender_settled(&outlet->sender);
    if (outlet->settled != NULL && member->state != MEMBER_DEAD)
        outlet->settled(outlet);
    member_unref(member);
}
