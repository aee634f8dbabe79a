/* coney_service.c: the commands of coney_service_side.h.
 *
 *     bench_coney_service memory --json 1 --count 100000
 *     bench_coney_service consume --queue Q --size 512 --count 200000                 (bench_floor_amqp fill makes Q)
 *     bench_coney_service replay --stream S --size 200 --count 4000000                (bench_floor fill makes S)
 */
#include "coney_service_side.h"

#include <coney/service.h>

int main(int argc, char **argv)
{
    static const struct command commands[] = {
        {"memory", service_memory},
        {"consume", service_consume},
        {"replay", service_replay},
    };
    return run_command(commands, sizeof commands / sizeof commands[0], argc, argv);
}
