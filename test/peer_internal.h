/* peer_internal.h: what the files of the scripted peer share: peer.c (life, thread, sockets), peer_script.c (rules, pushes,
 * faults), peer_wait.c (waits), peer_broker.c (how a broker answers) and peer_traffic.c (what it publishes and delivers). Everything here is
 * touched with peer->mutex held, which is recursive so that a script's function may call all of peer.h. */
#ifndef CONEY_TEST_PEER_INTERNAL_H
#define CONEY_TEST_PEER_INTERNAL_H

#include "peer.h"

enum { PEER_NAME_BYTES = 300, PEER_NODES = 8 };

struct connection {
    int fd;       /* -1: it is over */
    bool mute;    /* what arrives is recorded and nothing more */
    bool stopped; /* nothing is read */
    bool closing; /* ends when `out` is written */
    bool opened;  /* Open was answered */
    uint16_t deliver_version;
    uint8_t *in;
    size_t in_len;
    size_t in_cap;
    uint8_t *out;
    size_t out_len;
    size_t out_cap;
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

enum action { ACTION_ANSWER, ACTION_IGNORE, ACTION_CUT, ACTION_HOLD, ACTION_RAW, ACTION_CALL };

struct rule {
    uint16_t key;
    int nth;
    int seen;
    enum action action;
    uint16_t code;
    enum peer_cut how;
    uint8_t *raw;
    size_t raw_len;
    peer_fn fn;
    void *ctx;
};

struct entry {
    struct peer_record record;
    bool held;
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
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    int listener; /* bound in any case; listening unless down */
    int wake;
    bool down;
    bool stopping;
    bool frozen;
    bool accept_mute;
    bool nonsense_allowed;
    char host[64];
    uint16_t port;
    char uri[128];
    char address[96];

    struct connection *connections;
    size_t connection_count, connection_cap;
    struct entry **log;
    size_t log_count, log_cap;
    size_t expected[64]; /* by key: where peer_expect goes on */
    size_t counts[64];   /* by key: commands so far */
    struct rule *rules;
    size_t rule_count, rule_cap;
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

    int64_t every;
    int64_t every_due;
    void (*every_fn)(void *ctx, struct peer *peer);
    void *every_ctx;
};

void peer_lock(struct peer *peer);
void peer_unlock(struct peer *peer);

/* Has the thread look again at what is to be done, and waiters at what has happened. */
void peer_wake(struct peer *peer);

/* Room for one more element of an array. */
void *peer_grow(void *array, size_t count, size_t *cap, size_t element);

/* True when a record is what peer_expect and the rules look at: a command, or the answer to Tune or ConsumerUpdate. */
bool peer_is_command(const struct peer_record *record);

/* NULL when the connection is over. */
struct connection *peer_connection(struct peer *peer, int connection);

/* Sockets: opens the listener, at peer->port if that is set; ends a connection. */
void peer_bind(struct peer *peer);
void peer_end(struct peer *peer, int connection, enum peer_cut how);

/* Records a frame, without its size field, and treats it by the rules. */
void peer_frame_arrived(struct peer *peer, int connection, const uint8_t *body, size_t len);

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
