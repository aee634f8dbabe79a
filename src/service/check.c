/* check.c: what is wrong with an app, all of it at once: the app, its brokers, publishers and subscriptions in the order of their making. */
#include "base/text.h"
#include "service/posting.h"

#include <ctype.h>

enum { NAME_LONGEST = 255, LANES_MAX = 1024, LANE_QUEUE_MAX = 1000000, BATCH_MAX = 65535, SUBJECT_MAX = 320 };

static bool all_zero(const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++)
        if (at[i] != 0)
            return false;
    return true;
}

static void check_reserved(struct mistakes *m, const char *field, const void *bytes, size_t len)
{
    if (!all_zero(bytes, len))
        mistake(m, field, "a reserved member is not zero: zero the whole struct before its members are set");
}

static void check_text(struct mistakes *m, const char *field, const char *text, bool needed)
{
    if (text == NULL || *text == '\0') {
        if (needed)
            mistake(m, field, "is empty: give it one");
        return;
    }
    if (strlen(text) > NAME_LONGEST)
        mistake(m, field, "has %zu bytes: at most %d are possible", strlen(text), NAME_LONGEST);
    if (!text_is_utf8(text))
        mistake(m, field, "is not UTF-8");
    for (const char *at = text; *at != '\0'; at++)
        if (iscntrl((unsigned char)*at)) {
            mistake(m, field, "has a control character in it: it is one line");
            break;
        }
}

/* A duration or number of options: CONEY_OFF is allowed, what is below is not. */
static void check_off_or_more(struct mistakes *m, const char *field, int64_t value)
{
    if (value < CONEY_OFF)
        mistake(m, field, "%lld is negative: a positive number, 0 for the default or CONEY_OFF", (long long)value);
}

static void check_between(struct mistakes *m, const char *field, int64_t value, int64_t least, int64_t most)
{
    if (value < least || value > most)
        mistake(m, field, "%lld is not between %lld and %lld", (long long)value, (long long)least, (long long)most);
}

#define NOT_BUILT_TEXT "this build of coney has no %s (options CONEY_JSON, CONEY_CBOR, CONEY_MSGPACK): choose another codec"

/* The form of a codec, not whether it works. False: it must not be called. */
static bool check_codec(struct mistakes *m, const coney_codec *codec)
{
    if (codec == NULL)
        return false;
    bool is_whole = codec->name != NULL && codec->content_type != NULL && codec->decode != NULL && codec->encode != NULL;
    if (!is_whole)
        mistake(m, "codec", "'%s' lacks one of name, content_type, decode and encode", codec->name != NULL ? codec->name : "");
    check_reserved(m, "codec", codec->reserved, sizeof codec->reserved);
    return is_whole;
}

/* Subscriptions ----------------------------------------------------------------------------------------------------------- */

static void check_source(const coney_source *source, struct mistakes *m)
{
    if (source->kind == CONEY_SOURCE_NONE || source->of == NULL) {
        mistake(m, "source", "is missing: CONEY_QUEUE(\"name\"), CONEY_STREAM(\"name\") or CONEY_TOPIC(\"name\")");
        return;
    }
    switch (source->kind) {
    case CONEY_SOURCE_NONE:
        return;
    case CONEY_SOURCE_QUEUE: {
        const coney_queue_source *queue = source->of;
        check_reserved(m, "source", queue->reserved, sizeof queue->reserved);
        check_reserved(m, "source", &queue->reserved_number, sizeof queue->reserved_number);
        return;
    }
    case CONEY_SOURCE_STREAM: {
        const coney_stream_source *stream = source->of;
        check_reserved(m, "source", stream->reserved, sizeof stream->reserved);
        check_reserved(m, "source", &stream->reserved_number, sizeof stream->reserved_number);
        return;
    }
    case CONEY_SOURCE_TOPIC: {
        const coney_topic_source *topic = source->of;
        check_reserved(m, "source", &topic->reserved_number, sizeof topic->reserved_number);
        return;
    }
    }
    mistake(m, "source", "%d is no kind of source", (int)source->kind);
}

/* The transport looks at sources that have a form. */
static bool source_has_form(const coney_source *source)
{
    return source->of != NULL && source->kind >= CONEY_SOURCE_QUEUE && source->kind <= CONEY_SOURCE_TOPIC;
}

/* Whether this build has the codec: it is asked for a body of nothing, which every codec refuses in one way or the other. */
static void check_codec_is_built(const struct subscription *s, const coney_type *type, struct mistakes *m)
{
    const coney_codec *codec = subscription_codec(s);
    if (!check_codec(m, codec))
        return;
    coney_arena *arena = coney_arena_new();
    void *out = arena != NULL ? coney_arena_alloc(arena, type->size) : NULL;
    coney_fault fault;
    if (out != NULL && coney_decode(codec, coney_bytes_of("", 0), type, out, arena, &fault) == CONEY_EUNSUPPORTED)
        mistake(m, "codec", NOT_BUILT_TEXT, codec->name);
    coney_arena_free(&arena);
}

static void check_type(const struct subscription *s, struct mistakes *m)
{
    const coney_subscription *o = &s->options;
    if (o->handler.type == NULL) {
        if (o->codec != NULL)
            mistake(m, "codec", "handler '%s' takes bytes as they are: leave the codec out, or make it with CONEY_HANDLER",
                    o->handler.name);
        if (o->choose != NULL)
            mistake(m, "choose", "handler '%s' takes bytes as they are: there is nothing to choose", o->handler.name);
        return;
    }
    const coney_type *type = o->handler.type();
    char words[512];
    if (type == NULL || (type->kind != CONEY_KIND_MESSAGE && type->kind != CONEY_KIND_SET)) {
        mistake(m, "handler", "'%s' has no type that can be decoded: a message or a set", o->handler.name);
        return;
    }
    if (o->choose != NULL && type->kind != CONEY_KIND_SET)
        mistake(m, "choose", "'%s' is one message: only a set (CONEY_SET) has variants to choose from", type->name);
    if (coney_type_check(type, words, sizeof words) != CONEY_OK)
        mistake(m, "handler", "type '%s': %s", type->name, words);
    else
        check_codec_is_built(s, type, m);
}

static void check_handler(const struct subscription *s, struct mistakes *m)
{
    const coney_subscription *o = &s->options;
    if (o->handler.one == NULL && o->handler.many == NULL) {
        mistake(m, "handler",
                "is missing: make one with CONEY_HANDLER, CONEY_RAW_HANDLER, CONEY_BATCH_HANDLER or "
                "CONEY_RAW_BATCH_HANDLER");
        return;
    }
    if (o->handler.one != NULL && o->handler.many != NULL)
        mistake(m, "handler", "'%s' is for single messages and for batches: it can be one of them", o->handler.name);
    if (o->handler.name == NULL)
        mistake(m, "handler", "has no name: make it with CONEY_HANDLER and its kin");
    check_reserved(m, "handler", o->handler.reserved, sizeof o->handler.reserved);
    check_type(s, m);
}

static void check_batch(const coney_subscription *o, struct mistakes *m)
{
    if (o->handler.many == NULL) {
        if (o->batch != 0)
            mistake(m, "batch",
                    "%lld, and handler '%s' takes single messages: make it with CONEY_BATCH_HANDLER, or leave batch out",
                    (long long)o->batch, o->handler.name != NULL ? o->handler.name : "");
        if (o->batch_wait != 0)
            mistake(m, "batch_wait", "has no meaning without a batch handler");
        return;
    }
    if (o->batch == 0)
        mistake(m, "batch", "handler '%s' takes batches: say how many messages one has at most",
                o->handler.name != NULL ? o->handler.name : "");
    else
        check_between(m, "batch", o->batch, 1, BATCH_MAX);
    check_off_or_more(m, "batch_wait", o->batch_wait);
    if (o->by_key)
        mistake(m, "by_key", "batches are gathered from all keys: leave by_key or batch out");
    if (o->around != NULL)
        mistake(m, "around", "handlers of batches are not wrapped by middleware");
}

static void check_lanes(const coney_subscription *o, struct mistakes *m)
{
    if (o->lanes != 0)
        check_between(m, "lanes", o->lanes, 1, LANES_MAX);
    if (o->lane_queue != 0)
        check_between(m, "lane_queue", o->lane_queue, 1, LANE_QUEUE_MAX);
    if (o->by_key && o->lanes <= 1)
        mistake(m, "by_key", "one lane keeps everything in order: set lanes above 1, or leave by_key out");
    if (o->key_header != NULL && !o->by_key)
        mistake(m, "key_header", "'%s' is looked at with by_key only", o->key_header);
    if (o->key_header != NULL)
        check_text(m, "key_header", o->key_header, true);
}

static void check_policy(struct mistakes *m, const char *field, coney_policy policy)
{
    if (policy < CONEY_POLICY_STOP)
        mistake(m, field, "%lld is no policy: CONEY_POLICY_RETRY, _REJECT, _SKIP, _STOP or coney_policy_retry(ns)",
                (long long)policy);
}

static void check_failures(const coney_subscription *o, struct mistakes *m)
{
    check_policy(m, "on_undecodable", o->on_undecodable);
    check_policy(m, "on_failure", o->on_failure);
    check_policy(m, "on_publish_failure", o->on_publish_failure);
    if (o->max_attempts < 0)
        mistake(m, "max_attempts", "%lld is negative: 1 or more, or 0 for no limit", (long long)o->max_attempts);
    if (o->dead_letter != NULL) {
        check_text(m, "dead_letter", o->dead_letter, true);
        if (o->max_attempts == 0)
            mistake(m, "dead_letter", "'%s' needs max_attempts: without it no message is ever spent", o->dead_letter);
    }
    if (o->no_retry_copies && o->max_attempts == 0)
        mistake(m, "no_retry_copies", "has no meaning without max_attempts");
}

static void check_routed(const struct subscription *s, struct mistakes *m)
{
    for (size_t i = 0; i < s->routed.count; i++)
        if (s->routed.items[i].around == NULL)
            mistake(m, "middleware", "a function of coney_router_use is NULL");
}

void subscription_check(struct subscription *s, struct mistakes *m)
{
    char subject[SUBJECT_MAX];
    text_print(subject, sizeof subject, "subscription '%s'", s->name);
    m->subject = subject;
    const coney_subscription *o = &s->options;
    check_text(m, "name", s->name, true);
    check_source(&o->source, m);
    check_handler(s, m);
    check_batch(o, m);
    check_lanes(o, m);
    check_failures(o, m);
    check_routed(s, m);
    check_reserved(m, "subscription", o->reserved, sizeof o->reserved);
    if (source_has_form(&o->source))
        s->broker->transport->check_source(s->broker->self, o, m);
    m->subject = "app";
}

/* Publishers -------------------------------------------------------------------------------------------------------------- */

/* What a template names is known when something is published. */
static void check_template(struct mistakes *m, const char *to)
{
    bool is_open = false;
    for (const char *at = to != NULL ? to : ""; *at != '\0'; at++) {
        if (*at != '{' && *at != '}')
            continue;
        if ((*at == '{') == is_open) {
            mistake(m, "to", "'%s' has a brace too many: {member} stands for the text of a member", to);
            return;
        }
        is_open = !is_open;
    }
    if (is_open)
        mistake(m, "to", "'%s' has a { without its }: {member} stands for the text of a member", to);
}

/* Whether this build has the codec: one that it lacks answers so, whatever it is asked. */
static void check_codec_writes(struct mistakes *m, const coney_codec *codec)
{
    static const coney_type nothing = {.name = "nothing", .kind = CONEY_KIND_MESSAGE, .size = 1};
    if (!check_codec(m, codec))
        return;
    uint8_t value = 0;
    coney_sink sink = {0};
    if (coney_encode(codec, &nothing, &value, &sink, NULL, NULL) == CONEY_EUNSUPPORTED)
        mistake(m, "codec", NOT_BUILT_TEXT, codec->name);
    coney_sink_free(&sink);
}

static void check_publish_policy(const coney_publisher *p, struct mistakes *m)
{
    coney_publish_policy policy = p->options.policy;
    if ((unsigned)policy > CONEY_PUBLISH_TRANSACTION)
        mistake(m, "policy", "%d is none: CONEY_PUBLISH_CONFIRMED, CONEY_PUBLISH_PLAIN or CONEY_PUBLISH_TRANSACTION",
                (int)policy);
    else if (policy == CONEY_PUBLISH_TRANSACTION && p->broker->transport->tx_begin == NULL)
        mistake(m, "policy", "CONEY_PUBLISH_TRANSACTION: %s has no transactions", p->broker->transport->name);
    if (policy == CONEY_PUBLISH_TRANSACTION && p->options.on_outcome != NULL)
        mistake(m, "on_outcome", "a transactional publisher has no outcomes: they are the commit's");
}

void publisher_check(const coney_publisher *p, struct mistakes *m)
{
    const coney_publisher_options *o = &p->options;
    char subject[SUBJECT_MAX];
    text_print(subject, sizeof subject, "publisher '%s'", p->name);
    m->subject = subject;
    check_text(m, "name", o->name, false);
    check_text(m, "to", o->to, false);
    check_text(m, "exchange", o->exchange, false);
    check_template(m, o->to);
    check_publish_policy(p, m);
    check_codec_writes(m, o->codec);
    check_reserved(m, "publisher", o->reserved, sizeof o->reserved);
    check_reserved(m, "publisher", &o->reserved_number, sizeof o->reserved_number);
    if (o->expiration < 0)
        mistake(m, "expiration", "%lld ns is less than nothing: 0 is without expiration", (long long)o->expiration);
    if (o->priority != 0 && !o->has_priority)
        mistake(m, "priority", "%u, and has_priority is not set", (unsigned)o->priority);
    p->broker->transport->check_publisher(p->broker->self, o, m);
    m->subject = "app";
}

/* The app ----------------------------------------------------------------------------------------------------------------- */

/* RFC 3986: a scheme, a colon, something. */
static bool is_uri(const char *text)
{
    if (!isalpha((unsigned char)*text))
        return false;
    while (isalnum((unsigned char)*text) || *text == '+' || *text == '-' || *text == '.')
        text++;
    return text[0] == ':' && text[1] != '\0';
}

static void check_options(const coney_app *app, struct mistakes *m)
{
    const coney_app_options *o = &app->options;
    check_text(m, "title", app->title, true);
    check_text(m, "version", app->version, true);
    check_off_or_more(m, "drain_timeout", o->drain_timeout);
    check_off_or_more(m, "handler_limit", o->handler_limit);
    check_between(m, "log_level", o->log_level, CONEY_LOG_ERROR, CONEY_LOG_DEBUG);
    if (o->on_subscription_end != CONEY_ON_END_LOG && o->on_subscription_end != CONEY_ON_END_STOP)
        mistake(m, "on_subscription_end", "%d is neither CONEY_ON_END_LOG nor CONEY_ON_END_STOP", (int)o->on_subscription_end);
    if (o->id != NULL && !is_uri(o->id))
        mistake(m, "id", "'%s' is no URI: a scheme comes first, as in urn:example:orders", o->id);
    check_codec(m, o->codec);
    check_reserved(m, "options", o->reserved, sizeof o->reserved);
}

/* Whether one before it has the same label. */
static bool label_is_taken(const coney_app *app, const coney_broker *broker)
{
    for (const coney_broker *other = app->brokers; other != broker; other = other->next)
        if (strcmp(other->label, broker->label) == 0)
            return true;
    return false;
}

static void check_broker(const coney_app *app, const coney_broker *broker, struct mistakes *m)
{
    char subject[SUBJECT_MAX];
    text_print(subject, sizeof subject, "broker '%s'", broker->label);
    m->subject = subject;
    check_text(m, "label", broker->label, true);
    if (label_is_taken(app, broker))
        mistake(m, "label", "another broker has it, too: give one of them another with coney_broker_label");
    if (broker->codec != NULL)
        check_codec(m, broker->codec);
    broker->transport->check_broker(broker->self, m);
    for (coney_publisher *p = broker->publishers; p != NULL; p = p->next)
        publisher_check(p, m);
    for (struct subscription *s = broker->subscriptions; s != NULL; s = s->next) {
        subscription_check(s, m);
        if (app_subscription(app, s->name) == s)
            continue;
        text_print(subject, sizeof subject, "subscription '%s'", s->name);
        m->subject = subject;
        mistake(m, "name", "another subscription has it, too: give one of them another `.name`");
        m->subject = "app";
    }
}

void app_check(coney_app *app, struct mistakes *mistakes)
{
    mistakes_join(mistakes, &app->built);
    mistakes->subject = "app";
    if (app->out_of_memory) {
        mistake(mistakes, "memory", "was out while the app was described: a part of it is missing");
        return;
    }
    check_options(app, mistakes);
    for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next)
        check_broker(app, broker, mistakes);
}

/* As many whole lines as fit; the first of them in any case. */
static void fill_call(coney_call *call, const struct mistakes *mistakes)
{
    call->status = mistakes->count > 0 ? CONEY_EINVAL : CONEY_OK;
    call->code = 0;
    call->value = mistakes->count;
    text_print(call->text, sizeof call->text, "%s", mistakes->text != NULL ? mistakes->text : "");
    char *end = strrchr(call->text, '\n');
    if (mistakes->len >= sizeof call->text && end != NULL)
        *end = '\0';
}

static void log_lines(const coney_app *app, const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, "\n");
        app_log(app, CONEY_LOG_ERROR, "%.*s", (int)len, text);
        text += text[len] == '\n' ? len + 1 : len;
    }
}

coney_status coney_app_check(coney_app *app, coney_call *call)
{
    if (app == NULL)
        return app_refuse(call, CONEY_EINVAL, "the app is NULL: memory was out when it was made");
    struct mistakes mistakes = {0};
    app_check(app, &mistakes);
    log_lines(app, mistakes.text);
    coney_status status = mistakes.count > 0 ? CONEY_EINVAL : CONEY_OK;
    if (call != NULL)
        fill_call(call, &mistakes);
    mistakes_free(&mistakes);
    return status;
}
