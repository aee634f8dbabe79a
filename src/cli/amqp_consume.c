/* amqp_consume.c: coney amqp consume and coney amqp get. */
#define _GNU_SOURCE
#include "amqp.h"
#include "ends.h"
#include "format.h"
#include "output.h"
#include "stop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PREFETCH_MOST = 65535 };

struct consume {
    const struct settings *settings;
    struct session session;
    coney_amqp_consumer *consumer;
    coney_kept **held; /* what is given back at the end */
    size_t held_count, held_cap;
    _Atomic uint64_t written; /* messages */
    bool failed;
};

static void tell_properties(const coney_amqp_delivery *delivery)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return;
    struct json j;
    json_begin(&j, out);
    format_amqp.members(&j, delivery);
    json_close(&j);
    if (fclose(out) == 0)
        fprintf(stderr, "coney: %s", text);
    free(text);
}

static bool write_file(const struct consume *c, coney_bytes body)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%" PRIu64, c->settings->directory, atomic_load(&c->written) + 1);
    FILE *out = fopen(path, "we");
    bool done = out != NULL && (body.len == 0 || fwrite(body.data, 1, body.len, out) == body.len);
    if (out != NULL)
        done &= fclose(out) == 0;
    if (!done)
        complain(0, "%s: %s", path, strerror(errno));
    return done;
}

/* False: nothing more can be written. */
static bool put(struct consume *c, const coney_amqp_delivery *delivery)
{
    if (c->settings->verbose)
        tell_properties(delivery);
    if (c->settings->directory != NULL) {
        c->failed = !write_file(c, delivery->body);
    } else {
        format_write(stdout, c->settings->format, &format_amqp, delivery, delivery->body);
        if (!output_flush())
            return false;
    }
    if (!c->failed)
        atomic_fetch_add(&c->written, 1);
    return !c->failed;
}

static bool hold(struct consume *c, coney_kept *kept)
{
    if (kept != NULL && c->held_count == c->held_cap) {
        size_t cap = c->held_cap == 0 ? 64 : c->held_cap * 2;
        coney_kept **held = realloc(c->held, cap * sizeof *held);
        if (held == NULL)
            return false;
        c->held = held;
        c->held_cap = cap;
    }
    if (kept != NULL)
        c->held[c->held_count++] = kept;
    return kept != NULL;
}

static void give_back(struct consume *c)
{
    for (size_t i = 0; i < c->held_count; i++)
        coney_kept_settle(&c->held[i], CONEY_REQUEUE);
    free(c->held);
}

static coney_settle on_delivery(void *ctx, const coney_amqp_delivery *delivery)
{
    struct consume *c = ctx;
    if (stop_asked() || !put(c, delivery)) {
        coney_amqp_consumer_pause(delivery->consumer);
        stop_ask();
        return CONEY_REQUEUE;
    }
    if (c->settings->count > 0 && atomic_load(&c->written) == (uint64_t)c->settings->count) {
        coney_amqp_consumer_pause(delivery->consumer);
        stop_ask();
    }
    if (c->settings->settle != CONEY_REQUEUE)
        return c->settings->settle;
    coney_kept *kept = coney_amqp_keep(delivery);
    if (hold(c, kept))
        return CONEY_KEPT;
    c->failed = true;
    stop_ask();
    return kept != NULL ? CONEY_KEPT : CONEY_REQUEUE;
}

/* No more than will be written; all of them when none is settled before the end. */
static int64_t prefetch(const struct settings *settings)
{
    bool all = settings->settle == CONEY_REQUEUE;
    if (settings->count == 0 || (settings->count > settings->prefetch && !all))
        return settings->prefetch;
    return settings->count < PREFETCH_MOST ? settings->count : PREFETCH_MOST;
}

static int consume(struct consume *c)
{
    const struct settings *settings = c->settings;
    coney_field arguments[sizeof settings->arguments.items / sizeof(coney_field) + 1];
    size_t count = settings->arguments.count;
    memcpy(arguments, settings->arguments.items, count * sizeof *arguments);
    count += amqp_start(&settings->from, &arguments[count]);
    const coney_amqp_consumer_options options = {.on_delivery = on_delivery,
                                                 .ctx = c,
                                                 .prefetch = prefetch(settings),
                                                 .arguments = arguments,
                                                 .argument_count = count,
                                                 .exclusive = settings->exclusive,
                                                 .no_ack = settings->no_ack};
    coney_call call = {0};
    c->consumer = coney_amqp_consumer_open(c->session.rabbit, settings->queue.name, &options, &call);
    if (c->consumer == NULL)
        return session_answer(&call);
    stop_wait_idle(&c->written, settings->idle);
    coney_amqp_consumer_pause(c->consumer);
    give_back(c);
    coney_amqp_consumer_close(&c->consumer, &(coney_call){.deadline = stop_patience()});
    if (settings->verbose)
        complain(0, "%" PRIu64 " messages were written", atomic_load(&c->written));
    return c->failed ? EXIT_FAILED : EXIT_DONE;
}

/* Gets one message. EXIT_NOTHING: there is none; EXIT_FAILED after saying why. */
static int get_one(struct consume *c)
{
    coney_kept *kept = NULL;
    coney_call call = {0};
    if (coney_amqp_get(c->session.rabbit, c->settings->queue.name, &kept, &call) != CONEY_OK)
        return session_answer(&call);
    if (kept == NULL)
        return EXIT_NOTHING;
    bool done = put(c, coney_amqp_kept_delivery(kept));
    coney_settle how = done ? c->settings->settle : CONEY_REQUEUE;
    if (how == CONEY_REQUEUE && hold(c, kept))
        return done ? EXIT_DONE : EXIT_FAILED;
    coney_status status = coney_kept_settle(&kept, how);
    if (status != CONEY_OK)
        return complain(EXIT_FAILED, "the message is not settled and comes again: %s", coney_status_text(status));
    return done ? EXIT_DONE : EXIT_FAILED;
}

static int get(struct consume *c)
{
    int code = EXIT_DONE;
    for (int64_t i = 0; i < c->settings->count && code == EXIT_DONE && !stop_asked(); i++)
        code = get_one(c);
    give_back(c);
    return code == EXIT_NOTHING && atomic_load(&c->written) > 0 ? EXIT_DONE : code;
}

static int with_queue(const struct settings *settings, int (*work)(struct consume *c))
{
    const char *wrong = format_check(settings->format, &format_amqp);
    if (wrong != NULL)
        return complain(EXIT_USAGE, "--format '%s': %s", settings->format, wrong);
    struct consume c = {.settings = settings};
    int code = session_open(&c.session, &amqp_protocol, settings);
    return code == EXIT_DONE ? session_close(&c.session, work(&c)) : code;
}

int amqp_consume_run(const struct settings *settings)
{
    if (settings->no_ack && settings->settle != CONEY_ACK)
        return complain(EXIT_USAGE, "--no-ack settles nothing: neither --reject nor --requeue goes with it");
    return with_queue(settings, consume);
}

int amqp_get_run(const struct settings *settings)
{
    return with_queue(settings, get);
}
