/* link_connect_test.c: names, addresses, refusals, deadlines, limits. */
#include "net/link_fixture.h"

static void a_port_where_nothing_listens_is_refused_and_says_so(void **state)
{
    struct fixture *f = *state;
    close(f->listener);
    f->listener = -1;
    open_to(f, "127.0.0.1", f->port);
    assert_int_equal(f->downs, 0);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ECONNECT);
    char expected[128];
    snprintf(expected, sizeof expected, "127.0.0.1:%u: connection refused: is the broker running, and is this its port?",
             (unsigned)f->port);
    assert_string_equal(f->text, expected);
}

/* What a resolver could have answered, whatever this machine's says. */
static struct addrinfo *addresses_of(struct fixture *f, const char *first, const char *second)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)f->port);
    struct addrinfo *list = NULL;
    assert_int_equal(getaddrinfo(first, port, &hints, &list), 0);
    assert_int_equal(getaddrinfo(second, port, &hints, &list->ai_next), 0);
    return list;
}

static void resolve_to(struct fixture *f, const char *first, const char *second)
{
    open_to(f, "127.0.0.1", f->port);
    resolve_cancel(f->link->resolve);
    link_resolved(f->link, CONEY_OK, addresses_of(f, first, second), "");
}

static void SB_57_the_second_address_is_tried_when_the_first_refuses(void **state)
{
    struct fixture *f = *state;
    resolve_to(f, "::1", "127.0.0.1");
    UNTIL(f, f->opened == 1);
    assert_int_equal(f->downs, 0);
}

static void SB_57_localhost_reaches_a_peer_that_listens_on_ipv4_only(void **state)
{
    struct fixture *f = *state;
    open_to(f, "localhost", f->port);
    UNTIL(f, f->opened == 1);
}

static void SB_57_an_ipv6_address_needs_no_brackets_and_is_named_with_them(void **state)
{
    struct fixture *f = *state;
    open_to(f, "::1", 5552);
    assert_string_equal(link_name(f->link), "[::1]:5552");
    link_close(&f->link, false);

    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t len = sizeof address;
    close(f->listener);
    f->listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (f->listener < 0 || bind(f->listener, (struct sockaddr *)&address, len) != 0)
        skip(); /* this machine has no IPv6 */
    assert_int_equal(listen(f->listener, 8), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &len), 0);
    open_to(f, "::1", ntohs(address.sin6_port));
    UNTIL(f, f->opened == 1);
}

static void when_all_addresses_fail_the_text_says_what_each_answered(void **state)
{
    struct fixture *f = *state;
    close(f->listener);
    f->listener = -1;
    resolve_to(f, "127.0.0.2", "127.0.0.1");
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ECONNECT);
    assert_non_null(strstr(f->text, ": 127.0.0.2 connection refused, 127.0.0.1 connection refused: is the broker running"));
}

static void an_address_that_does_not_answer_is_given_up_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    close(f->listener);
    listen_on_loopback(f, 0);
    int fillers[4];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(f->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fillers[i], (struct sockaddr *)&address, sizeof address), -1);
    }
    struct link_options options = {.host = "127.0.0.1", .port = f->port, .connect_timeout = 30 * CONEY_MILLISECOND};
    int64_t before = time_now();
    f->link = link_open(f->loop, f->pool, &options, &owner, f);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ETIMEDOUT);
    assert_true(time_now() - before >= 30 * CONEY_MILLISECOND);
    assert_non_null(strstr(f->text, "no answer in time (30 ms): is the host up"));
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
}

static void out_of_descriptors_is_a_limit_and_says_what_to_raise(void **state)
{
    struct fixture *f = *state;
    int lowest = dup(0);
    close(lowest);
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = (rlim_t)lowest, .rlim_max = before.rlim_max});
    open_to(f, "127.0.0.1", f->port);
    for (int i = 0; i < 100 && f->downs == 0; i++)
        loop_wait_and_step(f->loop, time_now() + CONEY_MILLISECOND);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(f->downs, 1);
    assert_int_equal(f->status, CONEY_ELIMIT);
    assert_non_null(strstr(f->text, "the process is out of descriptors: raise its limit (ulimit -n)"));
}

static void a_name_that_does_not_resolve_is_named_with_the_resolvers_words(void **state)
{
    struct fixture *f = *state;
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    open_to(f, name, 5552);
    UNTIL(f, f->downs == 1);
    assert_int_equal(f->status, CONEY_ERESOLVE);
    assert_non_null(strstr(f->text, "xxx"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        link_test(a_port_where_nothing_listens_is_refused_and_says_so),
        link_test(SB_57_the_second_address_is_tried_when_the_first_refuses),
        link_test(SB_57_localhost_reaches_a_peer_that_listens_on_ipv4_only),
        link_test(SB_57_an_ipv6_address_needs_no_brackets_and_is_named_with_them),
        link_test(when_all_addresses_fail_the_text_says_what_each_answered),
        link_test(an_address_that_does_not_answer_is_given_up_at_its_deadline),
        link_test(out_of_descriptors_is_a_limit_and_says_what_to_raise),
        link_test(a_name_that_does_not_resolve_is_named_with_the_resolvers_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
