/* A work queue: a job that cannot be done yet is tried again after 250 ms, 500 ms and 1 s; the one that failed four times goes
 * to a queue of its own, where somebody can look at it. While a job waits, it waits in the broker, and other jobs are done.
 *
 *     service_work_queue                  measures files until Ctrl-C or SIGTERM
 *     echo '{"path": "/etc/hosts"}' | coney amqp publish jobs
 *     echo '{"path": "/not/there"}' | coney amqp publish jobs
 *     coney amqp consume jobs.dead --format json
 *
 * CONEY_AMQP_URI names the broker; without it, it is amqp://localhost.
 */
#include <coney/service.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_ATTEMPTS = 4 };

#define JOB(F) F(string, path)
CONEY_MESSAGE(job, JOB);

static int64_t pause_after(uint64_t attempt)
{
    return (250 * CONEY_MILLISECOND) << (attempt - 1);
}

static coney_settle measure(coney_delivery *d, const job *j)
{
    const char *path = coney_arena_copy(coney_delivery_arena(d), j->path).data; /* with the NUL that stat wants */
    if (path == NULL)
        return CONEY_FAILED; /* memory is out: on_failure says what follows, by default again after a second */

    struct stat file;
    uint64_t attempt = coney_delivery_attempt(d);
    if (stat(path, &file) != 0) {
        printf("%s: %s (attempt %" PRIu64 ")\n", path, strerror(errno), attempt);
        return coney_retry_after(pause_after(attempt)); /* the last time, too: max_attempts is counted by the app */
    }
    printf("%s: %lld bytes\n", path, (long long)file.st_size);
    return CONEY_ACK;
}
CONEY_HANDLER(measure, job);

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    coney_app *app = coney_app_new("measure", "1.0.0");
    coney_broker *rabbit = coney_app_amqp(app, getenv("CONEY_AMQP_URI"), NULL);
    coney_declare_queue(rabbit, &(coney_amqp_queue){.name = "jobs.dead", .type = CONEY_QUEUE_QUORUM});
    coney_subscribe(rabbit,
                    &(coney_subscription){
                        .source = CONEY_QUEUE("jobs", .type = CONEY_QUEUE_QUORUM, .delay = CONEY_DELAY_QUEUE, .declare = true),
                        .handler = measure_handler,
                        .max_attempts = MAX_ATTEMPTS,
                        .dead_letter = "jobs.dead",
                    });
    return coney_app_main(app, argc, argv);
}
