/* service_fixture.h: a transport of a test's own: it writes down what is asked of it, fails where it is told to, and delivers what the test gives it.
 *
 *     struct journal journal = {0};
 *     struct fake fake = {.journal = &journal};
 *     coney_app *app = coney_app_new("orders", "1.0.0");
 *     coney_broker *broker = fake_broker(app, &fake);
 *     coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE("orders"), .handler = settle_handler});
 *     … coney_app_start(app, NULL) …
 *     struct fake_message m = {.body = CONEY_STR("{}")};
 *     fake_deliver(&fake, "orders", &m);       // through the sink, on this thread
 *     fake_await_settled(&fake, &m);           // m.how
 *     assert_string_equal(journal.text, "connect(fake) declare(fake) …");
 *
 * Messages are the test's and must live until they are settled. Everything may be used from any thread.
 */
#ifndef CONEY_SERVICE_FIXTURE_H
#define CONEY_SERVICE_FIXTURE_H

#include "base/list.h"
#include "base/lock.h"
#include "base/text.h"
#include "base/time.h"
#include "core/kept.h"
#include "service/broker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FIXTURE __attribute__((unused)) static

#define FAKE_PATIENCE (10 * CONEY_SECOND)

enum { FAKE_FEEDS = 16, FAKE_PUBLISHED = 256, FAKE_TEXT = 256 };

/* What happened, in order: words with a space between, "connect(fake)". Several fakes, hooks and handlers may share one. */
struct journal {
    struct lock lock;
    char text[4096];
};

FIXTURE void journal_add(struct journal *journal, const char *format, ...)
{
    if (journal == NULL)
        return;
    lock_acquire(&journal->lock);
    if (journal->text[0] != '\0')
        text_append(journal->text, sizeof journal->text, " ");
    size_t len = strlen(journal->text);
    va_list args;
    va_start(args, format);
    text_vprint(journal->text + len, sizeof journal->text - len, format, args);
    va_end(args);
    lock_release(&journal->lock);
}

FIXTURE void journal_clear(struct journal *journal)
{
    lock_acquire(&journal->lock);
    journal->text[0] = '\0';
    lock_release(&journal->lock);
}

/* A message that the test delivers. What is left zero is absent; `attempt` 0 is 1, `offset` 0 is none unless has_offset. */
struct fake_message {
    coney_bytes body;
    const char *content_type;
    const char *key;
    const char *reply_to;
    const char *correlation_id;
    const coney_field *headers;
    size_t header_count;
    uint64_t attempt;
    uint64_t offset;
    bool has_offset;
    bool more;

    struct coney_kept kept; /* what follows is the fake's */
    size_t settles;         /* times: 1 in the end, unless it was never settled */
    coney_settle how;       /* the last */
};

/* A message that was published, or a copy of one. */
struct fake_published {
    char outlet[FAKE_TEXT]; /* the publisher's name, "" for a copy */
    char exchange[FAKE_TEXT];
    char to[FAKE_TEXT];
    char body[FAKE_TEXT];
    char content_type[FAKE_TEXT];
    char correlation_id[FAKE_TEXT];
    char key[FAKE_TEXT];
    char headers[FAKE_TEXT]; /* "name=value name=value", texts and whole numbers only */
    struct outgoing flags;   /* numbers and booleans; its views are empty */
    bool is_copy;
    bool back; /* copy: to where it came from */
    uint64_t attempts;
    int64_t delay;
    coney_outcome_fn outcome;
    void *ctx;
    uint64_t tag;
    bool has_outcome;
};

struct fake;

struct fake_feed {
    struct feed feed;
    struct fake *fake;
    const coney_subscription *subscription;
    char name[FAKE_TEXT];
    bool is_open;
    int running;   /* deliveries in the sink */
    size_t pauses; /* how often it was told to pause */
    size_t kept;   /* and not settled */
};

struct fake_outlet {
    struct outlet outlet;
    struct fake *fake;
    char name[FAKE_TEXT];
    char exchange[FAKE_TEXT];
    struct outlet_options options;
};

struct fake {
    /* Set by the test; all of it may be zero. */
    struct journal *journal;
    const char *name; /* in the journal: default "fake" */
    const char *
        fail_at; /* "connect", "declare", "subscribe", "open_outlet", "flush", "unsubscribe", "close_outlet", "disconnect", "tx_begin", "tx_commit" */
    coney_status fail_status;   /* default CONEY_ELOST */
    const char *mistake;        /* what check_broker finds */
    bool counts;                /* feeds count deliveries */
    bool ordered;               /* feeds are logs */
    bool bursts;                /* feeds know what comes together */
    bool delays;                /* copies can be delayed */
    bool hold_outcomes;         /* outcomes come with fake_outcome; else CONEY_OK comes from within publish */
    bool fail_keep;             /* memory is out */
    bool refuse_copy_back;      /* CONEY_EUNSUPPORTED, as streams */
    coney_status publish_with;  /* what publish and copy answer, unless 0 */
    coney_status outcome_with;  /* what the outcomes that are not held are */
    struct fake_message *reply; /* what request gives; NULL: CONEY_ETIMEDOUT */

    struct lock lock;
    struct cond changed;
    coney_broker *broker;
    struct fake_feed feeds[FAKE_FEEDS];
    struct fake_published published[FAKE_PUBLISHED];
    size_t published_count;
    size_t tx_open;
    size_t tx_published; /* in the last transaction */
    coney_position position;
    bool is_freed;
};

FIXTURE const char *fake_name(const struct fake *fake)
{
    return fake->name != NULL ? fake->name : "fake";
}

FIXTURE void fake_text(char *to, coney_bytes bytes)
{
    text_print(to, FAKE_TEXT, "%.*s", (int)bytes.len, bytes.len > 0 ? (const char *)bytes.data : "");
}

FIXTURE coney_bytes fake_bytes(const char *text)
{
    return text != NULL ? coney_bytes_of(text, strlen(text)) : coney_bytes_of(NULL, 0);
}

/* Writes the step down; fails it where the test says so. */
FIXTURE coney_status fake_step(struct fake *fake, const char *step, const char *of, coney_call *call)
{
    journal_add(fake->journal, "%s(%s)", step, of);
    if (fake->fail_at == NULL || strcmp(fake->fail_at, step) != 0)
        return CONEY_OK;
    coney_status status = fake->fail_status != CONEY_OK ? fake->fail_status : CONEY_ELOST;
    if (call != NULL) {
        call->status = status;
        call->code = 541;
        text_print(call->text, sizeof call->text, "the fake was told to fail at %s", step);
    }
    return status;
}

/* Life -------------------------------------------------------------------------------------------------------------------- */

FIXTURE void fake_check_broker(void *self, struct mistakes *mistakes)
{
    struct fake *fake = self;
    if (fake->mistake != NULL)
        mistake(mistakes, "uri", "%s", fake->mistake);
}

FIXTURE void fake_check_source(void *self, const coney_subscription *subscription, struct mistakes *mistakes)
{
    (void)self;
    if (subscription->source.kind == CONEY_SOURCE_TOPIC)
        mistake(mistakes, "source", "the fake has no topics");
}

FIXTURE void fake_check_publisher(void *self, const coney_publisher_options *options, struct mistakes *mistakes)
{
    (void)self;
    if (options->exchange != NULL && strcmp(options->exchange, "wrong") == 0)
        mistake(mistakes, "exchange", "'wrong' is wrong");
}

FIXTURE coney_status fake_connect(void *self, struct coney_broker *broker, coney_call *call)
{
    struct fake *fake = self;
    fake->broker = broker;
    return fake_step(fake, "connect", fake_name(fake), call);
}

FIXTURE coney_status fake_declare(void *self, coney_call *call)
{
    return fake_step(self, "declare", fake_name(self), call);
}

FIXTURE coney_status fake_disconnect(void *self, coney_call *call)
{
    return fake_step(self, "disconnect", fake_name(self), call);
}

FIXTURE void fake_free(void *self)
{
    struct fake *fake = self;
    journal_add(fake->journal, "free(%s)", fake_name(fake));
    fake->is_freed = true;
}

FIXTURE bool fake_connected(void *self)
{
    (void)self;
    return true;
}

/* In ---------------------------------------------------------------------------------------------------------------------- */

FIXTURE const char *fake_source(const coney_subscription *s)
{
    const char *name = s->source.of != NULL ? *(const char *const *)s->source.of : NULL; /* the first member of all sources */
    return name != NULL ? name : "";
}

FIXTURE coney_status fake_subscribe(void *self, const coney_subscription *subscription, struct sink *sink, struct feed **feed,
                                    coney_call *call)
{
    struct fake *fake = self;
    coney_status status = fake_step(fake, "subscribe", fake_source(subscription), call);
    if (status != CONEY_OK)
        return status;
    lock_acquire(&fake->lock);
    struct fake_feed *free = fake->feeds;
    while (free->is_open || free->kept > 0)
        free++;
    *free = (struct fake_feed){.fake = fake, .subscription = subscription, .is_open = true};
    free->feed = (struct feed){.transport = fake->broker->transport,
                               .sink = sink,
                               .counts = fake->counts,
                               .ordered = fake->ordered,
                               .bursts = fake->bursts};
    text_print(free->name, sizeof free->name, "%s", fake_source(subscription));
    lock_release(&fake->lock);
    *feed = &free->feed;
    return CONEY_OK;
}

FIXTURE coney_status fake_unsubscribe(struct feed *feed, coney_call *call)
{
    struct fake_feed *own = container_of(feed, struct fake_feed, feed);
    struct fake *fake = own->fake;
    coney_status status = fake_step(fake, "unsubscribe", own->name, call);
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    lock_acquire(&fake->lock);
    own->is_open = false;
    while (own->running > 0 && cond_wait(&fake->changed, &fake->lock, deadline))
        ;
    lock_release(&fake->lock);
    return status;
}

FIXTURE struct fake_feed *fake_feed_of(struct fake *fake, const char *source)
{
    for (size_t i = 0; i < FAKE_FEEDS; i++)
        if (fake->feeds[i].is_open && strcmp(fake->feeds[i].name, source) == 0)
            return &fake->feeds[i];
    return NULL;
}

FIXTURE void fake_settled(struct fake *fake, struct fake_message *m, coney_settle how)
{
    lock_acquire(&fake->lock);
    m->settles++;
    m->how = how;
    cond_wake_all(&fake->changed);
    lock_release(&fake->lock);
}

/* Gives the message to the sink of the open feed of that source, on this thread. Returns what the sink does: a settlement, or CONEY_KEPT, and then fake_await_settled
 * waits for it. When no such feed is open: CONEY_KEPT, and nothing was delivered. */
FIXTURE coney_settle fake_deliver(struct fake *fake, const char *source, struct fake_message *m)
{
    lock_acquire(&fake->lock);
    struct fake_feed *feed = fake_feed_of(fake, source);
    if (feed != NULL)
        feed->running++;
    lock_release(&fake->lock);
    if (feed == NULL)
        return CONEY_KEPT;
    struct incoming in = {
        .body = m->body, .feed = &feed->feed, .native = m, .offset = m->has_offset ? m->offset : UINT64_MAX, .more = m->more};
    coney_settle how = feed->feed.sink->deliver(feed->feed.sink, &in);
    if (how != CONEY_KEPT)
        fake_settled(fake, m, how);
    lock_acquire(&fake->lock);
    feed->running--;
    cond_wake_all(&fake->changed);
    lock_release(&fake->lock);
    return how;
}

/* Waits until it is settled and returns how; fails the test after a while. */
FIXTURE coney_settle fake_await_settled(struct fake *fake, struct fake_message *m)
{
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    lock_acquire(&fake->lock);
    while (m->settles == 0 && cond_wait(&fake->changed, &fake->lock, deadline))
        ;
    size_t settles = m->settles;
    coney_settle how = m->how;
    lock_release(&fake->lock);
    if (settles == 0)
        fail_msg("a message was not settled");
    assert_int_equal(settles, 1);
    return how;
}

FIXTURE const struct fake_message *fake_native(const struct incoming *m)
{
    return m->native;
}

FIXTURE void fake_info(const struct incoming *m, coney_delivery_info *info)
{
    const struct fake_message *native = fake_native(m);
    const struct fake_feed *feed = container_of(m->feed, struct fake_feed, feed);
    info->source = fake_bytes(feed->name);
    info->content_type = fake_bytes(native->content_type);
    info->correlation_id = fake_bytes(native->correlation_id);
    info->reply_to = fake_bytes(native->reply_to);
    info->key = fake_bytes(native->key);
    info->offset = native->offset;
    info->has_offset = native->has_offset;
}

FIXTURE coney_bytes fake_content_type(const struct incoming *m)
{
    return fake_bytes(fake_native(m)->content_type);
}

FIXTURE bool fake_header(const struct incoming *m, coney_bytes name, coney_value *value)
{
    const struct fake_message *native = fake_native(m);
    for (size_t i = 0; i < native->header_count; i++) {
        coney_bytes key = native->headers[i].key;
        if (key.len == name.len && memcmp(key.data, name.data, key.len) == 0) {
            *value = native->headers[i].value;
            return true;
        }
    }
    return false;
}

FIXTURE coney_bytes fake_key(const struct incoming *m, const char *header)
{
    coney_value value;
    if (header != NULL)
        return fake_header(m, fake_bytes(header), &value) ? value.as.bytes : coney_bytes_of(NULL, 0);
    return fake_bytes(fake_native(m)->key);
}

FIXTURE uint64_t fake_attempt(const struct incoming *m)
{
    return fake_native(m)->attempt > 0 ? fake_native(m)->attempt : 1;
}

FIXTURE bool fake_keep(struct incoming *m)
{
    struct fake_feed *feed = container_of(m->feed, struct fake_feed, feed);
    struct fake_message *native = (struct fake_message *)(uintptr_t)m->native;
    if (feed->fake->fail_keep)
        return false;
    lock_acquire(&feed->fake->lock);
    feed->kept++;
    lock_release(&feed->fake->lock);
    m->kept = &native->kept;
    return true;
}

FIXTURE void fake_pause(const struct incoming *m)
{
    struct fake_feed *feed = container_of(m->feed, struct fake_feed, feed);
    lock_acquire(&feed->fake->lock);
    feed->pauses++;
    lock_release(&feed->fake->lock);
}

FIXTURE coney_status fake_settle(struct incoming *m, coney_settle how)
{
    struct fake_feed *feed = container_of(m->feed, struct fake_feed, feed);
    struct fake_message *native = (struct fake_message *)(uintptr_t)m->native;
    assert_ptr_equal(m->kept, &native->kept);
    lock_acquire(&feed->fake->lock);
    bool is_open = feed->is_open;
    feed->kept--;
    lock_release(&feed->fake->lock);
    if (is_open)
        fake_settled(feed->fake, native, how);
    return is_open ? CONEY_OK : CONEY_ECLOSED;
}

/* Out --------------------------------------------------------------------------------------------------------------------- */

FIXTURE coney_status fake_open_outlet(void *self, const struct outlet_options *options, struct outlet **outlet,
                                      coney_call *call)
{
    struct fake *fake = self;
    coney_status status = fake_step(fake, "open_outlet", options->name != NULL ? options->name : "", call);
    struct fake_outlet *own = status == CONEY_OK ? calloc(1, sizeof *own) : NULL;
    if (own == NULL)
        return status != CONEY_OK ? status : CONEY_ENOMEM;
    own->outlet.transport = fake->broker->transport;
    own->fake = fake;
    own->options = *options;
    text_print(own->name, sizeof own->name, "%s", options->name != NULL ? options->name : "");
    text_print(own->exchange, sizeof own->exchange, "%s", options->exchange != NULL ? options->exchange : "");
    *outlet = &own->outlet;
    return CONEY_OK;
}

FIXTURE coney_status fake_flush(struct outlet *outlet, coney_call *call)
{
    struct fake_outlet *own = container_of(outlet, struct fake_outlet, outlet);
    return fake_step(own->fake, "flush", own->name, call);
}

FIXTURE coney_status fake_close_outlet(struct outlet *outlet, coney_call *call)
{
    struct fake_outlet *own = container_of(outlet, struct fake_outlet, outlet);
    coney_status status = fake_step(own->fake, "close_outlet", own->name, call);
    free(own);
    return status;
}

FIXTURE void fake_headers(char *to, const coney_field *headers, size_t count)
{
    to[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const coney_field *field = &headers[i];
        coney_bytes text = {0};
        int64_t number = 0;
        text_append(to, FAKE_TEXT, "%s%.*s=", i > 0 ? " " : "", (int)field->key.len, (const char *)field->key.data);
        if (coney_value_to_bytes(&field->value, &text))
            text_append(to, FAKE_TEXT, "%.*s", (int)text.len, (const char *)text.data);
        else if (coney_value_to_i64(&field->value, &number))
            text_append(to, FAKE_TEXT, "%lld", (long long)number);
    }
}

/* The outcome of the `index`th message that was published. From the calling thread, as a loop would. */
FIXTURE void fake_outcome(struct fake *fake, size_t index, coney_status status)
{
    struct fake_published *published = &fake->published[index];
    lock_acquire(&fake->lock);
    bool is_there = index < fake->published_count && !published->has_outcome;
    lock_release(&fake->lock);
    assert_true(is_there);
    published->has_outcome = true;
    coney_outcome outcome = {.tag = published->tag, .status = status, .text = status == CONEY_OK ? "" : "the fake's outcome"};
    if (published->outcome != NULL)
        published->outcome(published->ctx, &outcome);
}

/* Writes it down, then its outcome comes, if outcomes are not held. */
FIXTURE coney_status fake_accept(struct fake *fake, const struct fake_published *message)
{
    lock_acquire(&fake->lock);
    size_t index = fake->published_count++;
    assert_true(index < FAKE_PUBLISHED);
    fake->published[index] = *message;
    cond_wake_all(&fake->changed);
    lock_release(&fake->lock);
    journal_add(fake->journal, "%s(%s)", message->is_copy ? "copy" : "publish", message->back ? "back" : message->to);
    if (!fake->hold_outcomes)
        fake_outcome(fake, index, fake->outcome_with);
    return CONEY_OK;
}

FIXTURE void fake_take(struct fake_published *published, const struct outgoing *message)
{
    fake_text(published->to, message->to);
    fake_text(published->body, message->body);
    fake_text(published->content_type, message->content_type);
    fake_text(published->correlation_id, message->correlation_id);
    fake_text(published->key, message->key);
    fake_headers(published->headers, message->headers, message->header_count);
    published->flags = (struct outgoing){.expiration = message->expiration,
                                         .timestamp = message->timestamp,
                                         .priority = message->priority,
                                         .has_priority = message->has_priority,
                                         .transient = message->transient,
                                         .drop_unroutable = message->drop_unroutable,
                                         .to_requester = message->to_requester};
}

FIXTURE coney_status fake_publish(struct outlet *outlet, const struct outgoing *message, uint64_t tag)
{
    struct fake_outlet *own = container_of(outlet, struct fake_outlet, outlet);
    if (own->fake->publish_with != CONEY_OK)
        return own->fake->publish_with;
    struct fake_published published = {.outcome = own->options.outcome, .ctx = own->options.ctx, .tag = tag};
    text_print(published.outlet, sizeof published.outlet, "%s", own->name);
    text_print(published.exchange, sizeof published.exchange, "%s", own->exchange);
    fake_take(&published, message);
    return fake_accept(own->fake, &published);
}

FIXTURE coney_status fake_copy(struct incoming *m, const char *to, uint64_t attempts, int64_t delay, coney_outcome_fn outcome,
                               void *ctx, uint64_t tag)
{
    struct fake *fake = container_of(m->feed, struct fake_feed, feed)->fake;
    if (fake->publish_with != CONEY_OK)
        return fake->publish_with;
    if (to == NULL && fake->refuse_copy_back)
        return CONEY_EUNSUPPORTED;
    struct fake_published published = {
        .is_copy = true, .back = to == NULL, .attempts = attempts, .delay = delay, .outcome = outcome, .ctx = ctx, .tag = tag};
    text_print(published.to, sizeof published.to, "%s", to != NULL ? to : "");
    fake_text(published.body, m->body);
    return fake_accept(fake, &published);
}

FIXTURE bool fake_delays(const struct feed *feed)
{
    return container_of(feed, struct fake_feed, feed)->fake->delays;
}

/* Waits until so many messages were published, copies included. */
FIXTURE void fake_await_published(struct fake *fake, size_t count)
{
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    lock_acquire(&fake->lock);
    while (fake->published_count < count && cond_wait(&fake->changed, &fake->lock, deadline))
        ;
    size_t seen = fake->published_count;
    lock_release(&fake->lock);
    if (seen < count)
        fail_msg("%zu of %zu messages were published", seen, count);
}

/* What is optional -------------------------------------------------------------------------------------------------------- */

FIXTURE coney_status fake_seek(struct feed *feed, const coney_position *position, coney_call *call)
{
    struct fake_feed *own = container_of(feed, struct fake_feed, feed);
    own->fake->position = *position;
    return fake_step(own->fake, "seek", own->name, call);
}

FIXTURE coney_status fake_request(struct outlet *outlet, const struct outgoing *message, struct incoming *reply,
                                  coney_call *call)
{
    struct fake_outlet *own = container_of(outlet, struct fake_outlet, outlet);
    struct fake *fake = own->fake;
    coney_status status = fake_step(fake, "request", own->name, call);
    if (status != CONEY_OK || fake->reply == NULL)
        return status != CONEY_OK ? status : CONEY_ETIMEDOUT;
    struct fake_published published = {0};
    fake_take(&published, message);
    published.has_outcome = true;
    lock_acquire(&fake->lock);
    fake->published[fake->published_count++] = published;
    struct fake_feed *feed = &fake->feeds[FAKE_FEEDS - 1];
    feed->fake = fake;
    feed->feed.transport = fake->broker->transport;
    feed->kept++;
    lock_release(&fake->lock);
    *reply = (struct incoming){.body = fake->reply->body,
                               .native = fake->reply,
                               .kept = &fake->reply->kept,
                               .feed = &feed->feed,
                               .offset = UINT64_MAX};
    return CONEY_OK;
}

FIXTURE coney_status fake_tx_begin(struct outlet *outlet, void **tx, coney_call *call)
{
    struct fake_outlet *own = container_of(outlet, struct fake_outlet, outlet);
    coney_status status = fake_step(own->fake, "tx_begin", own->name, call);
    if (status != CONEY_OK)
        return status;
    own->fake->tx_open++;
    own->fake->tx_published = 0;
    *tx = own;
    return CONEY_OK;
}

FIXTURE coney_status fake_tx_publish(void *tx, const struct outgoing *message)
{
    struct fake_outlet *own = tx;
    if (own->fake->publish_with != CONEY_OK)
        return own->fake->publish_with;
    own->fake->tx_published++;
    journal_add(own->fake->journal, "tx_publish(%s)", message->to.len > 0 ? (const char *)message->to.data : "");
    return CONEY_OK;
}

FIXTURE coney_status fake_tx_commit(void *tx, coney_call *call)
{
    struct fake_outlet *own = tx;
    own->fake->tx_open--;
    return fake_step(own->fake, "tx_commit", own->name, call);
}

FIXTURE coney_status fake_tx_abort(void *tx, coney_call *call)
{
    struct fake_outlet *own = tx;
    own->fake->tx_open--;
    return fake_step(own->fake, "tx_abort", own->name, call);
}

FIXTURE bool fake_describe(void *self, char *host, size_t host_cap, const char **protocol, const char **version)
{
    text_print(host, host_cap, "%s", fake_name(self));
    *protocol = "fake";
    *version = "1";
    return true;
}

FIXTURE const struct transport fake_transport = {
    .name = "fake",
    .source = CONEY_SOURCE_QUEUE,
    .check_broker = fake_check_broker,
    .check_source = fake_check_source,
    .check_publisher = fake_check_publisher,
    .connect = fake_connect,
    .declare = fake_declare,
    .subscribe = fake_subscribe,
    .unsubscribe = fake_unsubscribe,
    .open_outlet = fake_open_outlet,
    .publish = fake_publish,
    .flush = fake_flush,
    .close_outlet = fake_close_outlet,
    .disconnect = fake_disconnect,
    .free = fake_free,
    .connected = fake_connected,
    .info = fake_info,
    .content_type = fake_content_type,
    .header = fake_header,
    .key = fake_key,
    .attempt = fake_attempt,
    .keep = fake_keep,
    .settle = fake_settle,
    .copy = fake_copy,
    .delays = fake_delays,
    .pause = fake_pause,
    .seek = fake_seek,
    .request = fake_request,
    .tx_begin = fake_tx_begin,
    .tx_publish = fake_tx_publish,
    .tx_commit = fake_tx_commit,
    .tx_abort = fake_tx_abort,
    .describe = fake_describe,
};

FIXTURE coney_broker *fake_broker(coney_app *app, struct fake *fake)
{
    return broker_new(app, &fake_transport, fake);
}

#endif
