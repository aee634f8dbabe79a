/* fork_test.c: a child knows that it is one. */
#include "base/fork.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void a_child_and_its_child_have_generations_of_their_own(void **state)
{
    (void)state;
    uint32_t mine = fork_generation();
    pid_t child = fork();
    if (child == 0) {
        uint32_t of_child = fork_generation();
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(fork_generation() != of_child + 1);
        int status = -1;
        waitpid(grandchild, &status, 0);
        _exit(of_child != mine + 1 || status != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(fork_generation(), mine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_and_its_child_have_generations_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
