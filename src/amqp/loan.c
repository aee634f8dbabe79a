/* loan.c: see loan.h.
 *
 * A loan that waits for a connection, or to be told that its channel is ready, is in the environment's list; a task at the end of the loop's round
 * looks at it, and so do the rounds over the addresses.
 */
#include "amqp/loan.h"

#include "base/time.h"

static void opened(void *ctx)
{
    struct loan *loan = ctx;
    loan->ready(loan);
}

static const char *content(void *ctx, struct block *block, const uint8_t *at, size_t len)
{
    struct loan *loan = ctx;
    return loan->content != NULL ? loan->content(loan, block, at, len) : NULL;
}

static void method(void *ctx, const struct amqp_method *method)
{
    struct loan *loan = ctx;
    if (loan->method != NULL)
        loan->method(loan, method);
}

/* Off its connection, which may have been kept open by it alone. */
static void leave_conn(struct loan *loan)
{
    struct amqp_conn *conn = loan->conn;
    loan->conn = NULL;
    if (conn == NULL)
        return;
    amqp_conn_unpin(conn);
    conn_unref(&conn->conn);
}

static void fail(struct loan *loan, coney_status status, uint16_t code, const char *text)
{
    list_remove(&loan->waiting);
    leave_conn(loan);
    loan->failed(loan, status, code, text);
}

static void closed(void *ctx, coney_status status, uint16_t code, const char *text)
{
    struct loan *loan = ctx;
    loan->channel = NULL;
    fail(loan, status, code, text);
}

static const struct channel_owner loan_owner = {.opened = opened, .content = content, .method = method, .closed = closed};

/* What else ends it is told by `closed`. */
static void not_opened(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                       const struct channel_content *content_of_answer, const char *text)
{
    struct loan *loan = ctx;
    (void)answer;
    (void)content_of_answer;
    if (status != CONEY_ETIMEDOUT)
        return;
    channel_close(&loan->channel);
    fail(loan, status, code, text);
}

/* The channel on its way for the loan, or NULL. */
static struct channel *open_channel(struct loan *loan, struct amqp_conn *conn)
{
    struct channel *channel = channel_open(conn, &loan_owner, loan);
    if (channel != NULL && loan->patience > 0 &&
        !channel_expect(channel, AMQP_CHANNEL_OPEN, time_after(time_now(), loan->patience), not_opened, loan))
        channel_close(&channel);
    return channel;
}

/* Onto this connection. True: its channel is open already. Without a channel the loan has none on this connection. */
static bool take_channel(struct loan *loan, struct amqp_conn *conn)
{
    loan->channel = channel_reuse(conn, &loan_owner, loan);
    bool open = loan->channel != NULL;
    if (!open)
        loan->channel = open_channel(loan, conn);
    if (loan->channel == NULL)
        return false;
    conn_ref(&conn->conn);
    amqp_conn_pin(conn);
    loan->conn = conn;
    return open;
}

static struct amqp_conn *find_conn(struct loan *loan)
{
    struct list *conns = &loan->amqp->env.conns;
    for (struct list *at = conns->next; at != conns; at = at->next) {
        struct conn *conn = container_of(at, struct conn, in_env);
        if (conn->purpose == loan->purpose && conn->state == CONN_READY && amqp_conn_has_channel(amqp_conn_of(conn)))
            return amqp_conn_of(conn);
    }
    return NULL;
}

/* True: it has to wait until a round has brought a connection. */
static bool must_wait(struct loan *loan)
{
    if (loan->channel != NULL) {
        loan->ready(loan);
    } else if (loan->amqp->env.closing != NULL) {
        fail(loan, CONEY_ECLOSED, 0, "the environment is being closed");
    } else if (loan->is_bound) {
        fail(loan, CONEY_ELIMIT, 0,
             "the connection is ending, or has no channel left: raise channel_max, or close what is not needed");
    } else {
        struct amqp_conn *conn = find_conn(loan);
        if (conn == NULL)
            return true;
        if (take_channel(loan, conn))
            loan->ready(loan);
        else if (loan->channel == NULL)
            fail(loan, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM));
    }
    return false;
}

void loans_go_on(struct coney_amqp *amqp)
{
    bool wanted[3] = {false};
    struct list looked_at;
    list_init(&looked_at);
    list_move_all(&looked_at, &amqp->loans_waiting);
    for (struct list *at = list_take(&looked_at); at != NULL; at = list_take(&looked_at)) {
        struct loan *loan = container_of(at, struct loan, waiting);
        enum purpose purpose = loan->purpose;
        if (!must_wait(loan))
            continue;
        wanted[purpose] = true;
        list_append(&amqp->loans_waiting, at);
    }
    for (size_t purpose = 0; purpose < sizeof wanted / sizeof wanted[0]; purpose++)
        if (wanted[purpose])
            round_start(&amqp->rounds[purpose]);
}

bool loans_want(const struct coney_amqp *amqp, enum purpose purpose)
{
    const struct list *loans = &amqp->loans_waiting;
    for (const struct list *at = loans->next; at != loans; at = at->next) {
        const struct loan *loan = container_of(at, const struct loan, waiting);
        if (loan->purpose == purpose && loan->channel == NULL && !loan->is_bound)
            return true;
    }
    return false;
}

void loans_fail(struct coney_amqp *amqp, enum purpose purpose, coney_status status, uint16_t code, const char *text)
{
    struct list failing;
    list_init(&failing);
    for (struct list *at = amqp->loans_waiting.next, *next = at->next; at != &amqp->loans_waiting; at = next, next = at->next) {
        struct loan *loan = container_of(at, struct loan, waiting);
        if (loan->purpose != purpose || loan->channel != NULL || loan->is_bound)
            continue;
        list_remove(at);
        list_append(&failing, at);
    }
    for (struct list *at = list_take(&failing); at != NULL; at = list_take(&failing))
        fail(container_of(at, struct loan, waiting), status, code, text);
}

void loans_end(struct coney_amqp *amqp)
{
    while (!list_empty(&amqp->loans_waiting))
        fail(container_of(amqp->loans_waiting.next, struct loan, waiting), CONEY_ECLOSED, 0, "the environment was closed");
}

void loan_start(struct loan *loan, struct coney_amqp *amqp, enum purpose purpose, struct amqp_conn *conn)
{
    loan->amqp = amqp;
    loan->purpose = purpose;
    loan->channel = NULL;
    loan->conn = NULL;
    loan->is_bound = conn != NULL;
    list_init(&loan->waiting);
    bool opening = conn != NULL && !take_channel(loan, conn) && loan->channel != NULL;
    if (opening)
        return;
    list_append(&amqp->loans_waiting, &loan->waiting);
    loop_defer(amqp->env.loop, &amqp->loan_task);
}

void loan_end(struct loan *loan, bool clean)
{
    if (loan->waiting.next != NULL)
        list_remove(&loan->waiting);
    if (loan->channel != NULL && !(clean && channel_rest(&loan->channel)))
        channel_close(&loan->channel);
    leave_conn(loan);
}
