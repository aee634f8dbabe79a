/* tls_peer.c: OpenSSL between two memory BIOs. */
#include "tls_peer.h"

#include "support.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>

static SSL_CTX *context_of(const struct tls_peer_options *options)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_security_level(context, 0); /* so that it can speak what is too old */
    SSL_CTX_set_min_proto_version(context, options->min_version);
    SSL_CTX_set_max_proto_version(context, options->max_version);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(context, options->certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(context, options->private_key, SSL_FILETYPE_PEM), 1);
    if (options->client_ca != NULL) {
        assert_int_equal(SSL_CTX_load_verify_file(context, options->client_ca), 1);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    return context;
}

void tls_peer_start(struct tls_peer *peer, int fd, const struct tls_peer_options *options)
{
    SSL_CTX *context = context_of(options);
    *peer = (struct tls_peer){.ssl = SSL_new(context), .fd = fd};
    SSL_CTX_free(context);
    peer->from_socket = BIO_new(BIO_s_mem());
    peer->to_socket = BIO_new(BIO_s_mem());
    SSL_set_bio(peer->ssl, peer->from_socket, peer->to_socket);
    SSL_set_accept_state(peer->ssl);
    int one = 1; /* what a pump sends leaves at once */
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
}

void tls_peer_free(struct tls_peer *peer)
{
    SSL_free(peer->ssl);
    *peer = (struct tls_peer){.fd = -1};
}

void tls_peer_take(struct tls_peer *peer)
{
    char bytes[16 << 10];
    size_t cap = peer->at_once > 0 && peer->at_once < sizeof bytes ? peer->at_once : sizeof bytes;
    ssize_t got;
    do {
        got = recv(peer->fd, bytes, cap, 0);
        if (got > 0)
            BIO_write(peer->from_socket, bytes, (int)got);
        else if (got == 0 || errno != EAGAIN)
            peer->ended = true;
    } while (got > 0 && peer->at_once == 0);
}

static void give(struct tls_peer *peer)
{
    char *bytes;
    long have = BIO_get_mem_data(peer->to_socket, &bytes);
    size_t len = peer->at_once > 0 && (size_t)have > peer->at_once ? peer->at_once : (size_t)have;
    ssize_t sent = len > 0 ? send(peer->fd, bytes, len, MSG_NOSIGNAL) : 0;
    char gone[16 << 10];
    for (ssize_t left = sent; left > 0;)
        left -= BIO_read(peer->to_socket, gone, (int)(left < (ssize_t)sizeof gone ? left : (ssize_t)sizeof gone));
}

bool tls_peer_pump(struct tls_peer *peer)
{
    tls_peer_take(peer);
    ERR_clear_error();
    bool done = SSL_do_handshake(peer->ssl) == 1;
    give(peer);
    return done;
}

void tls_peer_write(struct tls_peer *peer, const void *data, size_t len)
{
    assert_int_equal(SSL_write(peer->ssl, data, (int)len), (int)len);
}

size_t tls_peer_read(struct tls_peer *peer, void *data, size_t cap)
{
    if (peer->ssl == NULL)
        return 0; /* nobody has connected yet */
    ERR_clear_error();
    int got = SSL_read(peer->ssl, data, (int)cap);
    return got > 0 ? (size_t)got : 0;
}

bool tls_peer_heard_goodbye(const struct tls_peer *peer)
{
    return (SSL_get_shutdown(peer->ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
}

const char *tls_peer_asked_name(const struct tls_peer *peer)
{
    return SSL_get_servername(peer->ssl, TLSEXT_NAMETYPE_host_name);
}
