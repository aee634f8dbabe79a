/* A topic exchange: who publishes an event does not know who listens. Here two do: one bills every order that is placed, and
 * says so by an event whose routing key it makes from the invoice; the other writes down whatever happens.
 *
 *     service_topics                      until Ctrl-C or SIGTERM
 *     echo '{"id": 7, "country": "fr", "total": 12.5}' |
 *         coney amqp publish --exchange events --routing-key order.fr.placed
 *
 * CONEY_AMQP_URI names the broker; without it, it is amqp://localhost.
 */
#include <coney/service.h>

#include <stdio.h>
#include <stdlib.h>

#define PLACED(F) F(u64, id) F(string, country) F(f64, total)
CONEY_MESSAGE(placed, PLACED);

#define INVOICE(F) F(u64, order) F(string, country) F(f64, amount)
CONEY_MESSAGE(invoice, INVOICE, to("invoice.{country}"));

/* Its ack waits until the broker has the invoice. */
static coney_settle bill(coney_delivery *d, const placed *p)
{
    coney_publisher *events = coney_delivery_ctx(d);
    invoice i = {.order = p->id, .country = p->country, .amount = p->total * 1.2};
    return invoice_publish(coney_out_by(d, events), NULL, &i) == CONEY_OK ? CONEY_ACK : coney_failed(d, NULL);
}
CONEY_HANDLER(bill, placed);

/* Takes events of any type: as bytes. */
static coney_settle audit(coney_delivery *d, coney_bytes body)
{
    coney_bytes key = coney_delivery_info_of(d)->routing_key;
    printf("%.*s %.*s\n", (int)key.len, (const char *)key.data, (int)body.len, (const char *)body.data);
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(audit);

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    coney_app *app = coney_app_new("billing", "1.0.0");
    coney_broker *rabbit = coney_app_amqp(app, getenv("CONEY_AMQP_URI"), NULL);
    coney_publisher *events = coney_publisher_new(rabbit, &(coney_publisher_options){.name = "events", .exchange = "events"});

    coney_subscribe(rabbit,
                    &(coney_subscription){
                        .source = CONEY_QUEUE("billing", .declare = true,
                                              .bindings = CONEY_BINDINGS({"events", .key = "order.*.placed", .type = "topic"})),
                        .handler = bill_handler,
                        .ctx = events,
                    });
    coney_subscribe(rabbit, &(coney_subscription){
                                .source = CONEY_QUEUE("audit", .declare = true,
                                                      .bindings = CONEY_BINDINGS({"events", .key = "#", .type = "topic"})),
                                .handler = audit_handler,
                            });
    return coney_app_main(app, argc, argv);
}
