/* coney_service_memory.c: what a message costs when there is no network: published, decoded, handled and settled within one process. */
#include "coney_service_side.h"

#include <stdlib.h>
#include <string.h>

/* A block may have been handled, and its memory not yet given back, when the one after the next is published. */
enum { BLOCK = 1024, UNDER_WAY = 3 * BLOCK };

static coney_bytes body_of(const struct options *o)
{
    char *body = must_alloc(o->size + ORDER_LEAST);
    if (o->json != 0)
        return coney_bytes_of(body, order_json(body, 0));
    memset(body, 'x', o->size);
    return coney_bytes_of(body, o->size);
}

void service_memory(const struct options *o)
{
    if (o->count <= UNDER_WAY || o->count % BLOCK != 0)
        die("--count must be blocks of %d, and more than %d", BLOCK, UNDER_WAY);
    struct count *count = &service_count;
    sem_t go;
    *count = (struct count){.due = 1, .step = BLOCK, .last = o->count, .go = &go};
    sem_init(&count->reached, 0, 0);
    sem_init(&go, 0, 0);
    coney_app *app = service_app();
    coney_broker *broker = coney_app_memory(app, NULL);
    service_subscribe(broker, CONEY_TOPIC("orders"), o);
    service_start(app);
    coney_out out = coney_out_of_broker(broker);
    coney_publish_options options = {.to = "orders"};
    coney_bytes body = body_of(o), type = o->json != 0 ? CONEY_STR("application/json") : coney_bytes_of(NULL, 0);
    uint64_t start = now_ns();
    for (uint64_t sent = 0; sent < o->count; sent++) {
        if (sent == UNDER_WAY)
            sem_post(&go);
        if (sent >= UNDER_WAY && sent % BLOCK == 0)
            service_await();
        coney_status status = coney_publish_raw(out, body, type, &options);
        if (status != CONEY_OK)
            die("publish: %s", coney_status_text(status));
    }
    for (uint64_t block = 0; block < UNDER_WAY / BLOCK; block++)
        service_await();
    uint64_t end = now_ns();
    service_stop(&app);
    service_check(o);
    free((void *)body.data);
    print_rate("coney", "memory", "consumed_per_second", body.len, o->count, end - start);
}
