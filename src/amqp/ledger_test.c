#include "amqp/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STEPS 8

static void receive(struct ledger *l, uint64_t count)
{
    assert_true(ledger_receive(l, count));
}

static void the_next_step_is(struct ledger *l, enum ledger_verb verb, uint64_t tag, bool multiple)
{
    struct ledger_step steps[2];
    assert_int_equal(ledger_take(l, steps, 2), 1);
    assert_int_equal(steps[0].verb, verb);
    assert_int_equal(steps[0].tag, tag);
    assert_int_equal(steps[0].multiple, multiple);
}

static void nothing_is_to_be_told(struct ledger *l)
{
    struct ledger_step steps[2];
    assert_int_equal(ledger_take(l, steps, 2), 0);
}

static void acks_in_order_are_one_frame(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 100);
    ledger_pass(&l, 40);
    the_next_step_is(&l, LEDGER_ACK, 40, true);
    nothing_is_to_be_told(&l);
    ledger_pass(&l, 41);
    the_next_step_is(&l, LEDGER_ACK, 41, false);
    ledger_pass(&l, 100);
    the_next_step_is(&l, LEDGER_ACK, 100, true);
    nothing_is_to_be_told(&l);
    ledger_free(&l);
}

static void with_a_prefetch_of_one_each_ack_stands_alone(void **state)
{
    (void)state;
    struct ledger l = {0};
    for (uint64_t tag = 1; tag <= 1000; tag++) {
        receive(&l, 1);
        ledger_pass(&l, tag);
        the_next_step_is(&l, LEDGER_ACK, tag, false);
    }
    nothing_is_to_be_told(&l);
    ledger_free(&l);
}

static void a_reject_is_told_before_the_run_that_passes_over_it(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 5);
    ledger_pass(&l, 2);
    assert_true(ledger_settle(&l, 2, LEDGER_REJECTED));
    ledger_pass(&l, 5);
    struct ledger_step steps[STEPS];
    assert_int_equal(ledger_take(&l, steps, STEPS), 2);
    assert_int_equal(steps[0].verb, LEDGER_REJECT);
    assert_int_equal(steps[0].tag, 3);
    assert_int_equal(steps[1].verb, LEDGER_ACK);
    assert_int_equal(steps[1].tag, 5);
    assert_true(steps[1].multiple);
    nothing_is_to_be_told(&l);
    ledger_free(&l);
}

static void a_run_ends_at_the_last_ack_not_at_a_reject_behind_it(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 3);
    ledger_pass(&l, 2);
    assert_true(ledger_settle(&l, 2, LEDGER_REQUEUED));
    ledger_pass(&l, 3);
    struct ledger_step steps[STEPS];
    assert_int_equal(ledger_take(&l, steps, STEPS), 2);
    assert_int_equal(steps[0].verb, LEDGER_REQUEUE);
    assert_int_equal(steps[1].tag, 2);
    ledger_free(&l);
}

static void what_is_acked_behind_a_held_one_is_told_singly(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 4);
    ledger_pass(&l, 1);
    assert_true(ledger_hold(&l, 1));
    ledger_pass(&l, 4);
    the_next_step_is(&l, LEDGER_ACK, 1, false);
    struct ledger_step steps[STEPS];
    assert_int_equal(ledger_take(&l, steps, STEPS), 2);
    assert_int_equal(steps[0].tag, 3);
    assert_false(steps[0].multiple);
    assert_int_equal(steps[1].tag, 4);
    assert_false(steps[1].multiple);
    nothing_is_to_be_told(&l);

    assert_true(ledger_settle(&l, 1, LEDGER_ACKED));
    the_next_step_is(&l, LEDGER_ACK, 2, false);
    nothing_is_to_be_told(&l);
    assert_int_equal(l.marked, 0);
    ledger_free(&l);
}

static void a_settlement_can_overtake_the_handler(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 3);
    assert_true(ledger_hold(&l, 0));
    assert_true(ledger_settle(&l, 0, LEDGER_ACKED));
    the_next_step_is(&l, LEDGER_ACK, 1, false);
    ledger_pass(&l, 1);
    nothing_is_to_be_told(&l);
    ledger_pass(&l, 3);
    the_next_step_is(&l, LEDGER_ACK, 3, true);
    ledger_free(&l);
}

static void nothing_settles_twice(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 3);
    assert_true(ledger_hold(&l, 1));
    assert_true(ledger_settle(&l, 1, LEDGER_REJECTED));
    assert_false(ledger_settle(&l, 1, LEDGER_ACKED));
    ledger_pass(&l, 3);
    assert_false(ledger_settle(&l, 0, LEDGER_REJECTED));
    assert_false(ledger_settle(&l, 3, LEDGER_ACKED));
    assert_false(ledger_hold(&l, 2));
    ledger_free(&l);
}

static void a_new_channel_forgets_the_last_and_counts_from_one(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 10);
    ledger_pass(&l, 3);
    assert_true(ledger_hold(&l, 5));
    ledger_start(&l);
    assert_false(ledger_settle(&l, 5, LEDGER_ACKED));
    ledger_pass(&l, 8);
    nothing_is_to_be_told(&l);
    receive(&l, 2);
    ledger_pass(&l, 11);
    the_next_step_is(&l, LEDGER_ACK, 1, false);
    ledger_free(&l);
}

static void the_rest_goes_back_in_one_frame(struct ledger *l, uint64_t tag, bool multiple)
{
    struct ledger_step steps[STEPS];
    assert_int_equal(ledger_take_rest(l, steps, STEPS), 1);
    assert_int_equal(steps[0].verb, LEDGER_RETURN);
    assert_int_equal(steps[0].tag, tag);
    assert_int_equal(steps[0].multiple, multiple);
    assert_int_equal(ledger_take_rest(l, steps, STEPS), 0);
    assert_int_equal(l->marked, 0);
    assert_int_equal(l->base, l->end);
}

static void what_no_handler_had_goes_back_in_one_frame(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 90);
    ledger_pass(&l, 10);
    the_next_step_is(&l, LEDGER_ACK, 10, true);
    the_rest_goes_back_in_one_frame(&l, 90, true);
    ledger_free(&l);
}

static void what_is_held_goes_back_with_it_and_settles_no_more(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 12);
    assert_true(ledger_hold(&l, 0));
    ledger_pass(&l, 1);
    nothing_is_to_be_told(&l);
    the_rest_goes_back_in_one_frame(&l, 12, true);
    assert_false(ledger_settle(&l, 0, LEDGER_ACKED));
    ledger_free(&l);
}

static void what_goes_back_names_a_tag_that_is_open(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 3);
    assert_true(ledger_hold(&l, 0));
    ledger_pass(&l, 3);
    struct ledger_step steps[STEPS];
    assert_int_equal(ledger_take(&l, steps, STEPS), 2); /* singly: the first is open */
    the_rest_goes_back_in_one_frame(&l, 1, false);
    ledger_free(&l);
}

static void what_was_settled_last_is_told_before_the_rest_goes_back(void **state)
{
    (void)state;
    struct ledger l = {0};
    receive(&l, 5);
    assert_true(ledger_hold(&l, 0));
    ledger_pass(&l, 2);
    struct ledger_step steps[STEPS];
    assert_int_equal(ledger_take_rest(&l, steps, STEPS), 1);
    assert_int_equal(steps[0].verb, LEDGER_ACK);
    assert_int_equal(steps[0].tag, 2);
    the_rest_goes_back_in_one_frame(&l, 5, true);
    ledger_free(&l);
}

static void runs_can_be_forbidden(void **state)
{
    (void)state;
    struct ledger l = {.singly = true};
    receive(&l, 3);
    ledger_pass(&l, 3);
    struct ledger_step steps[STEPS];
    assert_int_equal(ledger_take(&l, steps, STEPS), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(steps[i].tag, i + 1);
        assert_false(steps[i].multiple);
    }
    ledger_free(&l);
}

/* A broker and a user that write everything down, against which the ledger's frames are held ------------------------- */

#define MODEL 1500

enum fate { FATE_OPEN, FATE_ACKED, FATE_REJECTED, FATE_REQUEUED };

struct model {
    struct ledger ledger;
    enum fate fate[MODEL + 1]; /* by tag: what the user said */
    bool held[MODEL + 1];      /* kept by the user */
    bool outstanding[MODEL + 1];
    uint64_t received;
    uint64_t passed;
    uint64_t random;
    uint64_t frames;
};

static uint64_t roll(struct model *m, uint64_t sides)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (m->random >> 33) % sides;
}

static void broker_acks(struct model *m, uint64_t tag)
{
    if (m->outstanding[tag])
        assert_int_equal(m->fate[tag], FATE_ACKED);
    m->outstanding[tag] = false;
}

static void broker_reads(struct model *m, const struct ledger_step *step)
{
    m->frames++;
    assert_in_range(step->tag, 1, m->received);
    assert_true(m->outstanding[step->tag]);
    switch (step->verb) {
    case LEDGER_ACK:
        for (uint64_t tag = step->multiple ? 1 : step->tag; tag <= step->tag; tag++)
            broker_acks(m, tag);
        break;
    case LEDGER_REJECT:
    case LEDGER_REQUEUE:
        assert_false(step->multiple);
        assert_int_equal(m->fate[step->tag], step->verb == LEDGER_REJECT ? FATE_REJECTED : FATE_REQUEUED);
        m->outstanding[step->tag] = false;
        break;
    case LEDGER_RETURN:
        for (uint64_t tag = step->multiple ? 1 : step->tag; tag <= step->tag; tag++) {
            if (m->outstanding[tag])
                assert_int_equal(m->fate[tag], FATE_OPEN);
            m->outstanding[tag] = false;
        }
        break;
    }
}

static void tell_all(struct model *m)
{
    struct ledger_step steps[STEPS];
    size_t cap = 2 + roll(m, STEPS - 1);
    for (size_t count; (count = ledger_take(&m->ledger, steps, cap)) > 0;)
        for (size_t i = 0; i < count; i++)
            broker_reads(m, &steps[i]);
    for (uint64_t tag = 1; tag <= m->received; tag++)
        assert_int_equal(m->outstanding[tag], m->fate[tag] == FATE_OPEN);
}

static enum ledger_mark mark_of(enum fate fate)
{
    static const enum ledger_mark marks[] = {LEDGER_NONE, LEDGER_ACKED, LEDGER_REJECTED, LEDGER_REQUEUED};
    return marks[fate];
}

static void handle_next(struct model *m, uint64_t odd)
{
    if (m->passed == m->received)
        return;
    uint64_t tag = ++m->passed;
    uint64_t number = tag - 1;
    if (roll(m, 100) >= odd) {
        m->fate[tag] = FATE_ACKED;
    } else if (roll(m, 2) == 0) {
        assert_true(ledger_hold(&m->ledger, number));
        m->held[tag] = true;
    } else {
        m->fate[tag] = roll(m, 2) == 0 ? FATE_REJECTED : FATE_REQUEUED;
        assert_true(ledger_settle(&m->ledger, number, mark_of(m->fate[tag])));
    }
    ledger_pass(&m->ledger, number + 1);
}

static void settle_some_held_one(struct model *m)
{
    uint64_t tag = 1 + roll(m, MODEL);
    for (uint64_t i = 0; i < m->received && !m->held[tag]; i++)
        tag = tag % m->received + 1;
    if (!m->held[tag])
        return;
    m->held[tag] = false;
    m->fate[tag] = (enum fate)(1 + roll(m, 3));
    assert_true(ledger_settle(&m->ledger, tag - 1, mark_of(m->fate[tag])));
}

static void play(uint64_t seed, uint64_t prefetch, uint64_t odd)
{
    struct model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->random = seed;
    uint64_t portions = 0;
    for (; m->passed < MODEL; portions++) {
        uint64_t window = 0;
        for (uint64_t tag = 1; tag <= m->received; tag++)
            window += m->outstanding[tag];
        for (; window < prefetch && m->received < MODEL; window++) {
            receive(&m->ledger, 1);
            m->outstanding[++m->received] = true;
        }
        for (uint64_t left = 1 + roll(m, prefetch); left > 0; left--)
            handle_next(m, odd);
        for (uint64_t left = roll(m, 4) + (m->passed == m->received); left > 0; left--)
            settle_some_held_one(m);
        tell_all(m);
    }
    for (uint64_t tag = 1; tag <= MODEL; tag++)
        settle_some_held_one(m);
    tell_all(m);
    assert_int_equal(m->ledger.marked, 0);
    assert_int_equal(m->ledger.base, m->ledger.end);
    if (odd == 0)
        assert_true(m->frames <= portions);
    ledger_free(&m->ledger);
    free(m);
}

static void whatever_is_settled_in_whatever_order_the_broker_is_told_exactly_that(void **state)
{
    (void)state;
    static const uint64_t prefetches[] = {1, 2, 7, 64, 300};
    static const uint64_t odds[] = {0, 2, 30, 100};
    for (size_t p = 0; p < sizeof prefetches / sizeof prefetches[0]; p++)
        for (size_t o = 0; o < sizeof odds / sizeof odds[0]; o++)
            for (uint64_t seed = 1; seed <= 4; seed++)
                play(seed, prefetches[p], odds[o]);
}

static void what_goes_back_at_any_moment_is_all_that_is_open(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct model *m = calloc(1, sizeof *m);
        assert_non_null(m);
        m->random = seed;
        m->received = 60;
        receive(&m->ledger, m->received);
        for (uint64_t tag = 1; tag <= m->received; tag++)
            m->outstanding[tag] = true;
        for (uint64_t left = roll(m, 61); left > 0; left--)
            handle_next(m, seed % 3 * 20);
        if (seed % 2 == 0)
            tell_all(m);
        for (uint64_t left = roll(m, 5); left > 0; left--)
            settle_some_held_one(m);
        struct ledger_step steps[STEPS];
        uint64_t returns = 0;
        for (size_t count; (count = ledger_take_rest(&m->ledger, steps, STEPS)) > 0;)
            for (size_t i = 0; i < count; i++) {
                broker_reads(m, &steps[i]);
                returns += steps[i].verb == LEDGER_RETURN;
            }
        assert_in_range(returns, 0, 1);
        for (uint64_t tag = 1; tag <= m->received; tag++)
            assert_false(m->outstanding[tag]);
        assert_int_equal(m->ledger.marked, 0);
        ledger_free(&m->ledger);
        free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acks_in_order_are_one_frame),
        cmocka_unit_test(with_a_prefetch_of_one_each_ack_stands_alone),
        cmocka_unit_test(a_reject_is_told_before_the_run_that_passes_over_it),
        cmocka_unit_test(a_run_ends_at_the_last_ack_not_at_a_reject_behind_it),
        cmocka_unit_test(what_is_acked_behind_a_held_one_is_told_singly),
        cmocka_unit_test(a_settlement_can_overtake_the_handler),
        cmocka_unit_test(nothing_settles_twice),
        cmocka_unit_test(a_new_channel_forgets_the_last_and_counts_from_one),
        cmocka_unit_test(what_no_handler_had_goes_back_in_one_frame),
        cmocka_unit_test(what_is_held_goes_back_with_it_and_settles_no_more),
        cmocka_unit_test(what_goes_back_names_a_tag_that_is_open),
        cmocka_unit_test(what_was_settled_last_is_told_before_the_rest_goes_back),
        cmocka_unit_test(runs_can_be_forbidden),
        cmocka_unit_test(whatever_is_settled_in_whatever_order_the_broker_is_told_exactly_that),
        cmocka_unit_test(what_goes_back_at_any_moment_is_all_that_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
