/* settings.h: what a URI and the options say about an environment, with the defaults filled in.
 *
 *     struct settings_options options = {.name = public->name, …};
 *     coney_status status = settings_read(&env->settings, &stream_settings, uri, &options, env, error, sizeof error);
 *
 * What both protocols have in common stands here; a settings_kind says how they differ. An option of the struct wins over one of the URI.
 * All strings are copies. Constant once the environment is open, but for the password, which update-secret changes. No I/O but reading TLS files.
 */
#ifndef CONEY_CORE_SETTINGS_H
#define CONEY_CORE_SETTINGS_H

#include <coney/tls.h>
#include <coney/value.h>

#define HOST_CAP 256 /* bytes of a host name with its end */

struct tls_settings;

/* One address of a broker node. */
struct node {
    char host[HOST_CAP];
    uint16_t port;
};

struct settings {
    char *name;
    char *user;
    char *password;
    char *vhost;
    const char *mechanism; /* of SASL, as the broker writes it: one of the kind's */
    struct node *addresses;
    size_t address_count;
    coney_field *properties; /* of the client's; keys and string values are copies */
    size_t property_count;
    struct tls_settings *tls; /* NULL = plain */
    int64_t connect_timeout;
    int64_t call_deadline;
    int64_t recovery_delay;
    int64_t recovery_max_delay;
    uint32_t heartbeat; /* seconds; 0 = off */
    uint32_t frame_max;
    bool shuffle;
    bool no_recovery;
    bool keep_trying;
};

/* A number that only one protocol's URIs may carry: it is stored as an int64_t at `offset` of the struct that settings_read is given for it. */
struct settings_number {
    const char *key;
    int64_t least;
    int64_t most;
    size_t offset;
};

/* How the settings of one protocol differ from another's. */
struct settings_kind {
    const char *scheme;     /* "amqp" */
    const char *tls_scheme; /* "amqps" */
    uint16_t port;
    uint16_t tls_port;
    const char *standard;          /* the URI that NULL stands for */
    const char *host;              /* what an empty host stands for; NULL: a host must be given */
    bool empty_path_is_vhost;      /* "scheme://host/" names the virtual host ""; otherwise "/" */
    uint32_t frame_max;            /* the default */
    const char *const *mechanisms; /* of SASL, NULL-terminated; the first is the default */
    const struct settings_number *numbers;
    size_t number_count;
};

/* What the public options of both clients have in common; zero is the default. Borrowed. */
struct settings_options {
    const char *name;
    const char *const *addresses; /* further "host:port", NULL-terminated */
    const coney_field *properties;
    size_t property_count;
    const coney_tls_options *tls;
    const char *mechanism; /* in upper or lower case */
    int64_t heartbeat;     /* nanoseconds, and below */
    int64_t connect_timeout;
    int64_t call_deadline;
    int64_t recovery_delay;
    int64_t recovery_max_delay;
    int64_t frame_max;
    bool shuffle;
    bool no_recovery;
    bool keep_trying;
};

/* Fills *settings from both sources. `further` is the struct that the kind's numbers go to (only those that the URI has are written).
 * CONEY_EINVAL, CONEY_ENOMEM, CONEY_EUNSUPPORTED or CONEY_ETLS with a text in `error`; then there is nothing to free. */
coney_status settings_read(struct settings *settings, const struct settings_kind *kind, const char *uri,
                           const struct settings_options *options, void *further, char *error, size_t error_cap);

/* Frees it all and wipes the password. */
void settings_free(struct settings *settings);

#endif
