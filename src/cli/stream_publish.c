/* stream_publish.c: coney stream publish. */
#include "lines.h"
#include "sending.h"
#include "session.h"
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct publish {
    const struct settings *settings;
    struct session session;
    coney_stream_producer *producer;
    struct outcomes outcomes;
    uint64_t sent;
};

static coney_status send_line(struct publish *p, coney_bytes line)
{
    if (!p->settings->line_ids)
        return sending_one(p->producer, line, p->sent + 1);
    const coney_stream_message message = {
        .body = line, .tag = p->sent + 1, .publishing_id = p->sent + 1, .has_publishing_id = true};
    coney_status status;
    do
        status = coney_stream_send_message(p->producer, &message);
    while (status == CONEY_ETIMEDOUT && !stop_asked());
    return status;
}

static int explain(const struct publish *p, enum lines_answer answer)
{
    const char *file = p->settings->file != NULL ? p->settings->file : "standard input";
    switch (answer) {
    case LINES_ONE:
    case LINES_END:
    case LINES_STOPPED:
        return EXIT_DONE;
    case LINES_TOO_LONG:
        return complain(EXIT_FAILED, "%s: line %" PRIu64 " is longer than %" PRId64 " bytes", file, p->sent + 1, LINES_LONGEST);
    case LINES_NO_MEMORY:
        return complain(EXIT_FAILED, "out of memory");
    case LINES_FAILED:
        return complain(EXIT_FAILED, "%s: %s", file, strerror(errno));
    }
    return EXIT_FAILED;
}

static int send_all(struct publish *p, int fd)
{
    struct lines lines = {.fd = fd, .whole = p->settings->whole};
    coney_bytes line;
    enum lines_answer answer;
    coney_status status = CONEY_OK;
    while ((answer = lines_next(&lines, &line)) == LINES_ONE) {
        status = send_line(p, line);
        if (status != CONEY_OK)
            break;
        p->sent++;
    }
    int code = explain(p, answer);
    if (status == CONEY_ETIMEDOUT)
        code = complain(EXIT_FAILED, "line %" PRIu64 " and what follows were not sent: the broker takes no more", p->sent + 1);
    else if (status != CONEY_OK)
        code = complain(EXIT_FAILED, "line %" PRIu64 ", %zu bytes, was not sent: %s", p->sent + 1, line.len,
                        coney_status_text(status));
    lines_close(&lines);
    return code;
}

static int publish(struct publish *p, int fd)
{
    coney_call call = {0};
    coney_stream_producer_options options = {
        .name = p->settings->name, .on_outcome = outcomes_note, .ctx = &p->outcomes, .enqueue_timeout = SENDING_PATIENCE};
    p->producer = coney_stream_producer_open(p->session.env, p->session.stream, &options, &call);
    if (p->producer == NULL)
        return complain(EXIT_FAILED, "%s", call.text);
    int code = send_all(p, fd);
    sending_flush(p->producer, p->settings->timeout);
    coney_stream_producer_close(&p->producer, &(coney_call){.deadline = stop_patience()});
    uint64_t confirmed = atomic_load(&p->outcomes.confirmed);
    if (p->settings->verbose)
        complain(0, "%" PRIu64 " of %" PRIu64 " messages were confirmed", confirmed, p->sent);
    if (confirmed < p->sent)
        code = complain(EXIT_FAILED, "%" PRIu64 " of %" PRIu64 " messages were not confirmed", p->sent - confirmed, p->sent);
    return code;
}

int publish_run(const struct settings *settings)
{
    if (settings->line_ids && settings->name == NULL)
        return complain(EXIT_USAGE, "--line-ids needs --name: the broker keeps ids by the producer's name");
    int fd = STDIN_FILENO;
    if (settings->file != NULL)
        fd = open(settings->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return complain(EXIT_FAILED, "%s: %s", settings->file, strerror(errno));
    struct publish p = {.settings = settings, .outcomes.what = settings->whole ? "message" : "line"};
    int code = session_open(&p.session, settings);
    if (code == EXIT_DONE)
        code = session_close(&p.session, publish(&p, fd));
    if (fd != STDIN_FILENO)
        close(fd);
    return code;
}
