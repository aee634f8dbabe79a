/* uri.h: splits a connection URI into its parts, percent escapes decoded.
 *
 *     scheme://[user[:password]@]host[:port][,host[:port]…][/vhost][?key=value[&key=value…]]
 *
 * Hosts may be names, IPv4, or IPv6 in brackets. No path and "/" both mean virtual host "/"; "/%2f" too; "/a%2Fb" is "a/b".
 * Memory: one allocation, freed by uri_free, which also wipes the password. An error text never holds the password.
 */
#ifndef CONEY_BASE_URI_H
#define CONEY_BASE_URI_H

#include <coney/coney.h>

#define URI_ADDRESSES 32
#define URI_OPTIONS 64

struct uri_address {
    const char *host; /* without brackets */
    uint16_t port;    /* 0 = not given */
};

struct uri_option {
    const char *key;
    const char *value;
};

struct uri {
    const char *scheme;   /* lower case */
    const char *user;     /* NULL when not given */
    const char *password; /* NULL when not given */
    const char *vhost;    /* "/" when not given */
    struct uri_address addresses[URI_ADDRESSES];
    size_t address_count; /* at least 1 */
    struct uri_option options[URI_OPTIONS];
    size_t option_count;
    void *memory;
    size_t memory_size;
};

/* CONEY_EINVAL with a text that says what is wrong and where (an escape, a port, a missing host, a NUL through %00, too many
 * addresses, no scheme, over 8 KiB), or CONEY_ENOMEM. On failure there is nothing to free. */
coney_status uri_parse(const char *text, struct uri *uri, char *error, size_t error_cap);
void uri_free(struct uri *uri);

#endif
