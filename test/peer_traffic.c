/* The broker that the scripted peer plays: publishers and what they sent, subscriptions and what they get. It stores ids and
 * offsets, not messages, and delivers what the test hands it. */
#define _GNU_SOURCE
#include "peer_internal.h"

#include "proto/amqp10/data.h"

/* Publishing ----------------------------------------------------------------------------------------------------- */

static struct publisher *publisher_find(struct peer *peer, int connection, uint8_t id)
{
    for (size_t i = peer->publisher_count; i > 0; i--) {
        struct publisher *p = peer->publishers[i - 1];
        if (p->live && p->connection == connection && p->id == id)
            return p;
    }
    return NULL;
}

void peer_treat_declare_publisher(struct peer *peer, const struct peer_record *record)
{
    const struct stream_declare_publisher *declare = &record->frame.declare_publisher;
    uint16_t code = peer_stream_code(peer, declare->stream);
    if (code == STREAM_CODE_OK && publisher_find(peer, record->connection, declare->publisher) != NULL)
        code = STREAM_CODE_PRECONDITION_FAILED;
    if (code == STREAM_CODE_OK) {
        struct publisher *publisher = calloc(1, sizeof *publisher);
        assert_non_null(publisher);
        *publisher = (struct publisher){.connection = record->connection, .id = declare->publisher, .live = true};
        peer_name_copy(publisher->stream, declare->stream);
        peer_name_copy(publisher->reference, declare->reference);
        peer->publishers =
            burrow_grow(peer->publishers, peer->publisher_count, &peer->publisher_cap, sizeof(struct publisher *));
        peer->publishers[peer->publisher_count++] = publisher;
    }
    peer_send_answer(peer, record, code, (struct stream_frame){0});
}

void peer_treat_delete_publisher(struct peer *peer, const struct peer_record *record)
{
    struct publisher *publisher = publisher_find(peer, record->connection, record->frame.delete_publisher.publisher);
    if (publisher != NULL)
        publisher->live = false;
    peer_send_answer(peer, record, publisher != NULL ? STREAM_CODE_OK : STREAM_CODE_PUBLISHER_DOES_NOT_EXIST,
                     (struct stream_frame){0});
}

void peer_treat_query_sequence(struct peer *peer, const struct peer_record *record)
{
    const struct stream_query_publisher_sequence *query = &record->frame.query_publisher_sequence;
    const struct named *named = peer_named_find(peer, NAMED_SEQUENCE, query->stream, query->reference);
    struct stream_frame answer = {0};
    answer.query_publisher_sequence_answer.sequence = named == NULL ? 0 : named->value;
    peer_send_answer(peer, record, peer_stream_code(peer, query->stream), answer);
}

/* True when the reference has had this id or a higher one. */
static bool sequence_seen(struct peer *peer, const struct publisher *publisher, uint64_t id)
{
    if (publisher->reference[0] == '\0')
        return false;
    const struct named *named =
        peer_named_find(peer, NAMED_SEQUENCE, peer_text(publisher->stream), peer_text(publisher->reference));
    if (named != NULL && id <= named->value)
        return true;
    peer_named_set(peer, NAMED_SEQUENCE, peer_text(publisher->stream), peer_text(publisher->reference), id);
    return false;
}

static void message_add(struct peer *peer, const struct peer_record *record, const struct publisher *publisher,
                        const struct stream_publish_entry *entry)
{
    struct peer_message message = {.connection = record->connection,
                                   .publisher = publisher->id,
                                   .id = entry->id,
                                   .stream = publisher->stream,
                                   .reference = publisher->reference,
                                   .entry = entry->entry.data};
    amqp10_data_only(entry->entry.data, &message.body);
    message.duplicate = sequence_seen(peer, publisher, entry->id);
    peer->messages = burrow_grow(peer->messages, peer->message_count, &peer->message_cap, sizeof *peer->messages);
    peer->messages[peer->message_count++] = message;
}

static void publish_to_nobody(struct peer *peer, const struct peer_record *record)
{
    struct list_iter it = list_iter_of(record->frame.publish.entries);
    struct stream_publish_entry entry;
    size_t cap = 10 * (size_t)record->frame.publish.entries.count;
    uint8_t *room = malloc(cap + 1);
    assert_non_null(room);
    struct list_writer w = list_begin(room, cap);
    while (list_next_entry(&it, record->frame.version, &entry))
        list_add_error(&w, (struct stream_publish_error){entry.id, STREAM_CODE_PUBLISHER_DOES_NOT_EXIST});
    struct stream_frame frame = {.key = STREAM_PUBLISH_ERROR, .version = 1};
    frame.publish_error.publisher = record->frame.publish.publisher;
    assert_true(list_end(&w, &frame.publish_error.errors));
    peer_send(peer, record->connection, &frame);
    free(room);
}

void peer_treat_publish(struct peer *peer, const struct peer_record *record)
{
    const struct publisher *publisher = publisher_find(peer, record->connection, record->frame.publish.publisher);
    if (publisher == NULL) {
        publish_to_nobody(peer, record);
        return;
    }
    struct list_iter it = list_iter_of(record->frame.publish.entries);
    struct stream_publish_entry entry;
    while (list_next_entry(&it, record->frame.version, &entry))
        message_add(peer, record, publisher, &entry);
    if (!peer->confirm_by_hand)
        peer_confirm(peer, SIZE_MAX);
}

void peer_confirm_by_hand(struct peer *peer, bool by_hand)
{
    burrow_lock(&peer->burrow);
    peer->confirm_by_hand = by_hand;
    burrow_unlock(&peer->burrow);
}

static bool message_is_open(struct peer *peer, const struct peer_message *message)
{
    return !message->settled && publisher_find(peer, message->connection, message->publisher) != NULL;
}

/* The next run of open messages of one publisher, at most `count`: marks them settled, puts their ids into `ids`. */
static size_t run_settle(struct peer *peer, size_t *at, size_t count, uint64_t *ids, struct peer_message *of)
{
    size_t run = 0;
    for (; *at < peer->message_count && run < count; (*at)++) {
        struct peer_message *message = &peer->messages[*at];
        if (!message_is_open(peer, message))
            continue;
        if (run > 0 && (message->connection != of->connection || message->publisher != of->publisher))
            break;
        *of = *message;
        message->settled = true;
        ids[run++] = message->id;
    }
    return run;
}

static void send_errors(struct peer *peer, const struct peer_message *of, const uint64_t *ids, size_t count, uint16_t code)
{
    uint8_t *room = malloc(count * 10);
    assert_non_null(room);
    struct list_writer w = list_begin(room, count * 10);
    for (size_t i = 0; i < count; i++)
        list_add_error(&w, (struct stream_publish_error){ids[i], code});
    struct stream_frame frame = {.key = STREAM_PUBLISH_ERROR, .version = 1};
    frame.publish_error.publisher = of->publisher;
    assert_true(list_end(&w, &frame.publish_error.errors));
    peer_send(peer, of->connection, &frame);
    free(room);
}

/* `code` STREAM_CODE_OK confirms. */
static size_t settle(struct peer *peer, size_t count, uint16_t code)
{
    size_t done = 0, run;
    burrow_lock(&peer->burrow);
    size_t at = peer->confirm_next;
    uint64_t *ids = malloc((peer->message_count - at + 1) * sizeof *ids);
    assert_non_null(ids);
    struct peer_message of = {0};
    while (done < count && (run = run_settle(peer, &at, count - done, ids, &of)) > 0) {
        if (code == STREAM_CODE_OK)
            peer_confirm_ids(peer, of.connection, of.publisher, ids, run);
        else
            send_errors(peer, &of, ids, run, code);
        done += run;
    }
    peer->confirm_next = at;
    free(ids);
    burrow_unlock(&peer->burrow);
    return done;
}

size_t peer_confirm(struct peer *peer, size_t count)
{
    return settle(peer, count, STREAM_CODE_OK);
}

size_t peer_refuse(struct peer *peer, size_t count, uint16_t code)
{
    return settle(peer, count, code);
}

void peer_confirm_ids(struct peer *peer, int connection, uint8_t publisher, const uint64_t *ids, size_t count)
{
    uint8_t *room = malloc(count * 8 + 1);
    assert_non_null(room);
    struct list_writer w = list_begin(room, count * 8);
    for (size_t i = 0; i < count; i++)
        list_add_id(&w, ids[i]);
    struct stream_frame frame = {.key = STREAM_PUBLISH_CONFIRM, .version = 1};
    frame.publish_confirm.publisher = publisher;
    assert_true(list_end(&w, &frame.publish_confirm.ids));
    peer_send(peer, connection, &frame);
    free(room);
}

size_t peer_message_count(struct peer *peer)
{
    burrow_lock(&peer->burrow);
    size_t count = peer->message_count;
    burrow_unlock(&peer->burrow);
    return count;
}

struct peer_message peer_message_of(struct peer *peer, size_t n)
{
    burrow_lock(&peer->burrow);
    assert_true(n < peer->message_count);
    struct peer_message message = peer->messages[n];
    burrow_unlock(&peer->burrow);
    return message;
}

/* Consuming ------------------------------------------------------------------------------------------------------ */

static struct subscription *subscription_find(struct peer *peer, int connection, uint8_t id)
{
    for (size_t i = peer->subscription_count; i > 0; i--) {
        struct subscription *s = &peer->subscriptions[i - 1];
        if (s->live && s->connection == connection && s->id == id)
            return s;
    }
    return NULL;
}

static struct subscription *subscription_of(struct peer *peer, const char *stream)
{
    for (size_t i = peer->subscription_count; i > 0; i--) {
        struct subscription *s = &peer->subscriptions[i - 1];
        if (s->live && strcmp(s->stream, stream) == 0)
            return s;
    }
    return NULL;
}

/* Sends what the feed has as far as credit reaches. */
static void feed_pump(struct peer *peer)
{
    struct feed *feed = &peer->feed;
    if (feed->count == 0)
        return;
    struct subscription *s = subscription_of(peer, feed->stream);
    while (s != NULL && s->credit > 0 && feed->next < feed->end) {
        struct peer_chunk chunk = {.first = feed->next, .count = feed->count};
        feed->next += feed->count;
        peer_deliver_chunk(peer, feed->stream, &chunk);
    }
}

static void feed_seek(struct feed *feed, const struct stream_subscribe *subscribe)
{
    if (feed->count == 0 || !peer_name_is(feed->stream, subscribe->stream))
        return;
    if (subscribe->offset.type == STREAM_OFFSET_FIRST || subscribe->offset.value < feed->first)
        feed->next = subscribe->offset.type == STREAM_OFFSET_NEXT ? feed->next : feed->first;
    else if (subscribe->offset.type == STREAM_OFFSET_OFFSET)
        feed->next = feed->first + (subscribe->offset.value - feed->first) / feed->count * feed->count;
}

void peer_treat_subscribe(struct peer *peer, const struct peer_record *record)
{
    const struct stream_subscribe *subscribe = &record->frame.subscribe;
    uint16_t code = peer_stream_code(peer, subscribe->stream);
    if (code == STREAM_CODE_OK && subscription_find(peer, record->connection, subscribe->subscription) != NULL)
        code = STREAM_CODE_SUBSCRIPTION_ID_EXISTS;
    peer_send_answer(peer, record, code, (struct stream_frame){0});
    if (code != STREAM_CODE_OK)
        return;
    struct subscription s = {
        .connection = record->connection, .id = subscribe->subscription, .live = true, .credit = subscribe->credit};
    peer_name_copy(s.stream, subscribe->stream);
    peer->subscriptions =
        burrow_grow(peer->subscriptions, peer->subscription_count, &peer->subscription_cap, sizeof *peer->subscriptions);
    peer->subscriptions[peer->subscription_count++] = s;
    feed_seek(&peer->feed, subscribe);
    feed_pump(peer);
}

void peer_treat_unsubscribe(struct peer *peer, const struct peer_record *record)
{
    struct subscription *s = subscription_find(peer, record->connection, record->frame.unsubscribe.subscription);
    if (s != NULL)
        s->live = false;
    peer_send_answer(peer, record, s != NULL ? STREAM_CODE_OK : STREAM_CODE_SUBSCRIPTION_ID_DOES_NOT_EXIST,
                     (struct stream_frame){0});
}

void peer_treat_credit(struct peer *peer, const struct peer_record *record)
{
    const struct stream_credit *credit = &record->frame.credit;
    struct subscription *s = subscription_find(peer, record->connection, credit->subscription);
    if (s == NULL) {
        struct stream_frame answer = {.credit_answer.subscription = credit->subscription};
        peer_send_answer(peer, record, STREAM_CODE_SUBSCRIPTION_ID_DOES_NOT_EXIST, answer);
        return;
    }
    s->credit += credit->credit;
    feed_pump(peer);
}

void peer_treat_store_offset(struct peer *peer, const struct peer_record *record)
{
    const struct stream_store_offset *store = &record->frame.store_offset;
    peer_named_set(peer, NAMED_OFFSET, store->stream, store->reference, store->offset);
}

void peer_treat_query_offset(struct peer *peer, const struct peer_record *record)
{
    const struct stream_query_offset *query = &record->frame.query_offset;
    uint16_t code = peer_stream_code(peer, query->stream);
    const struct named *named = peer_named_find(peer, NAMED_OFFSET, query->stream, query->reference);
    struct stream_frame answer = {.query_offset_answer.offset = named == NULL ? 0 : named->value};
    peer_send_answer(peer, record, code == STREAM_CODE_OK && named == NULL ? STREAM_CODE_NO_OFFSET : code, answer);
}

bool peer_deliver_bytes(struct peer *peer, const char *stream, coney_bytes chunk)
{
    burrow_lock(&peer->burrow);
    struct subscription *s = subscription_of(peer, stream);
    if (s != NULL) {
        struct stream_frame frame = {.key = STREAM_DELIVER, .version = peer_connection(peer, s->connection)->deliver_version};
        frame.deliver.subscription = s->id;
        frame.deliver.chunk = chunk;
        s->credit--;
        peer_send(peer, s->connection, &frame);
    }
    burrow_unlock(&peer->burrow);
    return s != NULL;
}

bool peer_deliver_chunk(struct peer *peer, const char *stream, const struct peer_chunk *chunk)
{
    size_t len;
    uint8_t *bytes = peer_make_chunk(chunk, &len);
    burrow_lock(&peer->burrow);
    struct subscription *s = subscription_of(peer, stream);
    if (s != NULL) {
        struct stream_frame frame = {.key = STREAM_DELIVER, .version = peer_connection(peer, s->connection)->deliver_version};
        frame.deliver.subscription = s->id;
        frame.deliver.committed = frame.version == 2 ? chunk->committed : 0;
        frame.deliver.chunk = coney_bytes_of(bytes, len);
        s->credit--;
        peer_send(peer, s->connection, &frame);
    }
    burrow_unlock(&peer->burrow);
    free(bytes);
    return s != NULL;
}

void peer_deliver(struct peer *peer, const char *stream, uint64_t first, size_t count)
{
    if (!peer_deliver_chunk(peer, stream, &(struct peer_chunk){.first = first, .count = count}))
        fail_msg("nobody is subscribed to '%s' for offset %llu", stream, (unsigned long long)first);
}

void peer_feed(struct peer *peer, const char *stream, uint64_t first, size_t count, size_t chunks)
{
    burrow_lock(&peer->burrow);
    peer->feed = (struct feed){.first = first, .next = first, .end = first + count * chunks, .count = count};
    snprintf(peer->feed.stream, sizeof peer->feed.stream, "%s", stream);
    feed_pump(peer);
    burrow_unlock(&peer->burrow);
}

int64_t peer_credit(struct peer *peer, const char *stream)
{
    burrow_lock(&peer->burrow);
    const struct subscription *s = subscription_of(peer, stream);
    int64_t credit = s != NULL ? s->credit : INT64_MIN;
    burrow_unlock(&peer->burrow);
    return credit;
}

size_t peer_subscriptions(struct peer *peer, const char *stream)
{
    size_t count = 0;
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->subscription_count; i++)
        count += peer->subscriptions[i].live && strcmp(peer->subscriptions[i].stream, stream) == 0;
    burrow_unlock(&peer->burrow);
    return count;
}

size_t peer_publishers(struct peer *peer, const char *stream)
{
    size_t count = 0;
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->publisher_count; i++)
        count += peer->publishers[i]->live && strcmp(peer->publishers[i]->stream, stream) == 0;
    burrow_unlock(&peer->burrow);
    return count;
}

int peer_consumer_connection(struct peer *peer, const char *stream)
{
    burrow_lock(&peer->burrow);
    const struct subscription *s = subscription_of(peer, stream);
    int connection = s != NULL ? s->connection : -1;
    burrow_unlock(&peer->burrow);
    return connection;
}

int peer_producer_connection(struct peer *peer, const char *stream)
{
    int connection = -1;
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->publisher_count; i++)
        if (peer->publishers[i]->live && strcmp(peer->publishers[i]->stream, stream) == 0)
            connection = peer->publishers[i]->connection;
    burrow_unlock(&peer->burrow);
    return connection;
}

/* Losing things -------------------------------------------------------------------------------------------------- */

void peer_forget_connection(struct peer *peer, int connection)
{
    for (size_t i = 0; i < peer->publisher_count; i++)
        if (peer->publishers[i]->connection == connection)
            peer->publishers[i]->live = false;
    for (size_t i = 0; i < peer->subscription_count; i++)
        if (peer->subscriptions[i].connection == connection)
            peer->subscriptions[i].live = false;
}

/* Ends the stream's entities on a connection; false when it had none. */
static bool forget_stream(struct peer *peer, int connection, const char *stream)
{
    bool any = false;
    for (size_t i = 0; i < peer->publisher_count; i++) {
        struct publisher *p = peer->publishers[i];
        if (p->live && p->connection == connection && strcmp(p->stream, stream) == 0) {
            p->live = false;
            any = true;
        }
    }
    for (size_t i = 0; i < peer->subscription_count; i++) {
        struct subscription *s = &peer->subscriptions[i];
        if (s->live && s->connection == connection && strcmp(s->stream, stream) == 0) {
            s->live = false;
            any = true;
        }
    }
    return any;
}

void peer_lose_stream(struct peer *peer, const char *stream, uint16_t code)
{
    struct stream_frame frame = {.key = STREAM_METADATA_UPDATE, .version = 1};
    frame.metadata_update.code = code;
    frame.metadata_update.stream = peer_text(stream);
    burrow_lock(&peer->burrow);
    for (size_t i = 0; i < peer->burrow.connection_count; i++)
        if (forget_stream(peer, (int)i, stream))
            peer_send(peer, (int)i, &frame);
    burrow_unlock(&peer->burrow);
}

/* Chunks --------------------------------------------------------------------------------------------------------- */

uint32_t peer_crc(coney_bytes data)
{
    const uint8_t *at = data.data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < data.len; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (UINT32_C(0xEDB88320) & (0u - (crc & 1u)));
    }
    return ~crc;
}

uint8_t *peer_make_chunk(const struct peer_chunk *chunk, size_t *len)
{
    size_t cap = CHUNK_HEADER_BYTES;
    for (size_t i = 0; i < chunk->count; i++)
        cap += 4 + (chunk->entries != NULL ? chunk->entries[i].len : 32);
    uint8_t *bytes = malloc(cap);
    assert_non_null(bytes);
    int64_t timestamp = chunk->timestamp != 0 ? chunk->timestamp : INT64_C(1700000000000);
    struct chunk_writer w = chunk_begin(bytes, cap, CHUNK_USER, timestamp, 1, chunk->first);
    for (size_t i = 0; i < chunk->count; i++) {
        if (chunk->entries != NULL) {
            chunk_add(&w, chunk->entries[i]);
            continue;
        }
        char body[24];
        uint8_t encoded[32];
        int n = snprintf(body, sizeof body, "m%llu", (unsigned long long)(chunk->first + i));
        const uint8_t *end = amqp10_data_write(encoded, coney_bytes_of(body, (size_t)n));
        chunk_add(&w, coney_bytes_of(encoded, (size_t)(end - encoded)));
    }
    uint32_t crc = peer_crc(chunk_data(&w));
    *len = chunk_finish(&w, chunk->wrong_crc ? ~crc : crc);
    assert_true(*len > 0);
    return bytes;
}
