#include "transport/amqp.h"

#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_source_says_what_its_queue_is_declared_with(void **state)
{
    (void)state;
    const coney_field extra = {CONEY_STR("x-queue-leader-locator"), coney_value_string(CONEY_STR("balanced"))};
    const coney_subscription s = {.source = CONEY_QUEUE("q", .type = CONEY_QUEUE_CLASSIC, .message_ttl = 1, .expires = 2,
                                                        .max_length = 3, .max_length_bytes = 4, .dead_letter_exchange = "x",
                                                        .dead_letter_routing_key = "k", .max_priority = 5, .transient = true,
                                                        .exclusive = true, .auto_delete = true, .single_active_consumer = true,
                                                        .arguments = &extra, .argument_count = 1)};
    coney_amqp_queue queue = tamqp_queue_of(&s);
    assert_string_equal(queue.name, "q");
    assert_int_equal(queue.type, CONEY_QUEUE_CLASSIC);
    assert_int_equal(queue.message_ttl, 1);
    assert_int_equal(queue.expires, 2);
    assert_int_equal(queue.max_length, 3);
    assert_int_equal(queue.max_length_bytes, 4);
    assert_string_equal(queue.dead_letter_exchange, "x");
    assert_string_equal(queue.dead_letter_routing_key, "k");
    assert_int_equal(queue.max_priority, 5);
    assert_true(queue.transient && queue.exclusive && queue.auto_delete && queue.single_active_consumer);
    assert_ptr_equal(queue.arguments, &extra);
    assert_int_equal(queue.argument_count, 1);
}

static void a_queue_without_a_name_is_exclusive_and_classic(void **state)
{
    (void)state;
    const coney_subscription s = {.source = CONEY_QUEUE(NULL, .declare = true)};
    coney_amqp_queue queue = tamqp_queue_of(&s);
    assert_true(queue.exclusive);
    assert_int_equal(queue.type, CONEY_QUEUE_CLASSIC);
}

static void a_quorum_queue_counts_along_with_max_attempts_and_leaves_room_for_what_is_given_back(void **state)
{
    (void)state;
    const coney_field own_limit = {CONEY_STR("x-delivery-limit"), coney_value_i64(9)};
    const coney_field own_letters = {CONEY_STR("x-dead-letter-exchange"), coney_value_string(CONEY_STR("letters"))};
    coney_subscription s = {.source = CONEY_QUEUE("q", .type = CONEY_QUEUE_QUORUM), .max_attempts = 3, .dead_letter = "dead"};
    coney_amqp_queue queue = tamqp_queue_of(&s);
    assert_int_equal(queue.delivery_limit, 3 + TAMQP_GIVEN_BACK);
    assert_string_equal(queue.dead_letter_exchange, "");
    assert_string_equal(queue.dead_letter_routing_key, "dead");

    s.source = CONEY_QUEUE("q", .type = CONEY_QUEUE_QUORUM, .delivery_limit = 7, .dead_letter_exchange = "letters");
    queue = tamqp_queue_of(&s);
    assert_int_equal(queue.delivery_limit, 7);
    assert_string_equal(queue.dead_letter_exchange, "letters");
    assert_null(queue.dead_letter_routing_key);

    s.source = CONEY_QUEUE("q", .type = CONEY_QUEUE_QUORUM, .arguments = &own_limit, .argument_count = 1);
    assert_int_equal(tamqp_queue_of(&s).delivery_limit, 0);
    s.source = CONEY_QUEUE("q", .type = CONEY_QUEUE_QUORUM, .arguments = &own_letters, .argument_count = 1);
    assert_null(tamqp_queue_of(&s).dead_letter_exchange);

    s.source = CONEY_QUEUE("q", .type = CONEY_QUEUE_CLASSIC);
    queue = tamqp_queue_of(&s);
    assert_int_equal(queue.delivery_limit, 0);
    assert_null(queue.dead_letter_exchange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_says_what_its_queue_is_declared_with),
        cmocka_unit_test(a_queue_without_a_name_is_exclusive_and_classic),
        cmocka_unit_test(a_quorum_queue_counts_along_with_max_attempts_and_leaves_room_for_what_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
