/* session.c: connections, events, and streams or queues of a run's own. */
#define _GNU_SOURCE
#include "session.h"
#include "ends.h"
#include "stop.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

enum weight { STEP, NEWS, LOSS, END };

/* A step is told with --verbose, news and a loss always; after an end the run cannot go on. */
static enum weight weight_of(coney_event_type type)
{
    switch (type) {
    case CONEY_EVENT_CORRUPT_CHUNK:
    case CONEY_EVENT_UNREADABLE_ENTRY:
    case CONEY_EVENT_RETURNED:
        return LOSS;
    case CONEY_EVENT_GAVE_UP:
        return END;
    case CONEY_EVENT_BLOCKED:
    case CONEY_EVENT_UNBLOCKED:
        return NEWS;
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
    case CONEY_EVENT_TOPOLOGY_FAILED:
    case CONEY_EVENT_QUEUE_RENAMED:
    case CONEY_EVENT_SECRET_RENEWED:
    case CONEY_EVENT_SECRET_REFUSED:
    case CONEY_EVENT_NOT_SETTLED:
        return STEP;
    }
    return STEP;
}

/* The AMQP client waits for a queue that is gone to come back; the tool does not. */
static bool is_gone(const coney_event *event)
{
    return event->type == CONEY_EVENT_RECOVERY_FAILED && event->status == CONEY_ENOTFOUND;
}

void session_on_event(void *ctx, const coney_event *event)
{
    struct session *s = ctx;
    enum weight weight = is_gone(event) ? END : weight_of(event->type);
    if (s->settings->verbose || weight != STEP)
        complain(0, "%s", event->text);
    if (weight >= LOSS)
        atomic_store(&s->lost, true);
    if (weight == END)
        stop_ask();
}

int session_answer(const coney_call *call)
{
    if (call->status == CONEY_OK)
        return EXIT_DONE;
    return complain(call->status == CONEY_EINVAL ? EXIT_USAGE : EXIT_FAILED, "%s", call->text);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static const char *find_uri(const struct protocol *protocol, const struct settings *settings)
{
    const char *uri = settings->uri;
    if (uri == NULL)
        uri = variable(protocol->uri_variable);
    return uri != NULL ? uri : variable("CONEY_URI");
}

/* NULL when no option is about TLS: the library takes none beside a plain URI. */
static const coney_tls_options *find_tls(const struct settings *settings, coney_tls_options *tls)
{
    static const coney_tls_options none;
    if (memcmp(&settings->tls, &none, sizeof none) == 0)
        return NULL;
    *tls = settings->tls;
    if (tls->private_key != NULL || tls->pkcs12_file != NULL)
        tls->key_password = variable("CONEY_KEY_PASSWORD");
    return tls;
}

int session_open(struct session *s, const struct protocol *protocol, const struct settings *settings)
{
    *s = (struct session){.protocol = protocol, .settings = settings};
    coney_tls_options tls;
    coney_call call = {0};
    if (!protocol->connect(s, find_uri(protocol, settings), find_tls(settings, &tls), &call))
        return complain(call.status == CONEY_EINVAL ? EXIT_USAGE : EXIT_UNCONNECTED, "%s", call.text);
    return stop_watch() ? EXIT_DONE : session_close(s, complain(EXIT_FAILED, "out of descriptors"));
}

int session_place(struct session *s, const char *asked, const char *purpose)
{
    s->place = asked;
    if (asked != NULL && (s->protocol->is_missing == NULL || !s->protocol->is_missing(s, asked)))
        return EXIT_DONE;
    char name[sizeof s->own];
    if (asked != NULL)
        snprintf(name, sizeof name, "%s", asked);
    else
        snprintf(name, sizeof name, "coney-%s-%08x", purpose, session_random());
    coney_call call = {0};
    if (s->protocol->make(s, name, &call) != CONEY_OK)
        return complain(EXIT_FAILED, "%s", call.text);
    memcpy(s->own, name, sizeof name);
    s->place = s->own;
    return EXIT_DONE;
}

int session_close(struct session *s, int code)
{
    coney_call call = {.deadline = stop_patience()};
    if (s->own[0] != '\0' && s->protocol->remove(s, s->own, &call) != CONEY_OK)
        code = complain(code == EXIT_DONE ? EXIT_FAILED : code, "'%s' remains: %s", s->own, call.text);
    s->protocol->disconnect(s, &(coney_call){.deadline = stop_patience()});
    return code == EXIT_DONE && atomic_load(&s->lost) ? EXIT_FAILED : code;
}
