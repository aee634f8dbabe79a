/* burrow.h: what scripted brokers have alike, whatever they speak: a port, a thread, connections with their bytes, faults; a log of what
 * arrived, rules for it, and waiting. For peer.c (streams) and amqp_peer.c (AMQP 0-9-1).
 *
 * A broker's struct begins with a struct burrow, those of its connections and of its log with theirs. Everything in them is touched with the
 * lock held, which is recursive, so that a script's function may call whatever there is. The functions take it themselves unless they say
 * otherwise.
 */
#ifndef CONEY_TEST_BURROW_H
#define CONEY_TEST_BURROW_H

#include "support.h"

enum peer_cut { PEER_FIN, PEER_RST };

enum {
    PEER_EVERY = 0, /* of a rule: each time */
    PEER_ALL = -1   /* of a connection: each of them */
};

struct burrow;

struct burrow_connection {
    int fd;       /* -1: it is over */
    bool mute;    /* what arrives is recorded and nothing more */
    bool stopped; /* nothing is read */
    bool closing; /* ends when `out` is written */
    uint8_t *in;
    size_t in_len;
    size_t in_cap;
    uint8_t *out;
    size_t out_len;
    size_t out_cap;
};

/* Something that arrived. `key` says what it is: rules and waits look at those that are `asked`. */
struct burrow_entry {
    uint32_t key;
    bool asked;
    bool held; /* by a rule, until it is released */
};

enum burrow_action { BURROW_ANSWER, BURROW_IGNORE, BURROW_CUT, BURROW_HOLD, BURROW_RAW, BURROW_CALL };

struct burrow_rule {
    uint32_t key;
    int nth;
    int seen;
    enum burrow_action action;
    uint16_t code;
    enum peer_cut how;
    void *raw; /* owned: the bytes of BURROW_RAW, or the words that go with a code */
    size_t raw_len;
    void (*fn)(void); /* what it is, the broker knows */
    void *ctx;
};

/* A broker. All of it is called with the lock held. */
struct burrow_kind {
    size_t connection_size;
    void (*accepted)(struct burrow *burrow, int connection);
    /* Takes the frame that starts at `at`: how many bytes it has, 0 when it is not there whole. */
    size_t (*arrived)(struct burrow *burrow, int connection, const uint8_t *at, size_t have);
    void (*ended)(struct burrow *burrow, int connection);
    void (*answer)(struct burrow *burrow, const struct burrow_rule *rule, struct burrow_entry *entry); /* BURROW_ANSWER */
    bool (*call)(struct burrow *burrow, const struct burrow_rule *rule, struct burrow_entry *entry);   /* BURROW_CALL */
    void (*treat)(struct burrow *burrow, struct burrow_entry *entry); /* as if there were no rules */
    int (*connection_of)(const struct burrow_entry *entry);
    void (*tick)(struct burrow *burrow); /* for burrow_every */
    const char *(*name)(uint32_t key);
};

struct burrow_tally {
    uint32_t key;
    size_t count;    /* asked so far */
    size_t expected; /* where in the log burrow_wait_for goes on */
};

struct burrow {
    const struct burrow_kind *kind;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    int listener; /* bound in any case; listening unless down */
    int wake;
    bool down;
    bool stopping;
    bool frozen;
    bool accept_mute;
    size_t chop;       /* bytes that one write may have; 0 = as many as there are */
    size_t corrupt_in; /* 1: the next byte that is to be written is changed; 0: none */
    uint8_t corrupt_by;
    char host[64];
    uint16_t port;
    char address[96]; /* "127.0.0.1:PORT" */
    int64_t every;
    int64_t every_due;

    struct burrow_connection **connections;
    size_t connection_count, connection_cap;
    struct burrow_entry **log; /* owned */
    size_t log_count, log_cap;
    struct burrow_tally *tallies;
    size_t tally_count, tally_cap;
    struct burrow_rule *rules;
    size_t rule_count, rule_cap;
};

void burrow_lock(struct burrow *burrow);
void burrow_unlock(struct burrow *burrow);

/* Room for one more element of an array. */
void *burrow_grow(void *array, size_t count, size_t *cap, size_t element);

/* Life: listens on a numeric address at a free port and begins its thread; ends the thread and every connection; frees what is left. */
void burrow_start(struct burrow *burrow, const struct burrow_kind *kind, const char *host);
void burrow_end(struct burrow *burrow);
void burrow_free(struct burrow *burrow);

/* With the lock held -------------------------------------------------------------------------------------------------- */

/* Has the thread look again at what is to be done, and waiters at what has happened. */
void burrow_wake(struct burrow *burrow);

/* NULL when the connection is over. */
struct burrow_connection *burrow_connection(struct burrow *burrow, int connection);

/* Ends a connection now, and after what is to be written. */
void burrow_hang_up(struct burrow *burrow, int connection, enum peer_cut how);
void burrow_hang_up_soon(struct burrow *burrow, int connection);

/* Puts an entry, which the log owns from here on, into the log. And treats it by the rules, or by default. */
void burrow_log(struct burrow *burrow, struct burrow_entry *entry);
void burrow_treat(struct burrow *burrow, struct burrow_entry *entry);

/* Waits for a change; false at `until` (as now_ms counts). */
bool burrow_wait(struct burrow *burrow, int64_t until);

/* Faults and pushes --------------------------------------------------------------------------------------------------- */

void burrow_send(struct burrow *burrow, int connection, coney_bytes bytes);
void burrow_cut(struct burrow *burrow, int connection, enum peer_cut how);
void burrow_freeze(struct burrow *burrow, bool frozen);
void burrow_accept_mute(struct burrow *burrow, bool mute);
void burrow_stop_reading(struct burrow *burrow, int connection, bool stopped);
void burrow_go_down(struct burrow *burrow, enum peer_cut how);
void burrow_come_up(struct burrow *burrow);
void burrow_chop(struct burrow *burrow, size_t bytes);
void burrow_every(struct burrow *burrow, int64_t ms);

/* Changes, by exclusive or, the n-th byte that is sent from now on, 1 = the next one. 0: none. */
void burrow_corrupt(struct burrow *burrow, size_t nth, uint8_t by);

/* Rules --------------------------------------------------------------------------------------------------------------- */

/* `raw` is copied. `nth` counts what arrives with this key from the moment of the call, 1 = the next one, PEER_EVERY = all. The youngest rule
 * that matches wins. */
void burrow_add_rule(struct burrow *burrow, const struct burrow_rule *rule);
void burrow_forget_rules(struct burrow *burrow, uint32_t key);

/* Forgets the rules of this key and treats what they held. */
void burrow_release(struct burrow *burrow, uint32_t key);

/* Waiting ------------------------------------------------------------------------------------------------------------- */

/* The next entry with this key that was not given before, within `ms`, or NULL. burrow_expect fails the test instead, within
 * SUPPORT_PATIENCE. */
const struct burrow_entry *burrow_wait_for(struct burrow *burrow, uint32_t key, int64_t ms);
const struct burrow_entry *burrow_expect(struct burrow *burrow, uint32_t key);

/* Entries with this key so far, and the n-th of them, or NULL. */
size_t burrow_count(struct burrow *burrow, uint32_t key);
const struct burrow_entry *burrow_nth(struct burrow *burrow, uint32_t key, size_t n);
bool burrow_reaches_count(struct burrow *burrow, uint32_t key, size_t count, int64_t ms);
void burrow_wait_count(struct burrow *burrow, uint32_t key, size_t count);

/* Connections accepted so far, those that are open; waits until so many are. */
size_t burrow_accepted(struct burrow *burrow);
size_t burrow_open_connections(struct burrow *burrow);
void burrow_wait_open(struct burrow *burrow, size_t count);

#endif
