/* tls.c: one connection: OpenSSL over a socket by a BIO of its own, so that send never raises SIGPIPE and what the socket
 * said is known. */
#include "net/tls_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RECORD (((size_t)16 << 10) - sizeof(struct block)) /* plain bytes of a record at most: a block of 16 KiB */

/* The socket ----------------------------------------------------------------------------------------------------- */

/* A send that fails for good is told to OpenSSL as "try later" too: it then still reads what the peer said before. */
static int send_bytes(BIO *bio, const char *data, int len)
{
    struct tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t sent;
    do
        sent = send(tls->fd, data, (size_t)len, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return (int)sent;
    tls->send_error = errno;
    BIO_set_retry_write(bio);
    return -1;
}

static void note_first(struct tls *tls, const char *data, size_t len)
{
    size_t room = sizeof tls->first - tls->first_len;
    size_t taken = len < room ? len : room;
    memcpy(tls->first + tls->first_len, data, taken);
    tls->first_len += taken;
}

static int receive_bytes(BIO *bio, char *data, int cap)
{
    struct tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t got;
    do
        got = recv(tls->fd, data, (size_t)cap, 0);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        tls->unread = true;
        note_first(tls, data, (size_t)got);
    } else if (got == 0) {
        tls->ended = true;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        BIO_set_retry_read(bio);
    } else {
        tls->recv_error = errno;
    }
    return (int)got;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *socket_method;

/* A program may exit while a loop of ours runs on: OpenSSL must not be torn down under it. */
static void prepare(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (socket_method == NULL)
        return;
    BIO_meth_set_write(socket_method, send_bytes);
    BIO_meth_set_read(socket_method, receive_bytes);
    BIO_meth_set_ctrl(socket_method, control);
}

static bool attach_socket(struct tls *tls)
{
    BIO *bio = socket_method != NULL ? BIO_new(socket_method) : NULL;
    if (bio == NULL)
        return false;
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    return true;
}

/* Birth and end -------------------------------------------------------------------------------------------------- */

/* Whose certificate is expected: without the zone of an IPv6 address and the dot at the end of a full name. */
static void note_expected(struct tls *tls, const char *name)
{
    bool is_ipv6 = strchr(name, ':') != NULL;
    size_t len = is_ipv6 ? strcspn(name, "%") : strlen(name);
    if (!is_ipv6 && len > 1 && name[len - 1] == '.')
        len--;
    text_print(tls->expected, sizeof tls->expected, "%.*s", (int)(len < sizeof tls->expected ? len : sizeof tls->expected),
               name);
}

static bool is_address(const char *name)
{
    uint8_t address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* Names go into SNI, addresses do not; both are checked against the certificate's alternative names, never against its
 * subject. */
static bool expect_name(struct tls *tls, bool skip_check)
{
    X509_VERIFY_PARAM *rules = SSL_get0_param(tls->ssl);
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (is_address(tls->expected))
        return skip_check || X509_VERIFY_PARAM_set1_ip_asc(rules, tls->expected) == 1;
    return SSL_set_tlsext_host_name(tls->ssl, tls->expected) == 1 &&
           (skip_check || X509_VERIFY_PARAM_set1_host(rules, tls->expected, 0) == 1);
}

static void note_trusted(struct tls *tls, const coney_tls_options *options)
{
    if (options->ca_file != NULL)
        text_append(tls->trusted, sizeof tls->trusted, "ca_file '%s'", options->ca_file);
    if (options->ca_path != NULL)
        text_append(tls->trusted, sizeof tls->trusted, "%sca_path '%s'", options->ca_file != NULL ? " or " : "",
                    options->ca_path);
    if (tls->trusted[0] == '\0')
        text_print(tls->trusted, sizeof tls->trusted, "the system's store");
}

struct tls *tls_new(const struct tls_settings *settings, const char *host, int fd, struct pool *pool, coney_status *status,
                    char *error, size_t error_cap)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare); /* before anything else of OpenSSL's */
    const coney_tls_options *options = &settings->options;
    SSL_CTX *context = tls_context_new(options, status, error, error_cap);
    if (context == NULL)
        return NULL;
    struct tls *tls = calloc(1, sizeof *tls);
    if (tls != NULL)
        tls->ssl = SSL_new(context);
    SSL_CTX_free(context);
    if (tls == NULL || tls->ssl == NULL || !attach_socket(tls)) {
        tls_free(tls);
        *status = CONEY_ENOMEM;
        text_print(error, error_cap, "no memory for TLS");
        return NULL;
    }
    tls->fd = fd;
    tls->pool = pool;
    tls->has_certificate = options->certificate != NULL || options->pkcs12_file != NULL;
    note_trusted(tls, options);
    note_expected(tls, options->server_name != NULL ? options->server_name : host);
    SSL_set_app_data(tls->ssl, tls);
    if (!expect_name(tls, options->skip_host_name)) {
        *status = CONEY_ETLS;
        text_print(error, error_cap, "'%s' cannot be the name of a TLS server", tls->expected);
        tls_free(tls);
        return NULL;
    }
    return tls;
}

void tls_free(struct tls *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    block_unref(tls->record);
    free(tls);
}

/* Bytes ---------------------------------------------------------------------------------------------------------- */

/* What a call of OpenSSL that did not succeed means, as errno; 0: the peer has said its goodbye. */
static int trouble(struct tls *tls)
{
    switch (SSL_get_error(tls->ssl, 0)) {
    case SSL_ERROR_WANT_READ:
        return EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        return tls->send_error;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    }
    if (tls->recv_error != 0)
        return tls->recv_error;
    if (tls->ended)
        return SSL_is_init_finished(tls->ssl) ? ECONNABORTED : EPIPE;
    tls_explain(tls);
    return EPROTO;
}

bool tls_handshake(struct tls *tls)
{
    ERR_clear_error();
    if (SSL_connect(tls->ssl) == 1)
        return true;
    int error = trouble(tls);
    errno = error != 0 ? error : EPIPE;
    return false;
}

ssize_t tls_read(struct tls *tls, void *data, size_t cap)
{
    size_t got = 0;
    ERR_clear_error();
    if (SSL_read_ex(tls->ssl, data, cap, &got) == 1)
        return (ssize_t)got;
    int error = trouble(tls);
    tls->unread = false;
    errno = error;
    return error == 0 ? 0 : -1;
}

bool tls_has_input(const struct tls *tls)
{
    return tls->unread;
}

/* True when all of the record is with the kernel. */
static bool write_record(struct tls *tls)
{
    ERR_clear_error();
    while (tls->record_at < tls->record_len) {
        size_t written = 0;
        const uint8_t *at = tls->record->data + tls->record_at;
        if (SSL_write_ex(tls->ssl, at, tls->record_len - tls->record_at, &written) != 1) {
            int error = trouble(tls);
            errno = error != 0 ? error : EPIPE;
            return false;
        }
        tls->record_at += written;
    }
    block_unref(tls->record);
    tls->record = NULL;
    tls->record_at = tls->record_len = 0;
    return true;
}

static void gather_record(struct tls *tls, const struct iovec *slices, size_t count)
{
    for (size_t i = 0; i < count && tls->record_len < RECORD; i++) {
        size_t room = RECORD - tls->record_len;
        size_t len = slices[i].iov_len < room ? slices[i].iov_len : room;
        if (len > 0)
            memcpy(tls->record->data + tls->record_len, slices[i].iov_base, len);
        tls->record_len += len;
    }
}

ssize_t tls_write(struct tls *tls, const struct iovec *slices, size_t count)
{
    if (tls->record != NULL && !write_record(tls))
        return -1;
    if (count == 0)
        return 0;
    tls->record = block_get(tls->pool, RECORD);
    if (tls->record == NULL) {
        errno = ENOMEM;
        return -1;
    }
    gather_record(tls, slices, count);
    ssize_t taken = (ssize_t)tls->record_len;
    bool waits = !write_record(tls) && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM);
    return tls->record == NULL || waits ? taken : -1;
}

bool tls_has_output(const struct tls *tls)
{
    return tls->record != NULL;
}

void tls_goodbye(struct tls *tls)
{
    if (tls->status != CONEY_OK || (tls->record != NULL && !write_record(tls)))
        return;
    ERR_clear_error();
    SSL_shutdown(tls->ssl);
}

coney_status tls_failure(const struct tls *tls, const char **text)
{
    *text = tls->text;
    return tls->status;
}
