/* options.c: the stream protocol's URIs, and the public options of an environment. */
#include "proto/stream/frame.h"
#include "stream/env.h"

#define DEFAULT_FRAME_MAX (1u << 20)
#define LARGEST_CHUNK (1u << 30)

static const char *const mechanisms[] = {"PLAIN", "EXTERNAL", "ANONYMOUS", NULL};

const struct settings_kind stream_settings = {
    .scheme = "rabbitmq-stream",
    .tls_scheme = "rabbitmq-stream+tls",
    .port = STREAM_PORT,
    .tls_port = STREAM_TLS_PORT,
    .standard = "rabbitmq-stream://localhost",
    .frame_max = DEFAULT_FRAME_MAX,
    .mechanisms = mechanisms,
};

bool stream_options_read(const coney_stream_env_options *options, struct env_options *out, coney_call *call)
{
    if (options->max_chunk < 0 || options->max_chunk > LARGEST_CHUNK) {
        op_refuse(call, CONEY_EINVAL, "max_chunk is out of range: up to %u bytes, or 0 for the default", LARGEST_CHUNK);
        return false;
    }
    *out = (struct env_options){
        .settings = {.name = options->name,
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
                     .keep_trying = options->keep_trying},
        .loop = options->loop,
        .on_event = options->on_event,
        .event_ctx = options->event_ctx,
        .on_log = options->on_log,
        .log_ctx = options->log_ctx,
        .log_level = options->log_level,
        .handler_thread = options->handler_thread,
        .credentials = options->credentials,
        .credentials_ctx = options->credentials_ctx,
    };
    return true;
}
