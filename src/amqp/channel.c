/* channel.c: see channel.h. */
#include "amqp/channel.h"

#include "base/text.h"

#include "proto/amqp091/settle.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_MOST 8 /* channels that a connection keeps for the next who asks */

struct request {
    struct list in_channel;
    struct timer timer;
    struct channel *channel;
    channel_answer_fn answer; /* NULL: forgotten, or its deadline has passed: the answer is dropped */
    void *ctx;
    uint32_t id;
    bool expired; /* its deadline has passed */
};

static struct env *env_of(const struct channel *channel)
{
    return channel->conn->conn.env;
}

static bool is_live(const struct channel *channel)
{
    return channel->state < CHANNEL_GONE && channel->conn->conn.state == CONN_READY;
}

/* Ends the connection with a sentence about the channel. */
static void fault(struct channel *channel, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fault(struct channel *channel, const char *format, ...)
{
    char words[TEXT_CAP];
    char text[TEXT_CAP];
    va_list args;
    va_start(args, format);
    text_vprint(words, sizeof words, format, args);
    va_end(args);
    text_print(text, sizeof text, "%s, on channel %u", words, (unsigned)channel->number);
    amqp_conn_protocol_error(channel->conn, text);
}

/* Numbers --------------------------------------------------------------------------------------------------------- */

static bool make_room(struct amqp_conn *conn, size_t number)
{
    if (number < conn->channel_cap)
        return true;
    size_t cap = conn->channel_cap == 0 ? 8 : 2 * conn->channel_cap;
    while (cap <= number)
        cap *= 2;
    struct channel **grown = realloc(conn->channels, cap * sizeof(struct channel *));
    if (grown == NULL)
        return false;
    memset(grown + conn->channel_cap, 0, (cap - conn->channel_cap) * sizeof(struct channel *));
    conn->channels = grown;
    conn->channel_cap = cap;
    return true;
}

/* The next free number, going round; 0 when there is none. */
static uint16_t free_number(struct amqp_conn *conn)
{
    for (unsigned tried = 0; tried < conn->channel_max; tried++) {
        uint16_t number = conn->number_next;
        conn->number_next = number >= conn->channel_max ? 1 : (uint16_t)(number + 1);
        if (number >= conn->channel_cap || conn->channels[number] == NULL)
            return number;
    }
    return 0;
}

static void take_off(struct channel *channel)
{
    struct amqp_conn *conn = channel->conn;
    conn->channels[channel->number] = NULL;
    conn->channel_count--;
    if (!list_empty(&channel->idle))
        conn->idle_count--;
    list_remove(&channel->idle);
    counter_add(&amqp_of(env_of(channel))->channels, (uint64_t)-1);
}

/* To be called whenever what it depends on may have changed. */
static void set_direct(struct channel *channel)
{
    bool straight = channel->state == CHANNEL_OPEN && channel->owner != NULL && !amqp_assembler_busy(&channel->assembler);
    channel->direct = straight ? channel->owner->content : NULL;
}

/* While it opens, open-ok is awaited. */
static void set_state(struct channel *channel, enum channel_state state)
{
    if (channel->state == CHANNEL_OPENING)
        amqp_conn_await_no_more(channel->conn);
    channel->state = state;
    set_direct(channel);
}

static void free_channel(struct channel *channel)
{
    set_state(channel, CHANNEL_GONE);
    take_off(channel);
    free(channel);
}

static void drop_content(struct channel *channel)
{
    block_unref(channel->assembled);
    channel->assembled = NULL;
    channel->assembler = (struct amqp_assembler){0};
}

/* Requests -------------------------------------------------------------------------------------------------------- */

static void free_request(struct request *request)
{
    if (!request->expired)
        amqp_conn_await_no_more(request->channel->conn);
    loop_timer_unset(env_of(request->channel)->loop, &request->timer);
    list_remove(&request->in_channel);
    free(request);
}

static void forget_requests(struct channel *channel)
{
    while (!list_empty(&channel->requests))
        free_request(container_of(channel->requests.next, struct request, in_channel));
}

static void run_deadline(struct timer *timer)
{
    struct request *request = container_of(timer, struct request, timer);
    channel_answer_fn answer = request->answer;
    void *ctx = request->ctx;
    char text[TEXT_CAP];
    text_print(text, sizeof text, "%s was not answered by %s in time: try again, or allow a longer deadline",
               amqp_method_name(request->id), request->channel->conn->conn.name);
    request->answer = NULL;
    request->expired = true;
    amqp_conn_await_no_more(request->channel->conn);
    if (answer != NULL)
        answer(ctx, CONEY_ETIMEDOUT, 0, NULL, NULL, text);
}

bool channel_expect(struct channel *channel, uint32_t id, int64_t deadline, channel_answer_fn answer, void *ctx)
{
    struct request *request = is_live(channel) ? malloc(sizeof *request) : NULL;
    if (request == NULL)
        return false;
    *request = (struct request){.timer.fire = run_deadline, .channel = channel, .answer = answer, .ctx = ctx, .id = id};
    if (!loop_timer_set(env_of(channel)->loop, &request->timer, deadline)) {
        free(request);
        return false;
    }
    list_init(&request->in_channel);
    list_append(&channel->requests, &request->in_channel);
    amqp_conn_await(channel->conn);
    return true;
}

bool channel_request(struct channel *channel, const struct amqp_method *method, int64_t deadline, channel_answer_fn answer,
                     void *ctx)
{
    if (!channel_expect(channel, method->id, deadline, answer, ctx))
        return false;
    if (amqp_conn_send(channel->conn, channel->number, method))
        return true;
    free_request(container_of(channel->requests.prev, struct request, in_channel));
    return false;
}

void channel_forget(struct channel *channel, const void *ctx)
{
    for (struct list *at = channel->requests.next; at != &channel->requests; at = at->next) {
        struct request *request = container_of(at, struct request, in_channel);
        if (request->ctx == ctx)
            request->answer = NULL;
    }
}

bool channel_send(struct channel *channel, const struct amqp_method *method)
{
    return is_live(channel) && amqp_conn_send(channel->conn, channel->number, method);
}

/* The oldest request that this answers; NULL: none. */
static struct request *answered_by(struct channel *channel, uint32_t id)
{
    for (struct list *at = channel->requests.next; at != &channel->requests; at = at->next) {
        struct request *request = container_of(at, struct request, in_channel);
        if (amqp_answers(request->id, id))
            return request;
    }
    return NULL;
}

static void answer_request(struct channel *channel, const struct amqp_method *method, const struct channel_content *content)
{
    struct request *request = answered_by(channel, method->id);
    if (request == NULL) {
        fault(channel, "%s answers nothing that was asked", amqp_method_name(method->id));
        return;
    }
    channel_answer_fn answer = request->answer;
    void *ctx = request->ctx;
    free_request(request);
    if (answer != NULL)
        answer(ctx, CONEY_OK, 0, method, content, "");
}

/* Opening and closing --------------------------------------------------------------------------------------------- */

struct channel *channel_open(struct amqp_conn *conn, const struct channel_owner *owner, void *ctx)
{
    const struct amqp_method open = {.id = AMQP_CHANNEL_OPEN};
    uint16_t number = conn->conn.state == CONN_READY ? free_number(conn) : 0;
    if (number == 0 || !make_room(conn, number))
        return NULL;
    struct channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL)
        return NULL;
    *channel = (struct channel){.conn = conn, .number = number, .state = CHANNEL_OPENING, .owner = owner, .ctx = ctx};
    list_init(&channel->requests);
    list_init(&channel->idle);
    conn->channels[number] = channel;
    conn->channel_count++;
    counter_add(&amqp_of(env_of(channel))->channels, 1);
    amqp_conn_await(conn);
    if (!amqp_conn_send(conn, number, &open)) {
        free_channel(channel);
        return NULL;
    }
    return channel;
}

/* Nobody is told of anything any more. */
static void disown(struct channel *channel)
{
    channel->owner = NULL;
    forget_requests(channel);
    drop_content(channel);
    set_direct(channel);
}

void channel_close(struct channel **handle)
{
    struct channel *channel = *handle;
    const struct amqp_method close = {
        .id = AMQP_CHANNEL_CLOSE, .close = {.code = AMQP_CODE_REPLY_SUCCESS, .text = CONEY_STR("closed by the application")}};
    *handle = NULL;
    if (channel == NULL)
        return;
    disown(channel);
    if (is_live(channel) && amqp_conn_send(channel->conn, channel->number, &close))
        set_state(channel, CHANNEL_CLOSING);
    else if (channel->state != CHANNEL_GONE) /* else whoever ends it frees it */
        free_channel(channel);
}

bool channel_rest(struct channel **handle)
{
    struct channel *channel = *handle;
    struct amqp_conn *conn = channel->conn;
    if (channel->state != CHANNEL_OPEN || conn->conn.state != CONN_READY || conn->idle_count == IDLE_MOST ||
        !list_empty(&channel->requests))
        return false;
    *handle = NULL;
    disown(channel);
    list_append(&conn->idle, &channel->idle);
    conn->idle_count++;
    return true;
}

struct channel *channel_reuse(struct amqp_conn *conn, const struct channel_owner *owner, void *ctx)
{
    struct list *at = list_take(&conn->idle);
    if (at == NULL)
        return NULL;
    struct channel *channel = container_of(at, struct channel, idle);
    conn->idle_count--;
    channel->owner = owner;
    channel->ctx = ctx;
    set_direct(channel);
    return channel;
}

void channel_lost(struct channel *channel, coney_status status, uint16_t code, const char *text)
{
    set_state(channel, CHANNEL_GONE);
    take_off(channel);
    drop_content(channel);
    for (struct list *at = list_take(&channel->requests); at != NULL; at = list_take(&channel->requests)) {
        struct request *request = container_of(at, struct request, in_channel);
        channel_answer_fn answer = request->answer;
        void *ctx = request->ctx;
        free_request(request);
        if (answer != NULL)
            answer(ctx, status, code, NULL, NULL, text);
    }
    const struct channel_owner *owner = channel->owner;
    void *ctx = channel->ctx;
    free(channel);
    if (owner != NULL)
        owner->closed(ctx, status, code, text);
}

/* Methods --------------------------------------------------------------------------------------------------------- */

static void send_bare(struct channel *channel, uint32_t id)
{
    uint8_t frame[AMQP_BARE_BYTES];
    amqp_bare_write(frame, channel->number, id);
    link_write(channel->conn->conn.link, frame, sizeof frame);
}

/* The broker closes the channel, which is answered at once; when our own close is out, the number rests until that one is answered, too. */
static void server_close(struct channel *channel, const struct amqp_close *close)
{
    char reason[AMQP_SHORT_MAX + 1];
    char text[TEXT_CAP];
    send_bare(channel, AMQP_CHANNEL_CLOSE_OK);
    if (channel->state == CHANNEL_CLOSING)
        return;
    text_from_wire(reason, sizeof reason, close->text);
    uint32_t failed = AMQP_METHOD_ID(close->failed_class, close->failed_method);
    text_print(text, sizeof text, "%s closed channel %u: %s (code %u%s%s)", channel->conn->conn.name, (unsigned)channel->number,
               reason, (unsigned)close->code, failed != 0 ? ", at " : "", failed != 0 ? amqp_method_name(failed) : "");
    coney_status status = amqp_status_of_code(close->code);
    channel->reason = reason;
    channel_lost(channel, status != CONEY_OK ? status : CONEY_EBROKER, close->code, text);
}

static void opened(struct channel *channel)
{
    struct request *limit = answered_by(channel, AMQP_CHANNEL_OPEN_OK);
    if (limit != NULL)
        free_request(limit);
    set_state(channel, CHANNEL_OPEN);
    if (channel->owner != NULL)
        channel->owner->opened(channel->ctx);
}

/* Whether it is told to the owner: what the broker says by itself, without content. */
static bool is_notice(uint32_t id)
{
    return id == AMQP_BASIC_ACK || id == AMQP_BASIC_NACK || id == AMQP_BASIC_CANCEL || id == AMQP_CHANNEL_FLOW;
}

static void tell_owner(struct channel *channel, const struct amqp_method *method)
{
    if (method->id == AMQP_CHANNEL_FLOW) {
        const struct amqp_method ok = {.id = AMQP_CHANNEL_FLOW_OK, .channel_flow = method->channel_flow};
        amqp_conn_send(channel->conn, channel->number, &ok);
    }
    if (channel->owner != NULL && channel->owner->method != NULL)
        channel->owner->method(channel->ctx, method);
}

static void take_method(struct channel *channel, const struct amqp_method *method)
{
    if (method->id == AMQP_CHANNEL_CLOSE)
        server_close(channel, &method->close);
    else if (channel->state == CHANNEL_CLOSING && method->id == AMQP_CHANNEL_CLOSE_OK)
        free_channel(channel);
    else if (channel->state == CHANNEL_CLOSING)
        return; /* it was on its way when our close went out */
    else if (channel->state == CHANNEL_OPENING && method->id == AMQP_CHANNEL_OPEN_OK)
        opened(channel);
    else if (channel->state == CHANNEL_OPENING)
        fault(channel, "%s came before channel.open-ok", amqp_method_name(method->id));
    else if (is_notice(method->id))
        tell_owner(channel, method);
    else
        answer_request(channel, method, NULL);
}

/* Contents -------------------------------------------------------------------------------------------------------- */

static void get_answered(struct channel *channel, struct block *block, const uint8_t *at, size_t len)
{
    struct channel_content content = {.block = block, .at = at, .len = len};
    struct amqp_method method;
    const char *field = amqp_unit_read(at, len, &content.unit) ? amqp_decode(content.unit.method, &method) : "unit";
    if (field == NULL)
        answer_request(channel, &method, &content);
    else
        fault(channel, "basic.get-ok cannot be read: %s", field);
}

static void too_large(struct channel *channel, uint64_t size)
{
    fault(channel, "a message of %llu bytes: at most %zu are accepted (max_message)", (unsigned long long)size,
          amqp_of(env_of(channel))->max_message);
}

static void hand_over(struct channel *channel, struct block *block, const uint8_t *at, size_t len)
{
    struct amqp_conn *conn = channel->conn;
    uint16_t number = channel->number;
    if (channel->owner == NULL || channel->owner->content == NULL)
        return;
    const char *field = channel->owner->content(channel->ctx, block, at, len); /* the channel may be gone behind this */
    if (field != NULL)
        amqp_conn_bad_message(conn, number, field);
}

/* A method with its whole content. */
static void take_unit(struct channel *channel, struct block *block, const uint8_t *at, size_t len)
{
    uint32_t id = load32(at + AMQP_HEAD_BYTES);
    size_t most = amqp_of(env_of(channel))->max_message;
    struct amqp_unit unit;
    if (len > most && amqp_unit_read(at, len, &unit) && unit.body.len > most)
        too_large(channel, unit.body.len);
    else if (id == AMQP_BASIC_DELIVER || id == AMQP_BASIC_RETURN)
        hand_over(channel, block, at, len);
    else if (id == AMQP_BASIC_GET_OK)
        get_answered(channel, block, at, len);
    else
        fault(channel, "%s came, which no broker sends", amqp_method_name(id));
}

static void explain_content(struct channel *channel, const char *what)
{
    static const struct {
        const char *fault;
        const char *words;
    } faults[] = {
        {amqp_fault_no_method, "a content header came without a method that announces it"},
        {amqp_fault_no_header, "a body frame came without a content header"},
        {amqp_fault_second_header, "a content header came inside a body"},
        {amqp_fault_method_inside, "a method came inside the content of another"},
        {amqp_fault_body_overrun, "there is more body than its content header says"},
        {amqp_fault_header_size, "a content header is too short"},
        {amqp_fault_header_class, "a content header is of another class than its method"},
        {amqp_fault_header_weight, "a content header has a weight"},
        {amqp_fault_body_negative, "a content header says a body size beyond 2^63"},
    };
    if (what == amqp_fault_body_too_large) {
        too_large(channel, channel->assembler.declared);
        return;
    }
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (what == faults[i].fault)
            what = faults[i].words;
    fault(channel, "%s", what);
}

/* Makes room for `room` bytes of the content that is being put together: as they come, not as they are promised. */
static bool grow_content(struct channel *channel, size_t room)
{
    size_t have = channel->assembled != NULL ? channel->assembled->cap : 0;
    if (have >= room)
        return true;
    uint64_t total = amqp_assembler_total(&channel->assembler);
    size_t cap = 2 * have > room ? 2 * have : room;
    if (total != 0 && cap > total && total >= room)
        cap = (size_t)total;
    struct block *grown = block_get(env_of(channel)->pool, cap);
    if (grown == NULL)
        return false;
    if (channel->assembled != NULL)
        memcpy(grown->data, channel->assembled->data, channel->assembler.len);
    block_unref(channel->assembled);
    channel->assembled = grown;
    return true;
}

/* One frame of a content that comes in pieces. */
static void take_piece(struct channel *channel, const uint8_t *at, size_t len)
{
    size_t room = 0;
    const char *what = amqp_assembler_check(&channel->assembler, at, len, amqp_of(env_of(channel))->max_message, &room);
    if (what != NULL) {
        explain_content(channel, what);
        return;
    }
    if (!grow_content(channel, room)) {
        conn_fail(&channel->conn->conn, CONEY_ENOMEM, 0, coney_status_text(CONEY_ENOMEM));
        return;
    }
    bool is_whole = amqp_assembler_add(&channel->assembler, at, len, channel->assembled->data);
    set_direct(channel);
    if (!is_whole)
        return;
    struct block *whole = channel->assembled;
    channel->assembled = NULL;
    take_unit(channel, whole, whole->data, room);
    block_unref(whole);
}

/* What is neither a whole message nor an ack for a channel that is open and owned. */
static void other_frame(struct channel *channel, struct block *block, const uint8_t *at, size_t len)
{
    struct amqp_frame frame = amqp_frame_of(at);
    struct amqp_method method;
    bool unit = amqp_is_unit(at, len);
    bool busy = amqp_assembler_busy(&channel->assembler);
    bool content = unit || busy || frame.type != AMQP_FRAME_METHOD ||
                   (frame.payload.len >= 4 && amqp_carries_content(load32(frame.payload.data)));
    if (content && channel->state == CHANNEL_CLOSING) {
        /* it was on its way when our close went out */
    } else if (content && channel->state == CHANNEL_OPENING) {
        fault(channel, "a message came before channel.open-ok");
    } else if (unit && !busy) {
        take_unit(channel, block, at, len);
    } else if (content) {
        take_piece(channel, at, unit ? frame.payload.len + AMQP_FRAME_BYTES : len);
    } else {
        const char *field = amqp_decode(frame.payload, &method);
        if (field == NULL)
            take_method(channel, &method);
        else
            fault(channel, "a method cannot be read: %s", field);
    }
}

void channel_frame(struct channel *channel, struct block *block, const uint8_t *at, size_t len)
{
    const struct channel_owner *owner = channel->owner;
    bool open = channel->state == CHANNEL_OPEN && owner != NULL && !amqp_assembler_busy(&channel->assembler);
    if (open && amqp_is_unit(at, len)) {
        take_unit(channel, block, at, len);
        return;
    }
    struct amqp_settle settle;
    if (open && owner->ack != NULL && amqp_settle_read(at, len, &settle) && settle.id == AMQP_BASIC_ACK)
        owner->ack(channel->ctx, settle.tag, (settle.flags & AMQP_SETTLE_MULTIPLE) != 0);
    else
        other_frame(channel, block, at, len);
}
