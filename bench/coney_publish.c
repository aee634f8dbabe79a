/* coney_publish.c: as many confirmed messages a second as one sending thread gets, a call and an outcome callback each. */
#include "coney_side.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct outcomes {
    uint64_t confirmed;
    uint64_t due;
    uint64_t tag_sum;
};

static void note_outcome(void *ctx, const coney_outcome *outcome)
{
    struct outcomes *outcomes = ctx;
    if (outcome->status != CONEY_OK)
        die("message %" PRIu64 " was not confirmed: %s", outcome->tag, coney_status_text(outcome->status));
    outcomes->confirmed++;
    outcomes->tag_sum += outcome->tag;
}

/* Nanoseconds from the first call to the last outcome. */
static uint64_t publish_all(coney_stream_producer *producer, const struct options *o, uint64_t count)
{
    uint8_t *data = must_alloc(o->size);
    memset(data, 'x', o->size);
    coney_bytes body = coney_bytes_of(data, o->size);
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < count; i++)
        side_send(producer, body, i);
    side_flush(producer);
    uint64_t end = now_ns();
    free(data);
    return end - start;
}

void coney_publish(const struct options *o)
{
    uint64_t count = o->count > 0 ? o->count : 2000000;
    const char *stream = own_stream("coney");
    coney_stream_env *env = side_open(o);
    side_create(env, stream);
    struct crowd crowd = crowd_open(env, stream, o->handles);
    struct outcomes outcomes = {.due = count};
    coney_stream_producer_options writing = {.on_outcome = note_outcome, .ctx = &outcomes, .max_messages = (int64_t)o->window};
    coney_stream_producer *producer = side_producer(env, stream, &writing);
    uint64_t ns = publish_all(producer, o, count);
    if (outcomes.confirmed != outcomes.due || outcomes.tag_sum != outcomes.due * (outcomes.due - 1) / 2)
        die("the outcomes are not those of the messages that were sent");
    side_close_producer(&producer);
    crowd_close(&crowd);
    side_delete(env, stream);
    side_close(&env);
    print_rate("coney", "publish", "confirmed_per_second", o->size, count, ns);
}
