/* memory_message.c: see memory_message.h. */
#include "transport/memory_message.h"

#include "base/bytes.h"

#include <stdlib.h>

#define IDLE_MOST ((size_t)16 << 20) /* bytes kept for reuse in the classes that are limited */

/* Blocks ------------------------------------------------------------------------------------------------------------------ */

static size_t class_size(uint32_t size_class)
{
    return (size_t)1 << (size_class + MESSAGE_SHIFT);
}

struct message *message_allocate(struct message_pool *pool, size_t size)
{
    uint32_t size_class = message_class(size);
    struct message *message = size_class < MESSAGE_CLASSES ? pool->idle[size_class] : NULL;
    if (message != NULL) { /* of the limited classes: message_take has looked for the others */
        pool->idle[size_class] = message->next;
        pool->idle_bytes -= class_size(size_class);
        return message;
    }
    message = malloc(size_class < MESSAGE_CLASSES ? class_size(size_class) : size);
    if (message == NULL)
        return NULL;
    message->size_class = size_class;
    message->entry.message = message;
    message->entry.bus = pool->bus;
    message->entry.kept.settle = pool->settle;
    list_init(&message->entry.open);
    return message;
}

void message_release(struct message_pool *pool, struct message *message)
{
    uint32_t size_class = message->size_class;
    if (size_class >= MESSAGE_CLASSES || pool->idle_bytes + class_size(size_class) > IDLE_MOST) {
        free(message);
        return;
    }
    message->next = pool->idle[size_class];
    pool->idle[size_class] = message;
    pool->idle_bytes += class_size(size_class);
}

void message_pool_free(struct message_pool *pool)
{
    for (size_t i = 0; i < MESSAGE_CLASSES; i++)
        for (struct message *message = pool->idle[i]; message != NULL;) {
            struct message *next = message->next;
            free(message);
            message = next;
        }
    free(pool->scratch);
}

/* Making one -------------------------------------------------------------------------------------------------------------- */

static coney_bytes lay(uint8_t **at, coney_bytes bytes)
{
    if (bytes.len == 0)
        return (coney_bytes){0};
    coney_bytes copy = {*at, bytes.len};
    copy_short(*at, bytes.data, bytes.len);
    *at += bytes.len;
    return copy;
}

static size_t more_size(const struct message_more *more)
{
    return sizeof *more + more->correlation_id.len + more->reply_to.len + more->message_id.len + more->type.len +
           (more->headers.type == CONEY_VALUE_NULL ? 0 : more->headers.as.bytes.len);
}

static const struct message_more *lay_more(uint8_t **at, const struct message_more *from)
{
    struct message_more *more = (struct message_more *)(void *)*at;
    *at += sizeof *more;
    *more = *from;
    more->correlation_id = lay(at, from->correlation_id);
    more->reply_to = lay(at, from->reply_to);
    more->message_id = lay(at, from->message_id);
    more->type = lay(at, from->type);
    if (from->headers.type != CONEY_VALUE_NULL)
        more->headers.as.bytes = lay(at, from->headers.as.bytes);
    return more;
}

struct message *message_new(struct message_pool *pool, const struct message *view, bool named)
{
    size_t len = view->body.len + view->content_type.len;
    if (!named)
        len += view->exchange.len + view->to.len;
    if (view->more != NULL)
        len += more_size(view->more);
    struct message *message = message_take(pool, len);
    if (message == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)message->data;
    message->more = view->more != NULL ? lay_more(&at, view->more) : NULL;
    message->body = lay(&at, view->body);
    message->content_type = lay(&at, view->content_type);
    message->exchange = named ? view->exchange : lay(&at, view->exchange);
    message->to = named ? view->to : lay(&at, view->to);
    return message;
}

/* Headers ----------------------------------------------------------------------------------------------------------------- */

#define SCRATCH_SMALLEST 512

static void builder_begin(coney_builder *builder, struct message_pool *pool, coney_value_encoding encoding)
{
    if (encoding == CONEY_ENCODING_AMQP091)
        coney_builder_init_table(builder, pool->scratch, pool->scratch_cap);
    else
        coney_builder_init(builder, pool->scratch, pool->scratch_cap);
    coney_builder_begin(builder, CONEY_VALUE_MAP);
}

static bool scratch_grow(struct message_pool *pool, size_t needed)
{
    size_t cap = needed > SCRATCH_SMALLEST ? needed * 2 : SCRATCH_SMALLEST;
    uint8_t *grown = realloc(pool->scratch, cap);
    if (grown == NULL)
        return false;
    pool->scratch = grown;
    pool->scratch_cap = cap;
    return true;
}

/* Ends what builder_begin began; CONEY_ETOOBIG: the scratch has grown, and it is to be written once more. */
static coney_status builder_end(coney_builder *builder, struct message_pool *pool, coney_value *headers)
{
    coney_builder_end(builder);
    coney_status status = coney_builder_finish(builder, headers);
    if (status == CONEY_ETOOBIG && !scratch_grow(pool, builder->needed))
        return CONEY_ENOMEM;
    return status;
}

static bool is_of_delivery(coney_bytes key)
{
    return bytes_equal(key, CONEY_STR(DELIVERY_COUNT_HEADER));
}

static bool is_among(coney_bytes key, const coney_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(key, fields[i].key))
            return true;
    return false;
}

coney_status message_headers(struct message_pool *pool, coney_value_encoding encoding, const coney_value *map,
                             const coney_field *fields, size_t count, coney_bytes key, coney_value *headers)
{
    *headers = coney_value_null();
    coney_status status = CONEY_OK;
    if (count == 0 && key.len == 0 && (map == NULL || map->count == 0))
        return CONEY_OK;
    do {
        coney_builder builder;
        builder_begin(&builder, pool, encoding);
        coney_value_iter iter = map != NULL ? coney_value_elements(map) : (coney_value_iter){0};
        for (coney_field field; coney_value_next_field(&iter, &field);)
            if (!is_of_delivery(field.key) && !is_among(field.key, fields, count))
                coney_builder_put(&builder, field.key, field.value);
        for (size_t i = 0; i < count; i++)
            if (key.len == 0 || !bytes_equal(fields[i].key, CONEY_STR(KEY_HEADER)))
                coney_builder_put(&builder, fields[i].key, fields[i].value);
        if (key.len > 0)
            coney_builder_put(&builder, CONEY_STR(KEY_HEADER), coney_value_string(key));
        status = builder_end(&builder, pool, headers);
    } while (status == CONEY_ETOOBIG);
    return status;
}

bool message_header(const struct message *message, coney_bytes name, coney_value *value)
{
    return message->more != NULL && coney_value_find(&message->more->headers, name, value);
}

/* Dead letters ------------------------------------------------------------------------------------------------------------ */

static coney_bytes text_in(const coney_value *map, coney_bytes name)
{
    coney_value value;
    coney_bytes text = {0};
    if (coney_value_find(map, name, &value))
        coney_value_to_bytes(&value, &text);
    return text;
}

static coney_value_iter deaths_of(const struct message *message)
{
    coney_value deaths;
    return message_header(message, CONEY_STR("x-death"), &deaths) ? coney_value_elements(&deaths) : (coney_value_iter){0};
}

static bool is_death(const coney_value *death, coney_bytes queue, coney_bytes reason)
{
    return bytes_equal(text_in(death, CONEY_STR("queue")), queue) && bytes_equal(text_in(death, CONEY_STR("reason")), reason);
}

static int64_t deaths_before(const struct message *message, coney_bytes queue, coney_bytes reason)
{
    coney_value_iter iter = deaths_of(message);
    int64_t count = 0;
    for (coney_value death, number; coney_value_next(&iter, &death);)
        if (is_death(&death, queue, reason) && coney_value_find(&death, CONEY_STR("count"), &number))
            coney_value_to_i64(&number, &count);
    return count;
}

static void put_deaths(coney_builder *builder, const struct message *message, coney_bytes queue, coney_bytes reason)
{
    coney_builder_put_begin(builder, CONEY_STR("x-death"), CONEY_VALUE_LIST);
    coney_builder_begin(builder, CONEY_VALUE_MAP);
    coney_builder_put(builder, CONEY_STR("count"), coney_value_i64(deaths_before(message, queue, reason) + 1));
    coney_builder_put(builder, CONEY_STR("reason"), coney_value_string(reason));
    coney_builder_put(builder, CONEY_STR("queue"), coney_value_string(queue));
    coney_builder_put(builder, CONEY_STR("exchange"), coney_value_string(message->exchange));
    coney_builder_put_begin(builder, CONEY_STR("routing-keys"), CONEY_VALUE_LIST);
    coney_builder_add(builder, coney_value_string(message->to));
    coney_builder_end(builder);
    coney_builder_end(builder);
    coney_value_iter iter = deaths_of(message);
    for (coney_value death; coney_value_next(&iter, &death);)
        if (!is_death(&death, queue, reason))
            coney_builder_add(builder, death);
    coney_builder_end(builder);
}

coney_status message_death(struct message_pool *pool, const struct message *message, coney_bytes queue, const char *reason,
                           coney_value *headers)
{
    coney_bytes why = coney_bytes_str(reason);
    coney_value first;
    bool is_first = !message_header(message, CONEY_STR("x-first-death-queue"), &first);
    coney_status status = CONEY_OK;
    do {
        coney_builder builder;
        builder_begin(&builder, pool, CONEY_ENCODING_AMQP091);
        coney_value_iter iter = message->more != NULL ? coney_value_elements(&message->more->headers) : (coney_value_iter){0};
        for (coney_field field; coney_value_next_field(&iter, &field);)
            if (!is_of_delivery(field.key) && !bytes_equal(field.key, CONEY_STR("x-death")))
                coney_builder_put(&builder, field.key, field.value);
        if (is_first) {
            coney_builder_put(&builder, CONEY_STR("x-first-death-queue"), coney_value_string(queue));
            coney_builder_put(&builder, CONEY_STR("x-first-death-reason"), coney_value_string(why));
            coney_builder_put(&builder, CONEY_STR("x-first-death-exchange"), coney_value_string(message->exchange));
        }
        put_deaths(&builder, message, queue, why);
        status = builder_end(&builder, pool, headers);
    } while (status == CONEY_ETOOBIG);
    return status;
}

bool message_circles(const struct message *message, coney_bytes queue)
{
    coney_value_iter iter = deaths_of(message);
    bool was_there = false;
    for (coney_value death; coney_value_next(&iter, &death);) {
        if (bytes_equal(text_in(&death, CONEY_STR("reason")), CONEY_STR("rejected")))
            return false;
        was_there = was_there || bytes_equal(text_in(&death, CONEY_STR("queue")), queue);
    }
    return was_there;
}
