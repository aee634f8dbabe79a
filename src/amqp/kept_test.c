#include "amqp/kept.h"

#include "proto/amqp091/publish.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A unit of basic.deliver or basic.get-ok in a block of its own, with a body of this size. */
static size_t make_unit(struct block *block, const struct amqp_method *method, size_t body_size)
{
    static uint8_t body[100000];
    static const uint8_t no_properties[2];
    uint8_t frame[512];
    size_t method_size = amqp_encode(3, method, frame, sizeof frame);
    memset(body, 'b', body_size);
    uint8_t *end = amqp_publish_write(block->data, coney_bytes_of(frame, method_size), 3, coney_bytes_of(no_properties, 2),
                                      coney_bytes_of(body, body_size), 131064);
    return (size_t)(end - block->data);
}

static const struct amqp_method deliver = {.id = AMQP_BASIC_DELIVER,
                                           .basic_deliver = {.consumer_tag = CONEY_STR_INIT("tag"),
                                                             .delivery_tag = 77,
                                                             .redelivered = true,
                                                             .exchange = CONEY_STR_INIT("x"),
                                                             .routing_key = CONEY_STR_INIT("key")}};

static const struct amqp_method get_ok = {
    .id = AMQP_BASIC_GET_OK,
    .basic_get_ok = {.delivery_tag = 5, .exchange = CONEY_STR_INIT(""), .routing_key = CONEY_STR_INIT("q"), .messages = 9}};

static void keeps(size_t body_size, size_t block_size, bool copied)
{
    struct pool *pool = pool_new(1 << 20);
    struct block *block = block_get(pool, block_size);
    size_t len = make_unit(block, &deliver, body_size);
    struct amqp_kept *kept = amqp_kept_new(block, block->data, len, amqp_kept_settle_nothing);
    assert_non_null(kept);
    assert_int_equal(atomic_load(&block->refs), copied ? 1 : 2);
    if (copied)
        memset(block->data, 0, len);
    block_unref(block);

    const coney_amqp_delivery *delivery = coney_amqp_kept_delivery(&kept->kept.head);
    assert_int_equal(delivery->delivery_tag, 77);
    assert_true(delivery->redelivered);
    assert_int_equal(delivery->exchange.len, 1);
    assert_memory_equal(delivery->routing_key.data, "key", 3);
    assert_int_equal(delivery->body.len, body_size);
    if (body_size > 0)
        assert_int_equal(((const uint8_t *)delivery->body.data)[body_size - 1], 'b');
    assert_string_equal(delivery->queue, "");
    assert_null(delivery->consumer);

    coney_kept *handle = &kept->kept.head;
    assert_int_equal(coney_kept_settle(&handle, CONEY_ACK), CONEY_OK);
    assert_null(handle);
    assert_int_equal(pool_out(pool), 0);
    pool_free(pool);
}

static void a_small_message_is_copied_and_a_large_one_holds_its_block(void **state)
{
    (void)state;
    keeps(0, 4000, true);
    keeps(3000, 4000, true);
    keeps(50000, 60000, false);
    keeps(50000, 600000, true);
}

static void what_is_no_settlement_settles_nothing(void **state)
{
    (void)state;
    struct pool *pool = pool_new(1 << 20);
    struct block *block = block_get(pool, 4000);
    size_t len = make_unit(block, &deliver, 10);
    struct amqp_kept *kept = amqp_kept_new(block, block->data, len, amqp_kept_settle_nothing);
    assert_non_null(kept);
    coney_kept *handle = &kept->kept.head;
    assert_int_equal(coney_kept_settle(&handle, CONEY_KEPT), CONEY_EINVAL);
    assert_int_equal(coney_kept_settle(&handle, -4), CONEY_EINVAL);
    assert_non_null(handle);
    assert_int_equal(coney_kept_settle(&handle, CONEY_REQUEUE), CONEY_OK);
    assert_null(handle);
    block_unref(block);
    pool_free(pool);
}

static void a_message_that_was_got_reads_the_same(void **state)
{
    (void)state;
    struct pool *pool = pool_new(1 << 20);
    struct block *block = block_get(pool, 4000);
    size_t len = make_unit(block, &get_ok, 10);
    coney_amqp_delivery delivery = {0};
    assert_null(amqp_delivery_read(&delivery, block->data, len));
    assert_int_equal(delivery.delivery_tag, 5);
    assert_int_equal(delivery.body.len, 10);
    assert_false(delivery.redelivered);
    block_unref(block);
    pool_free(pool);
}

static void what_is_no_delivery_is_refused_by_its_field(void **state)
{
    (void)state;
    static const struct amqp_method publish = {.id = AMQP_BASIC_PUBLISH};
    struct pool *pool = pool_new(1 << 20);
    struct block *block = block_get(pool, 4000);
    coney_amqp_delivery delivery = {0};
    size_t len = make_unit(block, &publish, 1);
    assert_string_equal(amqp_delivery_read(&delivery, block->data, len), "method.id");
    assert_string_equal(amqp_delivery_read(&delivery, block->data, 10), "content");
    len = make_unit(block, &deliver, 1);
    block->data[AMQP_HEAD_BYTES + 4] = 200;
    assert_string_equal(amqp_delivery_read(&delivery, block->data, len), "basic_deliver.consumer_tag");
    block_unref(block);
    pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_message_is_copied_and_a_large_one_holds_its_block),
        cmocka_unit_test(what_is_no_settlement_settles_nothing),
        cmocka_unit_test(a_message_that_was_got_reads_the_same),
        cmocka_unit_test(what_is_no_delivery_is_refused_by_its_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
