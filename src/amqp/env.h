/* env.h: the inside of coney_amqp: what all connections, publishers and consumers of an AMQP environment share.
 *
 * All of it belongs to the environment's loop, except what says otherwise.
 */
#ifndef CONEY_AMQP_ENV_H
#define CONEY_AMQP_ENV_H

#include "amqp/topology.h"
#include "core/round.h"

#include <coney/amqp.h>

/* A handle of the user's that is no member: a raw channel. What is left of them ends with the environment. */
struct amqp_handle {
    struct list in_env; /* in amqp->handles, from its opening to its close; on the loop */
    void (*abandon)(
        struct amqp_handle
            *handle); /* on the loop, the environment was closed: every use answers CONEY_ECLOSED; drops the user's reference */
};

struct coney_amqp {
    struct env env;
    int64_t channel_max; /* that we offer; 0 = what the broker allows */
    size_t max_message;  /* of the largest body accepted */
    struct topology topology;
    struct round rounds[3];    /* by purpose: each dials the addresses for its connections */
    struct list loans_waiting; /* loan.h */
    struct task loan_task;     /* looks at them */
    struct list handles;
    counter blocked;
    counter channels;
    counter publishers;
    counter publishers_active;
    counter consumers;
    counter consumers_active;
};

static inline struct coney_amqp *amqp_of(struct env *env)
{
    return container_of(env, struct coney_amqp, env);
}

/* options.c: what differs from other protocols' URIs. And the public options: those that every environment has go to *common, the rest to `amqp`, which
 * is zeroed but for what the URI set. CONEY_OK, or CONEY_EINVAL with a text in the call. */
extern const struct settings_kind amqp_settings;
void amqp_common_options(const coney_amqp_options *options, struct env_options *common);
coney_status amqp_own_options(struct coney_amqp *amqp, const coney_amqp_options *options, coney_call *call);

/* A reply code as a status: 404 CONEY_ENOTFOUND, 403 CONEY_EACCESS, 406 CONEY_EPRECONDITION, 405 CONEY_EUNAVAILABLE, 320 CONEY_ELOST,
 * 530 at connection.open CONEY_EVHOST (the handshake says so itself), others CONEY_EBROKER; 0 CONEY_OK. */
coney_status amqp_status_of_code(uint16_t code);

/* CONEY_OK, or CONEY_EINVAL with a text: a name, key or tag of at most 255 bytes (`what`: "queue", "routing key" …). NULL counts as empty. */
coney_status amqp_name_check(const char *what, const char *name, coney_call *call);

#endif
