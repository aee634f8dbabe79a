/* options.c: the settings of an environment, from its URI and its options. */
#include "base/text.h"
#include "base/uri.h"
#include "stream/env.h"

#include "proto/stream/frame.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_HEARTBEAT 60
#define DEFAULT_CONNECT_TIMEOUT (5 * CONEY_SECOND)
#define DEFAULT_CALL_DEADLINE (10 * CONEY_SECOND)
#define DEFAULT_FRAME_MAX (1u << 20)
#define DEFAULT_MAX_CHUNK (64u << 20)
#define LARGEST_CHUNK (1u << 30)
#define DEFAULT_RECOVERY_DELAY (500 * CONEY_MILLISECOND)
#define DEFAULT_RECOVERY_MAX_DELAY (30 * CONEY_SECOND)

/* What is being read, and where a complaint goes. */
struct reading {
    struct settings *settings;
    char *error;
    size_t error_cap;
};

static coney_status complain(struct reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static coney_status complain(struct reading *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_vprint(r->error, r->error_cap, format, args);
    va_end(args);
    return CONEY_EINVAL;
}

static coney_status no_memory(struct reading *r)
{
    text_print(r->error, r->error_cap, "%s", coney_status_text(CONEY_ENOMEM));
    return CONEY_ENOMEM;
}

static coney_status copy(struct reading *r, char **to, const char *text)
{
    free(*to);
    *to = strdup(text);
    return *to != NULL ? CONEY_OK : no_memory(r);
}

/* Addresses ------------------------------------------------------------------------------------------------------- */

static coney_status add_address(struct reading *r, const char *host, unsigned port)
{
    struct settings *settings = r->settings;
    if (strlen(host) >= HOST_CAP)
        return complain(r, "a host name is longer than %d bytes", HOST_CAP - 1);
    struct node *grown = realloc(settings->addresses, (settings->address_count + 1) * sizeof *grown);
    if (grown == NULL)
        return no_memory(r);
    settings->addresses = grown;
    struct node *node = &grown[settings->address_count++];
    text_print(node->host, sizeof node->host, "%s", host);
    node->port = (uint16_t)(port != 0 ? port : STREAM_PORT);
    return CONEY_OK;
}

/* "host:port", with IPv6 in brackets: the URI's own grammar. */
static coney_status add_address_text(struct reading *r, const char *text)
{
    char whole[HOST_CAP + sizeof "rabbitmq-stream://[]:65535"];
    char error[TEXT_CAP];
    struct uri uri;
    if (strchr(text, '@') != NULL) /* what is before it may be a password */
        return complain(r, "an address holds an '@': addresses are host:port, user name and password belong in the URI");
    if (strlen("rabbitmq-stream://") + strlen(text) >= sizeof whole || strpbrk(text, "/?,") != NULL)
        return complain(r, "the address '%s' is not host:port", text);
    text_print(whole, sizeof whole, "rabbitmq-stream://%s", text);
    coney_status status = uri_parse(whole, NULL, &uri, error, sizeof error);
    if (status != CONEY_OK)
        return complain(r, "the address '%s' is not host:port: %s", text, error);
    status = add_address(r, uri.addresses[0].host, uri.addresses[0].port);
    uri_free(&uri);
    return status;
}

/* The URI --------------------------------------------------------------------------------------------------------- */

static coney_status number_of(struct reading *r, const struct uri_option *option, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    long long value = strtoll(option->value, &end, 10);
    bool begins = option->value[0] >= '0' && option->value[0] <= '9'; /* strtoll takes blanks and signs, too */
    if (!begins || *end != '\0' || value < least || value > most)
        return complain(r, "the URI's option %s=%s is not a number from %lld to %lld", option->key, option->value,
                        (long long)least, (long long)most);
    *out = value;
    return CONEY_OK;
}

static coney_status read_uri_option(struct reading *r, const struct uri_option *option)
{
    struct settings *settings = r->settings;
    int64_t number = 0;
    coney_status status = CONEY_OK;
    if (strcmp(option->key, "heartbeat") == 0) {
        status = number_of(r, option, 0, UINT16_MAX, &number);
        settings->heartbeat = (uint32_t)number;
    } else if (strcmp(option->key, "connect_timeout") == 0) {
        status = number_of(r, option, 1, INT32_MAX, &number);
        settings->connect_timeout = number * CONEY_MILLISECOND;
    } else if (strcmp(option->key, "frame_max") == 0) {
        status = number_of(r, option, 0, UINT32_MAX, &number);
        settings->frame_max = (uint32_t)number;
    } else if (strcmp(option->key, "name") == 0) {
        status = copy(r, &settings->name, option->value);
    } else if (strcmp(option->key, "shuffle") == 0) {
        settings->shuffle = strcmp(option->value, "true") == 0;
        if (!settings->shuffle && strcmp(option->value, "false") != 0)
            status = complain(r, "the URI's option shuffle=%s is neither true nor false", option->value);
    } else {
        status =
            complain(r, "the URI has an option '%s', which is not known: heartbeat, connect_timeout, frame_max, name, shuffle",
                     option->key);
    }
    return status;
}

static coney_status read_parsed_uri(struct reading *r, const struct uri *uri)
{
    struct settings *settings = r->settings;
    if (strcmp(uri->scheme, "rabbitmq-stream+tls") == 0) {
        complain(r, "rabbitmq-stream+tls: this version of coney has no TLS; nothing was sent in clear text");
        return CONEY_EUNSUPPORTED;
    }
    if (strcmp(uri->scheme, "rabbitmq-stream") != 0)
        return complain(r, "the URI begins with %s://, not with rabbitmq-stream://", uri->scheme);
    coney_status status = copy(r, &settings->user, uri->user != NULL ? uri->user : "guest");
    if (status == CONEY_OK)
        status = copy(r, &settings->password, uri->password != NULL ? uri->password : "guest");
    if (status == CONEY_OK)
        status = copy(r, &settings->vhost, uri->vhost != NULL && uri->vhost[0] != '\0' ? uri->vhost : "/");
    for (size_t i = 0; i < uri->address_count && status == CONEY_OK; i++)
        status = add_address(r, uri->addresses[i].host, uri->addresses[i].port);
    for (size_t i = 0; i < uri->option_count && status == CONEY_OK; i++)
        status = read_uri_option(r, &uri->options[i]);
    return status;
}

static coney_status read_uri(struct reading *r, const char *text)
{
    struct uri uri;
    coney_status status = uri_parse(text != NULL ? text : "rabbitmq-stream://localhost", NULL, &uri, r->error, r->error_cap);
    if (status != CONEY_OK)
        return status;
    status = read_parsed_uri(r, &uri);
    uri_free(&uri);
    return status;
}

/* The options ----------------------------------------------------------------------------------------------------- */

static coney_status copy_properties(struct reading *r, const coney_field *fields, size_t count)
{
    struct settings *settings = r->settings;
    settings->properties = count > 0 ? calloc(count, sizeof *settings->properties) : NULL;
    if (count > 0 && settings->properties == NULL)
        return no_memory(r);
    for (size_t i = 0; i < count; i++) {
        coney_bytes value;
        if (!coney_value_to_bytes(&fields[i].value, &value))
            return complain(r, "the client property '%.*s' is not a string", (int)fields[i].key.len,
                            (const char *)fields[i].key.data);
        char *memory = malloc(fields[i].key.len + value.len + 1);
        if (memory == NULL)
            return no_memory(r);
        if (fields[i].key.len > 0)
            memcpy(memory, fields[i].key.data, fields[i].key.len);
        if (value.len > 0)
            memcpy(memory + fields[i].key.len, value.data, value.len);
        coney_field *field = &settings->properties[settings->property_count++];
        field->key = coney_bytes_of(memory, fields[i].key.len);
        field->value = coney_value_string(coney_bytes_of(memory + fields[i].key.len, value.len));
    }
    return CONEY_OK;
}

static coney_status read_durations(struct reading *r, const coney_stream_env_options *options)
{
    struct settings *settings = r->settings;
    if (options->heartbeat < CONEY_OFF || options->heartbeat > UINT16_MAX * CONEY_SECOND)
        return complain(r, "heartbeat is out of range: nanoseconds up to %d s, or CONEY_OFF", UINT16_MAX);
    if (options->heartbeat > 0)
        settings->heartbeat = (uint32_t)((options->heartbeat + CONEY_SECOND - 1) / CONEY_SECOND);
    else if (options->heartbeat == CONEY_OFF)
        settings->heartbeat = 0;
    const struct {
        int64_t value;
        int64_t *to;
        const char *name;
    } durations[] = {
        {options->connect_timeout, &settings->connect_timeout, "connect_timeout"},
        {options->call_deadline, &settings->call_deadline, "call_deadline"},
        {options->recovery_delay, &settings->recovery_delay, "recovery_delay"},
        {options->recovery_max_delay, &settings->recovery_max_delay, "recovery_max_delay"},
    };
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        if (durations[i].value < 0)
            return complain(r, "%s is negative: nanoseconds, or 0 for the default", durations[i].name);
        if (durations[i].value > 0)
            *durations[i].to = durations[i].value;
    }
    if (settings->recovery_max_delay < settings->recovery_delay)
        settings->recovery_max_delay = settings->recovery_delay;
    return CONEY_OK;
}

static coney_status read_options(struct reading *r, const coney_stream_env_options *options)
{
    struct settings *settings = r->settings;
    coney_status status = options->name != NULL ? copy(r, &settings->name, options->name) : CONEY_OK;
    for (size_t i = 0; status == CONEY_OK && options->addresses != NULL && options->addresses[i] != NULL; i++)
        status = add_address_text(r, options->addresses[i]);
    if (status == CONEY_OK)
        status = copy_properties(r, options->client_properties, options->client_property_count);
    if (status == CONEY_OK)
        status = read_durations(r, options);
    if (status != CONEY_OK)
        return status;
    if (options->frame_max < 0 || options->frame_max > UINT32_MAX)
        return complain(r, "frame_max is out of range: bytes, or 0 for the default");
    if (options->frame_max > 0)
        settings->frame_max = (uint32_t)options->frame_max;
    if (options->max_chunk < 0 || options->max_chunk > LARGEST_CHUNK)
        return complain(r, "max_chunk is out of range: up to %u bytes, or 0 for the default", LARGEST_CHUNK);
    if (options->max_chunk > 0)
        settings->max_chunk = (uint32_t)options->max_chunk;
    settings->resolve_address = options->resolve_address;
    settings->resolver_ctx = options->resolver_ctx;
    settings->shuffle |= options->shuffle;
    settings->no_recovery = options->no_recovery;
    settings->keep_trying = options->keep_trying;
    return CONEY_OK;
}

coney_status settings_read(struct settings *settings, const char *uri, const coney_stream_env_options *options, char *error,
                           size_t error_cap)
{
    struct reading r = {.settings = settings, .error = error, .error_cap = error_cap};
    *settings = (struct settings){
        .heartbeat = DEFAULT_HEARTBEAT,
        .connect_timeout = DEFAULT_CONNECT_TIMEOUT,
        .call_deadline = DEFAULT_CALL_DEADLINE,
        .recovery_delay = DEFAULT_RECOVERY_DELAY,
        .recovery_max_delay = DEFAULT_RECOVERY_MAX_DELAY,
        .frame_max = DEFAULT_FRAME_MAX,
        .max_chunk = DEFAULT_MAX_CHUNK,
    };
    coney_status status = copy(&r, &settings->name, "coney");
    if (status == CONEY_OK)
        status = read_uri(&r, uri);
    if (status == CONEY_OK)
        status = read_options(&r, options);
    if (status != CONEY_OK)
        settings_free(settings);
    return status;
}

void settings_free(struct settings *settings)
{
    if (settings->password != NULL)
        explicit_bzero(settings->password, strlen(settings->password));
    for (size_t i = 0; i < settings->property_count; i++)
        free((void *)(uintptr_t)settings->properties[i].key.data);
    free(settings->properties);
    free(settings->addresses);
    free(settings->name);
    free(settings->user);
    free(settings->password);
    free(settings->vhost);
    *settings = (struct settings){0};
}
