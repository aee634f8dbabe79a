/* replay.c: see replay.h. */
#include "amqp/replay.h"

#include "amqp/loan.h"
#include "base/text.h"
#include "base/time.h"

#include <stdlib.h>

/* Requests under way at a time: an item that fails costs as many others a second way. */
#define WINDOW 64

#define STEP_DEADLINE (10 * CONEY_SECOND) /* where calls have none */

struct track {
    struct list in_replay;
    struct replay *replay;
    struct amqp_conn *conn; /* held, and kept open; NULL: none yet, any of the purpose will do */
    enum purpose purpose;
    struct loan loan;
    enum { OVER, STARTED, READY, DEAD } state; /* of the loan; DEAD: there is no connection for it */
    struct list sent;
    struct record *culprit; /* the first that got no answer: the channel is going, or stands still behind it */
    struct refusal why;     /* its text and reason are the copies below */
    char text[TEXT_CAP];
    char reason[AMQP_SHORT_MAX + 1];
    struct timer stuck; /* its deadline has passed: the channel is given up, outside of the channel's own callback */
};

struct replay {
    struct coney_amqp *amqp;
    struct list due; /* records, in their order */
    struct list tracks;
    size_t in_flight;
    uint32_t kind; /* of what is in flight: exchanges, queues and bindings do not mix */
    enum replay_end end;
    int64_t delay; /* before the next one, which is needed; CONEY_OFF: it is not */
};

static struct record *of_replay(const struct list *item)
{
    return container_of(item, struct record, in_replay);
}

static struct track *of_tracks(const struct list *item)
{
    return container_of(item, struct track, in_replay);
}

/* Whether the topology has forgotten it meanwhile. */
static bool is_forgotten(const struct record *record)
{
    return list_empty(&record->in_topology);
}

static void needs_another(struct replay *replay)
{
    if (replay->delay == CONEY_OFF)
        replay->delay = backoff_next(&replay->amqp->topology.backoff);
}

/* Failures ---------------------------------------------------------------------------------------------------------- */

void replay_item_failed(struct coney_amqp *amqp, const struct record *record, const struct refusal *refusal, int64_t delay)
{
    char why[TEXT_CAP];
    char next[64] = "not tried again";
    refusal_explain(&record->method, record->name, refusal, why, sizeof why);
    if (delay != CONEY_OFF)
        text_print(next, sizeof next, "next attempt in %lld ms", (long long)(delay / CONEY_MILLISECOND));
    coney_event event = {.type = CONEY_EVENT_TOPOLOGY_FAILED,
                         .status = refusal->status,
                         .code = refusal->code,
                         .delay = delay == CONEY_OFF ? 0 : delay,
                         .node = refusal->node,
                         .name = record->name};
    env_event(&amqp->env, &event, "not declared again after the connection was lost: %s (%s)", why, next);
}

static void blame(struct replay *replay, const struct record *record, const struct refusal *refusal)
{
    needs_another(replay);
    replay_item_failed(replay->amqp, record, refusal, replay->delay);
}

/* Tracks ------------------------------------------------------------------------------------------------------------ */

static void go_on(struct replay *replay);
static void answered(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                     const struct channel_content *content, const char *text);

/* Takes what is under way off the track: the forgotten are freed, the others go to `again`. */
static void take_back(struct track *track, struct list *again)
{
    for (struct list *item = list_take(&track->sent); item != NULL; item = list_take(&track->sent)) {
        struct record *record = of_replay(item);
        record->track = NULL;
        track->replay->in_flight--;
        if (is_forgotten(record))
            record_free(record);
        else
            list_append(again, item);
    }
}

/* What is under way on the track is the next to be sent, on whatever channel. */
static void send_again(struct track *track)
{
    struct replay *replay = track->replay;
    struct list again;
    list_init(&again);
    take_back(track, &again);
    list_move_all(&again, &replay->due);
    list_move_all(&replay->due, &again);
}

/* A queue that the broker had named is not there any more: it is no failure, it gets another. */
static bool found_missing(struct record *record, uint16_t code)
{
    if (!record->brokers_own || record->renew || code != AMQP_CODE_NOT_FOUND)
        return false;
    record->renew = true;
    return true;
}

/* A binding that does not find its ends: they are declared again before the next attempt, which comes behind those of others. */
static void seek_ends(struct replay *replay, struct record *binding)
{
    struct topology *topology = &replay->amqp->topology;
    struct record_ends ends = record_ends(topology, binding);
    for (size_t i = 0; i < sizeof ends.all / sizeof ends.all[0]; i++) {
        if (ends.all[i] == NULL || ends.all[i]->transitory)
            continue;
        ends.all[i]->due = true;
        ends.all[i]->missing = true;
        if (replay->end == REPLAY_DONE && record_is_flighty(ends.all[i]))
            replay->end = REPLAY_AGAIN;
    }
    list_remove(&binding->in_topology);
    list_append(&topology->bindings, &binding->in_topology);
}

static bool misses_an_end(const struct topology *topology, const struct record *record)
{
    if (!record_is_binding(record))
        return false;
    struct record_ends ends = record_ends(topology, record);
    return (ends.all[0] != NULL && ends.all[0]->missing) || (ends.all[1] != NULL && ends.all[1]->missing);
}

/* The channel is over: what it owes is sent again on another, but for the one to whom that is due. */
static void renew(struct track *track)
{
    struct replay *replay = track->replay;
    struct record *culprit = track->culprit;
    track->culprit = NULL;
    track->state = OVER;
    bool known = culprit != NULL && !is_forgotten(culprit);
    send_again(track);
    if (known && !found_missing(culprit, track->why.code)) {
        list_remove(&culprit->in_replay);
        if (record_is_binding(culprit) && track->why.code == AMQP_CODE_NOT_FOUND)
            seek_ends(replay, culprit);
        blame(replay, culprit, &track->why);
    }
    go_on(replay);
}

static void run_stuck(struct timer *timer)
{
    struct track *track = container_of(timer, struct track, stuck);
    struct replay *replay = track->replay;
    struct coney_amqp *amqp = replay->amqp;
    loan_end(&track->loan, false);
    amqp->topology.stale = false; /* nobody else waits for what stands still */
    topology_let_go(amqp);
    if (amqp->topology.replay == replay)
        renew(track);
}

/* All its channels are of this connection from now on. */
static void hold(struct track *track, struct amqp_conn *conn)
{
    track->conn = conn;
    (void)conn_ref(&conn->conn);
    amqp_conn_pin(conn);
}

static void track_ready(struct loan *loan)
{
    struct track *track = container_of(loan, struct track, loan);
    track->state = READY;
    if (track->conn == NULL)
        hold(track, loan->channel->conn);
    go_on(track->replay);
}

static bool any_ready(const struct replay *replay)
{
    for (const struct list *item = replay->tracks.next; item != &replay->tracks; item = item->next)
        if (container_of(item, const struct track, in_replay)->state == READY)
            return true;
    return false;
}

static void leave_all(struct list *due)
{
    while (list_take(due) != NULL)
        continue;
}

/* No connection: what needs the track is left as it is; so is all, when no other has one: the addresses are the same. */
static void close_track(struct track *track)
{
    struct replay *replay = track->replay;
    struct coney_amqp *amqp = replay->amqp;
    track->state = DEAD;
    track->culprit = NULL;
    replay->end = REPLAY_CUT;
    needs_another(replay);
    send_again(track);
    if (!any_ready(replay))
        leave_all(&replay->due);
    topology_let_go(amqp);
    if (amqp->topology.replay == replay)
        go_on(replay);
}

static void track_failed(struct loan *loan, coney_status status, uint16_t code, const char *text)
{
    struct track *track = container_of(loan, struct track, loan);
    (void)status;
    (void)text;
    loop_timer_unset(track->replay->amqp->env.loop, &track->stuck);
    if (track->state == READY && amqp_code_is_soft(code))
        renew(track);
    else
        close_track(track);
}

/* For each of its steps. */
static int64_t patience(const struct replay *replay)
{
    int64_t deadline = replay->amqp->env.settings.call_deadline;
    return deadline > 0 ? deadline : STEP_DEADLINE;
}

static void start(struct track *track)
{
    if (track->state != OVER)
        return;
    track->state = STARTED;
    loan_start(&track->loan, track->replay->amqp, track->purpose, track->conn);
}

static struct track *open_track(struct replay *replay, enum purpose purpose, struct amqp_conn *conn)
{
    struct track *track = calloc(1, sizeof *track);
    if (track == NULL)
        return NULL;
    track->replay = replay;
    track->purpose = purpose;
    track->loan.ready = track_ready;
    track->loan.failed = track_failed;
    track->loan.patience = patience(replay);
    track->stuck.fire = run_stuck;
    list_init(&track->sent);
    list_append(&replay->tracks, &track->in_replay);
    if (conn != NULL)
        hold(track, conn);
    return track;
}

/* The track on which the record belongs; NULL: memory is out. */
static struct track *track_for(struct replay *replay, const struct record *record)
{
    struct amqp_conn *conn;
    enum purpose purpose = record_purpose(&replay->amqp->topology, &record->method, &conn);
    for (struct list *item = replay->tracks.next; item != &replay->tracks; item = item->next) {
        struct track *track = of_tracks(item);
        if (track->purpose == purpose && (conn == NULL || track->conn == conn))
            return track;
    }
    return open_track(replay, purpose, conn);
}

/* Requests ---------------------------------------------------------------------------------------------------------- */

static struct amqp_method request_for(const struct replay *replay, const struct record *record)
{
    struct amqp_method method = record_request(&replay->amqp->topology, &record->method);
    if (record->brokers_own && !record->renew) {
        method.queue_declare.queue = coney_bytes_str(record->now);
        method.queue_declare.passive = true;
    }
    return method;
}

static void send(struct track *track, struct record *record)
{
    struct replay *replay = track->replay;
    struct amqp_method method = request_for(replay, record);
    int64_t deadline = time_after(time_now(), patience(replay));
    list_remove(&record->in_replay);
    record->missing = false;
    if (!channel_request(track->loan.channel, &method, deadline, answered, record)) {
        blame(replay, record,
              &(struct refusal){.status = CONEY_ENOMEM,
                                .node = track->conn->conn.name,
                                .text = "memory is out, or the request does not fit a frame of this connection"});
        return;
    }
    record->track = track;
    list_append(&track->sent, &record->in_replay);
    replay->in_flight++;
}

static void settle(struct replay *replay, struct record *record, const struct amqp_method *answer, struct amqp_conn *conn)
{
    char before[AMQP_SHORT_MAX + 1];
    record->due = false;
    if (answer->id != AMQP_QUEUE_DECLARE_OK)
        return;
    text_print(before, sizeof before, "%s", record->now);
    if (!record_declared(record, answer->queue_declare_ok.queue, conn))
        return;
    env_event(&replay->amqp->env,
              &(coney_event){.type = CONEY_EVENT_QUEUE_RENAMED, .node = conn->conn.name, .name = record->name},
              "%s calls the queue '%s' by another name after recovery: '%s'; it goes on by '%s' here", conn->conn.name, before,
              record->now, record->name);
}

static void take_refusal(struct track *track, coney_status status, uint16_t code, const char *text)
{
    const char *reason = track->loan.channel->reason;
    track->why = (struct refusal){.status = status,
                                  .code = code,
                                  .node = track->conn->conn.name,
                                  .reason = reason != NULL ? track->reason : NULL,
                                  .text = track->text};
    text_print(track->text, sizeof track->text, "%s", text);
    text_print(track->reason, sizeof track->reason, "%s", reason != NULL ? reason : "");
}

static void answered(void *ctx, coney_status status, uint16_t code, const struct amqp_method *answer,
                     const struct channel_content *content, const char *text)
{
    struct record *record = ctx;
    struct track *track = record->track;
    struct replay *replay = track->replay;
    (void)content;
    if (status != CONEY_OK) {
        if (track->culprit != NULL)
            return;
        track->culprit = record;
        take_refusal(track, status, code, text);
        if (status == CONEY_ETIMEDOUT)
            loop_timer_set(replay->amqp->env.loop, &track->stuck, time_now());
        return;
    }
    list_remove(&record->in_replay);
    record->track = NULL;
    replay->in_flight--;
    if (is_forgotten(record))
        record_free(record);
    else
        settle(replay, record, answer, track->conn);
    go_on(replay);
}

/* From its start to its end ------------------------------------------------------------------------------------------- */

static void end_tracks(struct replay *replay, bool clean)
{
    for (struct list *item = list_take(&replay->tracks); item != NULL; item = list_take(&replay->tracks)) {
        struct track *track = of_tracks(item);
        loop_timer_unset(replay->amqp->env.loop, &track->stuck);
        loan_end(&track->loan, clean);
        if (track->conn != NULL) {
            amqp_conn_unpin(track->conn);
            conn_unref(&track->conn->conn);
        }
        free(track);
    }
}

static void finish(struct replay *replay)
{
    struct coney_amqp *amqp = replay->amqp;
    enum replay_end end = replay->end;
    int64_t delay = replay->delay;
    end_tracks(replay, true);
    amqp->topology.replay = NULL;
    free(replay);
    topology_replayed(amqp, end, delay);
}

static uint32_t kind_of(const struct record *record)
{
    return record_is_binding(record) ? AMQP_QUEUE_BIND : record->method.id;
}

static void go_on(struct replay *replay)
{
    while (!list_empty(&replay->due)) {
        struct record *record = of_replay(replay->due.next);
        if (replay->in_flight > 0 && (kind_of(record) != replay->kind || replay->in_flight >= WINDOW))
            return;
        const struct topology *topology = &replay->amqp->topology;
        bool possible = !misses_an_end(topology, record) && !topology_is_undone(topology, record);
        struct track *track = possible ? track_for(replay, record) : NULL;
        if (track == NULL || track->state == DEAD) {
            needs_another(replay);
            list_remove(&record->in_replay);
        } else if (track->state == READY && track->culprit == NULL) {
            replay->kind = kind_of(record);
            send(track, record);
        } else {
            start(track);
            return; /* until it is ready */
        }
    }
    if (replay->in_flight == 0)
        finish(replay);
}

static void collect(struct replay *replay, const struct list *records)
{
    for (const struct list *item = records->next; item != records; item = item->next) {
        struct record *record = container_of(item, struct record, in_topology);
        if (record->due)
            list_append(&replay->due, &record->in_replay);
    }
}

bool replay_start(struct coney_amqp *amqp)
{
    struct replay *replay = calloc(1, sizeof *replay);
    if (replay == NULL)
        return false;
    replay->amqp = amqp;
    replay->delay = CONEY_OFF;
    list_init(&replay->due);
    list_init(&replay->tracks);
    collect(replay, &amqp->topology.exchanges);
    collect(replay, &amqp->topology.queues);
    collect(replay, &amqp->topology.bindings);
    amqp->topology.replay = replay;
    go_on(replay);
    return true;
}

void replay_stop(struct coney_amqp *amqp)
{
    struct replay *replay = amqp->topology.replay;
    if (replay == NULL)
        return;
    struct list left;
    list_init(&left);
    for (struct list *item = replay->tracks.next; item != &replay->tracks; item = item->next)
        take_back(of_tracks(item), &left);
    leave_all(&left);
    leave_all(&replay->due);
    end_tracks(replay, false);
    amqp->topology.replay = NULL;
    free(replay);
}

struct record *replay_item_on(const struct coney_amqp *amqp, const struct amqp_conn *conn)
{
    const struct replay *replay = amqp->topology.replay;
    if (replay == NULL)
        return NULL;
    for (const struct list *item = replay->tracks.next; item != &replay->tracks; item = item->next) {
        const struct track *track = container_of(item, const struct track, in_replay);
        if (track->conn == conn && !list_empty(&track->sent) && !is_forgotten(of_replay(track->sent.next)))
            return of_replay(track->sent.next);
    }
    return NULL;
}
