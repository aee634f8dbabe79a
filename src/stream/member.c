/* member.c: finding a place, losing it, finding it again. */
#include "stream/member.h"

#include "base/text.h"
#include "base/time.h"
#include "stream/metadata.h"

#include <stdlib.h>

static void locate(struct member *member);

bool member_init(struct member *member, const struct member_kind *kind, struct coney_stream_env *env, const char *stream,
                 bool keep_trying)
{
    member->kind = kind;
    member->stream = strdup(stream);
    if (member->stream == NULL)
        return false;
    member->env = env_ref(env);
    member->keep_trying = keep_trying;
    member->backoff.first = env->settings.recovery_delay;
    member->backoff.most = env->settings.recovery_max_delay;
    member->backoff.seed = (uint64_t)(uintptr_t)member ^ (uint64_t)time_now();
    list_init(&member->in_env);
    list_init(&member->in_conn);
    atomic_store(&member->refs, 1);
    return true;
}

struct member *member_ref(struct member *member)
{
    atomic_fetch_add(&member->refs, 1);
    return member;
}

void member_unref(struct member *member)
{
    if (atomic_fetch_sub(&member->refs, 1) > 1)
        return;
    struct coney_stream_env *env = member->env;
    free(member->stream);
    member->kind->free(member);
    env_unref(env);
}

/* Choosing a connection ------------------------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* Where a node is really dialled. With one address that is this machine's own, a node that names itself otherwise (a container, a host name that
 * nobody resolves) is that one. */
static void dialled_address(struct coney_stream_env *env, const struct node *wanted, struct node *dialled)
{
    const struct settings *settings = &env->settings;
    *dialled = *wanted;
    if (settings->resolve_address != NULL) {
        settings->resolve_address(settings->resolver_ctx, dialled->host, sizeof dialled->host, &dialled->port);
        dialled->host[sizeof dialled->host - 1] = '\0';
    } else if (settings->address_count == 1 && is_loopback(settings->addresses[0].host) && !is_loopback(wanted->host))
        *dialled = settings->addresses[0];
}

static struct conn *find_conn(struct coney_stream_env *env, enum purpose purpose, const struct node *wanted)
{
    for (struct list *at = env->conns.next; at != &env->conns; at = at->next) {
        struct conn *conn = container_of(at, struct conn, in_env);
        if (conn->purpose == purpose && conn->state < CONN_CLOSING && conn->wanted.port == wanted->port &&
            strcmp(conn->wanted.host, wanted->host) == 0 && conn_has_id(conn))
            return conn;
    }
    return NULL;
}

static void declare(struct member *member)
{
    member->state = MEMBER_DECLARING;
    member->kind->declare(member);
}

static void connect_to(struct member *member, const struct node *wanted)
{
    struct coney_stream_env *env = member->env;
    struct conn *conn = find_conn(env, member->kind->purpose, wanted);
    if (conn == NULL) {
        struct node dialled;
        dialled_address(env, wanted, &dialled);
        conn = conn_open(env, member->kind->purpose, wanted, &dialled);
    }
    if (conn == NULL) {
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
        return;
    }
    member->state = MEMBER_CONNECTING;
    conn_attach(conn, member);
    if (conn->state == CONN_READY)
        declare(member);
}

void member_conn_ready(struct member *member)
{
    if (member->state == MEMBER_CONNECTING)
        declare(member);
}

void member_conn_down(struct member *member, coney_status status, uint32_t code, const char *text)
{
    bool unreachable = member->state == MEMBER_CONNECTING &&
                       (status == CONEY_ERESOLVE || status == CONEY_ECONNECT || status == CONEY_ETIMEDOUT);
    char more[TEXT_CAP];
    text_print(
        more, sizeof more, "%s%s", text,
        unreachable
            ? " (the broker's metadata names this address: set an address resolver, or the broker's stream.advertised_host)"
            : "");
    member_failed(member, status, code, more, false);
}

/* Locating -------------------------------------------------------------------------------------------------------- */

/* One replica by chance, so that consumers spread and spare the leader, which is `node` and one of them when `seen` is 1. */
static bool pick_replica(struct coney_stream_env *env, const struct stream_metadata_answer *answer, struct stream_list replicas,
                         uint64_t seen, struct node *node)
{
    struct list_iter it = list_iter_of(replicas);
    uint16_t index;
    struct node candidate;
    while (list_next_index(&it, &index))
        if (metadata_node(answer, index, &candidate) && backoff_random(&env->random) % ++seen == 0)
            *node = candidate;
    return seen > 0;
}

static void placed(struct member *member, const struct stream_metadata_answer *answer, const struct stream_placement *placement)
{
    struct node node;
    bool found = placement->leader != STREAM_NO_NODE && metadata_node(answer, placement->leader, &node);
    bool spare_leader = member->backoff.attempts <= 1; /* not when a replica may just have failed */
    if (member->kind->purpose == PURPOSE_CONSUME)
        found |= pick_replica(member->env, answer, placement->replicas, found && !spare_leader, &node);
    if (found) {
        connect_to(member, &node);
        return;
    }
    char text[TEXT_CAP];
    text_print(text, sizeof text, "stream '%s' has no %s that can serve a %s now: its nodes are starting, or down",
               member->stream, member->kind->purpose == PURPOSE_CONSUME ? "node" : "leader", member->kind->noun);
    member_failed(member, CONEY_EUNAVAILABLE, 0, text, false);
}

void member_refused(struct member *member, uint16_t code)
{
    const struct settings *settings = &member->env->settings;
    coney_status status = status_of_code(code);
    char text[TEXT_CAP];
    if (status == CONEY_ENOTFOUND)
        text_print(text, sizeof text, "stream '%s' does not exist (virtual host '%s'): create it first, or check the name",
                   member->stream, settings->vhost);
    else if (status == CONEY_EACCESS)
        text_print(text, sizeof text, "user '%s' has no permission for a %s of stream '%s' (virtual host '%s')", settings->user,
                   member->kind->noun, member->stream, settings->vhost);
    else if (status == CONEY_EPRECONDITION)
        text_print(text, sizeof text,
                   "the broker takes no such %s of stream '%s': its name is in use on this connection, or the node is short of "
                   "disk space",
                   member->kind->noun, member->stream);
    else
        text_print(text, sizeof text, "stream '%s' cannot be used by a %s now: %s (code %u)", member->stream,
                   member->kind->noun, stream_code_name(code), (unsigned)code);
    member_failed(member, status == CONEY_OK ? CONEY_EUNAVAILABLE : status, code, text, false);
}

static void located(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct member *member = ctx;
    if (status != CONEY_OK) {
        member_failed(member, status, answer != NULL ? answer->code : 0, text, false);
        return;
    }
    struct stream_placement placement;
    if (!metadata_find(&answer->metadata_answer, member->stream, &placement))
        member_refused(member, STREAM_CODE_STREAM_NOT_AVAILABLE);
    else if (placement.code == STREAM_CODE_OK)
        placed(member, &answer->metadata_answer, &placement);
    else
        member_refused(member, placement.code);
}

static void locate(struct member *member)
{
    struct coney_stream_env *env = member->env;
    uint8_t room[METADATA_ROOM];
    struct stream_frame frame;
    member->state = MEMBER_LOCATING;
    if (!metadata_ask(&frame, room, member->stream) ||
        !control_request(env, &frame, time_after(time_now(), env->settings.call_deadline), located, member))
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
}

static void run_retry(struct timer *timer)
{
    locate(container_of(timer, struct member, retry));
}

/* Opening, success, failure, end ---------------------------------------------------------------------------------- */

/* How many producers, or consumers, the environment has. */
static void count(struct member *member, int64_t change)
{
    struct coney_stream_env *env = member->env;
    counter_add(member->kind->purpose == PURPOSE_PUBLISH ? &env->producers : &env->consumers, (uint64_t)change);
}

void member_open(struct member *member, struct op *opening)
{
    member_ref(member);
    count(member, 1);
    member->opening = opening;
    member->retry.fire = run_retry;
    list_append(&member->env->members, &member->in_env);
    if (atomic_load(&member->env->open) != CONEY_OK) {
        member_give_up(member, CONEY_ECLOSED, "the environment is being closed", false);
        env_went_on(member->env);
        return;
    }
    (void)backoff_next(&member->backoff);
    locate(member);
}

/* From here on there is a handle to be closed, also of a constructor that blocks, unless its thread has given up. */
static void give_handle(struct member *member, struct op *opening)
{
    bool blocks = opening->waited_for;
    if (blocks)
        atomic_store(&member->handle_closed, false);
    if (!op_end(opening, CONEY_OK, 0, 0, NULL) && blocks)
        atomic_store(&member->handle_closed, true);
}

void member_active(struct member *member)
{
    struct coney_stream_env *env = member->env;
    uint32_t attempt = member->backoff.attempts;
    struct op *opening = member->opening;
    bool first = !member->opened;
    member_ref(member);
    member->opening = NULL;
    member->opened = true;
    member->state = MEMBER_ACTIVE;
    member->active_at = time_now();
    if (first)
        backoff_reset(&member->backoff);
    if (!first) {
        counter_add(&member->reconnects, 1);
        env_event(env,
                  &(coney_event){.type = CONEY_EVENT_RECOVERED,
                                 .attempt = attempt,
                                 .node = member->conn->name,
                                 .name = member->stream,
                                 .handle = member},
                  "the %s of stream '%s' works again, on %s, after %u attempts", member->kind->noun, member->stream,
                  member->conn->name, (unsigned)attempt);
    }
    if (member->state == MEMBER_ACTIVE)
        member->kind->active(member);
    if (opening != NULL)
        give_handle(member, opening);
    member_unref(member);
}

/* Takes the member off its connection and out of every queue. */
static void leave(struct member *member, bool held)
{
    requests_forget(member->env, member);
    loop_timer_unset(member->env->loop, &member->retry);
    member->kind->lost(member);
    if (held && member->conn != NULL)
        conn_forget_id(member->conn, member->id, NULL, NULL);
    conn_detach(member, held);
}

/* The environment lets go of a member that is dead and whose handle is closed. */
static void let_go(struct member *member)
{
    struct coney_stream_env *env = member->env;
    if (list_empty(&member->in_env) || !atomic_load(&member->handle_closed))
        return;
    list_remove(&member->in_env);
    env_ref(env);
    member_unref(member);
    env_went_on(env);
    env_unref(env);
}

static void die(struct member *member, coney_status status, uint32_t code, const char *text)
{
    struct op *opening = member->opening;
    member->opening = NULL;
    member->state = MEMBER_DEAD;
    count(member, -1);
    member->kind->dead(member);
    if (opening != NULL)
        op_end(opening, status, code, 0, text);
    let_go(member);
}

static bool is_final(const struct member *member, coney_status status)
{
    if (!member->opened)
        return !member->keep_trying;
    return member->env->settings.no_recovery || (status == CONEY_ENOTFOUND && !member->keep_trying);
}

static void wait_and_try(struct member *member, enum member_state was, coney_status status, uint32_t code, const char *text)
{
    struct coney_stream_env *env = member->env;
    bool lost = was == MEMBER_ACTIVE;
    bool held = lost && time_now() - member->active_at >= env->settings.recovery_delay;
    if (held) /* what is lost again and again as soon as it works is not tried without a pause */
        backoff_reset(&member->backoff);
    uint32_t attempt = lost ? 0 : member->backoff.attempts;
    if (lost && status == CONEY_EPROTOCOL)
        (void)backoff_next(&member->backoff); /* what was refused comes again: not at once */
    int64_t delay = backoff_next(&member->backoff);
    member->state = MEMBER_WAITING;
    coney_event event = {
        .type = lost ? CONEY_EVENT_RECOVERING : CONEY_EVENT_RECOVERY_FAILED,
        .status = status,
        .code = code,
        .attempt = attempt,
        .delay = delay,
        .name = member->stream,
        .handle = member,
    };
    loop_timer_set(env->loop, &member->retry, time_after(time_now(), delay));
    env_event(env, &event, "the %s of stream '%s' %s: %s (next attempt in %lld ms)", member->kind->noun, member->stream,
              lost ? "lost its place" : "has no place yet", text, (long long)(delay / CONEY_MILLISECOND));
    if (!lost && member->state == MEMBER_WAITING && member->kind->failed != NULL)
        member->kind->failed(member);
}

static void give_up(struct member *member, coney_status status, uint32_t code, const char *text)
{
    if (member->opened)
        env_event(member->env,
                  &(coney_event){
                      .type = CONEY_EVENT_GAVE_UP, .status = status, .code = code, .name = member->stream, .handle = member},
                  "the %s of stream '%s' has ended: %s", member->kind->noun, member->stream, text);
    if (member->state != MEMBER_DEAD)
        die(member, status, code, text);
}

void member_failed(struct member *member, coney_status status, uint32_t code, const char *text, bool held)
{
    enum member_state was = member->state;
    if (was == MEMBER_DEAD)
        return;
    member_ref(member);
    leave(member, held);
    if (member->state == MEMBER_DEAD) {
        /* a callback about what was lost has closed it */
    } else if (is_final(member, status)) {
        give_up(member, status, code, text);
    } else {
        struct op *opening = member->opening;
        member->opening = NULL;
        wait_and_try(member, was, status, code, text);
        if (opening != NULL)
            op_end(opening, status, code, 0, text);
    }
    member_unref(member);
}

void member_give_up(struct member *member, coney_status status, const char *text, bool held)
{
    if (member->state == MEMBER_DEAD)
        return;
    member_ref(member);
    leave(member, held);
    if (member->state != MEMBER_DEAD)
        give_up(member, status, 0, text);
    member_unref(member);
}

void member_stream_gone(struct member *member, uint32_t code)
{
    char text[TEXT_CAP];
    text_print(text, sizeof text, "%s says that stream '%s' was deleted or is moving (code %u)", member->conn->name,
               member->stream, (unsigned)code);
    env_event(member->env,
              &(coney_event){.type = CONEY_EVENT_STREAM_GONE,
                             .status = CONEY_EUNAVAILABLE,
                             .code = code,
                             .node = member->conn->name,
                             .name = member->stream,
                             .handle = member},
              "%s", text);
    bool declaring = member->state == MEMBER_DECLARING; /* the broker may have come to that after it said this */
    member_failed(member, CONEY_EUNAVAILABLE, code, text, declaring);
}

void member_end(struct member *member, bool held)
{
    if (member->state == MEMBER_DEAD)
        return;
    member_ref(member);
    leave(member, held);
    if (member->state != MEMBER_DEAD)
        die(member, CONEY_ECLOSED, 0, "it was closed");
    member_unref(member);
}

void member_closed(struct member *member)
{
    let_go(member);
    member_unref(member);
}

/* The constructor's call ------------------------------------------------------------------------------------------ */

struct open_op {
    struct op op;
    struct member *member;
};

static void open_begin(struct op *op)
{
    member_open(container_of(op, struct open_op, op)->member, op);
}

/* The deadline passed, or the user canceled. */
static void open_abandon(struct op *op)
{
    struct open_op *open = container_of(op, struct open_op, op);
    struct member *member = open->member;
    member->opening = NULL;
    if (op->gave_up || (!member->keep_trying && !member->opened))
        member_end(member, member->state == MEMBER_DECLARING);
}

static void open_free(struct op *op)
{
    struct open_op *open = container_of(op, struct open_op, op);
    member_unref(open->member);
    free(open);
}

coney_status member_run_open(struct member *member, coney_call *call)
{
    struct open_op *open = calloc(1, sizeof *open);
    if (open == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    op_init(&open->op, member->env->loop, open_begin, open_abandon, open_free);
    open->member = member_ref(member);
    bool blocking = call == NULL || call->on_done == NULL;
    atomic_store(&member->handle_closed, blocking);
    return op_run(&open->op, call, member->env->settings.call_deadline);
}

coney_status member_close_handle(struct member *member, void **handle, uint32_t fork, coney_call *call)
{
    if (fork != fork_generation()) {
        *handle = NULL; /* the parent's loop and locks are in the copy, in whatever state: nothing of it can be freed safely */
        return op_refuse(call, CONEY_EFORKED, "%s", coney_status_text(CONEY_EFORKED));
    }
    if (op_check(call) != CONEY_OK)
        return CONEY_EINVAL;
    if (atomic_exchange(&member->handle_closed, true))
        return op_refuse(call, CONEY_ECLOSED, "it is being closed already");
    *handle = NULL; /* at once: when the close has begun, `handle` itself may be gone */
    coney_status status = member->kind->close(member, call);
    if (status == CONEY_ENOMEM) {
        atomic_store(&member->handle_closed, false);
        *handle = member;
    }
    return status;
}
