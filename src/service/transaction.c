/* transaction.c: transactions by hand, and those that a delivery's settlement ends. */
#include "base/text.h"
#include "service/app.h"
#include "service/posting.h"

#include <stdlib.h>

/* In the delivery that it belongs to: one for each publisher that was used through it. */
struct transaction_scope {
    struct transaction_scope *next;
};

/* A message that was added while somebody probes: told when it is committed. */
struct added {
    struct added *next;
    struct outgoing message;
};

struct coney_transaction {
    struct list open; /* in its publisher's, under its lock */
    struct transaction_scope scope;
    coney_publisher *publisher;
    void *_Atomic
        tx;       /* NULL: it was aborted when its publisher was closed, which is not looked at any more: the app may be gone */
    bool is_left; /* under the publisher's lock: its owner has ended it while the publisher was being closed, which frees it */
    uint64_t count;
    coney_arena *memory; /* of `added`, or NULL */
    struct added *added; /* the last one first */
};

/* For the testkit ------------------------------------------------------------------------------------------------- */

static const struct publish_probe *probe_of(const coney_transaction *t)
{
    return t->publisher->broker->app->publish_probe;
}

static void copy_view(coney_arena *memory, coney_bytes *view)
{
    if (view->len > 0)
        *view = coney_arena_copy(memory, *view);
}

static void copy_headers(coney_arena *memory, struct outgoing *message)
{
    coney_field *copies = coney_arena_alloc(memory, message->header_count * sizeof *copies);
    for (size_t i = 0; copies != NULL && i < message->header_count; i++) {
        copies[i] = message->headers[i];
        copy_view(memory, &copies[i].key);
        if (copies[i].value.type >= CONEY_VALUE_UUID)
            copy_view(memory, &copies[i].value.as.bytes);
    }
    message->headers = copies;
    message->header_count = copies != NULL ? message->header_count : 0;
}

static bool remember(coney_transaction *t, const struct outgoing *message)
{
    if (t->memory == NULL)
        t->memory = coney_arena_new();
    struct added *added = t->memory != NULL ? coney_arena_alloc(t->memory, sizeof *added) : NULL;
    if (added == NULL)
        return false;
    *added = (struct added){t->added, *message};
    coney_bytes *views[] = {&added->message.to,         &added->message.body, &added->message.content_type,
                            &added->message.reply_to,   &added->message.type, &added->message.correlation_id,
                            &added->message.message_id, &added->message.key};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        copy_view(t->memory, views[i]);
    copy_headers(t->memory, &added->message);
    t->added = added;
    return true;
}

static void tell_probe(const coney_transaction *t)
{
    struct added *first = NULL;
    for (struct added *at = t->added, *next; at != NULL; at = next) {
        next = at->next;
        at->next = first;
        first = at;
    }
    for (; first != NULL; first = first->next)
        probe_of(t)->published(probe_of(t)->ctx, t->publisher->broker, t->publisher->options.exchange, &first->message);
}

static coney_status probed_failure(const coney_transaction *t)
{
    bool may_fail = probe_of(t) != NULL && probe_of(t)->fail != NULL && t->count > 0;
    return may_fail ? probe_of(t)->fail(probe_of(t)->ctx, t->publisher->broker) : CONEY_OK;
}

/* Life ------------------------------------------------------------------------------------------------------------ */

/* The posting has entered the publisher. NULL: *status says why, and the posting has refused. */
static coney_transaction *begin(struct posting *g, coney_call *call, coney_status *status)
{
    *status = CONEY_EUNSUPPORTED;
    if (g->transport->tx_begin == NULL) {
        posting_refuse(g, *status, "%s has no transactions", g->transport->name);
        return NULL;
    }
    coney_transaction *t = calloc(1, sizeof *t);
    void *tx = NULL;
    *status = t != NULL ? g->transport->tx_begin(g->outlet, &tx, call) : CONEY_ENOMEM;
    if (*status != CONEY_OK) {
        free(t);
        return NULL;
    }
    atomic_store_explicit(&t->tx, tx, memory_order_relaxed);
    t->publisher = g->publisher;
    lock_acquire(&g->publisher->lock);
    list_append(&g->publisher->transactions, &t->open);
    lock_release(&g->publisher->lock);
    return t;
}

static void transaction_free(coney_transaction *t)
{
    coney_arena_free(&t->memory);
    free(t);
}

/* Takes it off its publisher. Who gets what stands behind it ends that; NULL: a close of the publisher was first. */
static void *claim(coney_transaction *t)
{
    lock_acquire(&t->publisher->lock);
    list_remove(&t->open);
    void *tx = atomic_exchange_explicit(&t->tx, NULL, memory_order_acq_rel);
    lock_release(&t->publisher->lock);
    return tx;
}

/* What cannot be ended by its owner is ended, and freed, when the publisher is closed. False: it was already. */
static bool leave_to_close(coney_transaction *t)
{
    lock_acquire(&t->publisher->lock);
    t->is_left = atomic_load_explicit(&t->tx, memory_order_relaxed) != NULL;
    bool is_left = t->is_left;
    lock_release(&t->publisher->lock);
    return is_left;
}

static bool is_aborted(const coney_transaction *t)
{
    return atomic_load_explicit(&t->tx, memory_order_acquire) == NULL;
}

static coney_status refuse_aborted(coney_call *call)
{
    return app_refuse(call, CONEY_ECLOSED, "the transaction ended when the app was stopped");
}

static coney_status add(coney_transaction *t, struct posting *g, const struct outgoing *message)
{
    void *tx = atomic_load_explicit(&t->tx, memory_order_acquire);
    if (tx == NULL)
        return CONEY_ECLOSED;
    if (probe_of(t) != NULL && !remember(t, message))
        return CONEY_ENOMEM;
    coney_status status = g->transport->tx_publish(tx, message);
    if (status == CONEY_OK) {
        t->count++;
        g->accepted++;
    } else if (probe_of(t) != NULL) {
        t->added = t->added->next;
    }
    return status;
}

/* Ends what stands behind it. The posting has entered the publisher. */
static coney_status finish(coney_transaction *t, const struct posting *g, bool commit, coney_call *call)
{
    void *tx = claim(t);
    if (tx == NULL)
        return commit ? refuse_aborted(call) : CONEY_OK;
    if (!commit)
        return g->transport->tx_abort(tx, call);
    coney_status status = probed_failure(t);
    if (status == CONEY_OK) {
        status = g->transport->tx_commit(tx, call);
    } else {
        coney_call ignored = {0};
        g->transport->tx_abort(tx, &ignored);
        app_refuse(call, status, "%s", coney_status_text(status));
    }
    struct publisher_stats *stats = &t->publisher->stats;
    atomic_fetch_add_explicit(status == CONEY_OK ? &stats->confirmed : &stats->failed, t->count, memory_order_relaxed);
    if (status == CONEY_OK && probe_of(t) != NULL)
        tell_probe(t);
    return status;
}

/* `is_ours`: the caller frees it. */
static coney_status end_open(coney_transaction *t, bool commit, coney_call *call, bool *is_ours)
{
    struct posting g;
    coney_out out = coney_out_by_publisher(t->publisher);
    coney_status status = posting_begin(&g, &out, NULL, 0, call);
    if (status == CONEY_OK) {
        status = finish(t, &g, commit, call);
        posting_end(&g, CONEY_OK);
        return status;
    }
    *is_ours = status != CONEY_EFORKED && !leave_to_close(t); /* in a child the lock may be held by a thread of the parent's */
    return status == CONEY_ECLOSED && !commit ? CONEY_OK : status;
}

/* Ends and frees it. */
static coney_status end(coney_transaction *t, bool commit, coney_call *call)
{
    bool is_ours = true;
    coney_status status = !is_aborted(t) ? end_open(t, commit, call, &is_ours) : commit ? refuse_aborted(call) : CONEY_OK;
    if (is_ours)
        transaction_free(t);
    return status;
}

/* Takes the first one off for its owner, who may free it at once. False: there is none. */
static bool take_first(coney_publisher *p, void **tx, bool *is_used)
{
    lock_acquire(&p->lock);
    struct list *first = list_take(&p->transactions);
    coney_transaction *t = first != NULL ? container_of(first, coney_transaction, open) : NULL;
    bool is_left = t != NULL && t->is_left;
    *tx = t != NULL ? atomic_exchange_explicit(&t->tx, NULL, memory_order_acq_rel) : NULL;
    *is_used = p->users > 0;
    lock_release(&p->lock);
    if (is_left)
        transaction_free(t);
    return t != NULL;
}

/* What somebody may be using at this moment, since the close did not wait any longer, is left to the transport's disconnect. */
void transaction_abort_all(coney_publisher *p)
{
    void *tx;
    bool is_used;
    while (take_first(p, &tx, &is_used)) {
        app_log(p->broker->app, CONEY_LOG_WARNING,
                "publisher '%s': a transaction was open when the app was stopped: what it held is dropped", p->name);
        coney_call ignored = {0};
        if (!is_used)
            p->broker->transport->tx_abort(tx, &ignored);
    }
}

/* Of deliveries --------------------------------------------------------------------------------------------------- */

static coney_transaction *transaction_of(const struct transaction_scope *scope)
{
    return container_of(scope, coney_transaction, scope);
}

static coney_transaction *find_in(const coney_delivery *d, const coney_publisher *p)
{
    for (struct transaction_scope *scope = d->scope; scope != NULL; scope = scope->next)
        if (transaction_of(scope)->publisher == p)
            return transaction_of(scope);
    return NULL;
}

coney_status transaction_add_in_delivery(struct posting *g, const struct outgoing *message)
{
    if (g->batch != NULL)
        return posting_refuse(
            g, CONEY_EINVAL,
            "it is transactional, and a transaction is of one delivery: use coney_out_by, or begin one by hand");
    if (g->delivery == NULL)
        return posting_refuse(
            g, CONEY_EINVAL,
            "it is transactional: publish through a delivery with coney_out_by, or in coney_transaction_begin");
    coney_transaction *t = find_in(g->delivery, g->publisher);
    if (t != NULL && is_aborted(t))
        return posting_refuse(g, CONEY_ECLOSED, "the transaction of the delivery ended when the app was stopped");
    if (t != NULL)
        return add(t, g, message);
    coney_call call = {0};
    coney_status status;
    t = begin(g, &call, &status);
    if (t == NULL)
        return g->transport->tx_begin == NULL ? status
                                              : posting_refuse(g, status, "a transaction could not be begun: %s",
                                                               call.text[0] != '\0' ? call.text : coney_status_text(status));
    t->scope.next = g->delivery->scope;
    g->delivery->scope = &t->scope;
    atomic_store_explicit(&g->delivery->is_special, true, memory_order_relaxed);
    return add(t, g, message);
}

coney_status delivery_end_transactions(coney_delivery *d, bool commit)
{
    coney_status first_failure = CONEY_OK;
    struct transaction_scope *next;
    for (struct transaction_scope *scope = d->scope; scope != NULL; scope = next) {
        next = scope->next;
        const coney_publisher *p = transaction_of(scope)->publisher;
        bool was_asked = commit && first_failure == CONEY_OK;
        coney_call call = {0};
        coney_status status = end(transaction_of(scope), was_asked, &call);
        if (!was_asked || status == CONEY_OK)
            continue;
        first_failure = status;
        const char *words = call.text[0] != '\0' ? call.text : coney_status_text(status);
        app_log(p->broker->app, CONEY_LOG_WARNING,
                "publisher '%s': the transaction of a message of the subscription '%s' was not committed: %s", p->name,
                d->subscription->name, words);
    }
    d->scope = NULL;
    return first_failure;
}

/* By hand --------------------------------------------------------------------------------------------------------- */

static bool is_asynchronous(coney_call *call)
{
    if (call->on_done != NULL)
        app_refuse(call, CONEY_EINVAL, "transactions of a service block: leave out on_done");
    return call->on_done != NULL;
}

coney_transaction *coney_transaction_begin(coney_publisher *publisher, coney_call *call)
{
    coney_call own = {0};
    if (call == NULL)
        call = &own;
    if (is_asynchronous(call))
        return NULL;
    struct posting g;
    coney_out out = coney_out_by_publisher(publisher);
    coney_status status = posting_begin(&g, &out, NULL, 0, call);
    if (status != CONEY_OK)
        return NULL;
    coney_transaction *t = begin(&g, call, &status);
    posting_end(&g, CONEY_OK);
    return t;
}

coney_status coney_transaction_publish_sized(coney_transaction *transaction, const coney_type *type, const void *value,
                                             const coney_publish_options *options, size_t size)
{
    if (transaction == NULL)
        return CONEY_EINVAL;
    if (is_aborted(transaction))
        return CONEY_ECLOSED;
    struct posting g;
    coney_out out = coney_out_by_publisher(transaction->publisher);
    coney_status status = posting_begin(&g, &out, options, size, NULL);
    if (status != CONEY_OK)
        return status;
    struct outgoing outgoing;
    status = posting_write(&g, type, value);
    if (status == CONEY_OK)
        status = posting_outgoing(&g, &g.message, &outgoing);
    return posting_end(&g, status == CONEY_OK ? add(transaction, &g, &outgoing) : status);
}

static coney_status end_by_hand(coney_transaction **transaction, bool commit, coney_call *call)
{
    if (transaction == NULL || *transaction == NULL)
        return CONEY_OK;
    coney_call own = {0};
    if (call == NULL)
        call = &own;
    if (is_asynchronous(call))
        return CONEY_EINVAL;
    coney_transaction *t = *transaction;
    *transaction = NULL;
    return end(t, commit, call);
}

coney_status coney_transaction_commit(coney_transaction **transaction, coney_call *call)
{
    return end_by_hand(transaction, true, call);
}

coney_status coney_transaction_abort(coney_transaction **transaction, coney_call *call)
{
    return end_by_hand(transaction, false, call);
}
