/* conformance.c: choosing the scenarios that apply, and running them. See conformance.h. */
#define _GNU_SOURCE
#include "conformance.h"

enum { MOST = 64 };

static void add(const struct conformance *what, const struct scenario *scenarios, struct CMUnitTest *tests, size_t *count)
{
    for (const struct scenario *at = scenarios; at->name != NULL; at++) {
        if (at->applies != NULL && !at->applies(what))
            continue;
        if (*count == MOST)
            abort();
        tests[(*count)++] =
            (struct CMUnitTest){.name = at->name, .test_func = at->run, .initial_state = (void *)(uintptr_t)what};
    }
}

int conformance_run(const struct conformance *what)
{
    struct CMUnitTest tests[MOST] = {0};
    size_t count = 0;
    add(what, conformance_life, tests, &count);
    add(what, conformance_delivery, tests, &count);
    add(what, conformance_settlement, tests, &count);
    add(what, conformance_abilities, tests, &count);
    tests_filter();
    return _cmocka_run_group_tests(what->name, tests, count, NULL, NULL);
}
