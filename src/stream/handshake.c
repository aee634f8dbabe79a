/* handshake.c: from an open socket to a connection that is ready: properties, SASL, Tune, Open, command versions.
 *
 * One step at a time, each with a limit of its own: a broker delays the answer to a wrong password by three seconds and drops a connection that
 * is silent for ten. A refusal ends the connection with a status that says who has to change what.
 */
#include "base/text.h"
#include "base/time.h"
#include "core/secret.h"
#include "stream/conn.h"

#include <stdio.h>

#define PROPERTIES_CAP 6144 /* a broker takes no frame over 8192 bytes before the connection is open */
#define PLAIN_CAP 4096
#define BALANCER_TRIES 10

static void ask(struct stream_conn *conn, struct stream_frame *frame)
{
    frame->version = 1;
    frame->correlation = ++conn->correlation;
    conn->step = frame->key;
    conn_await(&conn->conn);
    stream_conn_send(&conn->conn, frame);
}

static void add_properties(const struct stream_conn *conn, struct list_writer *list)
{
    const struct settings *settings = &conn->conn.env->settings;
    char name[HOST_CAP];
    text_print(name, sizeof name, "%s-%s", settings->name, purpose_name(conn->conn.purpose));
    list_add_pair(list, CONEY_STR("product"), CONEY_STR("coney"));
    list_add_pair(list, CONEY_STR("version"), CONEY_STR(CONEY_VERSION));
    list_add_pair(list, CONEY_STR("platform"), CONEY_STR("C"));
    list_add_pair(list, CONEY_STR("connection_name"), coney_bytes_str(name));
    for (size_t i = 0; i < settings->property_count; i++)
        list_add_pair(list, settings->properties[i].key, settings->properties[i].value.as.bytes);
}

void stream_login(struct conn *any)
{
    struct stream_conn *conn = stream_conn_of(any);
    uint8_t room[PROPERTIES_CAP];
    struct list_writer list = list_begin(room, sizeof room);
    add_properties(conn, &list);
    struct stream_frame frame = {.key = STREAM_PEER_PROPERTIES};
    if (!list_end(&list, &frame.peer_properties.properties)) {
        conn_fail(&conn->conn, CONEY_EINVAL, 0, "the client properties take more than 6 KiB together: shorten them");
        return;
    }
    ask(conn, &frame);
}

/* "3.11.2" and later have command versions; a version that is no number is taken for a new one. */
static bool has_command_versions(coney_bytes version)
{
    char text[32];
    text_from_wire(text, sizeof text, version);
    unsigned major = 0;
    unsigned minor = 0;
    int fields = sscanf(text, "%u.%u", &major, &minor);
    return fields < 2 || major > 3 || (major == 3 && minor >= 11);
}

static void got_properties(struct stream_conn *conn, const struct stream_frame *frame)
{
    conn->has_versions = has_command_versions(list_find(frame->peer_properties_answer.properties, CONEY_STR("version")));
    struct stream_frame next = {.key = STREAM_SASL_HANDSHAKE};
    ask(conn, &next);
}

/* What is said to the broker under the mechanism: PLAIN alone has data; false when it has no room. */
static bool response(const struct conn *conn, const char *secret, uint8_t data[PLAIN_CAP], size_t *len)
{
    *len = 0;
    if (strcmp(conn->env->settings.mechanism, "PLAIN") != 0)
        return true;
    const char *name = env_user(conn->env);
    size_t user = strlen(name);
    size_t password = strlen(secret);
    *len = user + password + 2;
    if (*len > PLAIN_CAP)
        return false;
    data[0] = 0;
    memcpy(data + 1, name, user);
    data[user + 1] = 0;
    memcpy(data + user + 2, secret, password);
    return true;
}

static struct stream_frame authenticate(const struct conn *conn, const uint8_t *data, size_t len)
{
    coney_bytes mechanism = coney_bytes_str(conn->env->settings.mechanism);
    return (struct stream_frame){.key = STREAM_SASL_AUTHENTICATE,
                                 .sasl_authenticate = {.mechanism = mechanism, .data = {data, len}}};
}

static void send_authenticate(struct stream_conn *conn)
{
    uint8_t data[PLAIN_CAP];
    size_t len;
    if (!response(&conn->conn, env_password(conn->conn.env), data, &len)) {
        conn_fail(&conn->conn, CONEY_EINVAL, 0,
                  "user name and password take more than 4 KiB together: the broker takes no such log-in");
        return;
    }
    struct stream_frame frame = authenticate(&conn->conn, data, len);
    ask(conn, &frame);
    explicit_bzero(data, sizeof data);
}

static void renewed(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    bool refused = answer != NULL && status != CONEY_OK;
    renewal_end(ctx, refused ? CONEY_EAUTH : status, refused ? answer->code : 0, text);
}

bool stream_renew(struct conn *conn, const char *secret, struct renewal *renewal)
{
    uint8_t data[PLAIN_CAP];
    size_t len;
    if (!response(conn, secret, data, &len))
        return false;
    struct stream_frame frame = authenticate(conn, data, len);
    bool sent = stream_conn_request(conn, &frame, time_after(time_now(), conn->env->settings.call_deadline), renewed, renewal);
    explicit_bzero(data, sizeof data);
    return sent;
}

static void got_mechanisms(struct stream_conn *conn, const struct stream_frame *frame)
{
    struct list_iter it = list_iter_of(frame->sasl_handshake_answer.mechanisms);
    const char *wanted = conn->conn.env->settings.mechanism;
    coney_bytes mechanism;
    while (list_next_string(&it, &mechanism)) {
        if (bytes_equal(mechanism, coney_bytes_str(wanted))) {
            send_authenticate(conn);
            return;
        }
    }
    char text[TEXT_CAP];
    text_print(text, sizeof text,
               "%s does not offer the SASL mechanism %s: enable it in the broker, or choose another (mechanism)",
               conn->conn.name, wanted);
    conn_fail(&conn->conn, CONEY_EAUTH, 0, text);
}

static uint32_t lower_unless_zero(uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0)
        return a > b ? a : b;
    return a < b ? a : b;
}

static void got_tune(struct stream_conn *conn, const struct stream_frame *frame)
{
    const struct settings *settings = &conn->conn.env->settings;
    conn->conn.frame_max = lower_unless_zero(settings->frame_max, frame->tune.frame_max);
    conn->conn.heartbeat = settings->heartbeat == 0 ? 0 : lower_unless_zero(settings->heartbeat, frame->tune.heartbeat);
    struct stream_frame answer = {.key = STREAM_TUNE,
                                  .version = 1,
                                  .response = true,
                                  .tune = {.frame_max = conn->conn.frame_max, .heartbeat = conn->conn.heartbeat}};
    stream_conn_send(&conn->conn, &answer);
    struct stream_frame open = {.key = STREAM_OPEN, .open.vhost = coney_bytes_str(settings->vhost)};
    ask(conn, &open);
}

/* Behind a balancer the node that answers may be another one than was wanted. */
static bool is_wanted_node(const struct stream_conn *conn, const struct stream_frame *frame)
{
    if (stream_env_of(conn->conn.env)->resolve_address == NULL || conn->conn.purpose == PURPOSE_CONTROL)
        return true;
    coney_bytes host = list_find(frame->open_answer.properties, CONEY_STR("advertised_host"));
    coney_bytes port = list_find(frame->open_answer.properties, CONEY_STR("advertised_port"));
    if (host.data == NULL || port.data == NULL)
        return true;
    char wanted_port[8];
    text_print(wanted_port, sizeof wanted_port, "%u", (unsigned)conn->wanted.port);
    return bytes_equal(host, coney_bytes_str(conn->wanted.host)) && bytes_equal(port, coney_bytes_str(wanted_port));
}

static void got_open(struct stream_conn *conn, const struct stream_frame *frame)
{
    if (!is_wanted_node(conn, frame)) {
        char text[TEXT_CAP];
        if (++conn->dials < BALANCER_TRIES) {
            conn_redial(&conn->conn);
            return;
        }
        text_print(text, sizeof text,
                   "%s led to another node than %s:%u in %d tries: check the address resolver and the balancer",
                   conn->conn.name, conn->wanted.host, (unsigned)conn->wanted.port, BALANCER_TRIES);
        conn_fail(&conn->conn, CONEY_EUNAVAILABLE, 0, text);
        return;
    }
    if (!conn->has_versions) {
        conn_ready(&conn->conn);
        return;
    }
    /* Only what this side receives, in words that every broker since 3.11 knows: a key that it does not know makes it drop the connection. */
    uint8_t room[64];
    struct list_writer list = list_begin(room, sizeof room);
    list_add_version(&list, (struct stream_version_range){.key = STREAM_DELIVER, .min = 1, .max = 2});
    struct stream_frame next = {.key = STREAM_EXCHANGE_COMMAND_VERSIONS};
    list_end(&list, &next.exchange_command_versions.commands);
    ask(conn, &next);
}

static void got_versions(struct stream_conn *conn, const struct stream_frame *frame)
{
    struct list_iter it = list_iter_of(frame->exchange_command_versions_answer.commands);
    struct stream_version_range range;
    while (list_next_version(&it, &range))
        if (range.key <= STREAM_KEY_LAST)
            conn->versions[range.key] = range.max;
    conn_ready(&conn->conn);
}

static void refused(struct stream_conn *conn, const struct stream_frame *frame)
{
    const struct settings *settings = &conn->conn.env->settings;
    coney_status status = status_of_code(frame->code);
    const char *answered = stream_code_name(frame->code);
    char text[TEXT_CAP];
    if (frame->key == STREAM_SASL_AUTHENTICATE || status == CONEY_EAUTH)
        text_print(text, sizeof text, "%s refused the log-in of user '%s' (%s, code %u): check the user name and the password",
                   conn->conn.name, env_user(conn->conn.env), answered, (unsigned)frame->code);
    else if (frame->key == STREAM_OPEN)
        text_print(text, sizeof text,
                   "%s refused virtual host '%s' (%s, code %u): check its name, and that user '%s' may enter it",
                   conn->conn.name, settings->vhost, answered, (unsigned)frame->code, env_user(conn->conn.env));
    else
        text_print(text, sizeof text, "%s refused %s during the log-in (%s, code %u)", conn->conn.name,
                   stream_key_name(frame->key), answered, (unsigned)frame->code);
    if (frame->key == STREAM_OPEN && status == CONEY_EBROKER)
        status = CONEY_EVHOST;
    conn_fail(&conn->conn, status, frame->code, text);
}

void stream_login_frame(struct stream_conn *conn, const struct stream_frame *frame)
{
    if (frame->key != conn->step || (frame->key != STREAM_TUNE && frame->correlation != conn->correlation)) {
        char text[TEXT_CAP];
        text_print(text, sizeof text, "%s sent %s while the log-in awaited %s: is it a RabbitMQ stream listener?",
                   conn->conn.name, stream_key_name(frame->key), stream_key_name(conn->step));
        conn_fail(&conn->conn, CONEY_EPROTOCOL, 0, text);
        return;
    }
    if (frame->key != STREAM_TUNE && frame->code != STREAM_CODE_OK) {
        refused(conn, frame);
        return;
    }
    switch (frame->key) {
    case STREAM_PEER_PROPERTIES:
        got_properties(conn, frame);
        break;
    case STREAM_SASL_HANDSHAKE:
        got_mechanisms(conn, frame);
        break;
    case STREAM_SASL_AUTHENTICATE:
        conn->step = STREAM_TUNE;
        conn_await(&conn->conn);
        break;
    case STREAM_TUNE:
        got_tune(conn, frame);
        break;
    case STREAM_OPEN:
        got_open(conn, frame);
        break;
    case STREAM_EXCHANGE_COMMAND_VERSIONS:
        got_versions(conn, frame);
        break;
    }
}
