/* round.h: one way round the addresses: each is tried once, beginning with the one that worked last, until a connection is ready.
 *
 * When all have failed, whoever waits is told what each address said. A refusal that holds for every node (password, virtual host) ends
 * the round at once. With `shuffle` a round begins anywhere in the addresses, which env_new has mixed.
 * Embedded in the environment's own struct, one for each purpose that dials the addresses. On the loop.
 */
#ifndef CONEY_CORE_ROUND_H
#define CONEY_CORE_ROUND_H

#include "core/conn.h"

struct round {
    struct env *env;
    const struct conn_kind *kind;
    enum purpose purpose;
    /* Whether somebody besides the waiting members still wants the connection: else a failure ends the round in silence. May be NULL. */
    bool (*wanted)(struct round *round);
    void (*ready)(struct round *round); /* round->conn is; before the waiting members get their places. May be NULL */
    /* The round is over without a connection; before the waiting members fail. May be NULL. */
    void (*failed)(struct round *round, coney_status status, uint32_t code, const char *text);

    struct conn *conn;   /* being dialled, or what it brought last; NULL: none */
    struct list waiting; /* members, linked by in_conn */
    size_t next;         /* the address that the next connection tries first */
    size_t tried;        /* addresses that failed in this round */
    char failures[512];  /* what they said */
};

/* The callbacks are set by the caller afterwards. */
void round_init(struct round *round, struct env *env, const struct conn_kind *kind, enum purpose purpose);

/* Starts a round, unless one is under way. A connection that it brought before goes on by itself, it is no longer round->conn. A failure for want of
 * memory comes from inside. */
void round_start(struct round *round);

/* Gives the member a place on a connection of the round's purpose that has room; there is none: when the round that is under way, or is started,
 * brings one. Comes back as the kind's declare, at once
 * when the connection is ready; or as member_failed. */
void round_place(struct round *round, struct member *member);

/* From the connection. */
void round_conn_ready(struct conn *conn);
void round_conn_down(struct conn *conn, coney_status status, uint32_t code, const char *text);

#endif
