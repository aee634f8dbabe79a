/* Exchanges, queues and bindings of a real node: every kind declared, asked about, bound, refused, deleted. */
#define _GNU_SOURCE
#include "rabbit.h"
#include "stage.h"

static struct node node;

static void refused(coney_status expected, uint32_t code, const coney_call *call, const char *says)
{
    if (call->status != expected)
        fail_msg("%s instead of %s: %s", coney_status_name(call->status), coney_status_name(expected), call->text);
    assert_int_equal(call->code, code);
    assert_says(call->text, says);
}

static void queue_refused(struct rabbit *rabbit, const coney_amqp_queue *queue, coney_status expected, uint32_t code,
                          const char *says)
{
    coney_call call = {0};
    coney_amqp_queue_declare(rabbit->env, queue, &call);
    refused(expected, code, &call, says);
}

/* Kinds --------------------------------------------------------------------------------------------------------------- */

static void every_type_of_exchange_can_be_declared_and_deleted(void **state)
{
    (void)state;
    static const char *const types[] = {NULL, "direct", "topic", "fanout", "headers"};
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *name = named(&rabbit, "x");
        rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = name, .type = types[i], .internal = i == 2});
        assert_true(rabbit_has_exchange(&rabbit, name));
        rabbit_delete_exchange(&rabbit, name);
        assert_false(rabbit_has_exchange(&rabbit, name));
    }
    rabbit_down(&rabbit);
}

static void every_type_of_queue_can_be_declared_and_deleted(void **state)
{
    (void)state;
    const coney_amqp_queue queues[] = {
        {.message_ttl = CONEY_SECOND, .expires = 3600 * CONEY_SECOND, .auto_delete = true},
        {.type = CONEY_QUEUE_CLASSIC,
         .max_length = 10,
         .max_length_bytes = 1 << 20,
         .overflow = "reject-publish",
         .dead_letter_exchange = "",
         .dead_letter_routing_key = "nowhere",
         .max_priority = 5,
         .single_active_consumer = true},
        {.type = CONEY_QUEUE_QUORUM, .delivery_limit = CONEY_OFF, .initial_group_size = 1, .leader_locator = "client-local"},
        {.type = CONEY_QUEUE_STREAM, .max_age = 3600 * CONEY_SECOND, .max_segment_size = 1000000, .initial_group_size = 1},
    };
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        coney_amqp_queue_info info;
        coney_amqp_queue queue = queues[i];
        queue.name = named(&rabbit, "q");
        queue.info = &info;
        rabbit_queue(&rabbit, &queue);
        assert_string_equal(info.name, queue.name);
        assert_int_equal(info.messages, 0);
        assert_int_equal(info.consumers, 0);
        assert_true(rabbit_has_queue(&rabbit, queue.name));
        rabbit_delete_queue(&rabbit, queue.name);
        assert_false(rabbit_has_queue(&rabbit, queue.name));
    }
    rabbit_down(&rabbit);
}

static void what_is_declared_as_it_is_is_fine(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const coney_amqp_queue queue = {.name = named(&rabbit, "q"), .max_length = 10};
    const coney_amqp_exchange exchange = {.name = named(&rabbit, "x"), .type = "topic"};
    for (int i = 0; i < 2; i++) {
        rabbit_queue(&rabbit, &queue);
        rabbit_exchange(&rabbit, &exchange);
    }
    rabbit_delete_queue(&rabbit, queue.name);
    rabbit_delete_exchange(&rabbit, exchange.name);
    rabbit_down(&rabbit);
}

static void a_typed_argument_does_at_the_broker_what_its_name_says(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *full = named(&rabbit, "full");
    const char *dead = named(&rabbit, "dead");
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = dead});
    rabbit_queue(&rabbit, &(coney_amqp_queue){
                              .name = full, .max_length = 1, .dead_letter_exchange = "", .dead_letter_routing_key = dead});
    for (int i = 0; i < 3; i++)
        assert_true(rabbit_routes(&rabbit, "", full));
    rabbit_holds(&rabbit, full, 1);
    rabbit_holds(&rabbit, dead, 2);
    rabbit_delete_queue(&rabbit, full);
    rabbit_delete_queue(&rabbit, dead);
    rabbit_down(&rabbit);
}

static void an_alternate_exchange_gets_what_cannot_be_routed(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *lost = named(&rabbit, "lost"), *first = named(&rabbit, "first"), *queue = named(&rabbit, "q");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = lost, .type = "fanout"});
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = first, .alternate_exchange = lost});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    assert_false(rabbit_routes(&rabbit, first, "nobody"));
    rabbit_bind(&rabbit, lost, queue, NULL);
    assert_true(rabbit_routes(&rabbit, first, "nobody"));
    rabbit_delete_exchange(&rabbit, first);
    rabbit_delete_exchange(&rabbit, lost);
    rabbit_delete_queue(&rabbit, queue);
    rabbit_down(&rabbit);
}

/* Bindings ------------------------------------------------------------------------------------------------------------ */

static void a_binding_routes_until_it_is_taken_back(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *exchange = named(&rabbit, "x"), *queue = named(&rabbit, "q");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange, .type = "topic"});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    assert_false(rabbit_routes(&rabbit, exchange, "order.new"));
    rabbit_bind(&rabbit, exchange, queue, "order.#");
    assert_true(rabbit_routes(&rabbit, exchange, "order.new"));
    rabbit_unbind(&rabbit, exchange, queue, "order.#");
    assert_false(rabbit_routes(&rabbit, exchange, "order.new"));
    rabbit_unbind(&rabbit, exchange, queue, "order.#"); /* what is not bound */
    rabbit_delete_exchange(&rabbit, exchange);
    rabbit_delete_queue(&rabbit, queue);
    rabbit_down(&rabbit);
}

static void an_exchange_can_be_bound_to_another(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *first = named(&rabbit, "first"), *second = named(&rabbit, "second"), *queue = named(&rabbit, "q");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = first, .type = "topic"});
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = second, .type = "fanout", .internal = true});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    rabbit_bind(&rabbit, second, queue, NULL);
    rabbit_bind_exchange(&rabbit, first, second, "a.*");
    assert_true(rabbit_routes(&rabbit, first, "a.b"));
    const coney_amqp_binding binding = {.source = first, .destination = second, .routing_key = "a.*", .to_exchange = true};
    assert_int_equal(coney_amqp_unbind(rabbit.env, &binding, NULL), CONEY_OK);
    assert_false(rabbit_routes(&rabbit, first, "a.b"));
    rabbit_delete_exchange(&rabbit, first);
    rabbit_delete_exchange(&rabbit, second);
    rabbit_delete_queue(&rabbit, queue);
    rabbit_down(&rabbit);
}

static void a_headers_exchange_routes_by_the_arguments_of_its_binding(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *exchange = named(&rabbit, "x"), *queue = named(&rabbit, "q");
    const coney_field match[] = {{CONEY_STR("x-match"), coney_value_string(CONEY_STR("all"))},
                                 {CONEY_STR("kind"), coney_value_string(CONEY_STR("order"))},
                                 {CONEY_STR("priority"), coney_value_i32(1)}};
    const coney_field fits[] = {match[2], match[1]}, misses[] = {match[1]};
    const coney_field turned[] = {match[2], match[0], match[1]};
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange, .type = "headers"});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    coney_amqp_binding binding = {.source = exchange, .destination = queue, .arguments = match, .argument_count = 3};
    assert_int_equal(coney_amqp_bind(rabbit.env, &binding, NULL), CONEY_OK);
    assert_true(rabbit_routes_headers(&rabbit, exchange, fits, 2));
    assert_false(rabbit_routes_headers(&rabbit, exchange, misses, 1));
    binding.arguments = turned;
    assert_int_equal(coney_amqp_unbind(rabbit.env, &binding, NULL), CONEY_OK);
    assert_false(rabbit_routes_headers(&rabbit, exchange, fits, 2));
    rabbit_delete_exchange(&rabbit, exchange);
    rabbit_delete_queue(&rabbit, queue);
    rabbit_down(&rabbit);
}

/* Counts and conditions ------------------------------------------------------------------------------------------------- */

static void purge_and_delete_say_how_many_messages_are_gone(void **state)
{
    (void)state;
    struct rabbit rabbit;
    coney_call call = {0};
    rabbit_up(&rabbit, &node);
    const char *queue = named(&rabbit, "q");
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    for (int i = 0; i < 5; i++)
        assert_true(rabbit_routes(&rabbit, "", queue));
    rabbit_holds(&rabbit, queue, 5);
    assert_int_equal(coney_amqp_queue_purge(rabbit.env, queue, &call), CONEY_OK);
    assert_int_equal(call.value, 5);
    assert_int_equal(coney_amqp_queue_purge(rabbit.env, queue, &call), CONEY_OK);
    assert_int_equal(call.value, 0);
    for (int i = 0; i < 3; i++)
        assert_true(rabbit_routes(&rabbit, "", queue));
    assert_int_equal(coney_amqp_queue_delete(rabbit.env, queue, 0, &call), CONEY_OK);
    assert_int_equal(call.value, 3);
    rabbit_down(&rabbit);
}

static void a_delete_whose_condition_does_not_hold_deletes_nothing(void **state)
{
    (void)state;
    struct rabbit rabbit;
    coney_call call = {0};
    rabbit_up(&rabbit, &node);
    const char *exchange = named(&rabbit, "x"), *queue = named(&rabbit, "q");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    rabbit_bind(&rabbit, exchange, queue, "k");
    assert_true(rabbit_routes(&rabbit, exchange, "k"));
    coney_amqp_exchange_delete(rabbit.env, exchange, CONEY_IF_UNUSED, &call);
    refused(CONEY_EPRECONDITION, 406, &call, "the condition of the delete does not hold");
    coney_amqp_queue_delete(rabbit.env, queue, CONEY_IF_EMPTY, &call);
    refused(CONEY_EPRECONDITION, 406, &call, queue);
    assert_int_equal(coney_amqp_queue_delete(rabbit.env, queue, CONEY_IF_UNUSED, &call), CONEY_OK);
    assert_int_equal(coney_amqp_exchange_delete(rabbit.env, exchange, CONEY_IF_UNUSED, &call), CONEY_OK);
    coney_amqp_exchange_delete(rabbit.env, exchange, CONEY_IF_EMPTY, &call);
    refused(CONEY_EINVAL, 0, &call, "0x2");
    rabbit_down(&rabbit);
}

static void deleting_what_does_not_exist_is_fine(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    rabbit_delete_queue(&rabbit, named(&rabbit, "q"));
    rabbit_delete_exchange(&rabbit, named(&rabbit, "x"));
    rabbit_down(&rabbit);
}

/* Refusals ------------------------------------------------------------------------------------------------------------ */

static void what_exists_with_other_arguments_is_told_in_the_brokers_words(void **state)
{
    (void)state;
    struct rabbit rabbit;
    char begins[200];
    coney_call call = {0};
    rabbit_up(&rabbit, &node);
    const char *queue = named(&rabbit, "q"), *exchange = named(&rabbit, "x");
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    queue_refused(&rabbit, &(coney_amqp_queue){.name = queue, .max_length = 10}, CONEY_EPRECONDITION, 406,
                  "inequivalent arg 'x-max-length'");
    snprintf(begins, sizeof begins, "queue '%s' exists with other arguments on 127.0.0.1:%u: ", queue, node.amqp_port);
    queue_refused(&rabbit, &(coney_amqp_queue){.name = queue, .auto_delete = true}, CONEY_EPRECONDITION, 406, begins);
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange});
    coney_amqp_exchange_declare(rabbit.env, &(coney_amqp_exchange){.name = exchange, .type = "fanout"}, &call);
    refused(CONEY_EPRECONDITION, 406, &call, "(406): declare it as it is, or delete it");
    rabbit_delete_queue(&rabbit, queue);
    rabbit_delete_exchange(&rabbit, exchange);
    rabbit_down(&rabbit);
}

static void B14_what_the_broker_says_of_a_users_own_argument_reaches_the_caller(void **state)
{
    (void)state;
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const coney_value wrong[] = {coney_value_string(CONEY_STR("10")), coney_value_f64(10.0), coney_value_bool(true),
                                 coney_value_i64(-1)};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const coney_field argument[] = {{CONEY_STR("x-max-length"), wrong[i]}};
        const coney_amqp_queue queue = {.name = named(&rabbit, "q"), .arguments = argument, .argument_count = 1};
        queue_refused(&rabbit, &queue, CONEY_EPRECONDITION, 406, "invalid arg 'x-max-length'");
    }
    rabbit_down(&rabbit);
}

static void what_is_not_there_is_told_with_its_name(void **state)
{
    (void)state;
    struct rabbit rabbit;
    coney_call call = {0};
    rabbit_up(&rabbit, &node);
    const char *queue = named(&rabbit, "q"), *nobody = named(&rabbit, "nobody");
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    queue_refused(&rabbit, &(coney_amqp_queue){.name = nobody, .passive = true}, CONEY_ENOTFOUND, 404, nobody);
    coney_amqp_bind(rabbit.env, &(coney_amqp_binding){.source = nobody, .destination = queue}, &call);
    refused(CONEY_ENOTFOUND, 404, &call, nobody);
    coney_amqp_queue_purge(rabbit.env, nobody, &call);
    refused(CONEY_ENOTFOUND, 404, &call, nobody);
    queue_refused(&rabbit, &(coney_amqp_queue){.name = "amq.mine"}, CONEY_EACCESS, 403, "amq.mine");
    rabbit_delete_queue(&rabbit, queue);
    rabbit_down(&rabbit);
}

static void a_name_that_is_none_is_refused_before_anything_is_sent(void **state)
{
    (void)state;
    struct rabbit rabbit;
    coney_call call = {0};
    char name[257];
    memset(name, 'n', sizeof name - 1);
    name[256] = '\0';
    rabbit_up(&rabbit, &node);
    queue_refused(&rabbit, &(coney_amqp_queue){.name = name}, CONEY_EINVAL, 0, "queue");
    queue_refused(&rabbit, &(coney_amqp_queue){.passive = true}, CONEY_EINVAL, 0, "passive");
    queue_refused(&rabbit, &(coney_amqp_queue){.type = CONEY_QUEUE_QUORUM}, CONEY_EINVAL, 0, "classic");
    coney_amqp_exchange_declare(rabbit.env, &(coney_amqp_exchange){.name = ""}, &call);
    refused(CONEY_EINVAL, 0, &call, "exchange");
    coney_amqp_queue_delete(rabbit.env, NULL, 0, &call);
    refused(CONEY_EINVAL, 0, &call, "queue");
    coney_amqp_queue_purge(rabbit.env, "", &call);
    refused(CONEY_EINVAL, 0, &call, "queue");
    coney_amqp_bind(rabbit.env, &(coney_amqp_binding){.source = "x", .destination = "q", .routing_key = name}, &call);
    refused(CONEY_EINVAL, 0, &call, "routing key");
    rabbit_down(&rabbit);
}

static void C05_arguments_that_fit_no_frame_fail_here_and_nothing_else(void **state)
{
    (void)state;
    static char large[200000];
    struct rabbit rabbit;
    rabbit_up(&rabbit, &node);
    const char *queue = named(&rabbit, "q");
    const coney_field argument[] = {{CONEY_STR("x-large"), coney_value_binary(coney_bytes_of(large, sizeof large))}};
    queue_refused(&rabbit, &(coney_amqp_queue){.name = queue, .arguments = argument, .argument_count = 1}, CONEY_ETOOBIG, 0,
                  "frame_max");
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    rabbit_delete_queue(&rabbit, queue);
    assert_int_equal(events_count(&rabbit.events, CONEY_EVENT_DISCONNECTED), 0);
    rabbit_down(&rabbit);
}

/* Names by the broker, exclusive queues ----------------------------------------------------------------------------------- */

static void a_queue_that_the_broker_names_is_told_and_is_used_by_that_name(void **state)
{
    (void)state;
    struct rabbit rabbit;
    coney_call call = {0};
    coney_amqp_queue_info info;
    rabbit_up(&rabbit, &node);
    rabbit_queue(&rabbit, &(coney_amqp_queue){.info = &info, .auto_delete = true});
    assert_memory_equal(info.name, "amq.gen-", 8);
    const char *exchange = named(&rabbit, "x");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange});
    rabbit_bind(&rabbit, exchange, info.name, "k");
    assert_true(rabbit_routes(&rabbit, exchange, "k"));
    rabbit_holds(&rabbit, info.name, 1);
    assert_int_equal(coney_amqp_queue_purge(rabbit.env, info.name, &call), CONEY_OK);
    assert_int_equal(call.value, 1);
    rabbit_delete_queue(&rabbit, info.name);
    rabbit_delete_exchange(&rabbit, exchange);
    rabbit_down(&rabbit);
}

static coney_settle count_message(void *ctx, const coney_amqp_delivery *delivery)
{
    struct waited_call *call = ctx;
    coney_call nothing = {0};
    (void)delivery;
    call->call.on_done(call->call.ctx, &nothing);
    return CONEY_ACK;
}

static void an_exclusive_queue_is_consumed_by_its_own_environment_and_closed_to_others(void **state)
{
    (void)state;
    struct rabbit rabbit, other;
    struct waited_call came = {0};
    coney_call call = {0};
    rabbit_up(&rabbit, &node);
    rabbit_up(&other, &node);
    waited_call_of(&came, 0);
    const char *queue = named(&rabbit, "mine"), *exchange = named(&rabbit, "x");
    rabbit_exchange(&rabbit, &(coney_amqp_exchange){.name = exchange});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue, .exclusive = true});
    rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue, .exclusive = true});
    rabbit_bind(&rabbit, exchange, queue, "k");
    queue_refused(&other, &(coney_amqp_queue){.name = queue, .passive = true}, CONEY_EUNAVAILABLE, 405, "another connection");
    const coney_amqp_consumer_options options = {.on_delivery = count_message, .ctx = &came};
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(rabbit.env, queue, &options, &call);
    if (consumer == NULL)
        fail_msg("%s", call.text);
    assert_true(rabbit_routes(&rabbit, exchange, "k"));
    waited_call_wait(&came);
    assert_int_equal(coney_amqp_consumer_close(&consumer, NULL), CONEY_OK);
    assert_int_equal(coney_amqp_queue_purge(rabbit.env, queue, NULL), CONEY_OK);
    rabbit_delete_exchange(&rabbit, exchange);
    char name[96];
    snprintf(name, sizeof name, "%s", queue);
    rabbit_down(&rabbit);
    assert_false(rabbit_has_queue(&other, name));
    waited_call_free(&came);
    rabbit_down(&other);
}

/* Many, asynchronous ------------------------------------------------------------------------------------------------------ */

struct many {
    struct monitor monitor;
    size_t done;
    size_t ok;
};

static void one_done(void *ctx, const coney_call *call)
{
    struct many *many = ctx;
    monitor_lock(&many->monitor);
    many->done++;
    many->ok += call->status == CONEY_OK;
    monitor_broadcast(&many->monitor);
    monitor_unlock(&many->monitor);
}

static void all_done(struct many *many, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    monitor_lock(&many->monitor);
    while (many->done < count && monitor_wait(&many->monitor, until))
        continue;
    size_t done = many->done;
    monitor_unlock(&many->monitor);
    assert_int_equal(done, count);
}

static void calls_run_side_by_side_and_each_ends_once(void **state)
{
    (void)state;
    struct rabbit rabbit;
    struct many many = {0};
    rabbit_up(&rabbit, &node);
    for (int i = 0; i < 50; i++) {
        char name[24];
        coney_call call = {.on_done = one_done, .ctx = &many};
        snprintf(name, sizeof name, "many-%d", i % 10);
        coney_amqp_queue queue = {.name = named(&rabbit, name), .max_length = i < 40 ? 5 : 6}; /* ten are inequivalent */
        assert_int_equal(coney_amqp_queue_declare(rabbit.env, &queue, &call), CONEY_OK);
    }
    all_done(&many, 50);
    assert_in_range(many.ok, 10, 40);
    for (int i = 0; i < 10; i++) {
        char name[24];
        snprintf(name, sizeof name, "many-%d", i);
        rabbit_delete_queue(&rabbit, named(&rabbit, name));
    }
    monitor_free(&many.monitor);
    rabbit_down(&rabbit);
}

static void G14_many_calls_one_after_another_leave_no_channels_behind(void **state)
{
    (void)state;
    struct rabbit rabbit;
    coney_amqp_stats stats;
    rabbit_up(&rabbit, &node);
    const char *queue = named(&rabbit, "q");
    for (int i = 0; i < 300; i++)
        rabbit_queue(&rabbit, &(coney_amqp_queue){.name = queue});
    for (int i = 0; i < 300; i++)
        queue_refused(&rabbit, &(coney_amqp_queue){.name = queue, .max_length = 1}, CONEY_EPRECONDITION, 406, queue);
    assert_int_equal(coney_amqp_get_stats(rabbit.env, &stats), CONEY_OK);
    assert_in_range(stats.channels, 0, 2);
    assert_int_equal(stats.connections_made, 1);
    rabbit_delete_queue(&rabbit, queue);
    rabbit_down(&rabbit);
}

int main(void)
{
    if (!node_shared(&node) || node.amqp_port == 0)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_exchange_can_be_declared_and_deleted),
        cmocka_unit_test(every_type_of_queue_can_be_declared_and_deleted),
        cmocka_unit_test(what_is_declared_as_it_is_is_fine),
        cmocka_unit_test(a_typed_argument_does_at_the_broker_what_its_name_says),
        cmocka_unit_test(an_alternate_exchange_gets_what_cannot_be_routed),
        cmocka_unit_test(a_binding_routes_until_it_is_taken_back),
        cmocka_unit_test(an_exchange_can_be_bound_to_another),
        cmocka_unit_test(a_headers_exchange_routes_by_the_arguments_of_its_binding),
        cmocka_unit_test(purge_and_delete_say_how_many_messages_are_gone),
        cmocka_unit_test(a_delete_whose_condition_does_not_hold_deletes_nothing),
        cmocka_unit_test(deleting_what_does_not_exist_is_fine),
        cmocka_unit_test(what_exists_with_other_arguments_is_told_in_the_brokers_words),
        cmocka_unit_test(B14_what_the_broker_says_of_a_users_own_argument_reaches_the_caller),
        cmocka_unit_test(what_is_not_there_is_told_with_its_name),
        cmocka_unit_test(a_name_that_is_none_is_refused_before_anything_is_sent),
        cmocka_unit_test(C05_arguments_that_fit_no_frame_fail_here_and_nothing_else),
        cmocka_unit_test(a_queue_that_the_broker_names_is_told_and_is_used_by_that_name),
        cmocka_unit_test(an_exclusive_queue_is_consumed_by_its_own_environment_and_closed_to_others),
        cmocka_unit_test(calls_run_side_by_side_and_each_ends_once),
        cmocka_unit_test(G14_many_calls_one_after_another_leave_no_channels_behind),
    };
    return run_tests(tests);
}
