/* tracking.c: the loop's part for a consumer that runs: credit given back, offsets stored, broken chunks fetched again. */
#include "base/text.h"
#include "base/time.h"
#include "stream/consumer.h"

static bool is_connected(const struct coney_stream_consumer *consumer)
{
    return consumer->receiver.member.state == MEMBER_ACTIVE && consumer->receiver.member.conn != NULL;
}

/* Credit ---------------------------------------------------------------------------------------------------------- */

static void send_credit(struct coney_stream_consumer *consumer, uint64_t credit)
{
    while (credit > 0) {
        uint64_t now = credit < STREAM_CREDIT_MAX ? credit : STREAM_CREDIT_MAX;
        struct stream_frame frame = {.key = STREAM_CREDIT,
                                     .version = 1,
                                     .credit = {.subscription = (uint8_t)consumer->receiver.member.id, .credit = (int16_t)now}};
        stream_conn_send(consumer->receiver.member.conn, &frame);
        counter_add(&consumer->credits, 1);
        credit -= now;
    }
}

static void give_credit(struct coney_stream_consumer *consumer)
{
    uint64_t by_hand = atomic_exchange(&consumer->hand_credit, 0);
    lock_acquire(&consumer->receiver.lock);
    uint64_t done = consumer->chunks_done;
    consumer->chunks_done = 0;
    lock_release(&consumer->receiver.lock);
    if (!is_connected(consumer))
        return;
    if (consumer->options.credit_by_hand) {
        send_credit(consumer, by_hand);
        return;
    }
    uint64_t every = (uint64_t)consumer->options.credit_every;
    consumer->credit_owed += done;
    uint64_t now = consumer->credit_owed - consumer->credit_owed % every;
    consumer->credit_owed -= now;
    send_credit(consumer, now);
}

/* Offsets --------------------------------------------------------------------------------------------------------- */

static void send_store(struct coney_stream_consumer *consumer, uint64_t offset)
{
    struct stream_frame frame = {.key = STREAM_STORE_OFFSET,
                                 .version = 1,
                                 .store_offset = {.reference = coney_bytes_str(consumer->options.name),
                                                  .stream = coney_bytes_str(consumer->receiver.member.name),
                                                  .offset = offset}};
    stream_conn_send(consumer->receiver.member.conn, &frame);
    consumer->has_stored = true;
    counter_set(&consumer->stored_offset, offset);
}

/* The offset after which a new process may begin: everything up to it is done. Returns false when nothing is. */
static bool low_water(struct coney_stream_consumer *consumer, uint64_t *offset)
{
    uint64_t next = atomic_load_explicit(&consumer->position, memory_order_acquire);
    lock_acquire(&consumer->receiver.lock);
    if (!list_empty(&consumer->receiver.kept)) {
        uint64_t oldest = container_of(consumer->receiver.kept.next, struct kept, core.in_order)->delivery.offset;
        if (oldest < next)
            next = oldest;
    }
    lock_release(&consumer->receiver.lock);
    *offset = next - 1;
    return next > 0;
}

void consumer_store_now(struct coney_stream_consumer *consumer)
{
    uint64_t offset;
    if (consumer->options.name == NULL || consumer->options.store_by_hand || !low_water(consumer, &offset))
        return;
    if (consumer->has_stored && offset <= counter_get(&consumer->stored_offset))
        return;
    if (is_connected(consumer)) {
        send_store(consumer, offset);
        return;
    }
    const char *stream = consumer->receiver.member.name;
    env_event(
        consumer->receiver.member.env,
        &(coney_event){
            .type = CONEY_EVENT_OFFSET_NOT_STORED, .status = CONEY_ELOST, .offset = offset, .name = stream, .handle = consumer},
        "offset %llu of stream '%s' is not stored: there is no connection at the moment", (unsigned long long)offset, stream);
}

void consumer_set_store_timer(struct coney_stream_consumer *consumer)
{
    const coney_stream_consumer_options *options = &consumer->options;
    if (options->name != NULL && !options->store_by_hand && options->store_interval > 0)
        loop_timer_set(consumer->receiver.member.env->loop, &consumer->store_timer,
                       time_after(time_now(), options->store_interval));
}

void consumer_store_timer(struct timer *timer)
{
    struct coney_stream_consumer *consumer = container_of(timer, struct coney_stream_consumer, store_timer);
    consumer_set_store_timer(consumer);
    consumer_store_now(consumer);
}

static void store_by_hand(struct coney_stream_consumer *consumer)
{
    lock_acquire(&consumer->receiver.lock);
    uint64_t wanted = consumer->store_wanted;
    consumer->store_wanted = 0;
    lock_release(&consumer->receiver.lock);
    if (wanted > 0 && is_connected(consumer))
        send_store(consumer, wanted - 1);
}

/* What cannot be read --------------------------------------------------------------------------------------------- */

static void tell_unreadable(struct coney_stream_consumer *consumer)
{
    lock_acquire(&consumer->receiver.lock);
    uint64_t count = consumer->unreadable.count;
    uint64_t offset = consumer->unreadable.offset;
    const char *why = consumer->unreadable.why;
    bool compressed = consumer->unreadable.compressed;
    consumer->unreadable.count = 0;
    lock_release(&consumer->receiver.lock);
    if (count == 0)
        return;
    const char *stream = consumer->receiver.member.name;
    coney_event event = {.type = CONEY_EVENT_UNREADABLE_ENTRY,
                         .status = compressed ? CONEY_EUNSUPPORTED : CONEY_ECORRUPT,
                         .offset = offset,
                         .name = stream,
                         .handle = consumer};
    if (compressed)
        env_event(consumer->receiver.member.env, &event,
                  "%llu messages of stream '%s' from offset %llu are in a batch compressed with %s, which this build of coney "
                  "cannot read: "
                  "they were passed over",
                  (unsigned long long)count, stream, (unsigned long long)offset, why[0] != '\0' ? why : "an unknown method");
    else
        env_event(consumer->receiver.member.env, &event,
                  "%llu messages of stream '%s' from offset %llu cannot be read (%s): they were passed over",
                  (unsigned long long)count, stream, (unsigned long long)offset, why);
}

/* The chunk is asked for once more, since it may have been damaged on the way; broken again, it is so on disk. */
static void see_to_broken(struct coney_stream_consumer *consumer)
{
    struct member *member = &consumer->receiver.member;
    lock_acquire(&consumer->receiver.lock);
    const char *field = consumer->broken;
    uint64_t offset = consumer->broken_at;
    if (field != NULL)
        consumer_drop_queue(consumer);
    consumer->broken = NULL;
    lock_release(&consumer->receiver.lock);
    if (field == NULL)
        return;
    counter_add(&consumer->unreadable_count, 1);
    uint64_t position = atomic_load(&consumer->position);
    consumer->start = (struct stream_offset_spec){.type = STREAM_OFFSET_OFFSET, .value = position > offset ? position : offset};
    consumer->start_known = true;
    bool again = consumer->broken_before == offset + 1;
    consumer->broken_before = offset + 1;
    char text[TEXT_CAP];
    text_print(text, sizeof text, "a chunk of stream '%s' is broken at offset %llu (%s)%s", member->name,
               (unsigned long long)offset, field,
               again ? ", for the second time: it is damaged in the broker" : ": it is fetched again");
    env_event(member->env,
              &(coney_event){.type = CONEY_EVENT_CORRUPT_CHUNK,
                             .status = CONEY_ECORRUPT,
                             .offset = offset,
                             .name = member->name,
                             .handle = consumer},
              "%s", text);
    if (member->state != MEMBER_ACTIVE && member->state != MEMBER_DECLARING)
        return; /* the next Subscribe asks for it */
    if (again)
        member_give_up(member, CONEY_ECORRUPT, text, true);
    else
        member_failed(member, CONEY_ECORRUPT, 0, text, true);
}

void consumer_task(struct receiver *receiver)
{
    struct coney_stream_consumer *consumer = consumer_of(receiver);
    give_credit(consumer);
    store_by_hand(consumer);
    if (atomic_exchange(&consumer->store_due, false))
        consumer_store_now(consumer);
    tell_unreadable(consumer);
    see_to_broken(consumer);
}
