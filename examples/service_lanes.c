/* Several handlers at a time, and still in order where it matters: messages of one key go through one lane, one after the
 * other, so what belongs to the key needs no lock. Here the key is an account, and each movement must follow the one before.
 *
 *     service_lanes                       books 400 movements of 8 accounts on 4 lanes and ends
 *
 * CONEY_AMQP_URI names the broker; without it, it is amqp://localhost.
 */
#include <coney/service.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ACCOUNTS = 8, MOVEMENTS = 400, LANES = 4 };

#define MOVEMENT(F) F(u32, account) F(u64, number) F(i64, cents)
CONEY_MESSAGE(movement, MOVEMENT, to("movements"));

struct bank {
    coney_broker *rabbit;
    struct account {
        uint64_t number; /* of its last movement */
        int64_t cents;
    } accounts[ACCOUNTS];
    _Atomic int booked; /* by all lanes */
};

static coney_settle book(coney_delivery *d, const movement *m)
{
    struct bank *bank = coney_delivery_ctx(d);
    if (m->account >= ACCOUNTS)
        return CONEY_REJECT;
    struct account *account = &bank->accounts[m->account];
    if (m->number <= account->number)
        return CONEY_ACK; /* it has come before: a delivery may be repeated after a lost connection */
    if (m->number != account->number + 1)
        return coney_failed(d, "a movement of this account is missing");

    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* what makes lanes worth while */
    account->number = m->number;
    account->cents += m->cents;
    if (atomic_fetch_add(&bank->booked, 1) + 1 == MOVEMENTS)
        coney_app_ask_to_stop(coney_delivery_app(d));
    return CONEY_ACK;
}
CONEY_HANDLER(book, movement);

static coney_status publish_all(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)call;
    struct bank *bank = ctx;
    uint64_t numbers[ACCOUNTS] = {0};
    coney_status status = CONEY_OK;
    for (uint32_t i = 0; i < MOVEMENTS && status == CONEY_OK; i++) {
        uint32_t account = i / 2 % ACCOUNTS;
        movement m = {.account = account, .number = ++numbers[account], .cents = 100 * (int64_t)(account + 1)};
        char key[16];
        snprintf(key, sizeof key, "%" PRIu32, account);
        status =
            movement_publish_with(coney_out_of_broker(bank->rabbit), &(coney_publish_options){.key = coney_bytes_str(key)}, &m);
    }
    return status;
}

static coney_status print_accounts(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)call;
    struct bank *bank = ctx;
    for (int i = 0; i < ACCOUNTS; i++)
        printf("account %d: %" PRIu64 " movements, %" PRId64 ".%02d\n", i, bank->accounts[i].number,
               bank->accounts[i].cents / 100, (int)(bank->accounts[i].cents % 100));
    return CONEY_OK;
}

int main(int argc, char **argv)
{
    static struct bank bank;
    coney_app *app = coney_app_new("bank", "1.0.0");
    bank.rabbit = coney_app_amqp(app, getenv("CONEY_AMQP_URI"), NULL);
    coney_subscribe(bank.rabbit, &(coney_subscription){
                                     .source = CONEY_QUEUE("movements", .declare = true, .exclusive = true), /* of this run */
                                     .handler = book_handler,
                                     .lanes = LANES,
                                     .by_key = true,
                                     .ctx = &bank,
                                 });
    coney_app_on(app, CONEY_AFTER_START, publish_all, &bank);
    coney_app_on(app, CONEY_AFTER_STOP, print_accounts, &bank);
    return coney_app_main(app, argc, argv);
}
