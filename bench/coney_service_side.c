/* coney_service_side.c: an app with one subscription, and its handlers; see coney_service_side.h. */
#define _GNU_SOURCE
#include "coney_service_side.h"

#include <errno.h>

struct count service_count;

/* Two minutes at most. */
static void await(sem_t *semaphore)
{
    uint64_t limit = now_ns() + 120 * SECOND;
    struct timespec at = {.tv_sec = (time_t)(limit / SECOND), .tv_nsec = (long)(limit % SECOND)};
    while (semaphore != NULL && sem_clockwait(semaphore, CLOCK_MONOTONIC, &at) != 0)
        if (errno != EINTR)
            die("not every message arrived within two minutes");
}

/* Apart, so that the handler of every other message saves no registers. */
__attribute__((noinline, cold)) static coney_settle due(struct count *count)
{
    if (count->messages == 1) {
        await(count->go);
        count->start = now_ns();
    }
    if (count->messages == count->last)
        count->end = now_ns();
    if (count->messages % count->step == 0)
        sem_post(&count->reached);
    count->due = count->messages - count->messages % count->step + count->step;
    return CONEY_ACK;
}

static inline coney_settle add(uint64_t number)
{
    service_count.sum += number;
    return __builtin_expect(++service_count.messages == service_count.due, 0) ? due(&service_count) : CONEY_ACK;
}

static coney_settle take_body(coney_delivery *delivery, coney_bytes body)
{
    (void)delivery;
    return add(body.len);
}
CONEY_RAW_HANDLER(take_body);

static coney_settle take_order(coney_delivery *delivery, const order *o)
{
    (void)delivery;
    return add(o->id + o->quantity);
}
CONEY_HANDLER(take_order, order);

static coney_settle answer_order(coney_delivery *delivery, const order *o)
{
    order receipt = {.id = o->id, .quantity = o->quantity};
    coney_status status = order_publish(coney_out_of(delivery), "receipts", &receipt);
    if (status != CONEY_OK)
        die("publish: %s", coney_status_text(status));
    return add(o->id + o->quantity);
}
CONEY_HANDLER(answer_order, order);

coney_handler service_handler(const struct options *o)
{
    return o->reply != 0 ? answer_order_handler : o->json != 0 ? take_order_handler : take_body_handler;
}

coney_app *service_app(void)
{
    coney_app *app = coney_app_new("bench", "1");
    if (app == NULL)
        die("memory is out");
    coney_app_configure(app, &(coney_app_options){.on_log = coney_log_stderr, .log_level = CONEY_LOG_WARNING});
    return app;
}

void service_subscribe(coney_broker *broker, coney_source source, const struct options *o)
{
    coney_status status = coney_subscribe(broker, &(coney_subscription){.source = source, .handler = service_handler(o)});
    if (status != CONEY_OK)
        die("subscribe: %s", coney_status_text(status));
}

void service_start(coney_app *app)
{
    coney_call call = {0};
    if (coney_app_start(app, &call) != CONEY_OK)
        die("%s", call.text);
}

void service_stop(coney_app **app)
{
    coney_call call = {0};
    if (coney_app_stop(*app, &call) != CONEY_OK)
        die("%s", call.text);
    coney_app_free(app);
}

void service_await(void)
{
    await(&service_count.reached);
}

void service_check(const struct options *o)
{
    uint64_t each = o->json != 0 ? ORDER_ID + ORDER_QUANTITY : o->size;
    if (service_count.messages != o->count || service_count.sum != o->count * each)
        die("there were other messages than --count of --size");
}
