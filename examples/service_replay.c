/* A stream keeps what was read. The first run reads all orders, the next one goes on where that left off, and --from reads
 * again from anywhere: to rebuild what was lost, or to let new code look at old orders.
 *
 *     service_replay                      goes on; prints orders until Ctrl-C or SIGTERM
 *     service_replay --from first         or an offset, or a day: --from 2026-01-31
 *     echo '{"id": 1, "total": 9.5}' | coney stream publish order-log
 *
 * CONEY_STREAM_URI names the broker; without it, it is rabbitmq-stream://localhost.
 */
#define _GNU_SOURCE
#include <coney/service.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ORDER(F) F(u64, id) F(f64, total)
CONEY_MESSAGE(order, ORDER);

static coney_settle book(coney_delivery *d, const order *o)
{
    double *sum = coney_delivery_ctx(d);
    *sum += o->total;
    printf("%" PRIu64 ": order %" PRIu64 " of %.2f, %.2f in all\n", coney_delivery_info_of(d)->offset, o->id, o->total, *sum);
    return CONEY_ACK;
}
CONEY_HANDLER(book, order);

/* Sets where the stream is read from, whatever earlier runs have stored. False: `place` is none. */
static bool begin_at(coney_stream_source *source, const char *place)
{
    source->start_always = true;
    struct tm day = {0};
    const char *end = strptime(place, "%Y-%m-%d", &day);
    if (end != NULL && *end == '\0') {
        source->start_if_new = CONEY_STREAM_TIMESTAMP;
        source->start_time = (int64_t)timegm(&day) * 1000;
        return true;
    }
    if (strcmp(place, "first") == 0) {
        source->start_if_new = CONEY_STREAM_FIRST;
        return true;
    }
    char *rest = NULL;
    source->start_if_new = CONEY_STREAM_OFFSET;
    source->start_offset = strtoull(place, &rest, 10);
    return *place >= '0' && *place <= '9' && *rest == '\0';
}

int main(int argc, char **argv)
{
    coney_stream_source orders = {
        .name = "order-log",
        .consumer = "ledger", /* how far it has read is stored under this name */
        .start_if_new = CONEY_STREAM_FIRST,
        .declare = true,
    };
    if (argc == 3 && strcmp(argv[1], "--from") == 0) {
        if (!begin_at(&orders, argv[2]))
            return fprintf(stderr, "--from takes 'first', an offset or a day like 2026-01-31, not '%s'\n", argv[2]), 2;
        argc = 1;
    }

    setvbuf(stdout, NULL, _IOLBF, 0);
    double sum = 0;
    coney_app *app = coney_app_new("ledger", "1.0.0");
    coney_broker *streams = coney_app_stream(app, getenv("CONEY_STREAM_URI"), NULL);
    coney_subscribe(streams, &(coney_subscription){
                                 .source = coney_source_stream(&orders),
                                 .handler = book_handler,
                                 .ctx = &sum, /* handlers of a subscription run one after the other: no lock */
                             });
    return coney_app_main(app, argc, argv);
}
