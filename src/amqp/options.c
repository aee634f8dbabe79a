/* options.c: what a URI and the options of AMQP say beyond what every environment has. */
#include "amqp/conn.h"

#define DEFAULT_FRAME_MAX (128u << 10)
#define DEFAULT_MAX_MESSAGE (128 * CONEY_MIB) /* the largest that any RabbitMQ takes unless told otherwise */
#define LARGEST_MESSAGE (INT64_C(2) * CONEY_GIB)

static const struct settings_number numbers[] = {
    {.key = "channel_max", .least = 0, .most = AMQP_CHANNEL_MAX, .offset = offsetof(struct coney_amqp, channel_max)},
};

static const char *const mechanisms[] = {"PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS", NULL};

const struct settings_kind amqp_settings = {
    .scheme = "amqp",
    .tls_scheme = "amqps",
    .port = AMQP_PORT,
    .tls_port = AMQP_TLS_PORT,
    .standard = "amqp://localhost",
    .host = "localhost",
    .empty_path_is_vhost = true,
    .frame_max = DEFAULT_FRAME_MAX,
    .mechanisms = mechanisms,
    .numbers = numbers,
    .number_count = sizeof numbers / sizeof numbers[0],
};

void amqp_common_options(const coney_amqp_options *options, struct env_options *common)
{
    *common = (struct env_options){
        .settings =
            {
                .name = options->name,
                .addresses = options->addresses,
                .properties = options->client_properties,
                .property_count = options->client_property_count,
                .tls = options->tls,
                .mechanism = options->mechanism,
                .heartbeat = options->heartbeat,
                .connect_timeout = options->connect_timeout,
                .call_deadline = options->call_deadline,
                .recovery_delay = options->recovery_delay,
                .recovery_max_delay = options->recovery_max_delay,
                .frame_max = options->frame_max,
                .shuffle = options->shuffle,
                .no_recovery = options->no_recovery,
                .keep_trying = options->keep_trying,
            },
        .loop = options->loop,
        .on_event = options->on_event,
        .event_ctx = options->event_ctx,
        .on_log = options->on_log,
        .log_ctx = options->log_ctx,
        .log_level = options->log_level,
        .credentials = options->credentials,
        .credentials_ctx = options->credentials_ctx,
        .handler_thread = options->handler_thread,
    };
}

coney_status amqp_own_options(struct coney_amqp *amqp, const coney_amqp_options *options, coney_call *call)
{
    const struct settings *settings = &amqp->env.settings;
    if (options->channel_max < 0 || options->channel_max > AMQP_CHANNEL_MAX)
        return op_refuse(call, CONEY_EINVAL, "channel_max is out of range: up to %d, or 0 for the default", AMQP_CHANNEL_MAX);
    if (options->max_message < 0 || options->max_message > LARGEST_MESSAGE)
        return op_refuse(call, CONEY_EINVAL, "max_message is out of range: up to %lld bytes, or 0 for the default",
                         (long long)LARGEST_MESSAGE);
    if (settings->frame_max != 0 && settings->frame_max < AMQP_FRAME_MAX_LEAST)
        return op_refuse(call, CONEY_EINVAL, "frame_max is %u bytes: at least %d, or 0 for the default",
                         (unsigned)settings->frame_max, AMQP_FRAME_MAX_LEAST);
    if (options->channel_max > 0)
        amqp->channel_max = options->channel_max;
    amqp->max_message = (size_t)(options->max_message > 0 ? options->max_message : DEFAULT_MAX_MESSAGE);
    return CONEY_OK;
}
