/* settings.c: see settings.h. First the URI, then the options, which win. */
#include "core/settings.h"

#include "base/text.h"
#include "base/uri.h"
#include "net/tls.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_HEARTBEAT 60
#define DEFAULT_CONNECT_TIMEOUT (5 * CONEY_SECOND)
#define DEFAULT_CALL_DEADLINE (10 * CONEY_SECOND)
#define DEFAULT_RECOVERY_DELAY (500 * CONEY_MILLISECOND)
#define DEFAULT_RECOVERY_MAX_DELAY (30 * CONEY_SECOND)
#define TEXT_MOST 512

/* What is being read, and where a complaint goes. */
struct reading {
    struct settings *settings;
    const struct settings_kind *kind;
    void *further;
    const struct settings_options *options;
    coney_tls_options tls; /* what the URI says: borrowed texts */
    const char *tls_key;   /* an option of the URI about TLS; NULL: there is none */
    bool is_tls;
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
    unsigned standard = r->is_tls ? r->kind->tls_port : r->kind->port;
    node->port = (uint16_t)(port != 0 ? port : standard);
    return CONEY_OK;
}

/* "host:port", with IPv6 in brackets: the URI's own grammar. */
static coney_status add_address_text(struct reading *r, const char *text)
{
    char whole[HOST_CAP + sizeof "x://[]:65535"];
    char error[TEXT_MOST];
    struct uri uri;
    if (strchr(text, '@') != NULL) /* what is before it may be a password */
        return complain(r, "an address holds an '@': addresses are host:port, user name and password belong in the URI");
    if (strlen("x://") + strlen(text) >= sizeof whole || strpbrk(text, "/?,") != NULL)
        return complain(r, "the address '%s' is not host:port", text);
    text_print(whole, sizeof whole, "x://%s", text);
    coney_status status = uri_parse(whole, NULL, &uri, error, sizeof error);
    if (status != CONEY_OK)
        return complain(r, "the address '%s' is not host:port: %s", text, error);
    status = add_address(r, uri.addresses[0].host, uri.addresses[0].port);
    uri_free(&uri);
    return status;
}

/* The URI's options ----------------------------------------------------------------------------------------------- */

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

static coney_status read_heartbeat(struct reading *r, const struct uri_option *option)
{
    int64_t seconds = 0;
    coney_status status = number_of(r, option, 0, UINT16_MAX, &seconds);
    r->settings->heartbeat = (uint32_t)seconds;
    return status;
}

static coney_status read_connect_timeout(struct reading *r, const struct uri_option *option)
{
    int64_t milliseconds = 0;
    coney_status status = number_of(r, option, 1, INT32_MAX, &milliseconds);
    r->settings->connect_timeout = milliseconds * CONEY_MILLISECOND;
    return status;
}

static coney_status read_frame_max(struct reading *r, const struct uri_option *option)
{
    int64_t bytes = 0;
    coney_status status = number_of(r, option, 0, UINT32_MAX, &bytes);
    r->settings->frame_max = (uint32_t)bytes;
    return status;
}

static coney_status read_name(struct reading *r, const struct uri_option *option)
{
    return copy(r, &r->settings->name, option->value);
}

static coney_status set_mechanism(struct reading *r, const char *name)
{
    char known[TEXT_MOST] = "";
    for (const char *const *at = r->kind->mechanisms; *at != NULL; at++) {
        text_append(known, sizeof known, "%s%s", known[0] != '\0' ? ", " : "", *at);
        if (strcasecmp(*at, name) != 0)
            continue;
        r->settings->mechanism = *at;
        return CONEY_OK;
    }
    return complain(r, "the SASL mechanism '%s' is not known: %s", name, known);
}

static coney_status read_mechanism(struct reading *r, const struct uri_option *option)
{
    return set_mechanism(r, option->value);
}

static coney_status read_shuffle(struct reading *r, const struct uri_option *option)
{
    r->settings->shuffle = strcmp(option->value, "true") == 0;
    if (!r->settings->shuffle && strcmp(option->value, "false") != 0)
        return complain(r, "the URI's option shuffle=%s is neither true nor false", option->value);
    return CONEY_OK;
}

static coney_status read_verify(struct reading *r, const struct uri_option *option)
{
    r->tls_key = option->key;
    r->tls.skip_verification = strcmp(option->value, "verify_none") == 0;
    if (!r->tls.skip_verification && strcmp(option->value, "verify_peer") != 0)
        return complain(r, "the URI's option verify=%s is neither verify_peer nor verify_none", option->value);
    return CONEY_OK;
}

static coney_status refuse_peer_cert(struct reading *r, const struct uri_option *option)
{
    return complain(r, "the URI's option %s is a server's: a client verifies the broker unless verify=verify_none",
                    option->key);
}

static const struct {
    const char *key;
    coney_status (*read)(struct reading *r, const struct uri_option *option);
} uri_options[] = {
    {"heartbeat", read_heartbeat},
    {"connect_timeout", read_connect_timeout},
    {"connection_timeout", read_connect_timeout},
    {"frame_max", read_frame_max},
    {"name", read_name},
    {"shuffle", read_shuffle},
    {"auth_mechanism", read_mechanism},
    {"verify", read_verify},
    {"fail_if_no_peer_cert", refuse_peer_cert},
};

/* Texts that go to the options of TLS as they are. */
static const struct {
    const char *key;
    size_t offset;
} tls_texts[] = {
    {"cacertfile", offsetof(coney_tls_options, ca_file)},
    {"certfile", offsetof(coney_tls_options, certificate)},
    {"keyfile", offsetof(coney_tls_options, private_key)},
    {"password", offsetof(coney_tls_options, key_password)},
    {"server_name_indication", offsetof(coney_tls_options, server_name)},
};

static coney_status read_number(struct reading *r, const struct settings_number *number, const struct uri_option *option)
{
    int64_t value = 0;
    coney_status status = number_of(r, option, number->least, number->most, &value);
    if (status == CONEY_OK)
        memcpy((uint8_t *)r->further + number->offset, &value, sizeof value);
    return status;
}

static coney_status refuse_unknown(struct reading *r, const struct uri_option *option)
{
    char known[TEXT_MOST] = "";
    for (size_t i = 0; i < sizeof uri_options / sizeof uri_options[0]; i++)
        if (uri_options[i].read != refuse_peer_cert)
            text_append(known, sizeof known, "%s%s", i > 0 ? ", " : "", uri_options[i].key);
    for (size_t i = 0; i < r->kind->number_count; i++)
        text_append(known, sizeof known, ", %s", r->kind->numbers[i].key);
    for (size_t i = 0; i < sizeof tls_texts / sizeof tls_texts[0]; i++)
        text_append(known, sizeof known, ", %s", tls_texts[i].key);
    return complain(r, "the URI has an option '%s', which is not known: %s", option->key, known);
}

static coney_status read_uri_option(struct reading *r, const struct uri_option *option)
{
    for (size_t i = 0; i < sizeof uri_options / sizeof uri_options[0]; i++)
        if (strcmp(option->key, uri_options[i].key) == 0)
            return uri_options[i].read(r, option);
    for (size_t i = 0; i < r->kind->number_count; i++)
        if (strcmp(option->key, r->kind->numbers[i].key) == 0)
            return read_number(r, &r->kind->numbers[i], option);
    for (size_t i = 0; i < sizeof tls_texts / sizeof tls_texts[0]; i++) {
        if (strcmp(option->key, tls_texts[i].key) == 0) {
            r->tls_key = tls_texts[i].key;
            memcpy((uint8_t *)&r->tls + tls_texts[i].offset, &option->value, sizeof option->value);
            return CONEY_OK;
        }
    }
    return refuse_unknown(r, option);
}

/* TLS ------------------------------------------------------------------------------------------------------------- */

/* The options, and what they do not say as the URI says it. */
static coney_tls_options tls_options(const struct reading *r)
{
    if (r->options->tls == NULL)
        return r->tls;
    coney_tls_options both = *r->options->tls;
    for (size_t i = 0; i < sizeof tls_texts / sizeof tls_texts[0]; i++) {
        const char **text = (const char **)(void *)((uint8_t *)&both + tls_texts[i].offset);
        if (*text == NULL)
            memcpy(text, (const uint8_t *)&r->tls + tls_texts[i].offset, sizeof *text);
    }
    both.skip_verification |= r->tls.skip_verification;
    return both;
}

/* An option about TLS beside a scheme that is plain would be a promise that is not kept. */
static coney_status read_tls(struct reading *r)
{
    struct settings *settings = r->settings;
    if (!r->is_tls && r->tls_key != NULL)
        return complain(r, "the URI's option %s is about TLS, but the URI begins with %s://: write %s://", r->tls_key,
                        r->kind->scheme, r->kind->tls_scheme);
    if (!r->is_tls && r->options->tls != NULL)
        return complain(r, "there are options for TLS, but the URI begins with %s://: write %s://", r->kind->scheme,
                        r->kind->tls_scheme);
    if (!r->is_tls)
        return CONEY_OK;
    coney_tls_options options = tls_options(r);
    settings->tls = calloc(1, sizeof *settings->tls);
    if (settings->tls == NULL)
        return no_memory(r);
    coney_status status = tls_settings_read(settings->tls, &options, r->error, r->error_cap);
    if (status != CONEY_OK) {
        free(settings->tls);
        settings->tls = NULL;
    }
    return status;
}

/* The URI --------------------------------------------------------------------------------------------------------- */

static const char *vhost_of(const struct reading *r, const struct uri *uri)
{
    bool is_named = uri->vhost != NULL && (uri->vhost[0] != '\0' || r->kind->empty_path_is_vhost);
    return is_named ? uri->vhost : "/";
}

static coney_status read_parsed_uri(struct reading *r, const struct uri *uri)
{
    struct settings *settings = r->settings;
    r->is_tls = strcmp(uri->scheme, r->kind->tls_scheme) == 0;
    if (!r->is_tls && strcmp(uri->scheme, r->kind->scheme) != 0)
        return complain(r, "the URI begins with %s://, not with %s://", uri->scheme, r->kind->scheme);
    coney_status status = copy(r, &settings->user, uri->user != NULL ? uri->user : "guest");
    if (status == CONEY_OK)
        status = copy(r, &settings->password, uri->password != NULL ? uri->password : "guest");
    if (status == CONEY_OK)
        status = copy(r, &settings->vhost, vhost_of(r, uri));
    for (size_t i = 0; i < uri->address_count && status == CONEY_OK; i++)
        status = add_address(r, uri->addresses[i].host, uri->addresses[i].port);
    for (size_t i = 0; i < uri->option_count && status == CONEY_OK; i++)
        status = read_uri_option(r, &uri->options[i]);
    return status == CONEY_OK ? read_tls(r) : status;
}

static coney_status read_uri(struct reading *r, const char *text)
{
    struct uri uri;
    coney_status status = uri_parse(text != NULL ? text : r->kind->standard, r->kind->host, &uri, r->error, r->error_cap);
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

static coney_status read_durations(struct reading *r)
{
    struct settings *settings = r->settings;
    const struct settings_options *options = r->options;
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

static coney_status read_options(struct reading *r)
{
    struct settings *settings = r->settings;
    const struct settings_options *options = r->options;
    coney_status status = options->name != NULL ? copy(r, &settings->name, options->name) : CONEY_OK;
    if (status == CONEY_OK && options->mechanism != NULL)
        status = set_mechanism(r, options->mechanism);
    for (size_t i = 0; status == CONEY_OK && options->addresses != NULL && options->addresses[i] != NULL; i++)
        status = add_address_text(r, options->addresses[i]);
    if (status == CONEY_OK)
        status = copy_properties(r, options->properties, options->property_count);
    if (status == CONEY_OK)
        status = read_durations(r);
    if (status != CONEY_OK)
        return status;
    if (options->frame_max < 0 || options->frame_max > UINT32_MAX)
        return complain(r, "frame_max is out of range: bytes, or 0 for the default");
    if (options->frame_max > 0)
        settings->frame_max = (uint32_t)options->frame_max;
    settings->shuffle |= options->shuffle;
    settings->no_recovery = options->no_recovery;
    settings->keep_trying = options->keep_trying;
    return CONEY_OK;
}

coney_status settings_read(struct settings *settings, const struct settings_kind *kind, const char *uri,
                           const struct settings_options *options, void *further, char *error, size_t error_cap)
{
    struct reading r = {
        .settings = settings, .kind = kind, .further = further, .options = options, .error = error, .error_cap = error_cap};
    *settings = (struct settings){
        .heartbeat = DEFAULT_HEARTBEAT,
        .connect_timeout = DEFAULT_CONNECT_TIMEOUT,
        .call_deadline = DEFAULT_CALL_DEADLINE,
        .recovery_delay = DEFAULT_RECOVERY_DELAY,
        .recovery_max_delay = DEFAULT_RECOVERY_MAX_DELAY,
        .frame_max = kind->frame_max,
        .mechanism = kind->mechanisms[0],
    };
    coney_status status = copy(&r, &settings->name, "coney");
    if (status == CONEY_OK)
        status = read_uri(&r, uri);
    if (status == CONEY_OK)
        status = read_options(&r);
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
    if (settings->tls != NULL)
        tls_settings_free(settings->tls);
    free(settings->tls);
    free(settings->properties);
    free(settings->addresses);
    free(settings->name);
    free(settings->user);
    free(settings->password);
    free(settings->vhost);
    *settings = (struct settings){0};
}
