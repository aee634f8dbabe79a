/* topology.c: when it is declared again, and who waits for that. */
#include "amqp/topology.h"

#include "amqp/place.h"
#include "amqp/replay.h"
#include "base/text.h"
#include "base/time.h"

#define PATIENT_ATTEMPTS 3
#define SECOND_LOOK CONEY_SECOND

static struct coney_amqp *of_topology(struct topology *topology)
{
    return container_of(topology, struct coney_amqp, topology);
}

static struct record *of_list(struct list *item)
{
    return container_of(item, struct record, in_topology);
}

/* Replays ----------------------------------------------------------------------------------------------------------- */

void topology_let_go(struct coney_amqp *amqp)
{
    struct topology *topology = &amqp->topology;
    struct list calls;
    struct list members;
    list_init(&calls);
    list_init(&members);
    list_move_all(&calls, &topology->calls);
    list_move_all(&members, &topology->waiting);
    for (struct list *item = list_take(&calls); item != NULL; item = list_take(&calls)) {
        struct topology_call *call = container_of(item, struct topology_call, waiting);
        call->go_on(call);
    }
    for (struct list *item = list_take(&members); item != NULL; item = list_take(&members))
        place_go_on(container_of(item, struct place, waiting)->waiter);
}

static void start(struct coney_amqp *amqp)
{
    struct topology *topology = &amqp->topology;
    if (topology->replay != NULL || amqp->env.closing != NULL)
        return;
    loop_timer_unset(amqp->env.loop, &topology->retry);
    if (!replay_start(amqp))
        topology_replayed(amqp, REPLAY_CUT, backoff_next(&topology->backoff));
}

static void run_retry(struct timer *timer)
{
    start(of_topology(container_of(timer, struct topology, retry)));
}

static bool doubt(struct record *record)
{
    record->due |= record_is_flighty(record);
    return record_is_flighty(record);
}

/* A broker that is not done with the connection that was lost may have found a thing there that goes with its last user, and have taken it away
 * afterwards: such things and their bindings are declared a second time. False: there are none. */
static bool doubt_all(struct topology *topology)
{
    bool any = false;
    for (struct list *item = topology->exchanges.next; item != &topology->exchanges; item = item->next)
        any |= doubt(of_list(item));
    for (struct list *item = topology->queues.next; item != &topology->queues; item = item->next)
        any |= doubt(of_list(item));
    for (struct list *item = topology->bindings.next; any && item != &topology->bindings; item = item->next) {
        struct record_ends ends = record_ends(topology, of_list(item));
        for (size_t i = 0; i < sizeof ends.all / sizeof ends.all[0]; i++)
            of_list(item)->due |= ends.all[i] != NULL && record_is_flighty(ends.all[i]);
    }
    return any;
}

static void run_look(struct timer *timer)
{
    struct topology *topology = container_of(timer, struct topology, look);
    struct coney_amqp *amqp = of_topology(topology);
    if (topology->replay != NULL)
        loop_timer_set(amqp->env.loop, timer, time_after(time_now(), SECOND_LOOK));
    else if (doubt_all(topology))
        start(amqp);
}

/* Those who wait go on waiting for what is there in a moment; but not for ever. */
static bool is_worth_waiting(const struct topology *topology, enum replay_end end)
{
    return end == REPLAY_AGAIN && topology->backoff.attempts <= PATIENT_ATTEMPTS;
}

void topology_replayed(struct coney_amqp *amqp, enum replay_end end, int64_t delay)
{
    struct topology *topology = &amqp->topology;
    bool wait = is_worth_waiting(topology, end);
    topology->stale = end == REPLAY_CUT || wait;
    topology->replayed_at = time_now();
    if (topology->unsure && end != REPLAY_CUT) {
        topology->unsure = false;
        loop_timer_set(amqp->env.loop, &topology->look, time_after(time_now(), SECOND_LOOK));
    }
    if (delay != CONEY_OFF)
        loop_timer_set(amqp->env.loop, &topology->retry, time_after(time_now(), delay));
    if (!wait)
        topology_let_go(amqp);
}

/* Losses ------------------------------------------------------------------------------------------------------------ */

/* With its bindings. */
static void forget_queue(struct topology *topology, const char *queue)
{
    char name[AMQP_SHORT_MAX + 1]; /* the record's own goes with it */
    text_print(name, sizeof name, "%s", queue);
    const struct amqp_method gone = {.id = AMQP_QUEUE_DELETE, .queue_delete.queue = coney_bytes_str(name)};
    record_undo(topology, &gone);
}

/* What the loss of a connection means for a queue. */
static void lose_queue(struct topology *topology, struct record *queue, const struct amqp_conn *lost)
{
    bool here = queue->conn == lost;
    if (queue->conn != NULL && !here)
        return;
    queue->conn = NULL;
    queue->due = true;
    queue->renew = queue->brokers_own && (here || queue->renew);
    if (queue->transitory)
        forget_queue(topology, queue->name);
}

/* A binding goes with its queue, and an exclusive queue with its connection: while that stands, so do its bindings. */
static bool is_safe(const struct topology *topology, const struct record *binding)
{
    struct amqp_conn *conn;
    (void)record_purpose(topology, &binding->method, &conn);
    return conn != NULL;
}

static void lose_all(struct topology *topology, const struct amqp_conn *lost)
{
    struct list *next;
    for (struct list *item = topology->exchanges.next; item != &topology->exchanges; item = item->next)
        of_list(item)->due = true;
    for (struct list *item = topology->queues.next; item != &topology->queues; item = next) {
        next = item->next;
        lose_queue(topology, of_list(item), lost);
    }
    for (struct list *item = topology->bindings.next; item != &topology->bindings; item = item->next)
        of_list(item)->due |= !is_safe(topology, of_list(item));
}

/* What made the broker close the whole connection would do so each time. */
static void spare_culprit(struct coney_amqp *amqp, struct record *culprit, const struct conn *conn)
{
    if (culprit == NULL || conn->close_code == 0 || conn->close_code == AMQP_CODE_CONNECTION_FORCED)
        return;
    culprit->due = false;
    const struct refusal refusal = {
        .status = CONEY_EBROKER, .code = (uint16_t)conn->close_code, .node = conn->name, .text = conn->close_text};
    replay_item_failed(amqp, culprit, &refusal, CONEY_OFF);
}

static bool is_known(const struct topology *topology)
{
    return !list_empty(&topology->exchanges) || !list_empty(&topology->queues) || !list_empty(&topology->bindings);
}

void topology_conn_lost(struct coney_amqp *amqp, struct amqp_conn *conn)
{
    struct topology *topology = &amqp->topology;
    struct record *culprit = replay_item_on(amqp, conn);
    bool broken = topology->replay != NULL;
    replay_stop(amqp);
    lose_all(topology, conn);
    if (amqp->env.closing != NULL || amqp->env.settings.no_recovery || !is_known(topology)) {
        topology_let_go(amqp);
        return;
    }
    spare_culprit(amqp, culprit, &conn->conn);
    if (!broken && time_now() - topology->replayed_at >= amqp->env.settings.recovery_delay)
        backoff_reset(
            &topology->backoff); /* what is lost again and again as soon as it is there is not declared without a pause */
    if (!topology->stale || broken)
        loop_timer_set(amqp->env.loop, &topology->retry, time_after(time_now(), backoff_next(&topology->backoff)));
    topology->stale = true;
    topology->unsure = true;
    if (topology->backoff.attempts > PATIENT_ATTEMPTS)
        topology_let_go(amqp);
}

/* For the others ---------------------------------------------------------------------------------------------------- */

void topology_init(struct coney_amqp *amqp)
{
    struct topology *topology = &amqp->topology;
    const struct settings *settings = &amqp->env.settings;
    *topology = (struct topology){
        .retry.fire = run_retry,
        .look.fire = run_look,
        .backoff = {.first = settings->recovery_delay, .most = settings->recovery_max_delay, .seed = amqp->env.random},
    };
    list_init(&topology->exchanges);
    list_init(&topology->queues);
    list_init(&topology->bindings);
    list_init(&topology->waiting);
    list_init(&topology->calls);
    list_init(&topology->undoing);
}

static void free_all(struct list *records)
{
    for (struct list *item = list_take(records); item != NULL; item = list_take(records))
        record_free(of_list(item));
}

void topology_free(struct coney_amqp *amqp)
{
    struct topology *topology = &amqp->topology;
    topology->stale = false;
    replay_stop(amqp);
    loop_timer_unset(amqp->env.loop, &topology->retry);
    loop_timer_unset(amqp->env.loop, &topology->look);
    topology_let_go(amqp);
    free_all(&topology->exchanges);
    free_all(&topology->queues);
    free_all(&topology->bindings);
}

static bool must_wait(const struct coney_amqp *amqp)
{
    return amqp->topology.stale && amqp->env.closing == NULL;
}

bool topology_is_ready(struct coney_amqp *amqp, struct member *member)
{
    struct place *place = place_of(member);
    if (!must_wait(amqp))
        return true;
    place->waiter = member;
    list_append(&amqp->topology.waiting, &place->waiting);
    start(amqp);
    return false;
}

static bool any_on_its_way(const struct list *records, const struct amqp_method *undo)
{
    for (const struct list *item = records->next; item != records; item = item->next) {
        const struct record *record = container_of(item, const struct record, in_topology);
        if (record->track != NULL && record_goes_with(record, undo))
            return true;
    }
    return false;
}

/* What a call would take back is being declared again: which of the two would come second is the broker's choice. */
static bool is_too_early(const struct topology *topology, const struct topology_call *call)
{
    return topology->replay != NULL && call->undoes != NULL &&
           (any_on_its_way(&topology->exchanges, call->undoes) || any_on_its_way(&topology->queues, call->undoes) ||
            any_on_its_way(&topology->bindings, call->undoes));
}

bool topology_is_ready_for(struct coney_amqp *amqp, struct topology_call *call)
{
    if (!must_wait(amqp) && !is_too_early(&amqp->topology, call))
        return true;
    list_append(&amqp->topology.calls, &call->waiting);
    start(amqp);
    return false;
}

void topology_undoes(struct coney_amqp *amqp, struct topology_call *call)
{
    list_append(&amqp->topology.undoing, &call->waiting);
}

bool topology_is_undone(const struct topology *topology, const struct record *record)
{
    for (const struct list *item = topology->undoing.next; item != &topology->undoing; item = item->next)
        if (record_goes_with(record, container_of(item, const struct topology_call, waiting)->undoes))
            return true;
    return false;
}

const char *topology_queue_name(const struct coney_amqp *amqp, const char *name)
{
    const struct record *queue = record_queue(&amqp->topology, coney_bytes_str(name));
    return queue != NULL ? queue->now : name;
}

struct amqp_conn *topology_queue_conn(const struct coney_amqp *amqp, const char *name)
{
    const struct record *queue = record_queue(&amqp->topology, coney_bytes_str(name));
    return queue != NULL ? queue->conn : NULL;
}
