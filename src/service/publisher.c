/* publisher.c: publishers from their description to their close, and the places where publishes go out. */
#include "service/publisher.h"

#include "base/text.h"
#include "base/time.h"
#include "service/app.h"
#include "service/posting.h"
#include "service/ticket.h"

/* Description ----------------------------------------------------------------------------------------------------- */

static void append(coney_broker *broker, coney_publisher *p)
{
    coney_publisher **end = &broker->publishers;
    while (*end != NULL)
        end = &(*end)->next;
    *end = p;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static const char *name_of(const coney_publisher *p)
{
    const coney_publisher_options *options = &p->options;
    const char *const names[] = {options->name, options->to, options->exchange};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_given(names[i]))
            return names[i];
    return p->broker->label;
}

void publisher_broker_was_labelled(coney_broker *broker)
{
    for (coney_publisher *p = broker->publishers; p != NULL; p = p->next)
        p->name = name_of(p);
}

coney_publisher *publisher_add(coney_broker *broker, const coney_publisher_options *options, size_t size)
{
    coney_app *app = broker->app;
    coney_publisher *p = app_copy_bytes(app, NULL, sizeof *p);
    if (p == NULL)
        return NULL;
    coney_publisher_options *copy = &p->options;
    bool is_known = app_take_options(copy, sizeof *copy, options, size);
    copy->name = app_copy_text(app, copy->name);
    copy->to = app_copy_text(app, copy->to);
    copy->exchange = app_copy_text(app, copy->exchange);
    p->broker = broker;
    p->name = name_of(p);
    list_init(&p->transactions);
    if (!is_known)
        mistake(&app->built, "publisher", "'%s' " NEWER_TEXT, copy->name != NULL ? copy->name : "");
    append(broker, p);
    return p;
}

coney_publisher *coney_publisher_new_sized(coney_broker *broker, const coney_publisher_options *options, size_t size)
{
    if (broker == NULL || !app_may_change(broker->app, "coney_publisher_new"))
        return NULL;
    return publisher_add(broker, options, size);
}

void coney_app_use_publish(coney_app *app, coney_publish_around_fn around, void *ctx)
{
    if (app == NULL || !app_may_change(app, "coney_app_use_publish"))
        return;
    if (around == NULL) {
        mistake(&app->built, "middleware", "a function of coney_app_use_publish is NULL");
        return;
    }
    size_t count = app->publish_middleware_count;
    struct publish_middleware *grown = app_copy_bytes(app, NULL, (count + 1) * sizeof *grown);
    if (grown == NULL)
        return;
    if (count > 0)
        memcpy(grown, app->publish_middlewares, count * sizeof *grown);
    grown[count] = (struct publish_middleware){around, ctx};
    app->publish_middlewares = grown;
    app->publish_middleware_count = count + 1;
}

/* Check ----------------------------------------------------------------------------------------------------------- */

/* Nothing is written that is the same: it may be checked while it is open, and is read by every publish. */
static void resolve(coney_publisher *p)
{
    const coney_codec *codec = p->options.codec;
    if (codec == NULL)
        codec = p->broker->codec != NULL ? p->broker->codec : p->broker->app->options.codec;
    lock_acquire(&p->lock);
    if (p->codec != codec) {
        p->codec = codec;
        p->content_type = coney_bytes_str(codec->content_type);
    }
    lock_release(&p->lock);
}

static void check_text(struct mistakes *mistakes, const char *field, const char *text)
{
    if (text == NULL)
        return;
    if (strlen(text) > POSTING_LONGEST_TO)
        mistake(mistakes, field, "it is %zu bytes long: at most %d are possible", strlen(text), (int)POSTING_LONGEST_TO);
    if (!text_is_utf8(text))
        mistake(mistakes, field, "it is not UTF-8");
}

/* What a template names is known when something is published. */
static void check_template(struct mistakes *mistakes, const char *to)
{
    bool is_open = false;
    for (const char *at = is_given(to) ? to : ""; *at != '\0'; at++) {
        if (*at != '{' && *at != '}')
            continue;
        if ((*at == '{') == is_open) {
            mistake(mistakes, "to", "'%s' has a brace too many: {member} stands for the text of a member", to);
            return;
        }
        is_open = !is_open;
    }
    if (is_open)
        mistake(mistakes, "to", "'%s' has a { without its }: {member} stands for the text of a member", to);
}

/* A codec that this build lacks answers so, whatever it is asked. */
static void check_codec(struct mistakes *mistakes, const coney_codec *codec)
{
    static const coney_type nothing = {.name = "nothing", .kind = CONEY_KIND_MESSAGE, .size = 1};
    if (codec->name == NULL || codec->content_type == NULL || codec->encode == NULL) {
        mistake(mistakes, "codec", "it has no name, no content type or no encode function");
        return;
    }
    uint8_t value = 0;
    coney_sink sink = {0};
    coney_status status = coney_encode(codec, &nothing, &value, &sink, NULL, NULL);
    coney_sink_free(&sink);
    if (status == CONEY_EUNSUPPORTED)
        mistake(mistakes, "codec", "this coney was built without %s", codec->name);
}

static void check_reserved(struct mistakes *mistakes, const coney_publisher_options *options)
{
    uint32_t reserved;
    memcpy(&reserved, options->reserved, sizeof reserved);
    if (reserved != 0 || options->reserved_number != 0)
        mistake(mistakes, "reserved", "a reserved member is not zero: zero the whole struct before its members are set");
}

static void check_policy(const coney_publisher *p, struct mistakes *mistakes)
{
    coney_publish_policy policy = p->options.policy;
    if ((unsigned)policy > CONEY_PUBLISH_TRANSACTION)
        mistake(mistakes, "policy", "%d is none: CONEY_PUBLISH_CONFIRMED, CONEY_PUBLISH_PLAIN or CONEY_PUBLISH_TRANSACTION",
                (int)policy);
    else if (policy == CONEY_PUBLISH_TRANSACTION && p->broker->transport->tx_begin == NULL)
        mistake(mistakes, "policy", "CONEY_PUBLISH_TRANSACTION: %s has no transactions", p->broker->transport->name);
    if (policy == CONEY_PUBLISH_TRANSACTION && p->options.on_outcome != NULL)
        mistake(mistakes, "on_outcome", "a transactional publisher has no outcomes: they are the commit's");
}

void publisher_check(coney_publisher *p, struct mistakes *mistakes)
{
    resolve(p);
    const coney_publisher_options *options = &p->options;
    char subject[POSTING_LONGEST_TO + 16];
    text_print(subject, sizeof subject, "publisher '%s'", p->name);
    const char *outer = mistakes->subject;
    mistakes->subject = subject;
    check_text(mistakes, "name", options->name);
    check_text(mistakes, "to", options->to);
    check_text(mistakes, "exchange", options->exchange);
    check_template(mistakes, options->to);
    check_policy(p, mistakes);
    if (options->codec != NULL)
        check_codec(mistakes, options->codec);
    check_reserved(mistakes, options);
    if (options->expiration < 0)
        mistake(mistakes, "expiration", "%lld ns is less than nothing: 0 is without expiration",
                (long long)options->expiration);
    if (options->priority != 0 && !options->has_priority)
        mistake(mistakes, "priority", "it is %u, and has_priority is not set", (unsigned)options->priority);
    if (p->broker->transport->check_publisher != NULL)
        p->broker->transport->check_publisher(p->broker->self, options, mistakes);
    mistakes->subject = outer;
}

/* Open and close -------------------------------------------------------------------------------------------------- */

/* Each message says by itself whether it is transient, so one may be persistent although its publisher is not. */
coney_status publisher_open(coney_publisher *p, coney_call *call)
{
    resolve(p);
    struct outlet_options options = {
        .name = p->name,
        .exchange = p->options.exchange,
        .policy = p->options.policy,
        .drop_unroutable = p->options.drop_unroutable,
        .outcome = publish_outcome,
        .ctx = p,
    };
    struct outlet *outlet = NULL;
    coney_status status = p->broker->transport->open_outlet(p->broker->self, &options, &outlet, call);
    if (status != CONEY_OK)
        return status;
    lock_acquire(&p->lock);
    p->outlet = outlet;
    lock_release(&p->lock);
    return CONEY_OK;
}

/* Nobody enters from here on. False: somebody has not left by the deadline. */
static bool shut(coney_publisher *p, int64_t deadline, struct outlet **outlet)
{
    lock_acquire(&p->lock);
    *outlet = p->outlet;
    p->outlet = NULL;
    while (p->users > 0 && cond_wait(&p->left, &p->lock, deadline))
        ;
    bool is_empty = p->users == 0;
    lock_release(&p->lock);
    return is_empty;
}

coney_status publisher_close(coney_publisher *p, coney_call *call)
{
    enum { DEFAULT_DEADLINE = 10 };
    int64_t duration = call != NULL && call->deadline != 0 ? call->deadline : DEFAULT_DEADLINE * CONEY_SECOND;
    uint64_t failed = counter_get(&p->stats.failed);
    struct outlet *outlet;
    bool is_empty = shut(p, time_after(time_now(), duration), &outlet);
    if (outlet == NULL)
        return CONEY_OK;
    transaction_abort_all(p);
    if (!is_empty)
        return app_refuse(call, CONEY_ETIMEDOUT, "publisher '%s': a publish or a request has not ended in time", p->name);
    coney_status status = p->broker->transport->close_outlet(outlet, call);
    if (call != NULL)
        call->value = counter_get(&p->stats.failed) - failed;
    return status;
}

void publisher_free(coney_publisher *p)
{
    posting_free_scratches(p);
    ticket_free_all(p);
}

/* Where publishes go out ------------------------------------------------------------------------------------------ */

static coney_publisher *own_publisher(const coney_broker *broker)
{
    return broker != NULL ? broker->publishers : NULL;
}

coney_out coney_out_of(coney_delivery *delivery)
{
    return (coney_out){
        .publisher = delivery != NULL ? own_publisher(delivery->subscription->broker) : NULL,
        .delivery = delivery,
    };
}

coney_out coney_out_by(coney_delivery *delivery, coney_publisher *publisher)
{
    return (coney_out){.publisher = publisher, .delivery = delivery};
}

coney_out coney_out_of_broker(coney_broker *broker)
{
    return coney_out_by_publisher(own_publisher(broker));
}

coney_out coney_out_of_batch(coney_batch *batch)
{
    const coney_delivery *first = batch != NULL ? coney_batch_delivery(batch, 0) : NULL;
    return (coney_out){
        .publisher = first != NULL ? own_publisher(first->subscription->broker) : NULL,
        .batch = batch,
    };
}
