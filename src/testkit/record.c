/* record.c: what the app does, written down as it happens: probes, log lines, hooks that are to be called. */
#include "base/bytes.h"
#include "testkit/kit.h"

const char *const test_way_names[TEST_WAYS] = {"ACK", "REJECT", "REQUEUE", "RETRIED"};

static unsigned way_of(coney_settle how)
{
    return how == CONEY_ACK ? 0 : how == CONEY_REJECT ? 1 : how == CONEY_REQUEUE ? 2 : 3;
}

/* Memory: under the lock --------------------------------------------------------------------------------------------------------- */

static void *take(coney_test *t, size_t size)
{
    void *taken = coney_arena_alloc(t->memory, size);
    if (taken == NULL)
        t->out_of_memory = true;
    else
        memset(taken, 0, size);
    return taken;
}

static coney_bytes copy(coney_test *t, coney_bytes bytes)
{
    coney_bytes copied = coney_arena_copy(t->memory, bytes);
    t->out_of_memory |= copied.data == NULL;
    return copied.data != NULL ? copied : coney_bytes_of("", 0);
}

static coney_delivery_info copy_info(coney_test *t, const coney_delivery_info *info)
{
    coney_delivery_info copied = *info;
    coney_bytes *const texts[] = {&copied.source,
                                  &copied.exchange,
                                  &copied.routing_key,
                                  &copied.content_type,
                                  &copied.content_encoding,
                                  &copied.correlation_id,
                                  &copied.reply_to,
                                  &copied.message_id,
                                  &copied.type,
                                  &copied.app_id,
                                  &copied.key};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = copy(t, *texts[i]);
    if (copied.headers.type >= CONEY_VALUE_UUID)
        copied.headers.as.bytes = copy(t, copied.headers.as.bytes);
    return copied;
}

/* Hooks -------------------------------------------------------------------------------------------------------------------------- */

/* Under the lock. */
static void add_event(coney_test *t, struct test_event event)
{
    struct test_event *added = take(t, sizeof *added);
    if (added == NULL)
        return;
    *added = event;
    if (t->last_event != NULL)
        t->last_event->next = added;
    else
        t->events = added;
    t->last_event = added;
}

static bool next_event(coney_test *t, struct test_event *event)
{
    lock_acquire(&t->lock);
    bool is_there = t->events != NULL;
    if (is_there) {
        *event = *t->events;
        t->events = t->events->next;
        if (t->events == NULL)
            t->last_event = NULL;
    }
    lock_release(&t->lock);
    return is_there;
}

void test_run_hooks(coney_test *t)
{
    struct test_event event;
    while (next_event(t, &event)) {
        if (event.subject != NULL && event.subject->on_call != NULL)
            event.subject->on_call(event.subject->ctx, event.how);
        if (event.place != NULL && event.place->on_publish != NULL)
            event.place->on_publish(event.place->ctx, event.message);
    }
}

/* Deliveries --------------------------------------------------------------------------------------------------------------------- */

static struct test_subject *subject_of(const coney_test *t, const struct subscription *s)
{
    struct test_subject *subject = t->subjects;
    while (subject->subscription != s)
        subject = subject->next;
    return subject;
}

static void on_received(void *ctx, struct subscription *s, coney_bytes body, const coney_delivery_info *info)
{
    coney_test *t = ctx;
    lock_acquire(&t->lock);
    struct test_subject *subject = subject_of(t, s);
    struct test_received *received = take(t, sizeof *received);
    if (received != NULL) {
        received->body = copy(t, body);
        received->info = copy_info(t, info);
        if (subject->last_received != NULL)
            subject->last_received->next = received;
        else
            subject->received = received;
        subject->last_received = received;
        subject->received_count++;
    }
    lock_release(&t->lock);
}

static void note_batch(coney_test *t, struct test_subject *subject, size_t size)
{
    struct test_batch *batch = take(t, sizeof *batch);
    if (batch == NULL)
        return;
    batch->size = size;
    if (subject->last_batch != NULL)
        subject->last_batch->next = batch;
    else
        subject->batches = batch;
    subject->last_batch = batch;
    subject->batch_count++;
}

static void on_called(void *ctx, struct subscription *s, size_t count, coney_settle how)
{
    coney_test *t = ctx;
    lock_acquire(&t->lock);
    struct test_subject *subject = subject_of(t, s);
    subject->called++;
    if (s->options.handler.many != NULL)
        note_batch(t, subject, count);
    if (subject->on_call != NULL)
        add_event(t, (struct test_event){.subject = subject, .how = how});
    cond_wake_all(&t->changed);
    lock_release(&t->lock);
}

static void on_settled(void *ctx, struct subscription *s, coney_settle how)
{
    coney_test *t = ctx;
    lock_acquire(&t->lock);
    subject_of(t, s)->settled[way_of(how)]++;
    cond_wake_all(&t->changed);
    lock_release(&t->lock);
}

/* Publishes ---------------------------------------------------------------------------------------------------------------------- */

static coney_test_message copy_message(coney_test *t, const coney_broker *broker, const char *exchange,
                                       const struct outgoing *message)
{
    bool has_exchange = exchange != NULL && !message->to_requester;
    const coney_delivery_info info = {
        .exchange = coney_bytes_str(has_exchange ? exchange : ""),
        .routing_key = message->to,
        .content_type = message->content_type,
        .correlation_id = message->correlation_id,
        .reply_to = message->reply_to,
        .message_id = message->message_id,
        .type = message->type,
        .key = message->key,
        .headers = test_headers(t, broker, message),
        .timestamp = message->timestamp,
        .expiration = message->expiration,
        .priority = message->priority,
        .has_priority = message->has_priority,
    };
    coney_test_message copied = {.body = copy(t, message->body), .info = copy_info(t, &info)};
    copied.to = copied.info.routing_key;
    copied.exchange = copied.info.exchange;
    copied.content_type = copied.info.content_type;
    return copied;
}

bool test_is_at(const struct test_place *place, const struct test_published *published)
{
    return published->broker == place->broker && bytes_equal(published->message.to, place->name);
}

/* Under the lock; made when it is not there. NULL: memory is out. */
static struct test_place *find_place(coney_test *t, const coney_broker *broker, coney_bytes name)
{
    for (struct test_place *place = t->places; place != NULL; place = place->next)
        if (place->broker == broker && bytes_equal(place->name, name))
            return place;
    struct test_place *place = take(t, sizeof *place);
    if (place == NULL)
        return NULL;
    *place = (struct test_place){.broker = broker, .name = copy(t, name)};
    struct test_place **end = &t->places;
    while (*end != NULL)
        end = &(*end)->next;
    *end = place;
    return place;
}

static void tell_place(coney_test *t, struct test_published *published)
{
    struct test_place *place = find_place(t, published->broker, published->message.to);
    if (place == NULL)
        return;
    place->published++;
    if (place->on_publish != NULL)
        add_event(t, (struct test_event){.place = place, .message = &published->message});
}

static void on_published(void *ctx, coney_broker *broker, const char *exchange, const struct outgoing *message)
{
    coney_test *t = ctx;
    lock_acquire(&t->lock);
    struct test_published *published = take(t, sizeof *published);
    if (published != NULL) {
        published->broker = broker;
        published->message = copy_message(t, broker, exchange, message);
        if (t->last_published != NULL)
            t->last_published->next = published;
        else
            t->published = published;
        t->last_published = published;
        tell_place(t, published);
    }
    cond_wake_all(&t->changed);
    lock_release(&t->lock);
}

static coney_status on_publish(void *ctx, coney_broker *broker)
{
    coney_test *t = ctx;
    (void)broker;
    if (t->failures == 0)
        return CONEY_OK;
    t->failures--;
    return t->failure_as;
}

/* The log ------------------------------------------------------------------------------------------------------------------------ */

static void on_log(void *ctx, coney_log_level level, const char *text)
{
    coney_test *t = ctx;
    lock_acquire(&t->lock);
    struct test_line *line = take(t, sizeof *line);
    if (line != NULL) {
        line->level = level;
        line->text = copy(t, coney_bytes_str(text)).data;
        if (t->last_line != NULL)
            t->last_line->next = line;
        else
            t->lines = line;
        t->last_line = line;
    }
    cond_wake_all(&t->changed);
    lock_release(&t->lock);
    if (t->options.keep_log && t->own_log.fn != NULL && level <= t->own_log.level)
        t->own_log.fn(t->own_log.ctx, level, text);
}

static bool speaks_of(const char *line, const char *name)
{
    static const char subject[] = "subscription '";
    size_t len = strlen(name);
    return strncmp(line, subject, sizeof subject - 1) == 0 && strncmp(line + sizeof subject - 1, name, len) == 0 &&
           line[sizeof subject - 1 + len] == '\'';
}

const char *test_last_fault(const coney_test *t, const struct test_subject *subject)
{
    const char *last = "";
    for (const struct test_line *line = t->lines; line != NULL; line = line->next)
        if (line->level <= CONEY_LOG_WARNING && speaks_of(line->text, subject->subscription->name))
            last = line->text;
    return last;
}

/* What is open now --------------------------------------------------------------------------------------------------------------- */

struct open_counts {
    size_t for_later; /* copies that wait for their time */
    size_t all;
};

static struct open_counts count_open(const struct subscription *s)
{
    struct open_counts counts = {0};
    struct dispatch *x = dispatch_pin(s);
    if (x == NULL)
        return counts;
    lock_acquire(&x->lock);
    for (const struct list *item = x->out.next; item != &x->out; item = item->next) {
        counts.all++;
        counts.for_later += container_of(item, coney_delivery, place)->work_is == POSTED_FOR_LATER;
    }
    lock_release(&x->lock);
    dispatch_unpin();
    return counts;
}

size_t test_held_copies(const struct subscription *s)
{
    return count_open(s).for_later;
}

size_t test_read(const coney_test *t, const size_t *count)
{
    struct lock *lock = (struct lock *)&t->lock; /* nothing else is changed */
    lock_acquire(lock);
    size_t read = *count;
    lock_release(lock);
    return read;
}

size_t test_settled(const coney_test *t, const struct test_subject *subject, unsigned way)
{
    size_t told = test_read(t, &subject->settled[way]);
    return way == TEST_RETRIED ? told + test_held_copies(subject->subscription) : told;
}

size_t test_open_deliveries(const struct subscription *s)
{
    struct open_counts counts = count_open(s);
    return counts.all - counts.for_later;
}

/* Names -------------------------------------------------------------------------------------------------------------------------- */

static const char *source_of(const struct subscription *s)
{
    const coney_source *source = &s->options.source;
    switch (source->kind) {
    case CONEY_SOURCE_QUEUE:
        return ((const coney_queue_source *)source->of)->name;
    case CONEY_SOURCE_STREAM:
        return ((const coney_stream_source *)source->of)->name;
    case CONEY_SOURCE_TOPIC:
        return ((const coney_topic_source *)source->of)->name;
    case CONEY_SOURCE_NONE:
        break;
    }
    return NULL;
}

static bool is_called(const struct test_subject *subject, const char *name, bool by_source)
{
    const char *own = by_source ? source_of(subject->subscription) : subject->subscription->name;
    return own != NULL && strcmp(own, name) == 0;
}

static size_t find(const coney_test *t, const char *name, bool by_source, struct test_subject **found)
{
    size_t count = 0;
    for (struct test_subject *subject = t->subjects; subject != NULL; subject = subject->next)
        if ((t->at == NULL || subject->subscription->broker == t->at) && is_called(subject, name, by_source)) {
            *found = subject;
            count++;
        }
    return count;
}

struct test_subject *test_subject(coney_test *t, const char *name)
{
    struct test_subject *found = NULL;
    size_t count = find(t, name, false, &found);
    if (count == 0)
        count = find(t, name, true, &found);
    if (count == 1)
        return found;
    if (count > 1)
        test_fail(t, "%zu subscriptions read '%s': say which by its name, or by coney_test_on", count, name);
    else
        test_fail(t, "the app has no subscription '%s'%s%s%s", name, t->at != NULL ? " on broker '" : "",
                  t->at != NULL ? t->at->label : "", t->at != NULL ? "'" : "");
    return NULL;
}

struct test_place *test_place(coney_test *t, const char *destination)
{
    const coney_broker *broker = test_broker(t);
    if (broker == NULL)
        return NULL;
    lock_acquire(&t->lock);
    struct test_place *place = find_place(t, broker, coney_bytes_str(destination));
    lock_release(&t->lock);
    if (place == NULL)
        test_fail(t, "memory is out");
    return place;
}

/* Start -------------------------------------------------------------------------------------------------------------------------- */

static bool add_subjects(coney_test *t, const coney_broker *broker)
{
    for (const struct subscription *s = broker->subscriptions; s != NULL; s = s->next) {
        struct test_subject *subject = take(t, sizeof *subject);
        if (subject == NULL)
            return false;
        *subject = (struct test_subject){.next = t->subjects, .subscription = s};
        t->subjects = subject;
    }
    return true;
}

bool test_record(coney_test *t)
{
    coney_app *app = t->app;
    t->memory = coney_arena_new();
    if (t->memory == NULL)
        return false;
    t->dispatch_probe = (struct dispatch_probe){on_received, on_called, on_settled, t};
    t->publish_probe = (struct publish_probe){on_published, on_publish, t};
    t->own_log = app->log;
    app->dispatch_probe = &t->dispatch_probe;
    app->publish_probe = &t->publish_probe;
    app->log = (struct log){on_log, t, CONEY_LOG_DEBUG};
    for (const coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        if (!add_subjects(t, broker))
            return false;
    return true;
}
