/* memory_request.c: asking and waiting for the reply, over the broker in memory: see memory_bus.h. */
#include "base/text.h"
#include "base/time.h"
#include "transport/memory_bus.h"

static void request_begin(struct bus *bus, struct request *request)
{
    text_print(request->name, sizeof request->name, "%s%llu",
               bus->face == FACE_AMQP ? "amq.rabbitmq.reply-to." : MEMORY_REPLY_TO, (unsigned long long)++bus->next_name);
    list_init(&request->in_bus);
    list_append(&bus->requests, &request->in_bus);
}

/* Whether anybody listens to where it goes, which a topic does not say by itself. */
static bool is_heard(struct bus *bus, const struct outgoing *out)
{
    return bus->face != FACE_MEMORY || memory_topic_targets(bus, out->to, memory_queue_find(bus, out->to)) > 0;
}

static coney_status send(struct bus *bus, struct outlet *outlet, const struct outgoing *out, coney_call *call)
{
    struct message *message;
    if (!bus->is_connected)
        return memory_fail(call, CONEY_ECLOSED, 0, "the broker is not connected");
    if (!is_heard(bus, out))
        return memory_fail(call, CONEY_ERETURNED, 0, "nobody listens to '%.*s'", (int)out->to.len, (const char *)out->to.data);
    coney_status status = memory_encode(bus, memory_outlet_exchange(outlet), out, &message);
    if (status != CONEY_OK)
        return memory_fail(call, status, 0, "%s", coney_status_text(status));
    struct verdict verdict = memory_route(bus, message);
    message_unref(&bus->pool, message);
    if (verdict.status == CONEY_OK)
        return CONEY_OK;
    return memory_fail(call, verdict.status, verdict.code, "no queue took the request for '%.*s': %s", (int)out->to.len,
                       (const char *)out->to.data, verdict.text);
}

/* Virtual: whatever there is to run, of this broker or another one of the app. */
static bool run_something(struct bus *bus)
{
    if (memory_bus_run_one(bus))
        return true;
    coney_app *app = bus->broker->app;
    for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next) {
        struct bus *other = memory_bus_of(broker);
        if (other != NULL && other != bus && memory_bus_run_one(other))
            return true;
    }
    return app->worker != NULL && worker_run_one(app->worker);
}

static int64_t next_due(struct bus *bus)
{
    coney_app *app = bus->broker->app;
    int64_t due = app->worker != NULL ? worker_next_due(app->worker) : INT64_MAX;
    for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        if (memory_bus_of(broker) != NULL && memory_next_due(broker) < due)
            due = memory_next_due(broker);
    return due;
}

/* Runs the bus until the reply is there; when nothing is left to run, time goes on to the deadline. */
static void run_until_reply(struct bus *bus, const struct request *request, int64_t deadline)
{
    while (request->reply == NULL) {
        lock_release(&bus->lock);
        bool ran = run_something(bus);
        int64_t due = ran ? 0 : next_due(bus);
        struct worker *worker = bus->broker->app->worker;
        bool is_over = !ran && (due >= deadline || worker == NULL);
        if (!ran && worker != NULL && (due < deadline || deadline < INT64_MAX))
            worker_set_now(worker, due < deadline ? due : deadline);
        lock_acquire(&bus->lock);
        if (is_over)
            return;
    }
}

static void wait_for_reply(struct bus *bus, const struct request *request, coney_call *call)
{
    int64_t wait = call != NULL && call->deadline != 0 ? call->deadline : 10 * CONEY_SECOND;
    int64_t deadline = time_after(memory_now(bus), wait);
    if (bus->is_virtual) {
        run_until_reply(bus, request, deadline);
        return;
    }
    bool in_time = true;
    while (request->reply == NULL && in_time && bus->is_connected)
        in_time = cond_wait(&bus->changed, &bus->lock, deadline);
}

static coney_status take_reply(struct bus *bus, struct request *request, struct incoming *reply, coney_call *call)
{
    if (request->reply == NULL && !bus->is_connected)
        return memory_fail(call, CONEY_ECLOSED, 0, "the broker was closed before a reply came");
    if (request->reply == NULL)
        return memory_fail(call, CONEY_ETIMEDOUT, 0, "no reply came within the deadline");
    struct entry *entry = memory_entry_new(bus, request->reply, NULL, 0);
    message_unref(&bus->pool, request->reply);
    if (entry == NULL)
        return memory_fail(call, CONEY_ENOMEM, 0, "memory is out");
    entry->is_reply = true;
    bus->orphans++;
    *reply = (struct incoming){
        .body = entry->message->body, .feed = &bus->reply_feed, .native = entry, .kept = &entry->kept, .offset = UINT64_MAX};
    return CONEY_OK;
}

coney_status memory_request(struct outlet *outlet, const struct outgoing *message, struct incoming *reply, coney_call *call)
{
    struct bus *bus = memory_outlet_bus(outlet);
    struct request request = {.reply = NULL};
    struct outgoing out = *message;
    lock_acquire(&bus->lock);
    request_begin(bus, &request);
    out.reply_to = coney_bytes_str(request.name);
    out.correlation_id = out.reply_to;
    coney_status status = send(bus, outlet, &out, call);
    if (status == CONEY_OK) {
        wait_for_reply(bus, &request, call);
        status = take_reply(bus, &request, reply, call);
    }
    list_remove(&request.in_bus);
    lock_release(&bus->lock);
    return status;
}
