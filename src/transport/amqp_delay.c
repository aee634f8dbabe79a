/* amqp_delay.c: where messages wait before they come again: queues whose TTL and dead-lettering give them back, one for a class of delays; or the exchange
 * of the plugin for delayed messages.
 */
#include "transport/amqp.h"

#include "base/text.h"

#include <stdlib.h>

/* What an on_failure or on_publish_failure waits that is not set. */
#define DEFAULT_RETRY CONEY_SECOND

/* Classes are multiples of a step that is 1, 2 or 5 times a power of ten and at most an eighth of the delay: round delays stay as they are. */
int64_t tamqp_delay_class(int64_t ns)
{
    static const int64_t factors[] = {5, 2, 1};
    int64_t ms = ns / CONEY_MILLISECOND + (ns % CONEY_MILLISECOND > 0);
    int64_t step = 1;
    for (int64_t power = 1; power <= ms / 8; power *= 10) {
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
            if (factors[i] * power > ms / 8)
                continue;
            step = factors[i] * power;
            break;
        }
    }
    int64_t rest = ms % step;
    return rest == 0 ? ms : ms + (step - rest);
}

void tamqp_waiting_queue_name(char *name, const char *queue, int64_t ms)
{
    text_print(name, TAMQP_NAME_MAX + 1, "%s.wait.%lld", queue, (long long)ms);
}

void tamqp_delay_exchange_name(char *name, const char *queue)
{
    text_print(name, TAMQP_NAME_MAX + 1, "%s.delay", queue);
}

/* Waiting queues --------------------------------------------------------------------------------------------------------- */

static coney_status declare_waiting_queue(coney_amqp *rabbit, const coney_queue_source *source, const char *queue, int64_t ms,
                                          coney_call *call)
{
    char name[TAMQP_NAME_MAX + 1];
    tamqp_waiting_queue_name(name, queue, ms);
    coney_amqp_queue waiting = {.name = name, .passive = !source->declare};
    if (source->declare) {
        waiting.type = source->type == CONEY_QUEUE_QUORUM ? CONEY_QUEUE_QUORUM : CONEY_QUEUE_CLASSIC;
        waiting.message_ttl = ms * CONEY_MILLISECOND;
        waiting.dead_letter_exchange = "";
        waiting.dead_letter_routing_key = queue;
        waiting.exclusive = source->exclusive;
        waiting.transient = source->transient && source->exclusive;
        if (waiting.type == CONEY_QUEUE_QUORUM) { /* otherwise what is due while the queue has no leader is lost */
            waiting.dead_letter_strategy = "at-least-once";
            waiting.overflow = "reject-publish"; /* the broker asks for it with that */
        }
    }
    coney_status status = coney_amqp_queue_declare(rabbit, &waiting, call);
    if (status == CONEY_ENOTFOUND)
        text_append(
            call->text, sizeof call->text,
            "; messages of '%s' that come again after a while wait there: set .declare, or declare it with x-message-ttl "
            "%lld and dead-lettering through the default exchange to '%s'",
            queue, (long long)ms, queue);
    return status;
}

static bool is_known(const struct tamqp_feed *feed, int64_t ms)
{
    for (size_t i = 0; i < feed->wait_count; i++)
        if (feed->waits[i] == ms)
            return true;
    return false;
}

static bool make_room(struct tamqp_feed *feed)
{
    if (feed->wait_count < feed->wait_cap)
        return true;
    size_t cap = feed->wait_cap > 0 ? feed->wait_cap * 2 : 4;
    int64_t *waits = realloc(feed->waits, cap * sizeof *waits);
    if (waits == NULL)
        return false;
    feed->waits = waits;
    feed->wait_cap = cap;
    return true;
}

static coney_status need_locked(struct tamqp_feed *feed, int64_t ms)
{
    if (atomic_exchange(&feed->doubts_waits, false))
        feed->wait_count = 0;
    if (is_known(feed, ms))
        return CONEY_OK;
    if (!make_room(feed))
        return CONEY_ENOMEM;
    coney_call call = {0};
    coney_status status = declare_waiting_queue(tamqp_rabbit(feed->amqp), feed->source, feed->queue, ms, &call);
    if (status == CONEY_OK)
        feed->waits[feed->wait_count++] = ms;
    else
        broker_log(feed->amqp->broker, CONEY_LOG_WARNING, call.text);
    return status;
}

coney_status tamqp_need_waiting_queue(struct tamqp_feed *feed, int64_t ms)
{
    lock_acquire(&feed->amqp->opening_lock);
    coney_status status = need_locked(feed, ms);
    lock_release(&feed->amqp->opening_lock);
    return status;
}

/* At the start ------------------------------------------------------------------------------------------------------------- */

static coney_status declare_delay_exchange(coney_amqp *rabbit, const coney_queue_source *source, const char *queue,
                                           coney_call *call)
{
    char name[TAMQP_NAME_MAX + 1];
    tamqp_delay_exchange_name(name, queue);
    coney_field type = {CONEY_STR("x-delayed-type"), coney_value_string(CONEY_STR("direct"))};
    coney_amqp_exchange exchange = {.name = name, .type = "x-delayed-message", .passive = !source->declare};
    if (source->declare) {
        exchange.arguments = &type;
        exchange.argument_count = 1;
    }
    coney_status status = coney_amqp_exchange_declare(rabbit, &exchange, call);
    if (status != CONEY_OK || !source->declare)
        return status;
    coney_amqp_binding binding = {.source = name, .destination = queue, .routing_key = queue};
    return coney_amqp_bind(rabbit, &binding, call);
}

static int64_t delay_of(coney_policy policy, int64_t otherwise)
{
    return policy == CONEY_POLICY_DEFAULT ? otherwise : policy > 0 ? policy : 0;
}

coney_status tamqp_declare_delay(coney_amqp *rabbit, const char *queue, const coney_subscription *subscription,
                                 coney_call *call)
{
    const coney_queue_source *source = tamqp_source(subscription);
    if (source->delay == CONEY_DELAY_PLUGIN)
        return declare_delay_exchange(rabbit, source, queue, call);
    if (source->delay != CONEY_DELAY_QUEUE || source->declare)
        return CONEY_OK;
    const int64_t delays[] = {delay_of(subscription->on_failure, DEFAULT_RETRY),
                              delay_of(subscription->on_publish_failure, DEFAULT_RETRY),
                              delay_of(subscription->on_undecodable, 0)};
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        if (delays[i] == 0)
            continue;
        coney_status status = declare_waiting_queue(rabbit, source, queue, tamqp_delay_class(delays[i]), call);
        if (status != CONEY_OK)
            return status;
    }
    return CONEY_OK;
}
