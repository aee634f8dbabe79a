/* tls_peer.h: the broker's side of one TLS connection, pumped by the test: it takes ciphertext from a socket and puts it there,
 * as many bytes at a time as the test says, and never waits.
 */
#ifndef CONEY_TEST_TLS_PEER_H
#define CONEY_TEST_TLS_PEER_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tls_peer_options {
    const char *certificate; /* PEM files */
    const char *private_key;
    const char *client_ca; /* asks for a client certificate, and refuses to go on without one */
    int min_version;       /* TLS1_2_VERSION …; 0 = what OpenSSL likes */
    int max_version;
};

struct tls_peer {
    SSL *ssl;
    BIO *from_socket;
    BIO *to_socket;
    int fd;
    size_t at_once; /* bytes of ciphertext that one pump moves each way; 0 = all */
    bool ended;     /* the client's end was met */
};

/* Over `fd`, a connected non-blocking socket that stays the test's. */
void tls_peer_start(struct tls_peer *peer, int fd, const struct tls_peer_options *options);
void tls_peer_free(struct tls_peer *peer);

/* Moves ciphertext both ways and goes on with the handshake. True when that is done. */
bool tls_peer_pump(struct tls_peer *peer);

/* Takes ciphertext from the socket, and nothing else. */
void tls_peer_take(struct tls_peer *peer);

/* Plain bytes, as one record when they fit one; a pump sends it. */
void tls_peer_write(struct tls_peer *peer, const void *data, size_t len);

/* Plain bytes that are there, 0 when none are. */
size_t tls_peer_read(struct tls_peer *peer, void *data, size_t cap);

/* True when the client has said goodbye (close_notify) before its end. */
bool tls_peer_heard_goodbye(const struct tls_peer *peer);

/* The name that the client asked for by SNI; NULL when it gave none. */
const char *tls_peer_asked_name(const struct tls_peer *peer);

#endif
