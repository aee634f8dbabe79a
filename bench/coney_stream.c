/* coney_stream.c: the commands of coney_side.h.
 *
 *     bench_coney_stream latency --messages 50 --rate 1 --seconds 10
 *     bench_coney_stream single --rate 1000 --seconds 10
 *     bench_coney_stream publish --size 200 --count 2000000
 *     bench_coney_stream replay --stream S --size 12 --count 4000000 --passes 5      (bench_floor fill makes S)
 *     bench_coney_stream handles --handles 1000
 */
#include "coney_side.h"

int main(int argc, char **argv)
{
    static const struct command commands[] = {
        {"latency", coney_latency}, {"single", coney_single},   {"publish", coney_publish},
        {"replay", coney_replay},   {"handles", coney_handles},
    };
    return run_command(commands, sizeof commands / sizeof commands[0], argc, argv);
}
