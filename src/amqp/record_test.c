/* What is remembered of declarations, and what is forgotten with what. */
#include "amqp/record.h"

#include "amqp/conn.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct topology topology;

static int begin(void **state)
{
    (void)state;
    list_init(&topology.exchanges);
    list_init(&topology.queues);
    list_init(&topology.bindings);
    return 0;
}

static void forget_list(struct list *list)
{
    while (!list_empty(list))
        record_forget(container_of(list->next, struct record, in_topology));
}

static int end(void **state)
{
    (void)state;
    forget_list(&topology.exchanges);
    forget_list(&topology.queues);
    forget_list(&topology.bindings);
    return 0;
}

static size_t length(const struct list *list)
{
    size_t count = 0;
    for (const struct list *item = list->next; item != list; item = item->next)
        count++;
    return count;
}

static struct record *keep(const struct amqp_method *method, const struct arguments *arguments)
{
    struct record *record = record_new(method, arguments);
    assert_non_null(record);
    record_keep(&topology, record);
    return record;
}

static struct record *keep_queue(const char *name)
{
    return keep(&(struct amqp_method){.id = AMQP_QUEUE_DECLARE, .queue_declare.queue = coney_bytes_str(name)}, NULL);
}

static struct record *keep_exchange(const char *name)
{
    return keep(&(struct amqp_method){.id = AMQP_EXCHANGE_DECLARE,
                                      .exchange_declare = {.exchange = coney_bytes_str(name), .type = CONEY_STR("topic")}},
                NULL);
}

static struct amqp_method queue_bind(const char *source, const char *queue, const char *key)
{
    return (struct amqp_method){.id = AMQP_QUEUE_BIND,
                                .queue_bind = {.queue = coney_bytes_str(queue),
                                               .exchange = coney_bytes_str(source),
                                               .routing_key = coney_bytes_str(key)}};
}

static struct amqp_method exchange_bind(const char *source, const char *destination)
{
    return (struct amqp_method){
        .id = AMQP_EXCHANGE_BIND,
        .exchange_bind = {.destination = coney_bytes_str(destination), .source = coney_bytes_str(source)}};
}

static struct record *keep_binding(const char *source, const char *queue, const char *key)
{
    const struct amqp_method method = queue_bind(source, queue, key);
    return keep(&method, NULL);
}

static struct record *keep_exchange_binding(const char *source, const char *destination)
{
    const struct amqp_method method = exchange_bind(source, destination);
    return keep(&method, NULL);
}

static bool is(coney_bytes bytes, const char *text)
{
    return bytes_equal(bytes, coney_bytes_str(text));
}

static void a_record_owns_what_its_method_points_to(void **state)
{
    (void)state;
    char name[] = "orders", key[] = "a.b";
    const coney_field argument[] = {{CONEY_STR("x-match"), coney_value_string(CONEY_STR("any"))}};
    struct arguments arguments;
    assert_int_equal(arguments_of_binding(&arguments, &(coney_amqp_binding){.arguments = argument, .argument_count = 1}, NULL),
                     CONEY_OK);
    const struct amqp_method method = queue_bind("events", name, key);
    const struct record *record = keep(&method, &arguments);
    memset(name, 'x', sizeof name);
    memset(key, 'x', sizeof key);
    coney_value match;
    assert_true(is(record->method.queue_bind.queue, "orders"));
    assert_true(is(record->method.queue_bind.routing_key, "a.b"));
    assert_string_equal(record->name, "orders");
    assert_true(coney_value_find(&record->method.queue_bind.arguments, CONEY_STR("x-match"), &match));
    assert_true(is(match.as.bytes, "any"));
}

static void what_is_declared_again_takes_the_place_of_what_was(void **state)
{
    (void)state;
    keep_queue("a");
    keep_queue("b");
    struct record *again = keep_queue("a");
    assert_int_equal(length(&topology.queues), 2);
    assert_ptr_equal(topology.queues.next, &again->in_topology);
    keep_exchange("a");
    keep_exchange("a");
    assert_int_equal(length(&topology.exchanges), 1);
    keep_binding("x", "a", "k");
    keep_binding("x", "a", "k");
    keep_binding("x", "a", "l");
    keep_exchange_binding("x", "a");
    assert_int_equal(length(&topology.bindings), 3);
}

static void a_deleted_queue_takes_its_bindings_along_and_no_other(void **state)
{
    (void)state;
    keep_queue("a");
    keep_queue("b");
    keep_binding("x", "a", "k");
    keep_binding("x", "b", "k");
    keep_exchange_binding("x", "a"); /* an exchange of the same name */
    record_undo(&topology, &(struct amqp_method){.id = AMQP_QUEUE_DELETE, .queue_delete.queue = CONEY_STR("a")});
    assert_null(record_queue(&topology, CONEY_STR("a")));
    assert_non_null(record_queue(&topology, CONEY_STR("b")));
    assert_int_equal(length(&topology.bindings), 2);
}

static void a_deleted_exchange_takes_the_bindings_of_both_its_ends_along(void **state)
{
    (void)state;
    keep_exchange("x");
    keep_exchange("y");
    keep_binding("x", "q", "k");
    keep_binding("y", "x", "k"); /* a queue of the same name */
    keep_exchange_binding("x", "y");
    keep_exchange_binding("y", "x");
    keep_exchange_binding("y", "z");
    record_undo(&topology, &(struct amqp_method){.id = AMQP_EXCHANGE_DELETE, .exchange_delete.exchange = CONEY_STR("x")});
    assert_int_equal(length(&topology.exchanges), 1);
    assert_int_equal(length(&topology.bindings), 2);
}

static void an_unbinding_forgets_the_binding_with_the_same_arguments_only(void **state)
{
    (void)state;
    const coney_field all[] = {{CONEY_STR("x-match"), coney_value_string(CONEY_STR("all"))},
                               {CONEY_STR("kind"), coney_value_i64(1)}};
    const coney_field turned[] = {all[1], all[0]};
    struct arguments arguments;
    const struct amqp_method plain = queue_bind("x", "q", "");
    arguments_of_binding(&arguments, &(coney_amqp_binding){.arguments = all, .argument_count = 2}, NULL);
    keep(&plain, NULL);
    keep(&plain, &arguments);
    assert_int_equal(length(&topology.bindings), 2);
    arguments_of_binding(&arguments, &(coney_amqp_binding){.arguments = turned, .argument_count = 2}, NULL);
    struct record *unbind = record_new(
        &(struct amqp_method){.id = AMQP_QUEUE_UNBIND, .queue_unbind = {.queue = CONEY_STR("q"), .exchange = CONEY_STR("x")}},
        &arguments);
    record_undo(&topology, &unbind->method);
    assert_int_equal(length(&topology.bindings), 1);
    record_undo(&topology, &unbind->method);
    assert_int_equal(length(&topology.bindings), 1);
    record_free(unbind);
}

static void a_queue_that_the_broker_names_is_known_by_its_first_name_for_ever(void **state)
{
    (void)state;
    struct record *queue = record_new(&(struct amqp_method){.id = AMQP_QUEUE_DECLARE}, NULL);
    assert_true(queue->brokers_own);
    assert_false(record_declared(queue, CONEY_STR("amq.gen-1"), NULL));
    record_keep(&topology, queue);
    queue->renew = true;
    assert_true(record_declared(queue, CONEY_STR("amq.gen-2"), NULL));
    assert_false(queue->renew);
    assert_ptr_equal(record_queue(&topology, CONEY_STR("amq.gen-1")), queue);
    const struct amqp_method bind = queue_bind("x", "amq.gen-1", "k");
    const struct amqp_method other = queue_bind("x", "amq.gen-3", "k");
    assert_true(is(record_request(&topology, &bind).queue_bind.queue, "amq.gen-2"));
    assert_true(is(record_request(&topology, &other).queue_bind.queue, "amq.gen-3"));
}

static void what_is_about_an_exclusive_queue_goes_to_its_connection(void **state)
{
    (void)state;
    struct env env = {0};
    struct amqp_conn home = {.conn.env = &env, .pins = 1}, other = {.conn.env = &env, .pins = 1};
    struct amqp_conn *conn = &other;
    const struct amqp_method declare = {.id = AMQP_QUEUE_DECLARE,
                                        .queue_declare = {.queue = CONEY_STR("mine"), .exclusive = true}};
    assert_int_equal(record_purpose(&topology, &declare, &conn), PURPOSE_CONSUME);
    assert_null(conn);
    struct record *queue = record_new(&declare, NULL);
    assert_false(record_declared(queue, CONEY_STR("mine"), &home));
    record_keep(&topology, queue);
    assert_int_equal(home.pins, 2);
    const struct amqp_method bind = queue_bind("x", "mine", "k");
    assert_int_equal(record_purpose(&topology, &bind, &conn), PURPOSE_CONSUME);
    assert_ptr_equal(conn, &home);
    const struct amqp_method elsewhere = queue_bind("x", "yours", "k");
    assert_int_equal(record_purpose(&topology, &elsewhere, &conn), PURPOSE_CONTROL);
    assert_null(conn);
    const struct amqp_method of_exchanges = exchange_bind("x", "mine");
    assert_int_equal(record_purpose(&topology, &of_exchanges, &conn), PURPOSE_CONTROL);
    record_undo(&topology, &(struct amqp_method){.id = AMQP_QUEUE_DELETE, .queue_delete.queue = CONEY_STR("mine")});
    assert_int_equal(home.pins, 1);
}

static void an_exclusive_queue_declared_twice_holds_its_connection_once(void **state)
{
    (void)state;
    struct env env = {0};
    struct amqp_conn home = {.conn.env = &env, .pins = 1};
    const struct amqp_method declare = {.id = AMQP_QUEUE_DECLARE,
                                        .queue_declare = {.queue = CONEY_STR("mine"), .exclusive = true}};
    for (int i = 0; i < 2; i++) {
        struct record *queue = record_new(&declare, NULL);
        record_declared(queue, CONEY_STR("mine"), &home);
        record_keep(&topology, queue);
    }
    assert_int_equal(home.pins, 2);
    assert_int_equal(length(&topology.queues), 1);
    forget_list(&topology.queues);
    assert_int_equal(home.pins, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_owns_what_its_method_points_to),
        TEST(what_is_declared_again_takes_the_place_of_what_was),
        TEST(a_deleted_queue_takes_its_bindings_along_and_no_other),
        TEST(a_deleted_exchange_takes_the_bindings_of_both_its_ends_along),
        TEST(an_unbinding_forgets_the_binding_with_the_same_arguments_only),
        TEST(a_queue_that_the_broker_names_is_known_by_its_first_name_for_ever),
        TEST(what_is_about_an_exclusive_queue_goes_to_its_connection),
        TEST(an_exclusive_queue_declared_twice_holds_its_connection_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
