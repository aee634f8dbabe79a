/* scissors.h: forwards bytes between stream clients and a node, and cuts a connection between two bytes of its choice. It knows
 * nothing of frames; for faults of whole frames see proxy.h.
 *
 *     struct scissors *scissors = scissors_start(node.stream_port);
 *     coney_stream_env_options options = {.resolve_address = scissors_resolve, .resolver_ctx = scissors};
 *     scissors_cut_after(scissors, true, 70000);     // the 70,000th byte to a client is its connection's last one
 *
 * Any thread. A failure to start fails the test.
 */
#ifndef CONEY_TEST_SCISSORS_H
#define CONEY_TEST_SCISSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scissors;

/* Leads from a free port of 127.0.0.1 to this one. */
struct scissors *scissors_start(uint16_t port);

/* Cuts everything and frees. NULL there is harmless. */
void scissors_stop(struct scissors **scissors);

/* "rabbitmq-stream://127.0.0.1:PORT", and a coney_stream_resolver_fn that leads every node there. */
const char *scissors_uri(const struct scissors *scissors);
void scissors_resolve(void *ctx, char *host, size_t host_cap, uint16_t *port);

/* Counts bytes of this direction over all connections from here on; the one that carries the n-th is cut behind it. */
void scissors_cut_after(struct scissors *scissors, bool to_client, uint64_t bytes);

/* Ends every connection now. */
void scissors_cut_all(struct scissors *scissors);

/* How many cuts there were. */
size_t scissors_cuts(struct scissors *scissors);

#endif
