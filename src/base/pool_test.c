/* pool_test.c: classes, reuse, bounds, the order of ends, threads. */
#include "base/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static void a_block_is_as_large_as_asked_and_a_power_of_two(void **state)
{
    (void)state;
    struct pool *pool = pool_new(MIB);
    static const size_t sizes[] = {0, 1, 16000, 16384, 65536, 100000, 3 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct block *block = block_get(pool, sizes[i]);
        assert_true(block->cap >= sizes[i]);
        size_t whole = block->cap + sizeof *block;
        assert_int_equal(whole & (whole - 1), 0);
        assert_true(whole >= POOL_SMALLEST);
        assert_int_equal(pool_out(pool), whole);
        memset(block->data, 0xa5, block->cap);
        block_unref(block);
        assert_int_equal(pool_out(pool), 0);
    }
    block_unref(NULL);
    pool_free(pool);
    pool_free(NULL);
}

static void the_block_that_came_back_last_is_handed_out_first(void **state)
{
    (void)state;
    struct pool *pool = pool_new(MIB);
    struct block *a = block_get(pool, 100);
    struct block *b = block_get(pool, 100);
    block_unref(a);
    block_unref(b);
    assert_int_equal(pool_idle(pool), 2 * POOL_SMALLEST);
    assert_ptr_equal(block_get(pool, 100), b);
    assert_ptr_equal(block_get(pool, 100), a);
    assert_int_equal(pool_idle(pool), 0);
    struct block *other_class = block_get(pool, 20000);
    assert_ptr_not_equal(other_class, a);
    block_unref(other_class);
    block_unref(a);
    block_unref(b);
    pool_free(pool);
}

static void no_more_than_its_bound_stays_idle(void **state)
{
    (void)state;
    struct pool *pool = pool_new(2 * POOL_SMALLEST);
    struct block *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = block_get(pool, 1);
    struct block *large = block_get(pool, MIB);
    for (int i = 0; i < 4; i++)
        block_unref(blocks[i]);
    block_unref(large);
    assert_int_equal(pool_idle(pool), 2 * POOL_SMALLEST);
    assert_int_equal(pool_out(pool), 0);
    pool_free(pool);
}

static void a_block_goes_back_with_its_last_reference(void **state)
{
    (void)state;
    struct pool *pool = pool_new(MIB);
    struct block *block = block_get(pool, 1);
    assert_ptr_equal(block_ref(block), block);
    block_unref(block);
    assert_int_equal(pool_out(pool), POOL_SMALLEST);
    block_unref(block);
    assert_int_equal(pool_out(pool), 0);
    pool_free(pool);
}

static void a_block_may_outlive_its_pool(void **state)
{
    (void)state;
    struct pool *pool = pool_new(MIB);
    struct block *a = block_get(pool, 1);
    struct block *b = block_get(pool, 1);
    pool_free(pool);
    memset(a->data, 1, a->cap);
    block_unref(a);
    block_unref(b);
}

static void an_absurd_size_is_refused(void **state)
{
    (void)state;
    struct pool *pool = pool_new(MIB);
    assert_null(block_get(pool, SIZE_MAX));
    assert_null(block_get(pool, (size_t)1 << 40));
    assert_int_equal(pool_out(pool), 0);
    pool_free(pool);
}

static void *take_and_give(void *arg)
{
    struct pool *pool = arg;
    for (int i = 0; i < 5000; i++) {
        struct block *block = block_get(pool, (size_t)(i % 3) * 20000);
        block->data[0] = (uint8_t)i;
        block_ref(block);
        block_unref(block);
        block_unref(block);
    }
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    (void)state;
    struct pool *pool = pool_new(MIB);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, pool), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(pool_out(pool), 0);
    pool_free(pool);
}

struct race {
    struct pool *pool;
    _Atomic bool stop;
};

static void *take_and_give_until_stopped(void *arg)
{
    struct race *race = arg;
    while (!atomic_load(&race->stop))
        block_unref(block_get(race->pool, 1));
    return NULL;
}

static void a_forked_child_can_give_its_blocks_back_whatever_the_parents_threads_did(void **state)
{
    (void)state;
    struct race race = {.pool = pool_new(MIB)};
    struct block *mine = block_get(race.pool, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_and_give_until_stopped, &race), 0);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10); /* a lock that is held for ever would end the child by a signal */
            block_unref(mine);
            block_unref(block_get(race.pool, 1));
            raise(SIGKILL); /* no leak checker looks: what the parent's threads held is lost here */
        }
        int status = -1;
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGKILL);
    }
    atomic_store(&race.stop, true);
    pthread_join(thread, NULL);
    block_unref(mine);
    pool_free(race.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_as_large_as_asked_and_a_power_of_two),
        cmocka_unit_test(the_block_that_came_back_last_is_handed_out_first),
        cmocka_unit_test(no_more_than_its_bound_stays_idle),
        cmocka_unit_test(a_block_goes_back_with_its_last_reference),
        cmocka_unit_test(a_block_may_outlive_its_pool),
        cmocka_unit_test(an_absurd_size_is_refused),
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(a_forked_child_can_give_its_blocks_back_whatever_the_parents_threads_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
