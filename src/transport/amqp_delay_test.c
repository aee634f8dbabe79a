#include "transport/amqp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_class_is_no_shorter_and_at_most_an_eighth_longer(void **state)
{
    (void)state;
    for (int64_t ms = 1; ms < 10 * TAMQP_DELAY_MAX; ms += ms / 997 + 1) {
        int64_t class = tamqp_delay_class(ms * CONEY_MILLISECOND);
        if (class < ms || class - ms > ms / 8)
            fail_msg("%lld ms wait %lld", (long long)ms, (long long)class);
        assert_int_equal(tamqp_delay_class(class * CONEY_MILLISECOND), class);
    }
}

static void round_delays_stay_as_they_are(void **state)
{
    (void)state;
    static const int64_t delays[] = {1, 5, 10, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000, 600000, 3600000};
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++)
        assert_int_equal(tamqp_delay_class(delays[i] * CONEY_MILLISECOND), delays[i]);
}

static void there_are_few_classes(void **state)
{
    (void)state;
    size_t count = 0;
    int64_t last = 0;
    for (int64_t ms = 1; ms <= 86400000; ms += ms / 997 + 1) {
        int64_t class = tamqp_delay_class(ms * CONEY_MILLISECOND);
        assert_true(class >= last);
        count += class != last;
        last = class;
    }
    assert_true(count < 250);
}

static void part_of_a_millisecond_is_a_whole_one(void **state)
{
    (void)state;
    assert_int_equal(tamqp_delay_class(1), 1);
    assert_int_equal(tamqp_delay_class(CONEY_MILLISECOND + 1), 2);
    assert_true(tamqp_delay_class(INT64_MAX) > INT64_MAX / CONEY_MILLISECOND);
}

static void names_say_the_queue_and_the_delay(void **state)
{
    (void)state;
    char name[TAMQP_NAME_MAX + 1];
    tamqp_waiting_queue_name(name, "orders", 5000);
    assert_string_equal(name, "orders.wait.5000");
    tamqp_delay_exchange_name(name, "orders");
    assert_string_equal(name, "orders.delay");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_is_no_shorter_and_at_most_an_eighth_longer),
        cmocka_unit_test(round_delays_stay_as_they_are),
        cmocka_unit_test(there_are_few_classes),
        cmocka_unit_test(part_of_a_millisecond_is_a_whole_one),
        cmocka_unit_test(names_say_the_queue_and_the_delay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
