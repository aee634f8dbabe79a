/* The first service: orders come from a queue, each is answered by a receipt in another one, and an order is acked when the
 * broker has confirmed its receipt. Neither is lost when this program, the connection or the broker is.
 *
 *     service                      until Ctrl-C or SIGTERM, which let running handlers finish
 *     service check                looks for mistakes in the description; service --help tells the rest
 *     echo '{"id": 1, "customer": "ada", "total": 9.5}' | coney amqp publish orders
 *     coney amqp consume receipts
 *
 * CONEY_AMQP_URI names the broker; without it, it is amqp://localhost. CONEY_LOG=debug tells more.
 */
#include <coney/service.h>

#include <stdlib.h>

#define ORDER(F) F(u64, id) F(string, customer) F(f64, total)
CONEY_MESSAGE(order, ORDER);

#define RECEIPT(F) F(u64, order_id)
CONEY_MESSAGE(receipt, RECEIPT);

static coney_settle settle(coney_delivery *d, const order *o)
{
    if (receipt_publish(coney_out_of(d), "receipts", &(receipt){.order_id = o->id}) != CONEY_OK)
        return coney_retry_after(5 * CONEY_SECOND);
    return CONEY_ACK;
}
CONEY_HANDLER(settle, order);

int main(int argc, char **argv)
{
    coney_app *app = coney_app_new("orders", "1.0.0");
    coney_broker *rabbit = coney_app_amqp(app, getenv("CONEY_AMQP_URI"), NULL);
    coney_declare_queue(rabbit, &(coney_amqp_queue){.name = "receipts", .type = CONEY_QUEUE_QUORUM});
    coney_subscribe(rabbit, &(coney_subscription){
                                .source = CONEY_QUEUE("orders", .type = CONEY_QUEUE_QUORUM, .prefetch = 64, .declare = true),
                                .handler = settle_handler,
                            });
    return coney_app_main(app, argc, argv);
}
