/* tls_internal.h: what the files of TLS share: tls_settings.c (options), tls_context.c (files), tls_store.c
 * (the system's store), tls.c (a connection), tls_reason.c (sentences). The only header that shows OpenSSL.
 */
#ifndef CONEY_NET_TLS_INTERNAL_H
#define CONEY_NET_TLS_INTERNAL_H

#include "base/text.h"
#include "net/tls.h"

#include <openssl/ssl.h>

struct tls {
    SSL *ssl;
    int fd;
    struct pool *pool;
    int send_error;   /* errno of the last send that did not take all */
    int recv_error;   /* errno of a recv that failed for good */
    bool ended;       /* recv has met the end */
    bool unread;      /* bytes were received since tls_read last found nothing */
    uint8_t first[4]; /* what the peer began with */
    size_t first_len;
    struct block *record; /* [record_at, record_len) is on its way through OpenSSL; NULL = nothing is */
    size_t record_at;
    size_t record_len;

    bool has_certificate; /* of our own, to show */
    char expected[256];   /* whose certificate it has to be */
    char trusted[256];    /* where trust comes from: "the system's store", "ca_file 'x'" */
    coney_status status;  /* CONEY_OK until it failed */
    char text[512];
};

/* tls_context.c: a context from the files that the options name. NULL: *status and `error` as tls_new has them. */
SSL_CTX *tls_context_new(const coney_tls_options *options, coney_status *status, char *error, size_t error_cap);

/* tls_store.c: makes the context trust whom the system trusts. False: the store cannot be read. Any thread. */
bool tls_trust_system(SSL_CTX *context);

/* tls_reason.c: why a certificate was refused, called by OpenSSL's verification; the sentence stays in tls->text. Never
 * accepts one. */
int tls_refuse_certificate(int good, X509_STORE_CTX *store);

/* Puts status and sentence for what OpenSSL has just reported into `tls`; keeps a sentence that is there. */
void tls_explain(struct tls *tls);

/* True when memory was out, by OpenSSL's queue of errors. */
bool tls_is_out_of_memory(void);

#endif
