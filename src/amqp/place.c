/* place.c: see place.h. */
#include "amqp/place.h"

#include "base/text.h"
#include "base/time.h"

void place_init(struct place *place)
{
    *place = (struct place){0};
    list_init(&place->waiting);
}

void place_locate(struct member *member)
{
    if (topology_is_ready(amqp_of(member->env), member))
        place_go_on(member);
}

/* The connection on which the member's queue lives; NULL: any will do. */
static struct amqp_conn *bound_to(struct member *member)
{
    const struct place_kind *kind = place_kind_of(member);
    const char *queue = kind->queue != NULL ? kind->queue(member) : NULL;
    return queue != NULL ? topology_queue_conn(amqp_of(member->env), queue) : NULL;
}

/* What else ends it is told by `closed`. */
static void not_opened(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                       const struct channel_content *content, const char *text)
{
    (void)answer;
    (void)content;
    if (status == CONEY_ETIMEDOUT)
        member_failed(ctx, status, code, text, true);
}

static void open_channel(struct member *member)
{
    int64_t limit = time_after(time_now(), member->env->settings.call_deadline);
    struct amqp_conn *conn = amqp_conn_of(member->conn);
    struct place *place = place_of(member);
    const struct place_kind *kind = place_kind_of(member);
    place->channel = channel_reuse(conn, kind->owner, member);
    if (place->channel != NULL) {
        place_opened(member);
        return;
    }
    place->channel = channel_open(conn, kind->owner, member);
    if (place->channel == NULL || !channel_expect(place->channel, AMQP_CHANNEL_OPEN, limit, not_opened, member))
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
}

static void find_conn(struct member *member, struct amqp_conn *bound)
{
    if (bound == NULL)
        round_place(&amqp_of(member->env)->rounds[member->kind->purpose], member);
    else if (bound->conn.state == CONN_READY && amqp_conn_has_channel(bound))
        member_place(member, &bound->conn);
    else
        member_failed(member, CONEY_EUNAVAILABLE, 0,
                      "the connection on which the exclusive queue lives is ending, or has no channel left", false);
}

void place_go_on(struct member *member)
{
    struct amqp_conn *bound = bound_to(member);
    if (member->conn == NULL) {
        find_conn(member, bound);
    } else if (member->conn->state != CONN_READY) {
        /* member_conn_down follows */
    } else if (bound == NULL || &bound->conn == member->conn) {
        open_channel(member);
    } else {
        conn_detach(member, false); /* its exclusive queue has come to live on another */
        find_conn(member, bound);
    }
}

/* The topology may have found no connection, and this member one a moment later: then there is one for both. */
void place_declare(struct member *member)
{
    if (topology_is_ready(amqp_of(member->env), member))
        open_channel(member);
}

static void declared(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                     const struct channel_content *content, const char *text)
{
    (void)answer;
    (void)content;
    if (status == CONEY_OK)
        member_active(ctx);
    else
        member_failed(ctx, status, code, text, true);
}

void place_declare_by(struct member *member, const struct amqp_method *method)
{
    int64_t deadline = time_after(time_now(), member->env->settings.call_deadline);
    if (!channel_request(place_of(member)->channel, method, deadline, declared, member))
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), true);
}

void place_opened(void *ctx)
{
    struct member *member = ctx;
    member->id = place_of(member)->channel->number;
    place_kind_of(member)->declare(member);
}

void place_closed(void *ctx, coney_status status, uint16_t code, const char *text)
{
    struct member *member = ctx;
    place_of(member)->channel = NULL;
    if (member->conn == NULL || member->conn->state == CONN_DOWN)
        return; /* member_conn_down follows */
    member_ref(member);
    env_event(member->env,
              &(coney_event){.type = CONEY_EVENT_CHANNEL_CLOSED,
                             .status = status,
                             .code = code,
                             .node = member->conn->name,
                             .name = member->name,
                             .handle = member},
              "the channel of the %s '%s' is gone: %s", member->kind->noun, member->name, text);
    member_failed(member, status, code, text, false);
    member_unref(member);
}

void place_leave(struct member *member, bool held)
{
    struct place *place = place_of(member);
    (void)held; /* a channel that is there is known to the broker */
    list_remove(&place->waiting);
    channel_close(&place->channel);
}

bool place_is_final(const struct member *member, coney_status status)
{
    (void)member;
    (void)status;
    return false;
}
