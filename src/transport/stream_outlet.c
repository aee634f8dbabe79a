/* stream_outlet.c: where messages go out: a publisher has a producer for each stream that it has published to, opened when it is first needed. */
#include "transport/stream.h"

#include "base/text.h"
#include "base/time.h"
#include "service/app.h"

#include <stdlib.h>
#include <string.h>

/* A stream that something went to. */
struct place {
    struct list in_outlet; /* the one used last stands first */
    coney_stream_producer *producer;
    uint32_t users;  /* threads that publish to it now: it is not closed under them */
    bool is_retired; /* out of the list; its last user closes it */
    size_t len;
    char name[];
};

struct tstream_outlet {
    struct outlet outlet; /* first */
    struct tstream *self;
    struct outlet_options options;

    struct lock lock; /* guards what follows, and the places */
    struct list places;
    size_t count;
    bool is_closed;

    uint32_t closing; /* producers whose close has not ended */
    struct cond ended;
    uint64_t unknown; /* messages that had no good outcome because of their closing */
    coney_status failure;
    char text[256]; /* of the failure */
};

static struct tstream_outlet *of(struct outlet *outlet)
{
    return (struct tstream_outlet *)(void *)outlet;
}

/* Closing a producer, without waiting for it --------------------------------------------------------------------------------------- */

static void note_end(struct tstream_outlet *outlet, coney_status status, uint64_t unknown, const char *text)
{
    lock_acquire(&outlet->lock);
    outlet->unknown += unknown;
    if (status != CONEY_OK && outlet->failure == CONEY_OK) {
        outlet->failure = status;
        text_print(outlet->text, sizeof outlet->text, "%s", text);
    }
    outlet->closing--;
    bool waited_for = cond_turn(&outlet->ended);
    lock_release(&outlet->lock);
    if (waited_for)
        cond_wake_turned(&outlet->ended);
}

static void closed(void *ctx, const coney_call *call)
{
    note_end(ctx, call->status, call->value, call->text);
}

/* Its outcomes come all the same. The place was counted in `closing`. */
static void close_place(struct tstream_outlet *outlet, struct place *place, int64_t deadline)
{
    coney_call call = {.on_done = closed, .ctx = outlet, .deadline = deadline};
    coney_status status = coney_stream_producer_close(&place->producer, &call);
    if (status != CONEY_OK)
        note_end(outlet, status, 0, coney_status_text(status));
    free(place);
}

/* With the lock: it leaves the list. True: nobody publishes to it, so it is the caller's to close when the lock is free. */
static bool retire(struct tstream_outlet *outlet, struct place *place)
{
    list_remove(&place->in_outlet);
    outlet->count--;
    outlet->closing++;
    place->is_retired = true;
    return place->users == 0;
}

/* Finding the producer of a stream --------------------------------------------------------------------------------------------------- */

static struct place *find(struct tstream_outlet *outlet, coney_bytes to)
{
    for (struct list *at = outlet->places.next; at != &outlet->places; at = at->next) {
        struct place *place = container_of(at, struct place, in_outlet);
        if (place->len == to.len && memcmp(place->name, to.data, to.len) == 0)
            return place;
    }
    return NULL;
}

static void use(struct tstream_outlet *outlet, struct place *place)
{
    place->users++;
    if (outlet->places.next == &place->in_outlet)
        return;
    list_remove(&place->in_outlet);
    list_append(outlet->places.next, &place->in_outlet); /* before the first */
}

/* The one that was used longest ago, when there are too many; NULL also while all of them are in use. */
static struct place *surplus(struct tstream_outlet *outlet)
{
    if (outlet->count <= TSTREAM_PRODUCERS)
        return NULL;
    for (struct list *at = outlet->places.prev; at != &outlet->places; at = at->prev) {
        struct place *place = container_of(at, struct place, in_outlet);
        if (place->users == 0 && retire(outlet, place))
            return place;
    }
    return NULL;
}

/* Opens a producer, without the lock: it may take its time, and two threads may open one for the same stream. */
static coney_status open_place(struct tstream_outlet *outlet, coney_bytes to, struct place **opened)
{
    struct place *place = calloc(1, sizeof *place + to.len + 1);
    if (place == NULL)
        return CONEY_ENOMEM;
    memcpy(place->name, to.data, to.len);
    place->len = to.len;
    list_init(&place->in_outlet);
    coney_call call = {0};
    coney_stream_producer_options options = {.on_outcome = outlet->options.outcome, .ctx = outlet->options.ctx};
    place->producer = tstream_open_producer(outlet->self, place->name, &options, &call);
    if (place->producer != NULL) {
        *opened = place;
        return CONEY_OK;
    }
    free(place);
    if (call.status == CONEY_EDEADLK)
        return CONEY_EAGAIN; /* on a loop */
    broker_log(outlet->self->broker, CONEY_LOG_WARNING, call.text);
    return call.status;
}

/* The opened place becomes the stream's, unless another thread was faster. With the lock. */
static struct place *add(struct tstream_outlet *outlet, struct place *opened)
{
    struct place *place = find(outlet, coney_bytes_of(opened->name, opened->len));
    if (place != NULL || outlet->is_closed) {
        outlet->closing++;
        return place;
    }
    list_append(&outlet->places, &opened->in_outlet);
    outlet->count++;
    return opened;
}

/* Takes the place of a stream, for one publish. */
static coney_status take(struct tstream_outlet *outlet, coney_bytes to, struct place **taken)
{
    lock_acquire(&outlet->lock);
    struct place *place = find(outlet, to);
    coney_status status = outlet->is_closed ? CONEY_ECLOSED : CONEY_OK;
    if (place != NULL)
        use(outlet, place);
    lock_release(&outlet->lock);
    if (place != NULL || status != CONEY_OK) {
        *taken = place;
        return status;
    }
    struct place *opened;
    status = open_place(outlet, to, &opened);
    if (status != CONEY_OK)
        return status;
    lock_acquire(&outlet->lock);
    place = add(outlet, opened);
    if (place != NULL)
        use(outlet, place);
    struct place *old = surplus(outlet);
    lock_release(&outlet->lock);
    if (place != opened)
        close_place(outlet, opened, 0);
    if (old != NULL)
        close_place(outlet, old, 0);
    *taken = place;
    return place != NULL ? CONEY_OK : CONEY_ECLOSED;
}

/* Gives it back. `is_dead`: its producer has ended, for instance because the stream is gone, and the next publish looks for another. */
static void give_back(struct tstream_outlet *outlet, struct place *place, bool is_dead)
{
    lock_acquire(&outlet->lock);
    place->users--;
    if (is_dead && !place->is_retired)
        retire(outlet, place);
    bool is_last = place->is_retired && place->users == 0;
    lock_release(&outlet->lock);
    if (is_last)
        close_place(outlet, place, 0);
}

/* Publishing -------------------------------------------------------------------------------------------------------------------------- */

static coney_status send(struct place *place, const coney_stream_message *message)
{
    if (message->message == NULL)
        return coney_stream_send(place->producer, message->body, message->tag);
    return coney_stream_send_message(place->producer, message);
}

/* A producer that has ended is replaced once: the stream may have been made anew. */
static coney_status send_to(struct tstream_outlet *outlet, coney_bytes to, const coney_stream_message *message)
{
    coney_status status = CONEY_ECLOSED;
    for (int attempt = 0; status == CONEY_ECLOSED && attempt < 2; attempt++) {
        struct place *place;
        status = take(outlet, to, &place);
        if (status != CONEY_OK)
            return status;
        status = send(place, message);
        give_back(outlet, place, status == CONEY_ECLOSED);
    }
    return status;
}

static void nobody_wanted_it(struct tstream_outlet *outlet, uint64_t tag)
{
    const coney_outcome outcome = {.tag = tag, .status = CONEY_OK, .text = ""};
    outlet->options.outcome(outlet->options.ctx, &outcome);
}

coney_status tstream_publish(struct outlet *head, const struct outgoing *message, uint64_t tag)
{
    struct tstream_outlet *outlet = of(head);
    if (message->expiration != 0 || message->has_priority)
        return CONEY_EUNSUPPORTED;
    if (message->to.len == 0 || message->to.len > TSTREAM_NAME_MAX)
        return CONEY_EINVAL;
    coney_stream_message out = {.body = message->body, .tag = tag};
    coney_status status = CONEY_OK;
    if (tstream_is_bare(message)) {
        status = send_to(outlet, message->to, &out);
    } else {
        struct tstream_encoded encoded;
        status = tstream_encode(&encoded, message);
        out.message = &encoded.message;
        if (status == CONEY_OK)
            status = send_to(outlet, message->to, &out);
        tstream_encoded_free(&encoded);
    }
    if (status != CONEY_ENOTFOUND || !message->drop_unroutable)
        return status;
    nobody_wanted_it(outlet, tag);
    return CONEY_OK;
}

/* Flush --------------------------------------------------------------------------------------------------------------------------------- */

/* All places, in use until they are given back; `count` of them. NULL: memory is out, or there are none. */
static struct place **use_all(struct tstream_outlet *outlet, size_t *count)
{
    lock_acquire(&outlet->lock);
    *count = outlet->count;
    struct place **places = *count > 0 ? calloc(*count, sizeof(struct place *)) : NULL;
    size_t used = 0;
    for (struct list *at = outlet->places.next; places != NULL && at != &outlet->places; at = at->next) {
        places[used] = container_of(at, struct place, in_outlet);
        places[used++]->users++;
    }
    lock_release(&outlet->lock);
    return places;
}

static coney_status flush_place(const struct place *place, int64_t until, coney_call *call)
{
    int64_t left = until - time_now();
    coney_call step = {.deadline = left > 0 ? left : 1};
    coney_status status = coney_stream_producer_flush(place->producer, &step);
    if (status != CONEY_OK)
        text_print(call->text, sizeof call->text, "%s", step.text);
    return status;
}

/* Those that were closed because they were too many, or dead, have outcomes to come as well. */
static bool wait_for_closing(struct tstream_outlet *outlet, int64_t until)
{
    bool in_time = true;
    lock_acquire(&outlet->lock);
    while (outlet->closing > 0 && in_time)
        in_time = cond_wait(&outlet->ended, &outlet->lock, until);
    bool have_ended = outlet->closing == 0;
    lock_release(&outlet->lock);
    return have_ended;
}

coney_status tstream_flush(struct outlet *head, coney_call *call)
{
    struct tstream_outlet *outlet = of(head);
    int64_t until = tstream_until(call);
    size_t count;
    struct place **places = use_all(outlet, &count);
    if (places == NULL && count > 0)
        return app_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    coney_status status = CONEY_OK;
    for (size_t i = 0; i < count; i++) {
        if (status == CONEY_OK)
            status = flush_place(places[i], until, call);
        give_back(outlet, places[i], false);
    }
    free(places);
    if (status == CONEY_OK && !wait_for_closing(outlet, until))
        status =
            app_refuse(call, CONEY_ETIMEDOUT, "the outcomes of a stream that was published to before have not come in time");
    return status;
}

/* Life ----------------------------------------------------------------------------------------------------------------------------------- */

static struct tstream_outlet *outlet_new(struct tstream *self, coney_outcome_fn outcome, void *ctx)
{
    struct tstream_outlet *outlet = calloc(1, sizeof *outlet);
    if (outlet == NULL)
        return NULL;
    outlet->self = self;
    outlet->outlet.transport = self->broker->transport;
    outlet->options.outcome = outcome;
    outlet->options.ctx = ctx;
    list_init(&outlet->places);
    return outlet;
}

coney_status tstream_open_outlet(void *self, const struct outlet_options *options, struct outlet **outlet, coney_call *call)
{
    (void)call;
    struct tstream_outlet *opened = outlet_new(self, options->outcome, options->ctx);
    if (opened == NULL)
        return CONEY_ENOMEM;
    *outlet = &opened->outlet;
    return CONEY_OK;
}

/* Everything is closed at once, so that all of it has the same deadline. */
static void close_all(struct tstream_outlet *outlet, int64_t deadline)
{
    for (;;) {
        lock_acquire(&outlet->lock);
        outlet->is_closed = true;
        struct list *first = outlet->places.next;
        struct place *place = first != &outlet->places ? container_of(first, struct place, in_outlet) : NULL;
        bool is_mine = place != NULL && retire(outlet, place);
        lock_release(&outlet->lock);
        if (place == NULL)
            return;
        if (is_mine)
            close_place(outlet, place, deadline);
    }
}

static coney_status end(struct tstream_outlet *outlet, coney_call *call)
{
    close_all(outlet, call->deadline);
    lock_acquire(&outlet->lock);
    while (outlet->closing > 0)
        cond_wait(&outlet->ended, &outlet->lock, INT64_MAX); /* each close has its deadline */
    call->value = outlet->unknown;
    call->status = outlet->failure;
    text_print(call->text, sizeof call->text, "%s", outlet->text);
    lock_release(&outlet->lock);
    return call->status;
}

coney_status tstream_close_outlet(struct outlet *head, coney_call *call)
{
    coney_status status = end(of(head), call);
    free(of(head));
    return status;
}

/* Copies ------------------------------------------------------------------------------------------------------------------------------- */

/* A copy under way: whose outcome it is. */
struct copied {
    coney_outcome_fn outcome;
    void *ctx;
    uint64_t tag;
};

static void copy_outcome(void *ctx, const coney_outcome *outcome)
{
    (void)ctx;
    struct copied *copied = (struct copied *)(uintptr_t)outcome->tag;
    coney_outcome theirs = *outcome;
    theirs.tag = copied->tag;
    copied->outcome(copied->ctx, &theirs);
    free(copied);
}

bool tstream_copies_open(struct tstream *self)
{
    if (self->copies == NULL)
        self->copies = outlet_new(self, copy_outcome, NULL);
    if (self->copies == NULL)
        return false;
    lock_acquire(&self->copies->lock);
    self->copies->is_closed = false;
    self->copies->failure = CONEY_OK;
    self->copies->unknown = 0;
    lock_release(&self->copies->lock);
    return true;
}

coney_status tstream_copies_close(struct tstream *self, coney_call *call)
{
    return end(self->copies, call);
}

void tstream_copies_free(struct tstream *self)
{
    free(self->copies);
}

coney_status tstream_copy(struct incoming *m, const char *to, uint64_t attempts, int64_t delay, coney_outcome_fn outcome,
                          void *ctx, uint64_t tag)
{
    if (to == NULL || delay > 0)
        return CONEY_EUNSUPPORTED;
    struct copied *copied = malloc(sizeof *copied);
    if (copied == NULL)
        return CONEY_ENOMEM;
    *copied = (struct copied){outcome, ctx, tag};
    struct tstream_encoded encoded;
    coney_status status = tstream_encode_copy(&encoded, m, attempts);
    coney_stream_message out = {.message = &encoded.message, .tag = (uint64_t)(uintptr_t)copied};
    if (status == CONEY_OK)
        status = send_to(tstream_feed_of(m->feed)->self->copies, coney_bytes_str(to), &out);
    tstream_encoded_free(&encoded);
    if (status != CONEY_OK)
        free(copied);
    return status;
}
