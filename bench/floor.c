/* floor.c: the commands of floor.h.
 *
 *     bench_floor latency --messages 50 --rate 1 --seconds 10
 *     bench_floor single --rate 1000 --seconds 10
 *     bench_floor publish --size 200 --count 2000000
 *     bench_floor fill --stream S --size 12 --count 4000000
 *     bench_floor replay --stream S --size 12 --count 4000000 --passes 5
 *     bench_floor delete --stream S
 */
#include "floor.h"

int main(int argc, char **argv)
{
    static const struct command commands[] = {
        {"latency", floor_latency}, {"single", floor_single}, {"publish", floor_publish},           {"fill", floor_fill},
        {"replay", floor_replay},   {"delete", floor_delete}, {"replay-whole", floor_replay_whole},
    };
    return run_command(commands, sizeof commands / sizeof commands[0], argc, argv);
}
