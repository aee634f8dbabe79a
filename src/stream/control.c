/* control.c: the environment's own connection, for metadata, administration and queries: opened when something is asked, lost without a tear.
 *
 * The addresses are tried in order, each once a round, beginning with the one that worked last. When a round fails, what waits is told what each
 * address said.
 */
#include "base/text.h"
#include "base/time.h"
#include "core/backoff.h"
#include "stream/conn.h"

static void round_failed(struct coney_stream_env *env, coney_status status, uint32_t code, const char *text)
{
    struct op *opening = env->opening;
    env->opening = NULL;
    env->tried = 0;
    char copy[TEXT_CAP];
    text_print(copy, sizeof copy, "%s", text);
    requests_fail(&env->control_queue, status, copy);
    if (opening == NULL)
        return;
    if (!env->settings.keep_trying)
        atomic_store(&env->open, CONEY_ECLOSED);
    op_end(opening, status, code, 0, copy);
}

static void shuffle(struct coney_stream_env *env)
{
    struct settings *settings = &env->settings;
    for (size_t i = settings->address_count; i > 1; i--) {
        size_t other = backoff_random(&env->random) % i;
        struct node node = settings->addresses[i - 1];
        settings->addresses[i - 1] = settings->addresses[other];
        settings->addresses[other] = node;
    }
}

static void dial_next(struct coney_stream_env *env)
{
    const struct node *address = &env->settings.addresses[env->address_next];
    env->control = conn_open(env, PURPOSE_CONTROL, address, address);
    if (env->control == NULL)
        round_failed(env, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM));
}

void control_start(struct coney_stream_env *env)
{
    if (env->control != NULL)
        return;
    if (env->settings.shuffle && env->tried == 0)
        shuffle(env);
    env->failures[0] = '\0';
    dial_next(env);
}

bool control_request(struct coney_stream_env *env, struct stream_frame *frame, int64_t deadline, answer_fn answer, void *ctx)
{
    if (env->control != NULL && env->control->state == CONN_READY)
        return conn_request(env->control, frame, deadline, answer, ctx);
    if (!requests_queue(env, frame, deadline, answer, ctx))
        return false;
    loop_defer(env->loop, &env->control_task); /* not at once: a failure must not answer from inside */
    return true;
}

void control_ready(struct conn *conn)
{
    struct coney_stream_env *env = conn->env;
    env->tried = 0;
    requests_send_queued(conn);
    struct op *opening = env->opening;
    env->opening = NULL;
    if (opening != NULL)
        op_end(opening, CONEY_OK, 0, 0, NULL);
}

/* A refusal by one node holds for all: the next would be asked the same question and delay the same answer by seconds. */
static bool is_final(coney_status status)
{
    return status == CONEY_EAUTH || status == CONEY_EVHOST || status == CONEY_EINVAL;
}

void control_down(struct conn *conn, coney_status status, uint32_t code, const char *text)
{
    struct coney_stream_env *env = conn->env;
    if (env->control != conn)
        return;
    env->control = NULL;
    bool connecting = list_empty(&env->control_queue) == false || env->opening != NULL;
    if (env->closing != NULL || !connecting) {
        env->tried = 0;
        return;
    }
    if (env->failures[0] != '\0')
        text_append(env->failures, sizeof env->failures, "; ");
    text_append(env->failures, sizeof env->failures, "%s", text);
    env->address_next = (env->address_next + 1) % env->settings.address_count;
    if (++env->tried < env->settings.address_count && !is_final(status))
        dial_next(env);
    else
        round_failed(env, status, code, env->failures);
}
