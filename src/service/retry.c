/* retry.c: a message that is to come again: how often it may, where it goes when it has been there too often, and the copies that this takes.
 *
 * A copy is confirmed before the message that it stands for is acked: a crash between the two makes two of one message, never none. They are published on the
 * worker.
 */
#include "service/dispatch.h"

#include "base/bytes.h"
#include "base/text.h"
#include "service/publisher.h"

#include <inttypes.h>

/* Before a dead letter is tried again. */
#define DEAD_LETTER_PAUSE CONEY_SECOND

static struct settle_plan plan_of_spent(coney_delivery *d, uint64_t attempts)
{
    const struct subscription *s = d->subscription;
    char name[192];
    char what[320];
    delivery_name(d, name, sizeof name);
    const char *to = s->options.dead_letter;
    text_print(what, sizeof what, "was delivered %" PRIu64 " times: %s%s%s", attempts,
               to != NULL ? "it goes to '" : "it is rejected", to != NULL ? to : "", to != NULL ? "'" : "");
    complain(s, &d->dispatch->complaints, COMPLAINT_SPENT, name, what);
    return (struct settle_plan){.way = to != NULL ? PLAN_COPY_DEAD : PLAN_SETTLE, .how = CONEY_REJECT, .attempts = attempts};
}

struct settle_plan retry_plan(coney_delivery *d, coney_settle how)
{
    const struct feed *feed = d->m->feed;
    const coney_subscription *options = &d->subscription->options;
    bool is_limited = options->max_attempts > 0;
    int64_t delay = how > 0 ? how : 0;
    uint64_t attempts = is_limited ? delivery_attempt(d) : 0;
    if (is_limited && attempts >= (uint64_t)options->max_attempts)
        return plan_of_spent(d, attempts);
    if (d->stays)
        return (struct settle_plan){.way = PLAN_SETTLE, .how = how};
    if (delay > 0 && d->dispatch->transport->delays(feed))
        return (struct settle_plan){
            .way = PLAN_COPY_BACK, .how = how, .delay = delay, .attempts = is_limited ? attempts : delivery_attempt(d)};
    if (is_limited && !feed->counts)
        return (struct settle_plan){.way = PLAN_COPY_BACK, .how = how, .hold = delay, .attempts = attempts};
    return (struct settle_plan){.way = PLAN_SETTLE, .how = how};
}

coney_settle retry_without_copy(const struct settle_plan *plan)
{
    return plan->way == PLAN_COPY_DEAD ? coney_retry_after(DEAD_LETTER_PAUSE) : plan->how;
}

static const char *destination(const coney_delivery *d)
{
    return d->plan.way == PLAN_COPY_DEAD ? d->subscription->options.dead_letter : NULL;
}

/* What has had all its attempts gets no other, and a queue that counts them would drop it: it is held here until its dead letter is taken. */
static void dead_letter_failed(coney_delivery *d, coney_status status)
{
    const struct subscription *s = d->subscription;
    app_log(s->app, CONEY_LOG_ERROR,
            "subscription '%s': the dead letter of a message for '%s' failed (%s): it is tried again after %d ms", s->name,
            s->options.dead_letter, coney_status_name(status), (int)(DEAD_LETTER_PAUSE / CONEY_MILLISECOND));
    d->plan.hold = DEAD_LETTER_PAUSE;
    retry_copy(d);
}

static void copy_failed(coney_delivery *d, coney_status status)
{
    const struct subscription *s = d->subscription;
    if (d->plan.way == PLAN_COPY_DEAD) {
        dead_letter_failed(d, status);
        return;
    }
    bool is_expected = status == CONEY_EUNSUPPORTED; /* the source has no place to publish to */
    if (!is_expected)
        app_log(s->app, CONEY_LOG_ERROR,
                "subscription '%s': the copy of a message for another attempt failed (%s): the message itself comes again",
                s->name, coney_status_name(status));
    settle_finish(d, d->plan.how, d->plan.how);
}

static void copied(coney_delivery *d, coney_status status)
{
    if (status != CONEY_OK) {
        copy_failed(d, status);
        return;
    }
    if (d->plan.way == PLAN_COPY_DEAD)
        counter_share(&d->subscription->stats.dead_lettered, 1);
    settle_finish(d, CONEY_ACK, d->plan.how);
}

static void on_copied(void *ctx, const coney_outcome *outcome)
{
    (void)ctx;
    coney_delivery *d = (coney_delivery *)(uintptr_t)outcome->tag;
    struct dispatch *x = d->dispatch;
    if (!dispatch_enter(x)) {
        dispatch_orphan(d);
        return;
    }
    copied(d, outcome->status);
    dispatch_leave(x);
}

/* The testkit's copy of the copy. */
static void show_probe(coney_delivery *d)
{
    const struct publish_probe *probe = d->subscription->app->publish_probe;
    if (probe == NULL || probe->published == NULL)
        return;
    const coney_delivery_info *info = delivery_info(d);
    size_t count = info->headers.type == CONEY_VALUE_MAP ? info->headers.count / 2 : 0;
    coney_field *headers = coney_arena_alloc(d->arena, (count + 1) * sizeof *headers);
    d->used_arena = true;
    if (headers == NULL)
        return;
    size_t used = 0;
    coney_field field;
    coney_value_iter iter = coney_value_elements(&info->headers);
    while (used < count && coney_value_next_field(&iter, &field))
        if (!bytes_equal(field.key, CONEY_STR(ATTEMPTS_HEADER)))
            headers[used++] = field;
    headers[used++] = (coney_field){CONEY_STR(ATTEMPTS_HEADER), coney_value_u32((uint32_t)d->plan.attempts)};
    const char *to = destination(d);
    struct outgoing copy = {.to = to != NULL ? coney_bytes_str(to) : info->source,
                            .body = d->m->body,
                            .content_type = info->content_type,
                            .correlation_id = info->correlation_id,
                            .reply_to = info->reply_to,
                            .message_id = info->message_id,
                            .type = info->type,
                            .key = info->key,
                            .headers = headers,
                            .header_count = used,
                            .expiration = info->expiration,
                            .timestamp = info->timestamp,
                            .priority = info->priority,
                            .has_priority = info->has_priority};
    probe->published(probe->ctx, d->subscription->broker, NULL, &copy);
}

static coney_status probe_failure(const coney_delivery *d)
{
    const struct publish_probe *probe = d->subscription->app->publish_probe;
    return probe != NULL && probe->fail != NULL ? probe->fail(probe->ctx, d->subscription->broker) : CONEY_OK;
}

static void copy_run(struct work *work)
{
    coney_delivery *d = container_of(work, coney_delivery, work);
    struct dispatch *x = d->dispatch;
    if (!settle_on_worker_begins(d))
        return;
    coney_status status = probe_failure(d);
    if (status == CONEY_OK) {
        show_probe(d);
        status = x->transport->copy(&d->in, destination(d), d->plan.attempts, d->plan.delay, on_copied, NULL,
                                    (uint64_t)(uintptr_t)d);
    }
    if (status != CONEY_OK)
        copy_failed(d, status);
    dispatch_leave(x);
}

void retry_copy(coney_delivery *d)
{
    if (d->plan.hold == 0)
        settle_on_worker(d, copy_run);
    else if (!settle_on_worker_later(d, copy_run, d->plan.hold))
        dispatch_set_aside(d->dispatch, d);
}
