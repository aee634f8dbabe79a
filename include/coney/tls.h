/* coney/tls.h: TLS for both clients: whom to trust, what to show, what to check.
 *
 *     coney_tls_options tls = {
 *         .ca_file = "/etc/rabbitmq/ca.pem",          // who signed the broker's certificate
 *         .certificate = "/etc/ingest/client.pem",    // only where the broker asks for one
 *         .private_key = "/etc/ingest/client.key",
 *     };
 *     coney_stream_env_options options = {.tls = &tls};    // or coney_amqp_options
 *     coney_call call = {0};
 *     coney_stream_env *env = coney_stream_env_open("rabbitmq-stream+tls://broker.example", &options, &call);
 *     if (env == NULL)
 *         fprintf(stderr, "%s\n", call.text);         // an expired certificate, another host's, an unknown CA: each in words
 *
 * The URI decides: with amqps:// or rabbitmq-stream+tls:// every connection of the environment is TLS or is not made at all.
 * The options may be NULL: that, or a struct of zeros, verifies the broker's certificate against the system's store, checks that
 * it is the certificate of the host that was dialled, and speaks TLS 1.2 or 1.3. Options beside a plain URI are refused.
 *
 * Files are read anew for every connection, so that a renewed certificate is in use from the next one on; an open connection
 * stays as it is. What is wrong with a certificate, ours or the broker's, ends the opening of an environment with CONEY_ETLS at
 * once; during recovery it is an event, and is tried again with back-off, for certificates get renewed.
 */
#ifndef CONEY_TLS_H
#define CONEY_TLS_H

#include <coney/coney.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum coney_tls_version {
    CONEY_TLS_DEFAULT = 0, /* TLS 1.2 */
    CONEY_TLS_1_2 = 12,
    CONEY_TLS_1_3 = 13,
} coney_tls_version;

/* All texts are copied. The layout is frozen; `reserved` must stay zero. */
typedef struct coney_tls_options {
    const char *ca_file;           /* PEM, one or more certificates to trust, in place of the system's store */
    const char *ca_path;           /* a folder of them, named by hash (`openssl rehash`); with ca_file both are trusted */
    const char *certificate;       /* PEM file: the client's certificate, then those between it and its CA */
    const char *private_key;       /* PEM file: its key; NULL = in the file `certificate` */
    const char *pkcs12_file;       /* certificate, key and chain in one PKCS#12 file, in place of the two above */
    const char *key_password;      /* of private_key or pkcs12_file */
    const char *server_name;       /* whose certificate to expect, in place of the host that is dialled: behind a balancer */
    coney_tls_version min_version; /* older peers are refused */
    bool skip_host_name;           /* DANGER: takes the certificate of any host that a trusted CA signed */
    bool skip_verification;        /* DANGER: takes any certificate, so that whoever answers can read and change everything */
    uint8_t padding[2];
    uint64_t reserved[4];
} coney_tls_options;

#ifdef __cplusplus
}
#endif

#endif
