/* publish.c: coney stream publish and coney amqp publish. */
#include "amqp.h"
#include "ends.h"
#include "lines.h"
#include "stop.h"

#include <inttypes.h>

struct publish {
    const struct settings *settings;
    struct session session;
    struct sender sender;
    struct outcomes outcomes;
    uint64_t sent;
};

static int send_all(struct publish *p, struct lines *lines)
{
    coney_bytes line;
    enum lines_answer answer;
    coney_status status = CONEY_OK;
    while ((answer = lines_next(lines, &line)) == LINES_ONE) {
        status = sender_send(&p->sender, line, p->sent + 1);
        if (status != CONEY_OK)
            break;
        p->sent++;
    }
    if (status == CONEY_OK)
        return lines_end(lines, answer, p->sent + 1);
    if (status == CONEY_ETIMEDOUT)
        return complain(EXIT_FAILED, "line %" PRIu64 " and what follows were not sent: the broker takes no more", p->sent + 1);
    return complain(EXIT_FAILED, "line %" PRIu64 ", %zu bytes, was not sent: %s", p->sent + 1, line.len,
                    coney_status_text(status));
}

static int publish(struct publish *p, struct lines *lines)
{
    coney_call call = {0};
    p->sender = (struct sender){.session = &p->session, .outcomes = &p->outcomes};
    if (!sender_open(&p->sender, &call))
        return complain(EXIT_FAILED, "%s", call.text);
    int code = send_all(p, lines);
    sender_flush(&p->sender, p->settings->timeout);
    sender_close(&p->sender);
    uint64_t confirmed = atomic_load(&p->outcomes.confirmed);
    if (p->settings->verbose)
        complain(0, "%" PRIu64 " of %" PRIu64 " messages were confirmed", confirmed, p->sent);
    if (confirmed < p->sent)
        code = complain(EXIT_FAILED, "%" PRIu64 " of %" PRIu64 " messages were not confirmed", p->sent - confirmed, p->sent);
    return code;
}

static int publish_to(const char *place, const struct protocol *protocol, const struct settings *settings)
{
    struct lines lines;
    if (!lines_open(&lines, settings->file, settings->whole))
        return EXIT_FAILED;
    struct publish p = {.settings = settings, .outcomes.what = settings->whole ? "message" : "line"};
    int code = session_open(&p.session, protocol, settings);
    p.session.place = place;
    if (code == EXIT_DONE)
        code = session_close(&p.session, publish(&p, &lines));
    lines_close(&lines);
    return code;
}

int stream_publish_run(const struct settings *settings)
{
    if (settings->line_ids && settings->name == NULL)
        return complain(EXIT_USAGE, "--line-ids needs --name: the broker keeps ids by the producer's name");
    return publish_to(settings->stream, &stream_protocol, settings);
}

int amqp_publish_run(const struct settings *settings)
{
    const char *wrong = amqp_route_check(settings);
    if (wrong != NULL)
        return complain(EXIT_USAGE, "%s", wrong);
    return publish_to(settings->queue.name, &amqp_protocol, settings);
}
