/* peer.h: brokers that know nothing and cost nothing, for counting what a client spends on a message. What they send depends on
 * nothing but what they were asked, so two runs of a client differ only by the client.
 *
 * Each prints {"port": N}, then serves 127.0.0.1:N until it is killed, a process for each connection.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "measure.h"
#include "wire.h"

/* What is made of a connection; it ends when the client has gone. */
struct service {
    void (*serve)(struct service *service, struct wire *wire);
    uint16_t port;
};

/* Never returns. Sets the port before the first connection. */
__attribute__((noreturn)) void serve_connections(struct service *service);

/* Adds what has arrived to the buffer. False when the client has gone. */
bool wire_receive(struct wire *w);

/* The stream protocol. Every request is answered with OK, every stream exists and has its leader here. A Publish frame is
 * confirmed at once by one PublishConfirm. A subscription is sent --count messages of --size bytes in chunks of --frame, as
 * credit allows, and then nothing. */
void peer_stream(const struct options *options);

/* AMQP 0-9-1. Every method is answered with its -ok. Publishes are confirmed by one ack for each --frame (128) of them, and for what
 * is left when nothing comes any more: RabbitMQ itself sends one for 200 on a classic queue, one for 100 on a quorum queue. The
 * first consumer of a connection is sent --count messages of --size bytes, --frame at a time, as soon as the prefetch has room for
 * so many, and then nothing. With --json 1 they are orders. */
void peer_amqp(const struct options *options);

#endif
