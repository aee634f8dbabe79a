/* coney_amqp.c: the commands of coney_amqp_side.h.
 *
 *     bench_coney_amqp consume --queue Q --size 512 --count 200000        (bench_floor_amqp fill makes Q)
 *     bench_coney_amqp publish --size 512 --count 200000
 *     bench_coney_amqp round-trip --size 64 --count 5000
 */
#include "coney_amqp_side.h"

int main(int argc, char **argv)
{
    static const struct command commands[] = {
        {"consume", coney_amqp_consume},
        {"publish", coney_amqp_publishing},
        {"round-trip", coney_amqp_round_trip},
    };
    return run_command(commands, sizeof commands / sizeof commands[0], argc, argv);
}
