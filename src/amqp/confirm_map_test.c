/* The pieces between sequence numbers and slots. */
#include "amqp/confirm_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void on_a_fresh_channel_slots_and_sequences_run_in_step(void **state)
{
    (void)state;
    struct confirm_map map = {0};
    confirm_map_restart(&map);
    for (uint64_t slot = 70; slot < 100; slot += 10) {
        assert_true(confirm_map_reserve(&map));
        confirm_map_add(&map, slot, 10);
    }
    assert_int_equal(map.next, 31);
    assert_int_equal(map.count, 0);
    assert_int_equal(confirm_map_slot(&map, 1), 70);
    assert_int_equal(confirm_map_slot(&map, 30), 99);
    confirm_map_free(&map);
}

static void a_new_channel_counts_from_one_again(void **state)
{
    (void)state;
    struct confirm_map map = {0};
    confirm_map_restart(&map);
    confirm_map_add(&map, 0, 500);
    confirm_map_restart(&map);
    assert_int_equal(map.next, 1);
    confirm_map_add(&map, 123, 1);
    assert_int_equal(confirm_map_slot(&map, 1), 123);
    confirm_map_free(&map);
}

static void a_sequence_of_a_forgotten_piece_is_before_every_head(void **state)
{
    (void)state;
    struct confirm_map map = {0};
    confirm_map_restart(&map);
    confirm_map_add(&map, 10, 1);
    confirm_map_add(&map, 20, 2);
    confirm_map_add(&map, 30, 1);
    confirm_map_forget(&map, 19);
    assert_int_equal(confirm_map_slot(&map, 1), 10);
    confirm_map_forget(&map, 20);
    assert_int_equal(confirm_map_slot(&map, 1), 0);
    assert_int_equal(confirm_map_slot(&map, 3), 21);
    confirm_map_forget(&map, 40);
    assert_int_equal(confirm_map_slot(&map, 3), 0);
    assert_int_equal(confirm_map_slot(&map, 4), 30);
    confirm_map_free(&map);
}

/* Against a plain array of what each sequence means. */
static void any_mixture_of_runs_and_gaps_is_found_again(void **state)
{
    (void)state;
    enum { SLOTS = 20000 };
    uint64_t *slots = calloc(SLOTS + 1, sizeof *slots);
    assert_non_null(slots);
    struct confirm_map map = {0};
    confirm_map_restart(&map);
    unsigned seed = 7;
    uint64_t slot = 1;
    uint64_t next = 1;
    uint64_t head = 0;
    while (next < SLOTS - 100) {
        seed = seed * 1103515245 + 12345;
        uint32_t entries = 1 + (seed >> 16) % 5;
        slot += (seed >> 24) % 3;
        assert_true(confirm_map_reserve(&map));
        confirm_map_add(&map, slot, entries);
        for (uint32_t i = 0; i < entries; i++)
            slots[next++] = slot++;
        if ((seed >> 20) % 50 == 0) {
            head = next > 200 ? slots[next - 200] : 0;
            confirm_map_forget(&map, head);
        }
        uint64_t asked = 1 + (seed >> 8) % (next - 1);
        uint64_t found = confirm_map_slot(&map, asked);
        if (slots[asked] >= head)
            assert_int_equal(found, slots[asked]);
        else
            assert_true(found < head);
    }
    assert_true(map.cap < SLOTS);
    confirm_map_free(&map);
    free(slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_a_fresh_channel_slots_and_sequences_run_in_step),
        cmocka_unit_test(a_new_channel_counts_from_one_again),
        cmocka_unit_test(a_sequence_of_a_forgotten_piece_is_before_every_head),
        cmocka_unit_test(any_mixture_of_runs_and_gaps_is_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
