#include "transport/amqp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void documents_show_the_host_and_no_password(void **state)
{
    (void)state;
    const struct {
        const char *uri, *host, *protocol;
    } cases[] = {
        {NULL, "localhost:5672", "amqp"},
        {"amqp://guest:secret@rabbit", "rabbit:5672", "amqp"},
        {"amqps://guest:secret@rabbit,other:1/vhost", "rabbit:5671", "amqps"},
        {"amqp://[::1]:5673", "[::1]:5673", "amqp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char host[64];
        const char *protocol, *version;
        struct tamqp t = {.uri = cases[i].uri};
        assert_true(tamqp_transport.describe(&t, host, sizeof host, &protocol, &version));
        assert_string_equal(host, cases[i].host);
        assert_string_equal(protocol, cases[i].protocol);
        assert_string_equal(version, "0.9.1");
    }
}

static void a_uri_that_cannot_be_read_describes_nothing(void **state)
{
    (void)state;
    char host[64];
    const char *protocol, *version;
    struct tamqp t = {.uri = "rabbit"};
    assert_false(tamqp_transport.describe(&t, host, sizeof host, &protocol, &version));
}

static void a_broker_without_an_app_is_none(void **state)
{
    (void)state;
    assert_null(coney_app_amqp(NULL, "amqp://localhost", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_show_the_host_and_no_password),
        cmocka_unit_test(a_uri_that_cannot_be_read_describes_nothing),
        cmocka_unit_test(a_broker_without_an_app_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
