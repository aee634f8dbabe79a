/* proxy.h: a TCP proxy between clients and a broker (a real one or a scripted peer) that makes faults.
 *
 * It stores and forwards whole frames of the stream protocol, so that it can drop, change or count them; started with
 * proxy_start_bytes it forwards the bytes of any protocol as they come. Stream nodes are reached by what metadata says of them, so
 * let the environment come back through the proxy:
 *
 *     struct proxy *proxy = proxy_start("127.0.0.1", port);
 *     coney_stream_env_options options = {.resolve_address = proxy_resolve, .resolver_ctx = proxy};
 *     coney_stream_env *env = coney_stream_env_open(proxy_uri(proxy), &options, NULL);
 *     proxy_cut(proxy, PROXY_RST);
 *
 * Any thread. Faults count from the moment of the call and over all connections. A failure to start fails the test.
 */
#ifndef CONEY_TEST_PROXY_H
#define CONEY_TEST_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy;

enum proxy_direction { PROXY_TO_BROKER = 0, PROXY_TO_CLIENT = 1 };
enum proxy_cut { PROXY_FIN, PROXY_RST };

enum proxy_door {
    PROXY_ACCEPTS,
    PROXY_REFUSES,   /* nothing listens */
    PROXY_STAYS_MUTE /* accepts and reads, but neither dials the broker nor answers */
};

/* Listens on 127.0.0.1 at a free port. `host` may be a name. */
struct proxy *proxy_start(const char *host, uint16_t port);
struct proxy *proxy_start_bytes(const char *host, uint16_t port);

/* Cuts everything and frees. NULL there is harmless. */
void proxy_stop(struct proxy **proxy);

uint16_t proxy_port(const struct proxy *proxy);

/* "rabbitmq-stream://127.0.0.1:PORT". */
const char *proxy_uri(const struct proxy *proxy);

/* A coney_stream_resolver_fn: leads every node to this proxy, which is `ctx`. */
void proxy_resolve(void *ctx, char *host, size_t host_cap, uint16_t *port);

/* Holds each frame back for so long, both ways. 0 = not at all; what is on its way keeps its time. */
void proxy_delay(struct proxy *proxy, int64_t ms);

/* Writes at most so many bytes at a time, both ways. 0 = as many as there are. */
void proxy_split(struct proxy *proxy, size_t bytes);

/* Ends every connection, both sides. */
void proxy_cut(struct proxy *proxy, enum proxy_cut how);

/* Half-open: while it holds, whatever comes is read and thrown away, and the ends are kept open. */
void proxy_swallow(struct proxy *proxy, bool swallow);

/* What happens to connections that come from now on. */
void proxy_set_door(struct proxy *proxy, enum proxy_door door);

/* Throws the next `count` frames of a direction away. */
void proxy_drop(struct proxy *proxy, enum proxy_direction direction, size_t count);

/* Inverts the byte at this offset of a direction's bytes, 0 = the next byte that arrives. */
void proxy_corrupt(struct proxy *proxy, enum proxy_direction direction, uint64_t offset);

/* Flips a bit in the data of the next `count` chunks that hold any. */
void proxy_corrupt_chunks(struct proxy *proxy, size_t count);

/* Turns the next `count` PublishConfirms into PublishErrors with this code, all their ids. The broker has stored those. */
void proxy_refuse_confirms(struct proxy *proxy, size_t count, uint16_t code);

/* A slow reader: takes at most so many bytes a second from a direction's sender. 0 = no limit, PROXY_NOTHING = none at all. */
#define PROXY_NOTHING (-1)
void proxy_limit(struct proxy *proxy, enum proxy_direction direction, int64_t bytes_a_second);

#endif
