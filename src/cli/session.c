/* session.c: connections, events and streams of a run's own. */
#define _GNU_SOURCE
#include "session.h"
#include "stop.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

int complain(int code, const char *format, ...)
{
    char line[1024];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    fprintf(stderr, "coney: %s\n", line);
    return code;
}

uint32_t session_random(void)
{
    uint32_t number = 0;
    while (number == 0)
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            number = 0;
    return number;
}

enum weight { STEP, LOSS, END };

/* A step is told with --verbose, a loss always; after an end the run cannot go on. */
static enum weight weight_of(coney_event_type type)
{
    switch (type) {
    case CONEY_EVENT_CORRUPT_CHUNK:
    case CONEY_EVENT_UNREADABLE_ENTRY:
    case CONEY_EVENT_RETURNED:
        return LOSS;
    case CONEY_EVENT_GAVE_UP:
        return END;
    case CONEY_EVENT_CONNECTED:
    case CONEY_EVENT_DISCONNECTED:
    case CONEY_EVENT_CONNECT_FAILED:
    case CONEY_EVENT_RECOVERING:
    case CONEY_EVENT_RECOVERY_FAILED:
    case CONEY_EVENT_RECOVERED:
    case CONEY_EVENT_STREAM_GONE:
    case CONEY_EVENT_OFFSET_NOT_STORED:
    case CONEY_EVENT_SERVER_CLOSE:
    case CONEY_EVENT_CHANNEL_CLOSED:
    case CONEY_EVENT_CONSUMER_CANCELED:
    case CONEY_EVENT_BLOCKED:
    case CONEY_EVENT_UNBLOCKED:
    case CONEY_EVENT_TOPOLOGY_FAILED:
    case CONEY_EVENT_QUEUE_RENAMED:
    case CONEY_EVENT_SECRET_RENEWED:
    case CONEY_EVENT_SECRET_REFUSED:
    case CONEY_EVENT_NOT_SETTLED:
        return STEP;
    }
    return STEP;
}

static void on_event(void *ctx, const coney_event *event)
{
    struct session *s = ctx;
    enum weight weight = weight_of(event->type);
    if (s->settings->verbose || weight != STEP)
        complain(0, "%s", event->text);
    if (weight != STEP)
        atomic_store(&s->lost, true);
    if (weight == END)
        stop_ask();
}

int session_open(struct session *s, const struct settings *settings)
{
    *s = (struct session){.settings = settings, .stream = settings->stream};
    coney_stream_env_options options = {.name = "coney", .on_event = on_event, .event_ctx = s};
    coney_call call = {0};
    s->env = coney_stream_env_open(settings->uri, &options, &call);
    if (s->env == NULL)
        return complain(call.status == CONEY_EINVAL ? EXIT_USAGE : EXIT_UNCONNECTED, "%s", call.text);
    return stop_watch() ? EXIT_DONE : session_close(s, complain(EXIT_FAILED, "out of descriptors"));
}

int session_stream(struct session *s, const char *purpose)
{
    if (s->settings->stream != NULL)
        return EXIT_DONE;
    char name[sizeof s->own];
    snprintf(name, sizeof name, "coney-%s-%08x", purpose, session_random());
    coney_stream_spec spec = {.max_length = 5 * CONEY_GIB, .max_segment_size = 100 * CONEY_MIB};
    coney_call call = {0};
    if (coney_stream_create(s->env, name, &spec, &call) != CONEY_OK)
        return complain(EXIT_FAILED, "%s", call.text);
    memcpy(s->own, name, sizeof name);
    s->stream = s->own;
    return EXIT_DONE;
}

int session_close(struct session *s, int code)
{
    coney_call call = {.deadline = stop_patience()};
    if (s->own[0] != '\0' && coney_stream_delete(s->env, s->own, &call) != CONEY_OK)
        code = complain(code == EXIT_DONE ? EXIT_FAILED : code, "stream '%s' remains: %s", s->own, call.text);
    coney_stream_env_close(&s->env, &(coney_call){.deadline = stop_patience()});
    return code == EXIT_DONE && atomic_load(&s->lost) ? EXIT_FAILED : code;
}
