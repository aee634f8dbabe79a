/* tls_settings.c: the user's options, copied and held against each other. */
#include "net/tls.h"

#include "base/text.h"

#include <openssl/crypto.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct field {
    const char *name;
    size_t offset;
};

#define FIELD(name)                                                                                                            \
    {                                                                                                                          \
#name, offsetof(coney_tls_options, name)                                                                               \
    }

static const struct field fields[] = {
    FIELD(ca_file),     FIELD(ca_path),      FIELD(certificate), FIELD(private_key),
    FIELD(pkcs12_file), FIELD(key_password), FIELD(server_name),
};

#define FIELDS (sizeof fields / sizeof fields[0])

static const char **text_at(coney_tls_options *options, const struct field *field)
{
    return (const char **)(void *)((char *)options + field->offset);
}

/* NULL, or what is wrong. */
static const char *contradiction(const coney_tls_options *options)
{
    static const uint64_t zeros[sizeof options->reserved / sizeof options->reserved[0]];

    if (options->pkcs12_file != NULL && (options->certificate != NULL || options->private_key != NULL))
        return "pkcs12_file holds certificate and key: leave certificate and private_key unset beside it";
    if (options->private_key != NULL && options->certificate == NULL)
        return "private_key without certificate: set both";
    if (options->key_password != NULL && options->certificate == NULL && options->pkcs12_file == NULL)
        return "key_password without a key: set certificate and private_key, or pkcs12_file";
    if (options->min_version != CONEY_TLS_DEFAULT && options->min_version != CONEY_TLS_1_2 &&
        options->min_version != CONEY_TLS_1_3)
        return "min_version is none of CONEY_TLS_1_2 and CONEY_TLS_1_3";
    if (memcmp(options->reserved, zeros, sizeof zeros) != 0 || options->padding[0] != 0 || options->padding[1] != 0)
        return "reserved bytes of the options are not zero: zero the struct before use";
    return NULL;
}

static bool check(coney_tls_options *options, char *error, size_t error_cap)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const char *text = *text_at(options, &fields[i]);
        if (text != NULL && *text == '\0' && text != options->key_password) {
            text_print(error, error_cap, "TLS options: %s is empty", fields[i].name);
            return false;
        }
    }
    const char *wrong = contradiction(options);
    if (wrong != NULL)
        text_print(error, error_cap, "TLS options: %s", wrong);
    return wrong == NULL;
}

static bool copy_texts(coney_tls_options *options)
{
    bool complete = true;
    for (size_t i = 0; i < FIELDS; i++) {
        const char **text = text_at(options, &fields[i]);
        if (*text == NULL)
            continue;
        *text = strdup(*text);
        complete = complete && *text != NULL;
    }
    return complete;
}

coney_status tls_settings_read(struct tls_settings *settings, const coney_tls_options *options, char *error, size_t error_cap)
{
    *settings = (struct tls_settings){0};
    if (options == NULL)
        return CONEY_OK;
    coney_tls_options copy = *options;
    if (!check(&copy, error, error_cap))
        return CONEY_EINVAL;
    settings->options = copy;
    if (copy_texts(&settings->options))
        return CONEY_OK;
    tls_settings_free(settings);
    text_print(error, error_cap, "no memory for the TLS options");
    return CONEY_ENOMEM;
}

void tls_settings_free(struct tls_settings *settings)
{
    char *password = (char *)(uintptr_t)settings->options.key_password;
    if (password != NULL)
        OPENSSL_cleanse(password, strlen(password));
    for (size_t i = 0; i < FIELDS; i++)
        free((void *)(uintptr_t)*text_at(&settings->options, &fields[i]));
    *settings = (struct tls_settings){0};
}
