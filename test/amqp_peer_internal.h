/* amqp_peer_internal.h: what the files of the scripted AMQP broker share: amqp_peer.c (life, frames), amqp_peer_script.c (rules, pushes, faults,
 * waits), amqp_peer_broker.c (how a broker answers) and amqp_peer_traffic.c (what is published and delivered). Everything here is touched with the
 * burrow's lock held. */
#ifndef CONEY_TEST_AMQP_PEER_INTERNAL_H
#define CONEY_TEST_AMQP_PEER_INTERNAL_H

#include "amqp_peer.h"
#include "proto/amqp091/assembler.h"

/* One delivery. */
struct handout {
    uint8_t fate;   /* enum amqp_peer_fate */
    int64_t queued; /* its number in the feed, or -1 */
};

struct channel {
    bool closing; /* our close is out: only its answer counts */
    bool confirms;
    bool transacts;
    uint16_t prefetch;
    size_t published;
    struct handout *deliveries; /* by tag, from 1 */
    size_t delivery_count, delivery_cap;
    size_t out;      /* deliveries that are AMQP_PEER_OUT, none of them before `out_from` */
    size_t out_from; /* an index */
    struct amqp_assembler assembler;
    uint8_t *content; /* what is being put together */
    struct entry *publish;
};

struct connection {
    struct burrow_connection base;
    bool greeted;
    bool opened;
    bool closing; /* connection.close is out */
    uint32_t frame_max;
    char name[300];
    struct channel **channels; /* by number; NULL: not open */
    size_t channel_cap;
};

struct consumer {
    struct amqp_peer_place place;
    char tag[256];
    char queue[256];
    bool no_ack;
};

struct entry {
    struct burrow_entry base;
    struct amqp_peer_record record;
    uint8_t bytes[];
};

struct message {
    struct amqp_peer_message message;
    uint8_t *unit; /* owned: what it consists of */
};

struct feed {
    char queue[256];
    size_t count;
    size_t low; /* none before it waits */
    struct {
        uint8_t fate; /* AMQP_PEER_REQUEUED: it waits */
        uint8_t times;
        uint8_t acks;
    } * all;
};

struct amqp_peer {
    struct burrow burrow;
    bool nonsense_allowed;
    char uri[128];
    char version[32];
    char mechanisms[128];
    struct amqp_connection_tune tune;
    unsigned names_made; /* of queues and consumers */
    bool confirm_by_hand;
    struct consumer *consumers;
    size_t consumer_count, consumer_cap;
    struct message *messages;
    size_t message_count, message_cap;
    size_t confirm_next; /* no unsettled message of a live channel lies before it */
    size_t fates[AMQP_PEER_FATES];
    struct feed feed;
};

static inline struct amqp_peer *peer_of(struct burrow *burrow)
{
    return (struct amqp_peer *)burrow;
}

/* NULL when it is over. */
struct connection *amqp_peer_connection_at(struct amqp_peer *peer, int connection);

/* NULL when it is not open. */
struct channel *amqp_peer_channel_at(struct amqp_peer *peer, int connection, uint16_t number);
struct channel *amqp_peer_channel_open(struct amqp_peer *peer, int connection, uint16_t number);

/* It is gone, with its consumers and what was delivered on it. */
void amqp_peer_channel_end(struct amqp_peer *peer, int connection, uint16_t number);

/* amqp_peer_broker.c. */
void amqp_peer_treat_entry(struct burrow *burrow, struct burrow_entry *entry);
void amqp_peer_answer(struct burrow *burrow, const struct burrow_rule *rule, struct burrow_entry *entry);

/* amqp_peer_traffic.c: the broker's part in what is published, consumed and settled. */
void amqp_peer_take_message(struct amqp_peer *peer, struct entry *publish, uint8_t *unit, size_t len);
void amqp_peer_treat_publish(struct amqp_peer *peer, const struct amqp_peer_record *record);
void amqp_peer_treat_consume(struct amqp_peer *peer, const struct amqp_peer_record *record);
void amqp_peer_treat_cancel(struct amqp_peer *peer, const struct amqp_peer_record *record);
const char *amqp_peer_settle(struct amqp_peer *peer, const struct amqp_peer_record *record);
void amqp_peer_forget_place(struct amqp_peer *peer, struct amqp_peer_place place, struct channel *channel);
void amqp_peer_pump_feed(struct amqp_peer *peer);

/* What is wrong with consuming there; NULL: nothing. */
const char *amqp_peer_check_consume(const struct amqp_peer *peer, const struct amqp_peer_record *record);

#endif
