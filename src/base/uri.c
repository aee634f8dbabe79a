/* uri.c: splits a copy of the text in place: every separator becomes the end of the part before it, and a decoded part is
 * never longer than its source.
 *
 * Error texts name the part and the byte, never the content: with a badly escaped password any part may hold a piece of it.
 */
#include "base/uri.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST 8192
#define ESCAPE_HINT "write '/', '?', '#', '@', ':' and '%%' inside a part as %%2F, %%3F, %%23, %%40, %%3A and %%25"

struct parse {
    char *text;       /* the copy; byte numbers in errors count from here */
    const char *host; /* what an empty one stands for; NULL: it must be given */
    struct uri *uri;
    char *error;
    size_t error_cap;
};

static unsigned position(const struct parse *p, const char *at)
{
    return (unsigned)(at - p->text) + 1;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes the escapes of the part that starts at `part` and ends with its NUL. */
static bool decode(struct parse *p, char *part, const char *what)
{
    char *out = part;
    for (const char *in = part; *in != '\0'; in++) {
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        int high = hex(in[1]);
        int low = high >= 0 ? hex(in[2]) : -1;
        if (low < 0) {
            text_print(p->error, p->error_cap,
                       "URI: the escape at byte %u, in the %s, is not '%%' and two hex digits: write a plain '%%' as %%25",
                       position(p, in), what);
            return false;
        }
        if (high == 0 && low == 0) {
            text_print(p->error, p->error_cap, "URI: %%00 at byte %u, in the %s: a zero byte is not allowed there",
                       position(p, in), what);
            return false;
        }
        *out++ = (char)(high * 16 + low);
        in += 2;
    }
    *out = '\0';
    return true;
}

/* Ends the part at `at` and returns where the next one starts. */
static char *cut(char *at)
{
    *at = '\0';
    return at + 1;
}

static bool parse_scheme(struct parse *p, char **rest)
{
    char *end = strstr(p->text, "://");
    size_t len = strspn(p->text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    if (end == NULL || end == p->text || p->text + len != end) {
        text_print(p->error, p->error_cap,
                   "URI: it does not start with a scheme: write it as scheme://user:password@host:port/vhost");
        return false;
    }
    for (char *c = p->text; c < end; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    p->uri->scheme = p->text;
    *rest = cut(end) + 2;
    return true;
}

/* Takes user and password off the front of the authority. The last '@' ends them, so that one in a password does no harm. */
static bool parse_user(struct parse *p, char **authority)
{
    char *at = strrchr(*authority, '@');
    if (at == NULL)
        return true;
    char *user = *authority;
    *authority = cut(at);
    char *colon = strchr(user, ':');
    char *password = colon != NULL ? cut(colon) : NULL;
    if (!decode(p, user, "user name") || (password != NULL && !decode(p, password, "password")))
        return false;
    p->uri->user = user;
    p->uri->password = password;
    return true;
}

static bool parse_port(struct parse *p, const char *text, uint16_t *port)
{
    uint32_t value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && value <= UINT16_MAX; c++)
        value = value * 10 + (uint32_t)(*c - '0');
    bool absent = *text == '\0';
    if (!absent && (*c != '\0' || value == 0 || value > UINT16_MAX)) {
        text_print(p->error, p->error_cap, "URI: the port at byte %u is not a number from 1 to 65535 (" ESCAPE_HINT ")",
                   position(p, text));
        return false;
    }
    *port = (uint16_t)value;
    return true;
}

/* One host[:port], which ends with its NUL. */
static bool parse_address(struct parse *p, char *text, struct uri_address *address)
{
    char *host = text;
    char *end = strchr(text, ':');
    if (*text == '[') {
        host = text + 1;
        end = strchr(host, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
            text_print(p->error, p->error_cap,
                       "URI: the bracket at byte %u does not close before the port: write an IPv6 address as [::1]:5552",
                       position(p, text));
            return false;
        }
        end = cut(end);
    } else if (end != NULL && strchr(end + 1, ':') != NULL) {
        text_print(
            p->error, p->error_cap,
            "URI: more than one ':' in the host at byte %u: write an IPv6 address in brackets, as [::1]:5552 (" ESCAPE_HINT ")",
            position(p, text));
        return false;
    }
    const char *port = end != NULL && *end == ':' ? cut(end) : "";
    if (*host == '\0' && (p->host == NULL || host != text)) {
        text_print(p->error, p->error_cap, "URI: the host is missing at byte %u", position(p, text));
        return false;
    }
    address->host = *host != '\0' ? host : p->host;
    return decode(p, host, "host") && parse_port(p, port, &address->port);
}

static bool parse_authority(struct parse *p, char *authority)
{
    if (!parse_user(p, &authority))
        return false;
    for (char *next = authority; next != NULL;) {
        char *text = next;
        char *comma = strchr(text, ',');
        next = comma != NULL ? cut(comma) : NULL;
        if (p->uri->address_count == URI_ADDRESSES) {
            text_print(p->error, p->error_cap, "URI: more than %d addresses: leave out those after byte %u", URI_ADDRESSES,
                       position(p, text));
            return false;
        }
        if (!parse_address(p, text, &p->uri->addresses[p->uri->address_count]))
            return false;
        p->uri->address_count++;
    }
    return true;
}

static bool parse_vhost(struct parse *p, char *path)
{
    const char *slash = strchr(path, '/');
    if (slash != NULL) {
        text_print(p->error, p->error_cap, "URI: a second '/' at byte %u: write a '/' inside a virtual host as %%2F",
                   position(p, slash));
        return false;
    }
    if (!decode(p, path, "virtual host"))
        return false;
    p->uri->vhost = path;
    return true;
}

static bool parse_options(struct parse *p, char *query)
{
    for (char *next = query; next != NULL;) {
        char *key = next;
        char *and = strchr(key, '&');
        next = and != NULL ? cut(and) : NULL;
        if (*key == '\0')
            continue;
        char *equals = strchr(key, '=');
        char *value = equals != NULL ? cut(equals) : key + strlen(key);
        if (*key == '\0' || p->uri->option_count == URI_OPTIONS) {
            text_print(p->error, p->error_cap,
                       *key == '\0' ? "URI: the option at byte %u has no name before its '='"
                                    : "URI: too many options: leave out those from byte %u on",
                       position(p, key));
            return false;
        }
        if (!decode(p, value, "value of an option") || !decode(p, key, "name of an option"))
            return false;
        p->uri->options[p->uri->option_count++] = (struct uri_option){.key = key, .value = value};
    }
    return true;
}

static bool parse(struct parse *p)
{
    for (const char *c = p->text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            text_print(p->error, p->error_cap, "URI: a control character (a line end?) at byte %u: take it out",
                       position(p, c));
            return false;
        }
    }
    const char *hash = strchr(p->text, '#');
    if (hash != NULL) {
        text_print(p->error, p->error_cap, "URI: a '#' at byte %u: write it as %%23", position(p, hash));
        return false;
    }
    char *authority = NULL;
    if (!parse_scheme(p, &authority))
        return false;
    char *query = strchr(authority, '?');
    if (query != NULL)
        query = cut(query);
    char *path = strchr(authority, '/');
    if (path != NULL)
        path = cut(path);
    return parse_authority(p, authority) && (path == NULL || parse_vhost(p, path)) && parse_options(p, query);
}

coney_status uri_parse(const char *text, const char *host, struct uri *uri, char *error, size_t error_cap)
{
    *uri = (struct uri){0};
    size_t len = strnlen(text, LONGEST + 1);
    if (len > LONGEST) {
        text_print(error, error_cap, "URI: longer than %d bytes", LONGEST);
        return CONEY_EINVAL;
    }
    char *copy = malloc(len + 1);
    if (copy == NULL) {
        text_print(error, error_cap, "URI: no memory for a copy of it");
        return CONEY_ENOMEM;
    }
    memcpy(copy, text, len + 1);
    uri->memory = copy;
    uri->memory_size = len + 1;
    struct parse p = {.text = copy, .host = host, .uri = uri, .error = error, .error_cap = error_cap};
    if (parse(&p))
        return CONEY_OK;
    uri_free(uri);
    return CONEY_EINVAL;
}

void uri_free(struct uri *uri)
{
    if (uri->memory != NULL)
        explicit_bzero(uri->memory, uri->memory_size);
    free(uri->memory);
    *uri = (struct uri){0};
}

/* Formatting ------------------------------------------------------------------------------------------------------ */

struct out {
    char *text;
    size_t cap;
    size_t len;
};

static void put(struct out *out, char c)
{
    if (out->len + 1 < out->cap)
        out->text[out->len] = c;
    out->len++;
}

static void put_text(struct out *out, const char *text)
{
    for (; *text != '\0'; text++)
        put(out, *text);
}

/* Letters, digits and what no part of a URI is ended by stand as they are. */
static void put_part(struct out *out, const char *part)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    static const char digits[] = "0123456789ABCDEF";
    for (; *part != '\0'; part++) {
        unsigned char c = (unsigned char)*part;
        if (strchr(plain, *part) != NULL) {
            put(out, *part);
            continue;
        }
        put(out, '%');
        put(out, digits[c >> 4]);
        put(out, digits[c & 15]);
    }
}

static void put_address(struct out *out, const struct uri_address *address)
{
    bool brackets = strchr(address->host, ':') != NULL;
    put_text(out, brackets ? "[" : "");
    if (!brackets)
        put_part(out, address->host);
    for (const char *c = address->host; brackets && *c != '\0'; c++) {
        char one[] = {*c, '\0'};
        if (*c == ':')
            put(out, ':');
        else
            put_part(out, one);
    }
    put_text(out, brackets ? "]" : "");
    if (address->port == 0)
        return;
    char port[sizeof ":65535"];
    text_print(port, sizeof port, ":%u", (unsigned)address->port);
    put_text(out, port);
}

size_t uri_format(const struct uri *uri, char *text, size_t cap)
{
    struct out out = {.text = text, .cap = cap};
    put_text(&out, uri->scheme);
    put_text(&out, "://");
    if (uri->user != NULL) {
        put_part(&out, uri->user);
        put_text(&out, uri->password != NULL ? ":" : "");
        put_part(&out, uri->password != NULL ? uri->password : "");
        put(&out, '@');
    }
    for (size_t i = 0; i < uri->address_count; i++) {
        put_text(&out, i > 0 ? "," : "");
        put_address(&out, &uri->addresses[i]);
    }
    if (uri->vhost != NULL) {
        put(&out, '/');
        put_part(&out, uri->vhost);
    }
    for (size_t i = 0; i < uri->option_count; i++) {
        put(&out, i == 0 ? '?' : '&');
        put_part(&out, uri->options[i].key);
        put(&out, '=');
        put_part(&out, uri->options[i].value);
    }
    if (cap > 0)
        text[out.len < cap ? out.len : cap - 1] = '\0';
    return out.len;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool uri_same_endpoint(const struct uri *a, const struct uri *b)
{
    if (!same_text(a->scheme, b->scheme) || !same_text(a->user, b->user) || !same_text(a->password, b->password) ||
        !same_text(a->vhost, b->vhost) || a->address_count != b->address_count)
        return false;
    for (size_t i = 0; i < a->address_count; i++)
        if (!same_text(a->addresses[i].host, b->addresses[i].host) || a->addresses[i].port != b->addresses[i].port)
            return false;
    return true;
}
