/* Middleware: what holds for every handler is written once and stands around them. Here one writes a line for each message,
 * and one turns away what names no tenant, so that the handler can rely on it. At the end the app's own counters are printed.
 *
 *     service_middleware                  until Ctrl-C or SIGTERM
 *     echo '{"text": "hello"}' | coney amqp publish notes --header tenant=acme
 *
 * CONEY_AMQP_URI names the broker; without it, it is amqp://localhost.
 */
#include <coney/service.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NOTE(F) F(string, text)
CONEY_MESSAGE(note, NOTE);

#define ABOUT(F) F(string, tenant)
CONEY_TYPE(about, ABOUT); /* headers are described as messages are */

static const char tenant_key; /* its address is the name under which one leaves the tenant for the others */

static coney_settle write_line(void *ctx, coney_delivery *d, coney_next *next)
{
    (void)ctx;
    coney_settle how = coney_next_run(next, d);
    fprintf(stderr, "%s: attempt %" PRIu64 ", %s\n", coney_delivery_subscription(d), coney_delivery_attempt(d),
            how == CONEY_ACK ? "done" : "not done");
    return how;
}

static coney_settle need_tenant(void *ctx, coney_delivery *d, coney_next *next)
{
    (void)ctx;
    about *headers = coney_arena_alloc(coney_delivery_arena(d), sizeof *headers);
    if (headers == NULL)
        return CONEY_FAILED;
    if (coney_delivery_headers(d, about_type(), headers) != CONEY_OK)
        return coney_undecodable(d, NULL); /* rejected, and the log says which header is missing */
    if (coney_delivery_put(d, &tenant_key, headers) != CONEY_OK)
        return CONEY_FAILED;
    return coney_next_run(next, d);
}

static coney_settle keep_note(coney_delivery *d, const note *n)
{
    const about *headers = coney_delivery_find(d, &tenant_key);
    printf("%.*s: %.*s\n", (int)headers->tenant.len, (const char *)headers->tenant.data, (int)n->text.len,
           (const char *)n->text.data);
    return CONEY_ACK;
}
CONEY_HANDLER(keep_note, note);

static void print_metric(void *ctx, const coney_metric *metric)
{
    (void)ctx;
    if (metric->kind != CONEY_METRIC_COUNTER || metric->value == 0)
        return;
    printf("%s", metric->name);
    for (uint32_t i = 0; i < metric->label_count; i++)
        printf(" %s=%s", metric->labels[2 * i], metric->labels[2 * i + 1]);
    printf(" %.0f\n", metric->value);
}

static coney_status print_metrics(coney_app *app, void *ctx, coney_call *call)
{
    (void)call;
    coney_app_metrics(app, print_metric, ctx);
    return CONEY_OK;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    coney_app *app = coney_app_new("notes", "1.0.0");
    coney_app_use(app, write_line, NULL); /* the outermost, so it also sees what the next one turns away */
    coney_app_use(app, need_tenant, NULL);
    coney_broker *rabbit = coney_app_amqp(app, getenv("CONEY_AMQP_URI"), NULL);
    coney_subscribe(rabbit,
                    &(coney_subscription){.source = CONEY_QUEUE("notes", .declare = true), .handler = keep_note_handler});
    coney_app_on(app, CONEY_AFTER_STOP, print_metrics, NULL);
    return coney_app_main(app, argc, argv);
}
