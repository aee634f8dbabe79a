/* floor_amqp.c: the commands of floor_amqp.h.
 *
 *     bench_floor_amqp publish --size 512 --count 200000
 *     bench_floor_amqp fill --queue Q --type quorum --size 512 --count 200000
 *     bench_floor_amqp consume --queue Q --size 512 --count 200000 --ack-each 1
 *     bench_floor_amqp delete --queue Q
 *     bench_floor_amqp round-trip --size 64 --count 5000
 */
#include "floor_amqp.h"

int main(int argc, char **argv)
{
    static const struct command commands[] = {
        {"publish", amqp_floor_publish},       {"fill", amqp_floor_fill},
        {"delete", amqp_floor_delete},         {"consume", amqp_floor_consume},
        {"round-trip", amqp_floor_round_trip},
    };
    return run_command(commands, sizeof commands / sizeof commands[0], argc, argv);
}
