/* tls.h: TLS between a link and its socket: settings that outlive connections, and one connection's handshake, bytes in, bytes
 * out.
 *
 * Knows no loop: its functions do what the socket allows now and answer like recv and sendmsg. Not thread-safe; a connection
 * belongs to its link. Nothing raises SIGPIPE, and nothing ever prompts on a terminal. A record, read or written, costs one small
 * allocation inside OpenSSL (3.0), whatever the number of messages in it.
 */
#ifndef CONEY_NET_TLS_H
#define CONEY_NET_TLS_H

#include <coney/tls.h>

#include "base/pool.h"

#include <sys/types.h>
#include <sys/uio.h>

/* A copy of the user's options: its texts are its own. */
struct tls_settings {
    coney_tls_options options;
};

/* Copies `options` (NULL: all defaults) and checks that they fit together; the files are not looked at before a connection
 * is made. CONEY_OK, CONEY_EINVAL (`error` names the option), CONEY_ENOMEM. After a failure there is nothing to free. */
coney_status tls_settings_read(struct tls_settings *settings, const coney_tls_options *options, char *error, size_t error_cap);

/* Frees the texts, wiping the password, and zeroes the struct. A struct of zeros is harmless. */
void tls_settings_free(struct tls_settings *settings);

struct tls; /* one connection */

/* TLS over `fd`, a connected non-blocking socket that stays the caller's. `host`: the name or literal address that was
 * dialled. Reads the files that the settings name. NULL: *status is CONEY_ETLS or CONEY_ENOMEM, and `error` says which file,
 * what is wrong and what to do. */
struct tls *tls_new(const struct tls_settings *settings, const char *host, int fd, struct pool *pool, coney_status *status,
                    char *error, size_t error_cap);

/* Frees it without a word to the peer. NULL is harmless. The socket is left alone. */
void tls_free(struct tls *tls);

/* Goes on with the handshake. True when it is done. False: errno is EAGAIN (the socket's next readiness goes on), EPROTO
 * (tls_failure says why), or what the socket said; EPIPE when the peer closed it. */
bool tls_handshake(struct tls *tls);

/* Like recv: bytes; 0 when the peer said its goodbye; -1 with errno EAGAIN only when nothing is left, inside TLS as well as
 * in the socket; ECONNABORTED for an end without a goodbye; EPROTO (tls_failure says why); or what the socket said. */
ssize_t tls_read(struct tls *tls, void *data, size_t cap);

/* Like sendmsg: takes as many bytes as fit one record, copies them, and returns how many. What the socket did not take waits
 * inside (tls_has_output), and is written before anything else is taken. -1 with errno EAGAIN, EPROTO or what the socket
 * said; after a failed write the connection can still be read. */
ssize_t tls_write(struct tls *tls, const struct iovec *slices, size_t count);

/* Bytes wait inside for the socket: tls_write with a count of 0 writes them. */
bool tls_has_output(const struct tls *tls);

/* Bytes came in since tls_read last answered EAGAIN (a write may have to read first): the socket will not tell of them
 * again. */
bool tls_has_input(const struct tls *tls);

/* Says goodbye, as far as the socket takes it now. */
void tls_goodbye(struct tls *tls);

/* After EPROTO: CONEY_ETLS or CONEY_ENOMEM, and a sentence in *text, which lives as long as `tls`. */
coney_status tls_failure(const struct tls *tls, const char **text);

#endif
