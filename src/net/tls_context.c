/* tls_context.c: certificates and keys from their files into an OpenSSL context, with a sentence for each way in which a
 * file is wrong. */
#include "net/tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <stdio.h>
#include <string.h>

#define READ_BUFFER ((size_t)64 << 10)

struct loading {
    const coney_tls_options *options;
    SSL_CTX *context;
    bool asked_for_password;
    coney_status status;
    char *error;
    size_t error_cap;
};

static bool __attribute__((format(printf, 2, 3))) complain(struct loading *l, const char *format, ...)
{
    l->status = tls_is_out_of_memory() ? CONEY_ENOMEM : CONEY_ETLS;
    va_list args;
    va_start(args, format);
    text_vprint(l->error, l->error_cap, format, args);
    va_end(args);
    return false;
}

/* NULL, with the reason told, when the file cannot be read. `option` names it. */
static BIO *open_file(struct loading *l, const char *option, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        char words[128];
        text_errno(words, sizeof words, errno);
        complain(l, "%s '%s' cannot be read: %s", option, path, words);
        return NULL;
    }
    BIO *bio = BIO_new_fp(file, BIO_CLOSE);
    if (bio == NULL) {
        fclose(file);
        complain(l, "no memory for %s '%s'", option, path);
    }
    return bio;
}

/* OpenSSL would ask on the terminal. */
static int give_password(char *buf, int cap, int writing, void *ctx)
{
    (void)writing;
    struct loading *l = ctx;
    l->asked_for_password = true;
    if (l->options->key_password == NULL)
        return -1;
    size_t len = strlen(l->options->key_password);
    if (len > (size_t)cap)
        return -1;
    memcpy(buf, l->options->key_password, len);
    return (int)len;
}

/* The next certificate of a PEM file, NULL at its end. */
static X509 *next_certificate(BIO *bio)
{
    return PEM_read_bio_X509(bio, NULL, NULL, NULL);
}

static bool reached_end_of_pem(void)
{
    return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
}

/* Trust ---------------------------------------------------------------------------------------------------------- */

static bool trust_certificates_of(struct loading *l, BIO *bio)
{
    const char *path = l->options->ca_file;
    X509_STORE *store = SSL_CTX_get_cert_store(l->context);
    int count = 0;
    for (X509 *certificate; (certificate = next_certificate(bio)) != NULL; count++) {
        bool added = X509_STORE_add_cert(store, certificate) == 1;
        X509_free(certificate);
        if (!added)
            return complain(l, "no memory for the certificates of ca_file '%s'", path);
    }
    if (!reached_end_of_pem())
        return complain(l, "ca_file '%s' is damaged after %d certificates", path, count);
    if (count == 0)
        return complain(l, "ca_file '%s' holds no PEM certificate", path);
    return true;
}

static bool load_trust(struct loading *l)
{
    const coney_tls_options *options = l->options;
    if (options->skip_verification)
        return true;
    if (options->ca_file == NULL && options->ca_path == NULL)
        return tls_trust_system(l->context) ||
               complain(l, "the system's store of trusted certificates cannot be used: set ca_file");
    X509_STORE_set_flags(SSL_CTX_get_cert_store(l->context), X509_V_FLAG_PARTIAL_CHAIN);
    if (options->ca_file != NULL) {
        BIO *bio = open_file(l, "ca_file", options->ca_file);
        bool loaded = bio != NULL && trust_certificates_of(l, bio);
        BIO_free(bio);
        if (!loaded)
            return false;
    }
    return options->ca_path == NULL || SSL_CTX_load_verify_dir(l->context, options->ca_path) == 1 ||
           complain(l, "ca_path '%s' cannot be used", options->ca_path);
}

/* Our own certificate -------------------------------------------------------------------------------------------- */

static bool use_chain_of(struct loading *l, BIO *bio)
{
    const char *path = l->options->certificate;
    X509 *own = next_certificate(bio);
    if (own == NULL)
        return complain(l, reached_end_of_pem() ? "certificate '%s' holds no PEM certificate" : "certificate '%s' is damaged",
                        path);
    bool used = SSL_CTX_use_certificate(l->context, own) == 1;
    X509_free(own);
    if (!used)
        return complain(l, "certificate '%s' cannot be used: %s", path, ERR_reason_error_string(ERR_peek_last_error()));
    for (X509 *above; (above = next_certificate(bio)) != NULL;) {
        if (SSL_CTX_add0_chain_cert(l->context, above) != 1) {
            X509_free(above);
            return complain(l, "certificate '%s' cannot be used: one of the CA certificates in it is refused", path);
        }
    }
    return reached_end_of_pem() || complain(l, "certificate '%s' is damaged after its first certificate", path);
}

static bool use_key(struct loading *l, EVP_PKEY *key, const char *option, const char *path)
{
    if (SSL_CTX_use_PrivateKey(l->context, key) == 1 && SSL_CTX_check_private_key(l->context) == 1)
        return true;
    return complain(l, "the key in %s '%s' is not the key of the certificate: make sure that the two files belong together",
                    option, path);
}

static bool complain_of_key(struct loading *l, const char *option, const char *path)
{
    if (l->asked_for_password && l->options->key_password == NULL)
        return complain(l, "the key in %s '%s' is encrypted: set key_password", option, path);
    if (l->asked_for_password)
        return complain(l, "key_password is not the password of the key in %s '%s'", option, path);
    return complain(l, "%s '%s' holds no PEM key that can be read", option, path);
}

static bool load_pem(struct loading *l)
{
    BIO *bio = open_file(l, "certificate", l->options->certificate);
    bool used = bio != NULL && use_chain_of(l, bio);
    BIO_free(bio);
    if (!used)
        return false;

    bool apart = l->options->private_key != NULL;
    const char *option = apart ? "private_key" : "certificate";
    const char *path = apart ? l->options->private_key : l->options->certificate;
    bio = open_file(l, option, path);
    if (bio == NULL)
        return false;
    ERR_clear_error();
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, give_password, l);
    used = key != NULL ? use_key(l, key, option, path) : complain_of_key(l, option, path);
    EVP_PKEY_free(key);
    BIO_free(bio);
    return used;
}

static bool complain_of_pkcs12(struct loading *l, const char *path)
{
    unsigned long error = ERR_peek_last_error();
    if (ERR_GET_LIB(error) == ERR_LIB_PKCS12 && ERR_GET_REASON(error) == PKCS12_R_MAC_VERIFY_FAILURE)
        return complain(l,
                        l->options->key_password != NULL ? "key_password is not the password of pkcs12_file '%s'"
                                                         : "pkcs12_file '%s' is encrypted: set key_password",
                        path);
    return complain(l, "pkcs12_file '%s' cannot be opened (%s): if it is an old one, make it again with openssl pkcs12 -export",
                    path, ERR_reason_error_string(error));
}

static bool use_pkcs12(struct loading *l, PKCS12 *pkcs12)
{
    const char *path = l->options->pkcs12_file;
    EVP_PKEY *key = NULL;
    X509 *own = NULL;
    STACK_OF(X509) *above = NULL;
    bool used = false;
    if (PKCS12_parse(pkcs12, l->options->key_password, &key, &own, &above) != 1)
        complain_of_pkcs12(l, path);
    else if (key == NULL || own == NULL)
        complain(l, "pkcs12_file '%s' lacks the %s", path, key == NULL ? "key" : "certificate");
    else if (SSL_CTX_use_cert_and_key(l->context, own, key, above, 1) != 1)
        complain(l, "pkcs12_file '%s' cannot be used: %s", path, ERR_reason_error_string(ERR_peek_last_error()));
    else
        used = true;
    EVP_PKEY_free(key);
    X509_free(own);
    sk_X509_pop_free(above, X509_free);
    return used;
}

static bool load_pkcs12(struct loading *l)
{
    const char *path = l->options->pkcs12_file;
    BIO *bio = open_file(l, "pkcs12_file", path);
    if (bio == NULL)
        return false;
    PKCS12 *pkcs12 = d2i_PKCS12_bio(bio, NULL);
    bool used = pkcs12 != NULL ? use_pkcs12(l, pkcs12) : complain(l, "pkcs12_file '%s' is no PKCS#12 file", path);
    PKCS12_free(pkcs12);
    BIO_free(bio);
    return used;
}

static bool load_own_certificate(struct loading *l)
{
    if (l->options->pkcs12_file != NULL)
        return load_pkcs12(l);
    return l->options->certificate == NULL || load_pem(l);
}

static void set_rules(struct loading *l)
{
    SSL_CTX *context = l->context;
    SSL_CTX_set_min_proto_version(context, l->options->min_version == CONEY_TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, READ_BUFFER);
    if (l->options->skip_verification)
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    else
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, tls_refuse_certificate);
}

SSL_CTX *tls_context_new(const coney_tls_options *options, coney_status *status, char *error, size_t error_cap)
{
    ERR_clear_error();
    struct loading l = {.options = options, .error = error, .error_cap = error_cap};
    l.context = SSL_CTX_new(TLS_client_method());
    if (l.context == NULL) {
        complain(&l, "OpenSSL cannot be used: %s", ERR_reason_error_string(ERR_peek_last_error()));
    } else {
        set_rules(&l);
        if (load_trust(&l) && load_own_certificate(&l))
            return l.context;
    }
    SSL_CTX_free(l.context);
    *status = l.status;
    return NULL;
}
