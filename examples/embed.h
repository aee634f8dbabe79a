/* embed.h: what the embed_* examples do with coney, so that each of them shows nothing but its event loop.
 *
 * A hundred messages to a stream and back, in the program's one thread: every call is asynchronous, and each completion starts
 * the next step. All callbacks run inside coney_loop_step.
 */
#ifndef EMBED_H
#define EMBED_H

#include <coney/stream.h>

#include <stdio.h>

#define EMBED_MESSAGES 100

struct embed {
    coney_loop *loop;
    const char *stream;
    void (*on_end)(void *ctx); /* leaves the program's event loop */
    void *ctx;
    coney_stream_env *env;
    coney_stream_consumer *consumer;
    coney_stream_producer *producer;
    int confirmed;
    int delivered;
    bool failed;
    bool ended;
};

static inline coney_call embed_call(struct embed *embed, void (*on_done)(void *ctx, const coney_call *call))
{
    return (coney_call){.on_done = on_done, .ctx = embed};
}

static inline void embed_end(struct embed *embed)
{
    if (!embed->ended)
        embed->on_end(embed->ctx);
    embed->ended = true;
}

static inline void embed_fail(struct embed *embed, const char *text)
{
    fprintf(stderr, "%s\n", text);
    embed->failed = true;
    embed_end(embed);
}

static inline void embed_end_when_all_are_back(struct embed *embed)
{
    if (embed->confirmed >= EMBED_MESSAGES && embed->delivered >= EMBED_MESSAGES)
        embed_end(embed);
}

static inline void embed_on_outcome(void *ctx, const coney_outcome *outcome)
{
    struct embed *embed = ctx;
    if (outcome->status != CONEY_OK) {
        embed_fail(embed, coney_status_text(outcome->status));
        return;
    }
    embed->confirmed++;
    embed_end_when_all_are_back(embed);
}

static inline coney_settle embed_on_message(void *ctx, const coney_stream_delivery *delivery)
{
    struct embed *embed = ctx;
    (void)delivery;
    embed->delivered++;
    embed_end_when_all_are_back(embed);
    return CONEY_ACK;
}

static inline void embed_send(void *ctx, const coney_call *call)
{
    struct embed *embed = ctx;
    if (call->status != CONEY_OK) {
        embed_fail(embed, call->text);
        return;
    }
    for (uint64_t i = 0; i < EMBED_MESSAGES; i++) {
        coney_status status = coney_stream_send(embed->producer, CONEY_STR("hello"), i);
        if (status != CONEY_OK) {
            embed_fail(embed, coney_status_text(status));
            return;
        }
    }
}

static inline void embed_publish(void *ctx, const coney_call *call)
{
    struct embed *embed = ctx;
    if (call->status != CONEY_OK) {
        embed_fail(embed, call->text);
        return;
    }
    coney_stream_producer_options options = {.on_outcome = embed_on_outcome, .ctx = embed};
    coney_call next = embed_call(embed, embed_send);
    embed->producer = coney_stream_producer_open(embed->env, embed->stream, &options, &next);
    if (embed->producer == NULL)
        embed_fail(embed, next.text);
}

static inline void embed_consume(void *ctx, const coney_call *call)
{
    struct embed *embed = ctx;
    if (call->status != CONEY_OK) {
        embed_fail(embed, call->text);
        return;
    }
    coney_stream_consumer_options options = {.on_message = embed_on_message, .ctx = embed, .on_loop = true};
    coney_call next = embed_call(embed, embed_publish);
    embed->consumer = coney_stream_consumer_open(embed->env, embed->stream, &options, &next);
    if (embed->consumer == NULL)
        embed_fail(embed, next.text);
}

static inline void embed_create(void *ctx, const coney_call *call)
{
    struct embed *embed = ctx;
    if (call->status != CONEY_OK) {
        embed_fail(embed, call->text);
        return;
    }
    coney_stream_spec spec = {.max_length = 100 * CONEY_MIB, .if_missing = true};
    coney_call next = embed_call(embed, embed_consume);
    if (coney_stream_create(embed->env, embed->stream, &spec, &next) != CONEY_OK)
        embed_fail(embed, next.text);
}

/* Starts it all; nothing happens before the first step. False: it could not be started, and the reason was printed. */
static inline bool embed_start(struct embed *embed, const char *uri)
{
    coney_stream_env_options options = {.loop = embed->loop};
    coney_call call = embed_call(embed, embed_create);
    embed->env = coney_stream_env_open(uri, &options, &call);
    if (embed->env == NULL)
        fprintf(stderr, "%s\n", call.text);
    return embed->env != NULL;
}

/* Outside of the event loop these calls may block: each steps coney's loop until it is done. Returns the program's exit code. */
static inline int embed_finish(struct embed *embed)
{
    coney_stream_producer_close(&embed->producer, NULL);
    coney_stream_consumer_close(&embed->consumer, NULL);
    coney_stream_env_close(&embed->env, NULL);
    coney_loop_free(&embed->loop);
    printf("%d confirmed, %d delivered\n", embed->confirmed, embed->delivered);
    return embed->failed;
}

#endif
