/* A service inside a libuv program: handlers run on coney's threads and hand the work over to the loop, which settles each
 * message when it is done with it. A stop lets the loop finish what it has.
 *
 *     service_uv                          until Ctrl-C or SIGTERM
 *     echo '{"name": "tea", "ms": 3000}' | coney amqp publish timers
 *
 * CONEY_AMQP_URI names the broker; without it, it is amqp://localhost.
 */
#include <coney/service.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#define JOB(F) F(string, name) F(u32, ms)
CONEY_MESSAGE(job, JOB);

struct task {
    struct task *next;
    coney_kept *kept;
    const job *job; /* valid until the delivery is settled, as is this struct, which lies in its arena */
    uv_timer_t timer;
};

struct program {
    coney_app *app;
    uv_thread_t thread;
    uv_async_t wake;
    uv_signal_t interrupt, terminate;
    uv_mutex_t mutex; /* guards the rest */
    struct task *arrived, **last;
    bool ended;
    int result;
};

/* On coney's threads ------------------------------------------------------------------------------------------------------- */

static coney_settle hand_over(coney_delivery *d, const job *j)
{
    struct program *program = coney_delivery_ctx(d);
    struct task *task = coney_arena_alloc(coney_delivery_arena(d), sizeof *task);
    coney_kept *kept = task != NULL ? coney_delivery_keep(d) : NULL;
    if (kept == NULL)
        return CONEY_FAILED;
    *task = (struct task){.kept = kept, .job = j};
    uv_mutex_lock(&program->mutex);
    *program->last = task;
    program->last = &task->next;
    uv_mutex_unlock(&program->mutex);
    uv_async_send(&program->wake);
    return CONEY_KEPT;
}
CONEY_HANDLER(hand_over, job);

/* What blocks has a thread of its own: the start, and the stop, which waits until the loop has settled everything. */
static void serve(void *arg)
{
    struct program *program = arg;
    coney_call call = {0};
    coney_status status = coney_app_start(program->app, &call);
    if (status == CONEY_OK) {
        status = coney_app_wait(program->app, &call);
        coney_call stop = {0};
        if (coney_app_stop(program->app, &stop) != CONEY_OK)
            fprintf(stderr, "%s\n", stop.text);
    }
    if (status != CONEY_OK)
        fprintf(stderr, "%s\n", call.text);
    uv_mutex_lock(&program->mutex);
    program->ended = true;
    program->result = status == CONEY_OK ? 0 : 1;
    uv_mutex_unlock(&program->mutex);
    uv_async_send(&program->wake);
}

/* On the loop -------------------------------------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *timer)
{
    struct task *task = timer->data;
    coney_kept *kept = task->kept;
    coney_kept_settle(&kept, CONEY_ACK); /* the task is gone */
}

static void on_time(uv_timer_t *timer)
{
    const struct task *task = timer->data;
    printf("%.*s after %" PRIu32 " ms\n", (int)task->job->name.len, (const char *)task->job->name.data, task->job->ms);
    uv_close((uv_handle_t *)timer, on_closed);
}

static void on_wake(uv_async_t *wake)
{
    struct program *program = wake->data;
    uv_mutex_lock(&program->mutex);
    struct task *task = program->arrived;
    program->arrived = NULL;
    program->last = &program->arrived;
    bool ended = program->ended;
    uv_mutex_unlock(&program->mutex);
    while (task != NULL) {
        struct task *next = task->next;
        uv_timer_init(wake->loop, &task->timer);
        task->timer.data = task;
        uv_timer_start(&task->timer, on_time, task->job->ms, 0);
        task = next;
    }
    if (ended) { /* with the last handle uv_run returns */
        uv_close((uv_handle_t *)&program->wake, NULL);
        uv_close((uv_handle_t *)&program->interrupt, NULL);
        uv_close((uv_handle_t *)&program->terminate, NULL);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    struct program *program = handle->data;
    coney_app_ask_to_stop(program->app);
}

static void watch(uv_signal_t *handle, int number, struct program *program)
{
    uv_signal_init(uv_default_loop(), handle);
    handle->data = program;
    uv_signal_start(handle, on_signal, number);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    static struct program program;
    program.last = &program.arrived;
    program.app = coney_app_new("timers", "1.0.0");
    coney_broker *rabbit = coney_app_amqp(program.app, getenv("CONEY_AMQP_URI"), NULL);
    coney_subscribe(rabbit, &(coney_subscription){
                                .source = CONEY_QUEUE("timers", .declare = true),
                                .handler = hand_over_handler,
                                .ctx = &program,
                            });

    uv_mutex_init(&program.mutex);
    uv_async_init(uv_default_loop(), &program.wake, on_wake);
    program.wake.data = &program;
    watch(&program.interrupt, SIGINT, &program);
    watch(&program.terminate, SIGTERM, &program);
    if (uv_thread_create(&program.thread, serve, &program) != 0)
        return fprintf(stderr, "no thread could be started\n"), 1;
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    uv_thread_join(&program.thread);
    uv_loop_close(uv_default_loop());
    coney_app_free(&program.app);
    return program.result;
}
