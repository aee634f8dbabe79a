/* The arena and the sink. */
#include "codec/arena.h"
#include "codec/sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void memory_of_an_arena_is_aligned_and_does_not_overlap(void **state)
{
    (void)state;
    enum { PIECES = 2000 };
    static struct {
        uint8_t *at;
        size_t size;
    } pieces[PIECES];
    coney_arena *arena = coney_arena_new();
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i].size = i * 37 % 500;
        pieces[i].at = coney_arena_alloc(arena, pieces[i].size);
        assert_non_null(pieces[i].at);
        assert_int_equal((uintptr_t)pieces[i].at % 16, 0);
        memset(pieces[i].at, (int)(i % 251), pieces[i].size);
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t j = 0; j < pieces[i].size; j++)
            assert_int_equal(pieces[i].at[j], i % 251);
    coney_arena_free(&arena);
    assert_null(arena);
    coney_arena_free(&arena);
}

static void a_copy_ends_in_a_nul_that_does_not_count(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    coney_bytes copy = coney_arena_copy(arena, CONEY_STR("a\0b"));
    assert_int_equal(copy.len, 3);
    assert_memory_equal(copy.data, "a\0b\0", 4);
    copy = coney_arena_copy(arena, coney_bytes_of(NULL, 0));
    assert_int_equal(copy.len, 0);
    assert_non_null(copy.data);
    coney_arena_free(&arena);
}

static void what_cannot_be_had_is_null_and_the_arena_goes_on(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    assert_null(coney_arena_alloc(arena, SIZE_MAX));
    assert_null(coney_arena_alloc(arena, SIZE_MAX - 10));
    assert_null(coney_arena_copy(arena, coney_bytes_of("", SIZE_MAX)).data);
    assert_non_null(coney_arena_alloc(arena, 1));
    coney_arena_free(&arena);
}

static void a_reset_keeps_one_chunk_that_is_large_enough(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    for (int round = 0; round < 10; round++) {
        coney_arena_reset(arena);
        struct arena_chunk *first = arena->newest;
        for (int i = 0; i < 100; i++)
            assert_non_null(coney_arena_alloc(arena, 300));
        if (round > 3)
            assert_ptr_equal(arena->newest, first);
    }
    assert_true(arena->newest->cap <= ARENA_KEEP);
    coney_arena_free(&arena);
}

static void a_large_chunk_goes_back_when_it_is_not_needed_for_a_while(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    for (int i = 0; i < 5; i++) {
        assert_non_null(coney_arena_alloc(arena, 1 << 20));
        coney_arena_reset(arena);
    }
    assert_true(arena->newest->cap >= 1 << 20);
    for (int i = 0; i < ARENA_CALM; i++) {
        assert_true(arena->newest->cap >= 1 << 20);
        assert_non_null(coney_arena_alloc(arena, 100));
        coney_arena_reset(arena);
    }
    assert_null(arena->newest);
    assert_non_null(coney_arena_alloc(arena, 100));
    assert_true(arena->newest->cap == ARENA_FIRST);
    coney_arena_free(&arena);
}

static void the_newest_piece_grows_in_its_place_while_there_is_room(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    uint8_t *piece = arena_take(arena, 100);
    memset(piece, 7, 100);
    assert_ptr_equal(arena_resize(arena, piece, 100, 1000), piece);
    uint8_t *other = arena_take(arena, 1);
    assert_ptr_equal(other, piece + 1008);
    uint8_t *moved = arena_resize(arena, piece, 1000, 2000);
    assert_ptr_not_equal(moved, piece);
    assert_int_equal(moved[99], 7);
    uint8_t *far = arena_resize(arena, moved, 2000, 100000);
    assert_int_equal(far[99], 7);
    coney_arena_free(&arena);
}

static void a_piece_alone_in_its_chunk_grows_with_it_and_leaves_no_copy(void **state)
{
    (void)state;
    coney_arena *arena = coney_arena_new();
    assert_non_null(arena_take(arena, 10));
    const struct arena_chunk *first = arena->newest;
    size_t size = 1 << 20;
    uint8_t *piece = arena_take(arena, size);
    memset(piece, 7, size);
    for (int i = 0; i < 8; i++, size *= 2)
        piece = arena_resize(arena, piece, size, 2 * size);
    assert_non_null(piece);
    assert_int_equal(piece[(1 << 20) - 1], 7);
    assert_ptr_equal(arena->newest->older, first);
    assert_true(arena->newest->cap >= size);
    assert_null(arena_resize(arena, piece, size, SIZE_MAX - 8));
    uint8_t *next = arena_take(arena, 1);
    assert_true(next < piece || next >= piece + size);
    coney_arena_free(&arena);
}

static void a_sink_grows_and_says_when_it_cannot(void **state)
{
    (void)state;
    coney_sink sink = {0};
    for (int i = 0; i < 1000; i++)
        coney_sink_write(&sink, "0123456789", 10);
    sink_byte(&sink, '!');
    assert_int_equal(sink.len, 10001);
    assert_memory_equal(sink.data + 9990, "0123456789!", 11);
    assert_null(coney_sink_reserve(&sink, SIZE_MAX / 2));
    assert_int_equal(sink.failed, 1);
    coney_sink_write(&sink, "lost", 4);
    assert_int_equal(sink.len, 10001);
    assert_null(coney_sink_reserve(&sink, 1));
    coney_sink_free(&sink);
    assert_int_equal(sink.failed, 0);
    assert_non_null(coney_sink_reserve(&sink, 0));
    coney_sink_free(&sink);
}

static void a_text_of_any_length_is_copied_and_nothing_else(void **state)
{
    (void)state;
    uint8_t from[40];
    uint8_t to[42];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i + 1);
    for (size_t len = 0; len <= sizeof from; len++) {
        memset(to, 0xee, sizeof to);
        sink_copy(to + 1, from, len);
        assert_memory_equal(to + 1, from, len);
        assert_int_equal(to[0], 0xee);
        assert_int_equal(to[len + 1], 0xee);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_an_arena_is_aligned_and_does_not_overlap),
        cmocka_unit_test(a_copy_ends_in_a_nul_that_does_not_count),
        cmocka_unit_test(what_cannot_be_had_is_null_and_the_arena_goes_on),
        cmocka_unit_test(a_reset_keeps_one_chunk_that_is_large_enough),
        cmocka_unit_test(a_large_chunk_goes_back_when_it_is_not_needed_for_a_while),
        cmocka_unit_test(the_newest_piece_grows_in_its_place_while_there_is_room),
        cmocka_unit_test(a_piece_alone_in_its_chunk_grows_with_it_and_leaves_no_copy),
        cmocka_unit_test(a_sink_grows_and_says_when_it_cannot),
        cmocka_unit_test(a_text_of_any_length_is_copied_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
