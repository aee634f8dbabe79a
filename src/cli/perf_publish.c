/* perf_publish.c: a publisher of coney perf: as fast as it goes, or by the timetable of --rate; and what is there before. */
#include "clock.h"
#include "pace.h"
#include "perf.h"
#include "stamp.h"
#include "stop.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TURN = 64 }; /* messages between two looks at the clock */

/* How long prefilling waits for its last outcomes. */
#define STANDSTILL (30 * CONEY_SECOND)

static size_t body_size(const struct perf_publisher *p)
{
    return (size_t)p->perf->settings->size;
}

/* How many messages may go now, at most `most`; with a rate it waits until one is due. 0: the run ends. */
static uint64_t turn(const struct perf_publisher *p, uint64_t sent, uint64_t most)
{
    const struct settings *settings = p->perf->settings;
    uint64_t left = p->quota - sent;
    if (left < most)
        most = left;
    if (most == 0 || stop_asked())
        return 0;
    if (settings->rate == 0)
        return most;
    uint64_t rate = (uint64_t)settings->rate;
    uint64_t publishers = (uint64_t)settings->publishers;
    if (stop_wait(p->perf->start + pace_due_at(sent * publishers + p->index, rate)))
        return 0;
    uint64_t due = pace_share(pace_due(clock_now() - p->perf->start, rate), p->index, publishers);
    return due - sent < most ? due - sent : most;
}

/* The time that message `sent` carries: when it was due, or without a rate the time itself. */
static int64_t sending_time(const struct perf_publisher *p, uint64_t sent)
{
    const struct settings *settings = p->perf->settings;
    if (settings->rate == 0)
        return clock_now();
    return p->perf->start + pace_due_at(sent * (uint64_t)settings->publishers + p->index, (uint64_t)settings->rate);
}

/* Sends `count` messages one by one. Without a rate the first is stamped, with one all are: their times cost nothing. */
static coney_status send_singly(struct perf_publisher *p, uint64_t sent, uint64_t count, size_t *accepted)
{
    const struct settings *settings = p->perf->settings;
    coney_bytes body = coney_bytes_of(p->body, body_size(p));
    for (uint64_t i = 0; i < count; i++) {
        if (p->perf->run != 0 && (i == 0 || settings->rate > 0))
            stamp_write(p->body, p->perf->run, sending_time(p, sent + i));
        else if (p->perf->run != 0 && i == 1)
            stamp_write(p->body, 0, 0);
        coney_status status = (settings->send == SEND_WAIT ? sender_send_wait : sender_send)(&p->sender, body, sent + i);
        if (status != CONEY_OK)
            return status;
        ++*accepted;
    }
    return CONEY_OK;
}

static coney_status send_batch(struct perf_publisher *p, uint64_t sent, uint64_t count, size_t *accepted)
{
    coney_bytes bodies[SENDER_BATCH];
    for (uint64_t i = 0; i < count; i++)
        bodies[i] = coney_bytes_of(p->body, body_size(p));
    if (p->perf->run != 0) {
        bodies[0].data = p->stamped;
        stamp_write(p->stamped, p->perf->run, sending_time(p, sent));
    }
    return sender_send_batch(&p->sender, bodies, count, sent, accepted);
}

static coney_status publish(struct perf_publisher *p)
{
    const bool batch = p->perf->settings->send == SEND_BATCH;
    const uint64_t most = p->perf->settings->send == SEND_WAIT ? 1 : batch ? SENDER_BATCH : TURN;
    uint64_t sent = 0, count;
    coney_status status = CONEY_OK;
    while (status == CONEY_OK && (count = turn(p, sent, most)) > 0) {
        size_t accepted = 0;
        status = batch ? send_batch(p, sent, count, &accepted) : send_singly(p, sent, count, &accepted);
        sent += accepted;
        atomic_store_explicit(&p->accepted, sent, memory_order_relaxed);
    }
    p->sent_at = clock_now();
    return status == CONEY_ETIMEDOUT && stop_asked() ? CONEY_OK : status;
}

static void *publisher_main(void *ctx)
{
    struct perf_publisher *p = ctx;
    coney_status status = publish(p);
    if (status != CONEY_OK) {
        complain(0, "message %" PRIu64 " of publisher %" PRIu64 " could not be sent: %s", atomic_load(&p->accepted), p->index,
                 coney_status_text(status));
        p->failed = true;
    }
    sender_finish(&p->sender);
    p->confirmed_at = clock_now();
    if (atomic_fetch_sub(&p->perf->publishers_left, 1) == 1 || p->failed)
        stop_ask();
    return NULL;
}

static int fill(struct perf *perf, struct sender *sender, const char *body, uint64_t count)
{
    coney_bytes bodies[SENDER_BATCH];
    for (size_t i = 0; i < SENDER_BATCH; i++)
        bodies[i] = coney_bytes_of(body, (size_t)perf->settings->size);
    coney_status status = CONEY_OK;
    for (uint64_t sent = 0; sent < count && status == CONEY_OK;) {
        uint64_t most = count - sent < SENDER_BATCH ? count - sent : SENDER_BATCH;
        size_t accepted;
        status = sender_send_batch(sender, bodies, most, sent, &accepted);
        sent += accepted;
    }
    sender_flush(sender, STANDSTILL);
    sender_close(sender);
    uint64_t confirmed = atomic_load(&sender->outcomes->confirmed);
    if (confirmed == count)
        return EXIT_DONE;
    return complain(EXIT_FAILED, "of %" PRIu64 " messages to begin with, %" PRIu64 " were confirmed", count, confirmed);
}

int perf_prefill(struct perf *perf)
{
    coney_call call = {0};
    struct outcomes outcomes = {.what = "message"};
    struct sender sender = {.session = &perf->session, .outcomes = &outcomes};
    char *body = calloc(1, (size_t)perf->settings->size + 1);
    if (body == NULL)
        return complain(EXIT_FAILED, "out of memory");
    int code = sender_open(&sender, &call) ? fill(perf, &sender, body, (uint64_t)perf->settings->prefill)
                                           : complain(EXIT_FAILED, "%s", call.text);
    free(body);
    return code;
}

int perf_publisher_open(struct perf_publisher *p, struct perf *perf, uint64_t index, uint64_t quota)
{
    p->perf = perf;
    p->index = index;
    p->quota = quota;
    p->outcomes.what = "message";
    size_t size = (size_t)perf->settings->size;
    p->body = malloc(size + 1);
    p->stamped = malloc(size + 1);
    if (p->body == NULL || p->stamped == NULL)
        return complain(EXIT_FAILED, "out of memory");
    memset(p->body, 'x', size);
    memset(p->stamped, 'x', size);
    if (perf->run != 0)
        stamp_write(p->body, 0, 0);

    coney_call call = {0};
    p->sender = (struct sender){.session = &perf->session, .outcomes = &p->outcomes, .unconfirmed = perf->unconfirmed};
    return sender_open(&p->sender, &call) ? EXIT_DONE : complain(EXIT_FAILED, "%s", call.text);
}

int perf_publisher_start(struct perf_publisher *p)
{
    if (pthread_create(&p->thread, NULL, publisher_main, p) == 0)
        return EXIT_DONE;
    return complain(EXIT_FAILED, "the system gives no more threads");
}

void perf_publisher_end(struct perf_publisher *p)
{
    sender_close(&p->sender);
    free(p->body);
    free(p->stamped);
}
