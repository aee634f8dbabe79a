/* control.c: the environment's own connection, for metadata, administration and queries: opened when something is asked, lost without a tear.
 *
 * A round over the addresses dials it. When one fails, what waits is told what each address said.
 */
#include "base/time.h"
#include "stream/conn.h"

static struct coney_stream_env *of_round(struct round *round)
{
    return container_of(round, struct coney_stream_env, control);
}

static bool wanted(struct round *round)
{
    struct coney_stream_env *env = of_round(round);
    return !list_empty(&env->control_queue) || env->env.opening != NULL;
}

static void ready(struct round *round)
{
    requests_send_queued(round->conn);
    env_opened(round->env);
}

static void failed(struct round *round, coney_status status, uint32_t code, const char *text)
{
    requests_fail(&of_round(round)->control_queue, status, text);
    env_open_failed(round->env, status, code, text);
}

static void run_control(struct task *task)
{
    struct coney_stream_env *env = container_of(task, struct coney_stream_env, control_task);
    if (env->env.closing == NULL && !list_empty(&env->control_queue))
        control_start(env);
}

void control_init(struct coney_stream_env *env)
{
    round_init(&env->control, &env->env, &stream_conn_kind, PURPOSE_CONTROL);
    env->control.wanted = wanted;
    env->control.ready = ready;
    env->control.failed = failed;
    env->control_task.run = run_control;
    list_init(&env->control_queue);
}

void control_start(struct coney_stream_env *env)
{
    if (env->control.conn == NULL)
        round_start(&env->control);
}

bool control_request(struct coney_stream_env *env, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx)
{
    struct conn *conn = env->control.conn;
    if (conn != NULL && conn->state == CONN_READY)
        return stream_conn_request(conn, frame, deadline, answer, ctx);
    if (!requests_queue(env, frame, deadline, answer, ctx))
        return false;
    loop_defer(env->env.loop, &env->control_task); /* not at once: a failure must not answer from inside */
    return true;
}
