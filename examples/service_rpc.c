/* Questions and answers over a queue, both sides in one program: the app answers, and asks itself once it has started. An
 * answer that does not come in time, or a question that nobody listens to, is a failure that says so.
 *
 *     service_rpc                         asks for three prices and ends
 *     service_rpc serve                   answers until Ctrl-C or SIGTERM
 *     echo '{"article": "tea", "pieces": 4}' | coney amqp request prices
 *
 * CONEY_AMQP_URI names the broker; without it, it is amqp://localhost.
 */
#include <coney/service.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define QUESTION(F) F(string, article) F(u32, pieces)
CONEY_MESSAGE(question, QUESTION, to("prices"));

#define PRICE(F) F(f64, total)
CONEY_MESSAGE(price, PRICE);

static coney_settle answer(coney_delivery *d, const question *q)
{
    return price_reply(d, &(price){.total = 2.5 * q->pieces}) == CONEY_OK ? CONEY_ACK : coney_failed(d, NULL);
}
CONEY_HANDLER(answer, question);

/* Runs once the subscription is open. What it returns and writes into `call` is why the start fails. */
static coney_status ask(coney_app *app, void *ctx, coney_call *call)
{
    coney_publisher *prices = ctx;
    for (uint32_t pieces = 1; pieces <= 3; pieces++) {
        question q = {.article = CONEY_STR("tea"), .pieces = pieces};
        coney_reply_message *reply = NULL;
        call->deadline = 5 * CONEY_SECOND;
        coney_status status = question_request(prices, &(coney_publish_options){0}, &q, &reply, call);
        if (status != CONEY_OK)
            return status;
        const price *p = price_of_reply(reply); /* lives as long as the reply */
        if (p != NULL)
            printf("%" PRIu32 " of tea: %.2f\n", pieces, p->total);
        coney_reply_free(&reply);
        if (p == NULL)
            return CONEY_ECORRUPT;
    }
    coney_app_ask_to_stop(app);
    return CONEY_OK;
}

int main(int argc, char **argv)
{
    bool serves = argc > 1 && strcmp(argv[1], "serve") == 0;
    coney_app *app = coney_app_new("prices", "1.0.0");
    coney_broker *rabbit = coney_app_amqp(app, getenv("CONEY_AMQP_URI"), NULL);
    coney_publisher *prices =
        coney_publisher_new(rabbit, &(coney_publisher_options){.name = "questions", .expiration = 5 * CONEY_SECOND});
    coney_subscribe(rabbit, &(coney_subscription){
                                .source = CONEY_QUEUE("prices", .declare = true),
                                .handler = answer_handler,
                                .on_failure = CONEY_POLICY_REJECT, /* a question without a way back is dropped */
                            });
    if (!serves)
        coney_app_on(app, CONEY_AFTER_START, ask, prices);
    return coney_app_main(app, serves ? argc - 1 : argc, serves ? argv + 1 : argv);
}
