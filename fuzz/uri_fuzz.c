/* uri_fuzz.c: any text either is a URI whose parts all lie in its memory and which is the same when it was formatted and read again, or is refused
 * with a reason. */
#include "base/uri.h"

#include <stdlib.h>
#include <string.h>

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_part(const struct uri *uri, const char *part)
{
    const char *memory = uri->memory;
    must(part >= memory && part + strlen(part) < memory + uri->memory_size);
}

static void check(const struct uri *uri)
{
    check_part(uri, uri->scheme);
    must(uri->address_count >= 1 && uri->address_count <= URI_ADDRESSES && uri->option_count <= URI_OPTIONS);
    if (uri->vhost != NULL)
        check_part(uri, uri->vhost);
    must(uri->user != NULL || uri->password == NULL);
    if (uri->user != NULL)
        check_part(uri, uri->user);
    if (uri->password != NULL)
        check_part(uri, uri->password);
    for (size_t i = 0; i < uri->address_count; i++) {
        check_part(uri, uri->addresses[i].host);
        must(*uri->addresses[i].host != '\0');
    }
    for (size_t i = 0; i < uri->option_count; i++) {
        check_part(uri, uri->options[i].key);
        check_part(uri, uri->options[i].value);
    }
}

/* Unless the text has grown beyond what is read. */
static void check_again(const struct uri *uri)
{
    size_t len = uri_format(uri, NULL, 0);
    char *text = malloc(len + 1);
    must(text != NULL && uri_format(uri, text, len + 1) == len && strlen(text) == len);
    struct uri again;
    char error[64] = "";
    if (uri_parse(text, NULL, &again, error, sizeof error) == CONEY_OK)
        must(uri_same_endpoint(uri, &again) && again.option_count == uri->option_count);
    else
        must(len > 8192);
    uri_free(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';

    struct uri uri;
    char error[64] = "";
    coney_status status = uri_parse(text, NULL, &uri, error, sizeof error);
    if (status == CONEY_OK) {
        check(&uri);
        check_again(&uri);
    }
    must(status == CONEY_OK || (status == CONEY_EINVAL && error[0] != '\0' && uri.memory == NULL));
    uri_free(&uri);
    free(text);
    return 0;
}
