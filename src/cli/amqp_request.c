/* amqp_request.c: coney amqp request. */
#include "amqp.h"
#include "ends.h"
#include "format.h"
#include "lines.h"
#include "output.h"
#include "stop.h"

#include <inttypes.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct request {
    const struct settings *settings;
    struct session session;
    coney_amqp_requester *requester;
    coney_amqp_message message;
    int done; /* an eventfd: readable when `answer` is there */
    coney_call answer;
};

static void on_done(void *ctx, const coney_call *call)
{
    static const uint64_t one = 1;
    struct request *r = ctx;
    r->answer = *call;
    if (write(r->done, &one, sizeof one) != (ssize_t)sizeof one)
        stop_ask();
}

/* Sends one request and waits for its reply, or until the end is asked for: then it is canceled. */
static void ask(struct request *r, coney_bytes body, coney_kept **reply)
{
    r->message.body = body;
    coney_call call = {.deadline = r->settings->timeout, .on_done = on_done, .ctx = r};
    if (coney_amqp_request(r->requester, &r->message, reply, &call) != CONEY_OK) {
        r->answer = call;
        return;
    }
    if (stop_wait_readable(r->done))
        coney_call_cancel(call.id);
    uint64_t count;
    while (read(r->done, &count, sizeof count) < 0)
        ;
}

static int ask_one(struct request *r, coney_bytes body, uint64_t number)
{
    coney_kept *reply = NULL;
    ask(r, body, &reply);
    if (r->answer.status == CONEY_ECANCELED)
        return EXIT_FAILED;
    if (r->answer.status != CONEY_OK)
        return complain(EXIT_FAILED, "request %" PRIu64 ": %s", number, r->answer.text);
    const coney_amqp_delivery *delivery = coney_amqp_kept_delivery(reply);
    format_write(stdout, r->settings->format, &format_amqp, delivery, delivery->body);
    coney_kept_settle(&reply, CONEY_ACK);
    if (!output_flush())
        stop_ask();
    return EXIT_DONE;
}

static int ask_all(struct request *r, struct lines *lines)
{
    const coney_amqp_requester_options options = {.routing_key = r->settings->queue.name};
    coney_call call = {0};
    r->requester = coney_amqp_requester_open(r->session.rabbit, &options, &call);
    if (r->requester == NULL)
        return session_answer(&call);
    int code = EXIT_DONE;
    uint64_t number = 1;
    coney_bytes line;
    enum lines_answer answer = LINES_STOPPED;
    for (; !stop_asked() && (answer = lines_next(lines, &line)) == LINES_ONE; number++)
        if (ask_one(r, line, number) != EXIT_DONE)
            code = EXIT_FAILED;
    if (lines_end(lines, answer, number) != EXIT_DONE)
        code = EXIT_FAILED;
    coney_amqp_requester_close(&r->requester, &(coney_call){.deadline = stop_patience()});
    return code;
}

int amqp_request_run(const struct settings *settings)
{
    const char *wrong = amqp_route_check(settings);
    if (wrong != NULL)
        return complain(EXIT_USAGE, "%s", wrong);
    wrong = format_check(settings->format, &format_amqp);
    if (wrong != NULL)
        return complain(EXIT_USAGE, "--format '%s': %s", settings->format, wrong);
    struct lines lines;
    if (!lines_open(&lines, settings->file, settings->whole))
        return EXIT_FAILED;
    struct request r = {.settings = settings, .message = amqp_message(settings), .done = eventfd(0, EFD_CLOEXEC)};
    int code = r.done < 0 ? complain(EXIT_FAILED, "out of descriptors") : session_open(&r.session, &amqp_protocol, settings);
    if (code == EXIT_DONE)
        code = session_close(&r.session, ask_all(&r, &lines));
    if (r.done >= 0)
        close(r.done);
    lines_close(&lines);
    return code;
}
