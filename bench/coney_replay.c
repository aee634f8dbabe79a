/* coney_replay.c: a stream read from its beginning, a handler call for each message. */
#include "coney_side.h"

/* A pass over the stream: the handler's until `done`. The clock runs from the first message to the last. */
struct pass {
    uint64_t messages;
    uint64_t due; /* the next message whose time is taken: 1, then the last */
    uint64_t bytes;
    uint64_t count;
    uint64_t start;
    uint64_t end;
    sem_t done;
};

/* Apart, so that the handler of every other message saves no registers. */
__attribute__((noinline, cold)) static coney_settle first_or_last(struct pass *pass)
{
    if (pass->messages == 1)
        pass->start = now_ns();
    if (pass->messages == pass->count) {
        pass->end = now_ns();
        sem_post(&pass->done);
    }
    pass->due = pass->count;
    return CONEY_ACK;
}

static coney_settle count_message(void *ctx, const coney_stream_delivery *delivery)
{
    struct pass *pass = ctx;
    pass->bytes += delivery->body.len;
    return __builtin_expect(++pass->messages == pass->due, 0) ? first_or_last(pass) : CONEY_ACK;
}

static uint64_t replay_pass(coney_stream_env *env, const struct options *o)
{
    struct pass pass = {.due = 1, .count = o->count};
    sem_init(&pass.done, 0, 0);
    coney_stream_consumer_options reading = {.on_message = count_message,
                                             .ctx = &pass,
                                             .start_if_new = CONEY_STREAM_FIRST,
                                             .credit = (int64_t)o->credit,
                                             .skip_crc = o->skip_crc != 0};
    coney_stream_consumer *consumer = side_consumer(env, given_stream(o), &reading);
    side_await(&pass.done);
    side_close_consumer(&consumer);
    sem_destroy(&pass.done);
    if (pass.messages != o->count || pass.bytes != o->count * o->size)
        die("the stream has other messages than --count of --size");
    return pass.end - pass.start;
}

void coney_replay(const struct options *o)
{
    if (o->count == 0 || o->passes == 0)
        die("--count (the messages that are in the stream) and --passes must be at least 1");
    coney_stream_env *env = side_open(o);
    uint64_t ns = 0;
    for (uint64_t i = 0; i < o->passes; i++)
        ns += replay_pass(env, o);
    side_close(&env);
    print_rate("coney", "replay", "consumed_per_second", o->size, o->count * o->passes, ns);
}
