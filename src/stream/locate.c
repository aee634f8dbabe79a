/* locate.c: where a stream's producer or consumer belongs, as the metadata says, and what the broker's refusals mean. */
#include "stream/locate.h"

#include "base/text.h"
#include "base/time.h"
#include "core/backoff.h"
#include "stream/metadata.h"

#include <string.h>

static const char *noun(const struct member *member)
{
    return member->kind->purpose == PURPOSE_PUBLISH ? "producer" : "consumer";
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
    const struct settings *settings = &env->env.settings;
    *dialled = *wanted;
    if (env->resolve_address != NULL) {
        env->resolve_address(env->resolver_ctx, dialled->host, sizeof dialled->host, &dialled->port);
        dialled->host[sizeof dialled->host - 1] = '\0';
    } else if (settings->address_count == 1 && is_loopback(settings->addresses[0].host) && !is_loopback(wanted->host))
        *dialled = settings->addresses[0];
}

static bool is_at(struct conn *conn, const struct node *wanted)
{
    const struct node *node = &stream_conn_of(conn)->wanted;
    return node->port == wanted->port && strcmp(node->host, wanted->host) == 0;
}

static struct conn *find_conn(struct env *env, enum purpose purpose, const struct node *wanted)
{
    for (struct list *at = env->conns.next; at != &env->conns; at = at->next) {
        struct conn *conn = container_of(at, struct conn, in_env);
        if (conn->purpose == purpose && conn->state < CONN_CLOSING && is_at(conn, wanted) && conn->kind->has_room(conn))
            return conn;
    }
    return NULL;
}

static void connect_to(struct member *member, const struct node *wanted)
{
    struct coney_stream_env *env = stream_env_of(member->env);
    struct conn *conn = find_conn(member->env, member->kind->purpose, wanted);
    if (conn == NULL) {
        struct node dialled;
        dialled_address(env, wanted, &dialled);
        conn = stream_conn_open(env, member->kind->purpose, wanted, &dialled);
    }
    member_place(member, conn);
}

/* Locating -------------------------------------------------------------------------------------------------------- */

/* One replica by chance, so that consumers spread and spare the leader, which is `node` and one of them when `seen` is 1. */
static bool pick_replica(struct env *env, const struct stream_metadata_answer *answer, struct stream_list replicas,
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
               member->name, member->kind->purpose == PURPOSE_CONSUME ? "node" : "leader", noun(member));
    member_failed(member, CONEY_EUNAVAILABLE, 0, text, false);
}

void stream_refused(struct member *member, uint16_t code)
{
    const struct settings *settings = &member->env->settings;
    coney_status status = status_of_code(code);
    char text[TEXT_CAP];
    if (status == CONEY_ENOTFOUND)
        text_print(text, sizeof text, "stream '%s' does not exist (virtual host '%s'): create it first, or check the name",
                   member->name, settings->vhost);
    else if (status == CONEY_EACCESS)
        text_print(text, sizeof text, "user '%s' has no permission for a %s of stream '%s' (virtual host '%s')",
                   env_user(member->env), noun(member), member->name, settings->vhost);
    else if (status == CONEY_EPRECONDITION)
        text_print(text, sizeof text,
                   "the broker takes no such %s of stream '%s': its name is in use on this connection, or the node is short of "
                   "disk space",
                   noun(member), member->name);
    else
        text_print(text, sizeof text, "stream '%s' cannot be used by a %s now: %s (code %u)", member->name, noun(member),
                   stream_code_name(code), (unsigned)code);
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
    if (!metadata_find(&answer->metadata_answer, member->name, &placement))
        stream_refused(member, STREAM_CODE_STREAM_NOT_AVAILABLE);
    else if (placement.code == STREAM_CODE_OK)
        placed(member, &answer->metadata_answer, &placement);
    else
        stream_refused(member, placement.code);
}

void stream_locate(struct member *member)
{
    struct coney_stream_env *env = stream_env_of(member->env);
    uint8_t room[METADATA_ROOM];
    struct stream_frame frame;
    if (!metadata_ask(&frame, room, member->name) ||
        !control_request(env, &frame, time_after(time_now(), env->env.settings.call_deadline), located, member))
        member_failed(member, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM), false);
}

void stream_leave(struct member *member, bool held)
{
    requests_forget(stream_env_of(member->env), member);
    if (held && member->conn != NULL)
        stream_conn_forget_id(member->conn, (uint8_t)member->id, NULL, NULL);
}

bool stream_is_final(const struct member *member, coney_status status)
{
    (void)member;
    return status == CONEY_ENOTFOUND;
}

void stream_gone(struct member *member, uint32_t code)
{
    char text[TEXT_CAP];
    text_print(text, sizeof text, "%s says that stream '%s' was deleted or is moving (code %u)", member->conn->name,
               member->name, (unsigned)code);
    env_event(member->env,
              &(coney_event){.type = CONEY_EVENT_STREAM_GONE,
                             .status = CONEY_EUNAVAILABLE,
                             .code = code,
                             .node = member->conn->name,
                             .name = member->name,
                             .handle = member},
              "%s", text);
    bool declaring = member->state == MEMBER_DECLARING; /* the broker may have come to that after it said this */
    member_failed(member, CONEY_EUNAVAILABLE, code, text, declaring);
}
