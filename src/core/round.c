/* round.c: see round.h. */
#include "core/round.h"

#include "base/text.h"
#include "core/backoff.h"
#include "core/member.h"

void round_init(struct round *round, struct env *env, const struct conn_kind *kind, enum purpose purpose)
{
    *round = (struct round){.env = env, .kind = kind, .purpose = purpose};
    list_init(&round->waiting);
}

static void over(struct round *round, coney_status status, uint32_t code, const char *text)
{
    round->tried = 0;
    struct list failing;
    list_init(&failing);
    list_move_all(&failing, &round->waiting);
    char copy[TEXT_CAP];
    text_print(copy, sizeof copy, "%s", text);
    if (round->failed != NULL)
        round->failed(round, status, code, copy);
    for (struct list *at = list_take(&failing); at != NULL; at = list_take(&failing))
        member_failed(container_of(at, struct member, in_conn), status, code, copy, false);
}

static void dial_next(struct round *round)
{
    struct env *env = round->env;
    round->conn = conn_open(env, round->kind, round->purpose, &env->settings.addresses[round->next]);
    if (round->conn != NULL)
        round->conn->round = round;
    else
        over(round, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM));
}

void round_start(struct round *round)
{
    if (round->conn != NULL && round->conn->state == CONN_CONNECTING)
        return;
    if (round->conn != NULL)
        round->conn->round = NULL;
    if (round->env->settings.shuffle && round->tried == 0)
        round->next = backoff_random(&round->env->random) % round->env->settings.address_count;
    round->failures[0] = '\0';
    dial_next(round);
}

static struct conn *find_ready(const struct round *round)
{
    const struct list *conns = &round->env->conns;
    for (struct list *at = conns->next; at != conns; at = at->next) {
        struct conn *conn = container_of(at, struct conn, in_env);
        if (conn->purpose == round->purpose && conn->state == CONN_READY && conn->kind->has_room(conn))
            return conn;
    }
    return NULL;
}

void round_place(struct round *round, struct member *member)
{
    struct conn *conn = find_ready(round);
    if (conn != NULL) {
        member_place(member, conn);
        return;
    }
    member->state = MEMBER_CONNECTING;
    list_append(&round->waiting, &member->in_conn);
    round_start(round);
}

void round_conn_ready(struct conn *conn)
{
    struct round *round = conn->round;
    if (round == NULL)
        return;
    round->tried = 0;
    if (round->ready != NULL)
        round->ready(round);
    while (!list_empty(&round->waiting) && conn->state == CONN_READY && conn->kind->has_room(conn))
        member_place(container_of(round->waiting.next, struct member, in_conn), conn);
    if (!list_empty(&round->waiting))
        round_start(round); /* more than one connection has room for; or it was lost meanwhile */
}

/* A refusal by one node holds for all: the next would be asked the same question and delay the same answer by seconds. */
static bool is_final(coney_status status)
{
    return status == CONEY_EAUTH || status == CONEY_EVHOST || status == CONEY_EINVAL || status == CONEY_ETLS;
}

static bool is_wanted(struct round *round)
{
    return round->env->closing == NULL && (!list_empty(&round->waiting) || (round->wanted != NULL && round->wanted(round)));
}

void round_conn_down(struct conn *conn, coney_status status, uint32_t code, const char *text)
{
    struct round *round = conn->round;
    if (round == NULL)
        return;
    conn->round = NULL;
    round->conn = NULL;
    if (!is_wanted(round)) {
        round->tried = 0;
        return;
    }
    size_t count = round->env->settings.address_count;
    if (round->failures[0] != '\0')
        text_append(round->failures, sizeof round->failures, "; ");
    text_append(round->failures, sizeof round->failures, "%s", text);
    round->next = (round->next + 1) % count;
    if (++round->tried < count && !is_final(status))
        dial_next(round);
    else
        over(round, status, code, round->failures);
}
