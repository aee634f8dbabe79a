/* floor_replay.c: a stream read from its beginning. */
#define _GNU_SOURCE
#include "floor.h"

/* A pass over the stream. Times run from the first whole chunk to the last, so that no login is measured. */
struct pass {
    uint64_t messages;
    uint64_t chunks;
    uint64_t start;
    uint64_t end;
};

enum { CHUNK_SEEN = DELIVER_HEADER + CHUNK_HEADER };

/* Walks over what the buffer holds. Frames are longer than the buffer may be: of each only the head is kept in one piece,
 * the rest, `*skip` bytes, is received and dropped. Returns how many chunks came to their end. */
static uint16_t skip_chunks(struct wire *w, struct pass *pass, size_t *skip, uint32_t *records)
{
    uint16_t ended = 0;
    for (;;) {
        size_t have = w->end - w->start;
        if (*skip > 0) {
            size_t step = have < *skip ? have : *skip;
            w->start += step;
            *skip -= step;
            if (*skip > 0)
                return ended;
            pass->messages += *records;
            pass->chunks++;
            ended++;
            continue;
        }
        const uint8_t *head = w->buffer + w->start;
        if (have < CHUNK_SEEN)
            return ended;
        if (get16(head + 4) != KEY_DELIVER)
            die("the broker sent key %u into a replay", get16(head + 4));
        *records = get32(head + DELIVER_HEADER + CHUNK_RECORDS);
        *skip = 4 + (size_t)get32(head);
    }
}

static struct pass replay_pass(struct wire *w, const char *stream, const struct options *o)
{
    struct pass pass = {0};
    size_t skip = 0;
    uint32_t records = 0;
    wire_subscribe(w, stream, OFFSET_FIRST, (uint16_t)o->credit);
    for (;;) {
        uint16_t ended = skip_chunks(w, &pass, &skip, &records);
        if (pass.start == 0 && ended > 0)
            pass.start = now_ns();
        if (ended > 0)
            wire_credit(w, ended);
        if (pass.messages == o->count && skip == 0)
            break;
        if (pass.messages >= o->count)
            die("the stream has more than --count messages");
        wire_make_room(w, w->cap);
        wire_fill(w, 0);
    }
    pass.end = now_ns();
    wire_unsubscribe(w);
    return pass;
}

/* The same with each chunk whole in memory before it counts, as anyone needs it who wants to look inside. */
static struct pass whole_pass(struct wire *w, const char *stream, const struct options *o)
{
    struct pass pass = {0};
    wire_subscribe(w, stream, OFFSET_FIRST, (uint16_t)o->credit);
    while (pass.messages < o->count) {
        struct frame frame = wire_read(w);
        if (frame.key != KEY_DELIVER || frame.len < CHUNK_SEEN)
            die("the broker sent key %u into a replay", frame.key);
        pass.messages += get32(frame.data + DELIVER_HEADER + CHUNK_RECORDS);
        if (pass.chunks++ == 0)
            pass.start = now_ns();
        wire_credit(w, 1);
    }
    pass.end = now_ns();
    wire_unsubscribe(w);
    return pass;
}

static void measure_replay(const char *row, const struct options *o,
                           struct pass (*read_all)(struct wire *w, const char *stream, const struct options *o))
{
    if (o->count == 0 || o->passes == 0)
        die("--count (the messages that are in the stream) and --passes must be at least 1");
    struct wire w = wire_open(o->uri, RECEIVE_BUFFER);
    uint64_t ns = 0;
    for (uint64_t i = 0; i < o->passes; i++) {
        struct pass pass = read_all(&w, given_stream(o), o);
        ns += pass.end - pass.start;
    }
    wire_close(&w);
    print_rate("floor", row, "consumed_per_second", o->size, o->count * o->passes, ns);
}

void floor_replay(const struct options *o)
{
    measure_replay("replay", o, replay_pass);
}

void floor_replay_whole(const struct options *o)
{
    measure_replay("replay-whole", o, whole_pass);
}
