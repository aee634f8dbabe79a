/* record.c: see record.h. */
#include "amqp/record.h"

#include "amqp/conn.h"

#include <stdlib.h>

#define NAME_CAP (AMQP_SHORT_MAX + 1)
#define ROOM(array) (sizeof(array) / sizeof((array)[0]))

/* What a method of topology points to; the first string is its subject. */
static const struct form {
    uint32_t id;
    size_t strings[3]; /* offsets in struct amqp_method; 0: no more */
    size_t table;      /* 0: none */
} forms[] = {
#define AT(member) offsetof(struct amqp_method, member)
    {AMQP_EXCHANGE_DECLARE, {AT(exchange_declare.exchange), AT(exchange_declare.type)}, AT(exchange_declare.arguments)},
    {AMQP_EXCHANGE_DELETE, {AT(exchange_delete.exchange)}, 0},
    {AMQP_EXCHANGE_BIND,
     {AT(exchange_bind.destination), AT(exchange_bind.source), AT(exchange_bind.routing_key)},
     AT(exchange_bind.arguments)},
    {AMQP_EXCHANGE_UNBIND,
     {AT(exchange_bind.destination), AT(exchange_bind.source), AT(exchange_bind.routing_key)},
     AT(exchange_bind.arguments)},
    {AMQP_QUEUE_DECLARE, {AT(queue_declare.queue)}, AT(queue_declare.arguments)},
    {AMQP_QUEUE_DELETE, {AT(queue_delete.queue)}, 0},
    {AMQP_QUEUE_PURGE, {AT(queue_purge.queue)}, 0},
    {AMQP_QUEUE_BIND, {AT(queue_bind.queue), AT(queue_bind.exchange), AT(queue_bind.routing_key)}, AT(queue_bind.arguments)},
    {AMQP_QUEUE_UNBIND,
     {AT(queue_unbind.queue), AT(queue_unbind.exchange), AT(queue_unbind.routing_key)},
     AT(queue_unbind.arguments)},
};

static const struct form *form_of(const struct amqp_method *method)
{
    const struct form *form = forms;
    while (form->id != method->id)
        form++;
    return form;
}

static coney_bytes *string_at(struct amqp_method *method, size_t offset)
{
    return (coney_bytes *)(void *)((uint8_t *)method + offset);
}

static coney_bytes string_of(const struct amqp_method *method, const struct form *form, size_t i)
{
    coney_bytes string = {0};
    if (i < ROOM(form->strings) && form->strings[i] != 0)
        memcpy(&string, (const uint8_t *)method + form->strings[i], sizeof string);
    return string;
}

static coney_bytes table_of(const struct amqp_method *method, const struct form *form)
{
    coney_value table = coney_value_null();
    if (form->table != 0)
        memcpy(&table, (const uint8_t *)method + form->table, sizeof table);
    return table.as.bytes;
}

coney_bytes record_subject(const struct amqp_method *method)
{
    return string_of(method, form_of(method), 0);
}

/* FNV-1a. */
static uint32_t hash_of(coney_bytes bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ ((const uint8_t *)bytes.data)[i]) * 16777619u;
    return hash;
}

/* Making and freeing ------------------------------------------------------------------------------------------------ */

static bool has_brokers_name(const struct amqp_method *method)
{
    return method->id == AMQP_QUEUE_DECLARE && method->queue_declare.queue.len == 0;
}

static size_t memory_for(const struct amqp_method *method, const struct arguments *arguments)
{
    const struct form *form = form_of(method);
    size_t size = arguments != NULL ? arguments->size : 0;
    for (size_t i = 0; i < ROOM(form->strings); i++)
        size += string_of(method, form, i).len + 1;
    return size + (has_brokers_name(method) ? 2 * NAME_CAP : 0);
}

/* Each string gets an end, so that it can stand in a text. */
static uint8_t *copy_strings(struct amqp_method *method, uint8_t *at)
{
    const struct form *form = form_of(method);
    for (size_t i = 0; i < ROOM(form->strings) && form->strings[i] != 0; i++) {
        coney_bytes *string = string_at(method, form->strings[i]);
        if (string->len > 0)
            memcpy(at, string->data, string->len);
        string->data = at;
        at += string->len;
        *at++ = '\0';
    }
    return at;
}

struct record *record_new(const struct amqp_method *method, const struct arguments *arguments)
{
    struct record *record = calloc(1, sizeof *record + memory_for(method, arguments));
    if (record == NULL)
        return NULL;
    list_init(&record->in_topology);
    list_init(&record->in_replay);
    record->method = *method;
    uint8_t *at = copy_strings(&record->method, (uint8_t *)(record + 1));
    coney_bytes subject = record_subject(&record->method);
    record->hash = hash_of(subject);
    record->brokers_own = has_brokers_name(method);
    record->name = record->brokers_own ? (char *)at : (char *)(uintptr_t)subject.data;
    record->now = record->brokers_own ? (char *)at + NAME_CAP : record->name;
    at += record->brokers_own ? 2 * NAME_CAP : 0;
    size_t table = form_of(method)->table;
    if (arguments != NULL && table != 0) {
        coney_value entries = arguments_write(arguments, at);
        memcpy((uint8_t *)&record->method + table, &entries, sizeof entries);
    }
    return record;
}

void record_free(struct record *record)
{
    free(record);
}

bool record_is_exclusive(const struct record *record)
{
    return record->method.id == AMQP_QUEUE_DECLARE && record->method.queue_declare.exclusive;
}

bool record_is_flighty(const struct record *record)
{
    if (record->method.id == AMQP_QUEUE_DECLARE)
        return record->method.queue_declare.auto_delete && !record->method.queue_declare.exclusive;
    return record->method.id == AMQP_EXCHANGE_DECLARE && record->method.exchange_declare.auto_delete;
}

static void let_go_of_conn(struct record *record)
{
    struct amqp_conn *conn = record->conn;
    record->conn = NULL;
    if (conn != NULL)
        amqp_conn_unpin(conn);
}

static void take_name(struct record *record, coney_bytes name)
{
    memcpy(record->now, name.data, name.len);
    record->now[name.len] = '\0';
    if (record->name[0] != '\0')
        return;
    memcpy(record->name, record->now, name.len + 1);
    record->hash = hash_of(name);
}

bool record_declared(struct record *record, coney_bytes name, struct amqp_conn *conn)
{
    if (record_is_exclusive(record) && record->conn != conn) {
        amqp_conn_pin(conn);
        let_go_of_conn(record);
        record->conn = conn;
    }
    if (!record->brokers_own || name.len >= NAME_CAP || bytes_equal(name, coney_bytes_str(record->now)))
        return false;
    bool renamed = record->name[0] != '\0';
    take_name(record, name);
    record->renew = false;
    return renamed;
}

/* In the topology --------------------------------------------------------------------------------------------------- */

static struct record *of_topology(const struct list *item)
{
    return container_of(item, struct record, in_topology);
}

static struct list *list_of(struct topology *topology, uint32_t id)
{
    if (id == AMQP_EXCHANGE_DECLARE)
        return &topology->exchanges;
    return id == AMQP_QUEUE_DECLARE ? &topology->queues : &topology->bindings;
}

struct record *record_queue(const struct topology *topology, coney_bytes name)
{
    uint32_t hash = hash_of(name);
    for (const struct list *item = topology->queues.next; item != &topology->queues; item = item->next) {
        struct record *record = of_topology(item);
        if (record->hash == hash && bytes_equal(coney_bytes_str(record->name), name))
            return record;
    }
    return NULL;
}

struct record *record_exchange(const struct topology *topology, coney_bytes name)
{
    for (const struct list *item = topology->exchanges.next; item != &topology->exchanges; item = item->next)
        if (bytes_equal(record_subject(&of_topology(item)->method), name))
            return of_topology(item);
    return NULL;
}

struct record_ends record_ends(const struct topology *topology, const struct record *binding)
{
    coney_bytes destination = record_subject(&binding->method);
    bool to_exchange = binding->method.id == AMQP_EXCHANGE_BIND;
    return (struct record_ends){{record_exchange(topology, string_of(&binding->method, form_of(&binding->method), 1)),
                                 to_exchange ? record_exchange(topology, destination) : record_queue(topology, destination)}};
}

static bool same_binding(const struct amqp_method *a, const struct amqp_method *b)
{
    const struct form *form_a = form_of(a);
    const struct form *form_b = form_of(b);
    for (size_t i = 0; i < ROOM(form_a->strings); i++)
        if (!bytes_equal(string_of(a, form_a, i), string_of(b, form_b, i)))
            return false;
    return bytes_equal(table_of(a, form_a), table_of(b, form_b));
}

static bool same_thing(const struct record *a, const struct record *b)
{
    if (a->hash != b->hash || a->method.id != b->method.id)
        return false;
    switch (a->method.id) {
    case AMQP_QUEUE_DECLARE:
        return strcmp(a->name, b->name) == 0;
    case AMQP_EXCHANGE_DECLARE:
        return bytes_equal(record_subject(&a->method), record_subject(&b->method));
    default:
        return same_binding(&a->method, &b->method);
    }
}

void record_forget(struct record *record)
{
    list_remove(&record->in_topology);
    let_go_of_conn(record);
    if (record->track != NULL)
        return;
    list_remove(&record->in_replay);
    record_free(record);
}

void record_keep(struct topology *topology, struct record *record)
{
    struct list *list = list_of(topology, record->method.id);
    struct record *before = NULL;
    for (struct list *item = list->next; item != list && before == NULL; item = item->next)
        if (same_thing(of_topology(item), record))
            before = of_topology(item);
    list_append(before != NULL ? before->in_topology.next : list, &record->in_topology);
    if (before != NULL)
        record_forget(before);
}

static bool is_deleted_exchange(const struct record *record, coney_bytes exchange)
{
    if (record->method.id == AMQP_EXCHANGE_DECLARE)
        return bytes_equal(record_subject(&record->method), exchange);
    if (!record_is_binding(record))
        return false;
    coney_bytes source = string_of(&record->method, form_of(&record->method), 1);
    return bytes_equal(source, exchange) ||
           (record->method.id == AMQP_EXCHANGE_BIND && bytes_equal(record_subject(&record->method), exchange));
}

static bool is_deleted_queue(const struct record *record, coney_bytes queue)
{
    if (record->method.id == AMQP_QUEUE_DECLARE)
        return bytes_equal(coney_bytes_str(record->name), queue);
    return record->method.id == AMQP_QUEUE_BIND && bytes_equal(record->method.queue_bind.queue, queue);
}

bool record_goes_with(const struct record *record, const struct amqp_method *undo)
{
    switch (undo->id) {
    case AMQP_EXCHANGE_DELETE:
        return is_deleted_exchange(record, undo->exchange_delete.exchange);
    case AMQP_QUEUE_DELETE:
        return is_deleted_queue(record, undo->queue_delete.queue);
    case AMQP_EXCHANGE_UNBIND:
        return record->method.id == AMQP_EXCHANGE_BIND && same_binding(&record->method, undo);
    default:
        return record->method.id == AMQP_QUEUE_BIND && same_binding(&record->method, undo);
    }
}

static void forget_all(struct list *list, const struct amqp_method *undo)
{
    struct list *next;
    for (struct list *item = list->next; item != list; item = next) {
        next = item->next;
        if (record_goes_with(of_topology(item), undo))
            record_forget(of_topology(item));
    }
}

void record_undo(struct topology *topology, const struct amqp_method *undo)
{
    forget_all(&topology->exchanges, undo);
    forget_all(&topology->queues, undo);
    forget_all(&topology->bindings, undo);
}

/* What is sent ------------------------------------------------------------------------------------------------------- */

/* The queue that the method is about; NULL: it is about none, or about one without a record. */
static struct record *queue_of(const struct topology *topology, const struct amqp_method *method)
{
    return AMQP_CLASS_OF(method->id) == AMQP_CLASS_QUEUE ? record_queue(topology, record_subject(method)) : NULL;
}

enum purpose record_purpose(const struct topology *topology, const struct amqp_method *method, struct amqp_conn **conn)
{
    const struct record *queue = queue_of(topology, method);
    *conn = queue != NULL ? queue->conn : NULL;
    bool declares_exclusive = method->id == AMQP_QUEUE_DECLARE && method->queue_declare.exclusive;
    return declares_exclusive || (queue != NULL && record_is_exclusive(queue)) ? PURPOSE_CONSUME : PURPOSE_CONTROL;
}

struct amqp_method record_request(const struct topology *topology, const struct amqp_method *method)
{
    struct amqp_method request = *method;
    const struct record *queue = queue_of(topology, method);
    if (queue != NULL)
        *string_at(&request, form_of(method)->strings[0]) = coney_bytes_str(queue->now);
    return request;
}
