/* peer_internal.h: what the files of the scripted stream broker share: peer.c (life, frames), peer_script.c (rules, pushes, faults, waits),
 * peer_broker.c (how a broker answers) and peer_traffic.c (what it publishes and delivers). Everything here is touched with the burrow's lock held.
 */
#ifndef CONEY_TEST_PEER_INTERNAL_H
#define CONEY_TEST_PEER_INTERNAL_H

#include "peer.h"

enum { PEER_NAME_BYTES = 300, PEER_NODES = 8 };

struct connection {
    struct burrow_connection base;
    bool opened; /* Open was answered */
    uint16_t deliver_version;
};

struct publisher {
    int connection;
    uint8_t id;
    bool live;
    char stream[PEER_NAME_BYTES];
    char reference[PEER_NAME_BYTES];
};

struct subscription {
    int connection;
    uint8_t id;
    bool live;
    int64_t credit;
    char stream[PEER_NAME_BYTES];
};

enum named_kind { NAMED_STREAM, NAMED_SEQUENCE, NAMED_OFFSET };

/* A number that the broker knows under a name: a stream's code, a publisher's sequence, a consumer's offset. */
struct named {
    enum named_kind kind;
    char stream[PEER_NAME_BYTES];
    char reference[PEER_NAME_BYTES];
    uint64_t value;
};

struct entry {
    struct burrow_entry base;
    struct peer_record record;
    uint8_t bytes[];
};

struct feed {
    char stream[PEER_NAME_BYTES];
    uint64_t first;
    uint64_t next;
    uint64_t end;
    size_t count; /* 0: there is no feed */
};

struct peer {
    struct burrow burrow;
    bool nonsense_allowed;
    char uri[128];

    struct publisher **publishers;
    size_t publisher_count, publisher_cap;
    struct subscription *subscriptions;
    size_t subscription_count, subscription_cap;
    struct named *names;
    size_t name_count, name_cap;
    struct peer_message *messages;
    size_t message_count, message_cap;
    size_t confirm_next; /* no unsettled message of a live publisher lies before it */
    bool confirm_by_hand;

    char version[32];
    uint32_t frame_max;
    uint32_t heartbeat;
    struct {
        char host[256];
        uint16_t port;
    } nodes[PEER_NODES];
    size_t node_count; /* 0: itself */
    int leader;
    char advertised_host[256]; /* "": itself */
    uint16_t advertised_port;
    uint64_t resolved;
    struct feed feed;

    void (*every_fn)(void *ctx, struct peer *peer);
    void *every_ctx;
};

static inline struct peer *stream_peer_of(struct burrow *burrow)
{
    return (struct peer *)burrow;
}

/* NULL when the connection is over. */
struct connection *peer_connection(struct peer *peer, int connection);

/* Its rules, where it answers with a code. */
void peer_rule_answer(struct burrow *burrow, const struct burrow_rule *rule, struct burrow_entry *entry);

/* The broker: the connection's publishers and subscriptions are gone. */
void peer_forget_connection(struct peer *peer, int connection);

/* Names. peer_named_find gives NULL for what nobody has set. */
void peer_name_copy(char out[PEER_NAME_BYTES], coney_bytes name);
bool peer_name_is(const char *name, coney_bytes bytes);
coney_bytes peer_text(const char *string);
struct named *peer_named_find(struct peer *peer, enum named_kind kind, coney_bytes stream, coney_bytes reference);
struct named *peer_named_set(struct peer *peer, enum named_kind kind, coney_bytes stream, coney_bytes reference,
                             uint64_t value);
uint16_t peer_stream_code(struct peer *peer, coney_bytes stream);

/* How single commands are treated. */
void peer_treat_declare_publisher(struct peer *peer, const struct peer_record *record);
void peer_treat_delete_publisher(struct peer *peer, const struct peer_record *record);
void peer_treat_query_sequence(struct peer *peer, const struct peer_record *record);
void peer_treat_publish(struct peer *peer, const struct peer_record *record);
void peer_treat_subscribe(struct peer *peer, const struct peer_record *record);
void peer_treat_unsubscribe(struct peer *peer, const struct peer_record *record);
void peer_treat_credit(struct peer *peer, const struct peer_record *record);
void peer_treat_store_offset(struct peer *peer, const struct peer_record *record);
void peer_treat_query_offset(struct peer *peer, const struct peer_record *record);

#endif
