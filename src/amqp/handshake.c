/* handshake.c: from an open socket to a connection that is ready: header, start, SASL, tune, open.
 *
 * One step at a time, each with a limit of its own; open is not sent along with tune-ok, or the broker's refusal could be overtaken by its reset.
 * A refusal ends the connection with a status and a sentence that says who has to change what. No text holds the password.
 */
#include "amqp/conn.h"

#include "base/text.h"

#include "proto/amqp091/table.h"

#include <stdio.h>

#define START_MAX_OLD 4096 /* bytes of the start-ok frame at most, before RabbitMQ 4.1 */
#define FRAME_MAX_LEAST_NEW 8192
#define CHANNEL_MAX_DEFAULT 2047

static const struct settings *settings_of(const struct amqp_conn *conn)
{
    return &conn->conn.env->settings;
}

static void refuse(struct amqp_conn *conn, coney_status status, uint16_t code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void refuse(struct amqp_conn *conn, coney_status status, uint16_t code, const char *format, ...)
{
    char text[TEXT_CAP];
    va_list args;
    va_start(args, format);
    text_vprint(text, sizeof text, format, args);
    va_end(args);
    conn_fail(&conn->conn, status, code, text);
}

static void await(struct amqp_conn *conn, uint32_t method)
{
    conn->step = method;
    conn_await(&conn->conn);
}

/* User and password ----------------------------------------------------------------------------------------------- */

static const char *user_of(const struct amqp_conn *conn)
{
    return env_user(conn->conn.env);
}

static const char *password_of(const struct amqp_conn *conn)
{
    return env_password(conn->conn.env);
}

/* A mechanism's response into `at`: returns its bytes, more than `cap` when it does not fit, as if it did. */

static size_t plain(const struct amqp_conn *conn, uint8_t *at, size_t cap)
{
    struct writer w = writer_of(at, cap);
    write8(&w, 0);
    write_bytes(&w, user_of(conn), strlen(user_of(conn)));
    write8(&w, 0);
    write_bytes(&w, password_of(conn), strlen(password_of(conn)));
    return w.len;
}

/* A table without the length before it. */
static size_t amqplain(const struct amqp_conn *conn, uint8_t *at, size_t cap)
{
    const coney_field fields[] = {
        {CONEY_STR("LOGIN"), coney_value_string(coney_bytes_str(user_of(conn)))},
        {CONEY_STR("PASSWORD"), coney_value_string(coney_bytes_str(password_of(conn)))},
    };
    const char *field;
    size_t size;
    if (amqp_table_size(fields, 2, &size, &field) != CONEY_OK)
        return SIZE_MAX;
    if (size <= cap)
        amqp_table_write(at, fields, 2);
    return size;
}

static size_t nothing(const struct amqp_conn *conn, uint8_t *at, size_t cap)
{
    (void)conn;
    (void)at;
    (void)cap;
    return 0;
}

static const struct mechanism {
    const char *name;
    size_t (*respond)(const struct amqp_conn *conn, uint8_t *at, size_t cap);
} mechanisms[] = {
    {"PLAIN", plain},
    {"AMQPLAIN", amqplain},
    {"EXTERNAL", nothing},
    {"ANONYMOUS", nothing},
};

static const struct mechanism *mechanism_of(const struct amqp_conn *conn)
{
    const char *wanted = conn->conn.env->settings.mechanism;
    size_t i = 0;
    while (strcmp(mechanisms[i].name, wanted) != 0)
        i++; /* the settings know no other */
    return &mechanisms[i];
}

/* Whether a list of names with blanks between holds this one, whole. */
static bool offers(coney_bytes list, const char *name)
{
    const char *at = list.data;
    size_t left = list.len;
    while (left > 0) {
        const char *blank = memchr(at, ' ', left);
        size_t len = blank != NULL ? (size_t)(blank - at) : left;
        if (bytes_equal(coney_bytes_of(at, len), coney_bytes_str(name)))
            return true;
        size_t step = blank != NULL ? len + 1 : len;
        at += step;
        left -= step;
    }
    return false;
}

/* Start ----------------------------------------------------------------------------------------------------------- */

/* "4.1.2" and later take no frame_max under 8192 and let a start-ok be as large; a version that is no number is taken for a new one. */
static bool is_new(const struct amqp_connection_start *start)
{
    coney_value version;
    char text[32];
    unsigned major = 0;
    unsigned minor = 0;
    if (!coney_value_find(&start->server_properties, CONEY_STR("version"), &version) || version.type != CONEY_VALUE_STRING)
        return true;
    text_from_wire(text, sizeof text, version.as.bytes);
    return sscanf(text, "%u.%u", &major, &minor) < 2 || major > 4 || (major == 4 && minor >= 1);
}

/* What is announced; the broker changes its ways for three of them: it tells of refused log-ins, cancelled consumers and alarms. */
static void put_capabilities(coney_builder *builder)
{
    static const char *const names[] = {
        "publisher_confirms",           "exchange_exchange_bindings", "basic.nack",
        "consumer_cancel_notify",       "connection.blocked",         "consumer_priorities",
        "authentication_failure_close", "per_consumer_qos",           "direct_reply_to",
    };
    coney_builder_put_begin(builder, CONEY_STR("capabilities"), CONEY_VALUE_MAP);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        coney_builder_put(builder, coney_bytes_str(names[i]), coney_value_bool(true));
    coney_builder_end(builder);
}

static coney_status client_properties(const struct amqp_conn *conn, uint8_t *room, size_t cap, coney_value *properties)
{
    const struct settings *settings = settings_of(conn);
    char name[HOST_CAP];
    text_print(name, sizeof name, "%s-%s", settings->name, purpose_name(conn->conn.purpose));
    coney_builder builder;
    coney_builder_init_table(&builder, room, cap);
    coney_builder_begin(&builder, CONEY_VALUE_MAP);
    coney_builder_put(&builder, CONEY_STR("product"), coney_value_string(CONEY_STR("coney")));
    coney_builder_put(&builder, CONEY_STR("version"), coney_value_string(CONEY_STR(CONEY_VERSION)));
    coney_builder_put(&builder, CONEY_STR("platform"), coney_value_string(CONEY_STR("C")));
    coney_builder_put(&builder, CONEY_STR("connection_name"), coney_value_string(coney_bytes_str(name)));
    put_capabilities(&builder);
    for (size_t i = 0; i < settings->property_count; i++)
        coney_builder_put(&builder, settings->properties[i].key, settings->properties[i].value);
    coney_builder_end(&builder);
    return coney_builder_finish(&builder, properties);
}

/* The answer to start. It must fit one frame of a size that is not negotiated yet: to a longer one there is no answer at all. */
static void send_start_ok(struct amqp_conn *conn, const struct mechanism *mechanism, size_t most)
{
    uint8_t properties[AMQP_FRAME_MAX_BEFORE_TUNE];
    uint8_t response[AMQP_FRAME_MAX_BEFORE_TUNE];
    struct amqp_method ok = {
        .id = AMQP_CONNECTION_START_OK,
        .connection_start_ok = {.mechanism = coney_bytes_str(mechanism->name), .locale = CONEY_STR("en_US")}};
    coney_status status = client_properties(conn, properties, sizeof properties, &ok.connection_start_ok.client_properties);
    size_t len = mechanism->respond(conn, response, sizeof response);
    ok.connection_start_ok.response = coney_bytes_of(response, len);
    size_t size = status == CONEY_OK && len <= sizeof response ? amqp_encode(0, &ok, NULL, 0) : SIZE_MAX;
    if (status == CONEY_EINVAL)
        refuse(conn, CONEY_EINVAL, 0, "a client property has no form on the wire: its key is longer than 255 bytes");
    else if (size > most)
        refuse(conn, CONEY_EINVAL, 0,
               "client properties, user name and password take more than %zu bytes together, which is what %s takes before the "
               "log-in: shorten them",
               most, conn->conn.name);
    else if (amqp_conn_send(conn, 0, &ok))
        await(conn, AMQP_CONNECTION_TUNE);
    else
        conn_fail(&conn->conn, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM));
    explicit_bzero(response, sizeof response);
}

static void got_start(struct amqp_conn *conn, const struct amqp_connection_start *start)
{
    const struct mechanism *mechanism = mechanism_of(conn);
    if (start->version_major != 0 || start->version_minor != 9) {
        refuse(conn, CONEY_EPROTOCOL, 0, "%s speaks AMQP %u-%u, not 0-9-1: is it a RabbitMQ node?", conn->conn.name,
               start->version_major, start->version_minor);
        return;
    }
    if (!offers(start->mechanisms, mechanism->name)) {
        char offered[128];
        text_from_wire(offered, sizeof offered, start->mechanisms);
        refuse(conn, CONEY_EAUTH, 0,
               "%s does not offer the SASL mechanism %s (it offers: %s): choose one of those, or enable it in the broker",
               conn->conn.name, mechanism->name, offered);
        return;
    }
    conn->is_new = is_new(start);
    send_start_ok(conn, mechanism, conn->is_new ? AMQP_FRAME_MAX_BEFORE_TUNE : START_MAX_OLD);
}

/* Tune and open --------------------------------------------------------------------------------------------------- */

static uint32_t lower_unless_zero(uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0)
        return a > b ? a : b;
    return a < b ? a : b;
}

/* The largest payload of a frame that may come: without a limit, that of the largest message. */
static uint32_t payload_max(const struct amqp_conn *conn)
{
    size_t message = amqp_of(conn->conn.env)->max_message;
    if (conn->conn.frame_max != 0 || message < amqp_payload_max(0))
        return amqp_payload_max(conn->conn.frame_max);
    return message < UINT32_MAX ? (uint32_t)message : UINT32_MAX;
}

static void got_tune(struct amqp_conn *conn, const struct amqp_connection_tune *tune)
{
    const struct settings *settings = settings_of(conn);
    const struct coney_amqp *amqp = amqp_of(conn->conn.env);
    uint32_t channels = amqp->channel_max != 0 ? (uint32_t)amqp->channel_max : CHANNEL_MAX_DEFAULT;
    uint32_t frame_max = lower_unless_zero(settings->frame_max, tune->frame_max);
    if (tune->frame_max != 0 && tune->frame_max < AMQP_FRAME_MAX_LEAST) {
        refuse(conn, CONEY_EPROTOCOL, 0, "%s offers frames of %u bytes; AMQP 0-9-1 asks for %d at least", conn->conn.name,
               (unsigned)tune->frame_max, AMQP_FRAME_MAX_LEAST);
        return;
    }
    if (conn->is_new && frame_max != 0 && frame_max < FRAME_MAX_LEAST_NEW && tune->frame_max >= FRAME_MAX_LEAST_NEW) {
        refuse(conn, CONEY_EINVAL, 0, "frame_max is %u, but %s takes no less than %d: raise it", (unsigned)frame_max,
               conn->conn.name, FRAME_MAX_LEAST_NEW);
        return;
    }
    conn->channel_max = (uint16_t)lower_unless_zero(channels, tune->channel_max);
    conn->conn.frame_max = frame_max;
    conn->conn.heartbeat = settings->heartbeat == 0 ? 0 : lower_unless_zero(settings->heartbeat, tune->heartbeat);
    conn->payload_max = payload_max(conn);
    const struct amqp_method ok = {.id = AMQP_CONNECTION_TUNE_OK,
                                   .connection_tune = {.channel_max = conn->channel_max,
                                                       .frame_max = conn->conn.frame_max,
                                                       .heartbeat = (uint16_t)conn->conn.heartbeat}};
    const struct amqp_method open = {.id = AMQP_CONNECTION_OPEN,
                                     .connection_open = {.vhost = coney_bytes_str(settings->vhost)}};
    amqp_conn_send(conn, 0, &ok);
    if (amqp_conn_send(conn, 0, &open))
        await(conn, AMQP_CONNECTION_OPEN_OK);
    else
        refuse(conn, CONEY_EVHOST, 0, "the name of the virtual host is longer than %d bytes: no broker has such a one",
               AMQP_SHORT_MAX);
}

void amqp_login_method(struct amqp_conn *conn, const struct amqp_method *method)
{
    if (method->id != conn->step) {
        refuse(conn, CONEY_EPROTOCOL, 0, "%s sent %s while the log-in awaited %s: is it a RabbitMQ node?", conn->conn.name,
               amqp_method_name(method->id), amqp_method_name(conn->step));
        return;
    }
    switch (method->id) {
    case AMQP_CONNECTION_START:
        got_start(conn, &method->connection_start);
        break;
    case AMQP_CONNECTION_TUNE:
        got_tune(conn, &method->connection_tune);
        break;
    case AMQP_CONNECTION_OPEN_OK:
        conn->logged_in = true;
        conn_ready(&conn->conn);
        break;
    }
}

/* The broker closes the connection instead of going on. */
void amqp_login_refused(struct amqp_conn *conn, uint16_t code, const char *reason)
{
    const struct settings *settings = settings_of(conn);
    const char *name = conn->conn.name;
    coney_status status = amqp_status_of_code(code);
    if (status == CONEY_ELOST) {
        refuse(conn, status, code, "%s ended the log-in: %s (code %u)", name, reason, (unsigned)code);
    } else if (conn->step == AMQP_CONNECTION_TUNE && code == AMQP_CODE_ACCESS_REFUSED) {
        bool named = mechanism_of(conn)->respond != nothing;
        refuse(conn, CONEY_EAUTH, code, "%s refused the log-in%s%s%s: %s (code %u): check %s", name, named ? " of user '" : "",
               named ? user_of(conn) : "", named ? "'" : "", reason, (unsigned)code,
               named ? "the user name and the password" : "what the broker knows of this client");
    } else if (conn->step == AMQP_CONNECTION_OPEN_OK) {
        refuse(conn, CONEY_EVHOST, code,
               "%s refused virtual host '%s': %s (code %u): check its name, and that user '%s' may enter it", name,
               settings->vhost, reason, (unsigned)code, user_of(conn));
    } else {
        refuse(conn, CONEY_EBROKER, code, "%s refused the log-in while %s was awaited: %s (code %u)", name,
               amqp_method_name(conn->step), reason, (unsigned)code);
    }
}

/* Beginning ------------------------------------------------------------------------------------------------------- */

void amqp_login(struct conn *conn)
{
    link_write(conn->link, amqp_protocol_header, AMQP_PROTOCOL_HEADER_BYTES);
    await(amqp_conn_of(conn), AMQP_CONNECTION_START);
}
