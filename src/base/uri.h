/* uri.h: splits a connection URI into its parts, percent escapes decoded.
 *
 *     scheme://[user[:password]@]host[:port][,host[:port]…][/vhost][?key=value[&key=value…]]
 *
 * Hosts may be names, IPv4, or IPv6 in brackets. "/%2f" is the virtual host "/", "/a%2Fb" is "a/b"; what no path and an empty one mean is
 * the protocol's to say. Memory: one allocation, freed by uri_free, which also wipes the password. An error text never holds the password.
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
    const char *vhost;    /* NULL: no path; "": nothing behind the '/' */
    struct uri_address addresses[URI_ADDRESSES];
    size_t address_count; /* at least 1 */
    struct uri_option options[URI_OPTIONS];
    size_t option_count;
    void *memory;
    size_t memory_size;
};

/* `host` is what an empty host stands for (borrowed while *uri lives); NULL: a host must be given. CONEY_EINVAL with a text that says what is wrong
 * and where (an escape, a port, a missing host, a NUL through %00, too many addresses, no scheme, over 8 KiB), or CONEY_ENOMEM. On failure there is
 * nothing to free. */
coney_status uri_parse(const char *text, const char *host, struct uri *uri, char *error, size_t error_cap);

/* Writes the URI that uri_parse reads as *uri, with every byte escaped that could be taken for another's; the password, too. Returns its length;
 * it is cut, and ended, to fit `cap`. */
size_t uri_format(const struct uri *uri, char *text, size_t cap);

/* Whether both lead to the same place as the same user: scheme (and with it TLS), user, password, virtual host, and the addresses in their order. */
bool uri_same_endpoint(const struct uri *a, const struct uri *b);

void uri_free(struct uri *uri);

#endif
