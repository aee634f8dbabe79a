/* ticket_test.c: what goes into a tag comes out of it, whatever it is. */
#include "service/ticket.h"

#include "service/publish_fixture.h"

static coney_publisher *publisher_of(struct rig *rig, coney_outcome_fn on_outcome)
{
    coney_publisher *p = coney_publisher_new(rig->broker, &(coney_publisher_options){.to = "x", .on_outcome = on_outcome});
    assert_non_null(p);
    return p;
}

static void ignore(void *ctx, const coney_outcome *outcome)
{
    (void)ctx, (void)outcome;
}

static void a_delivery_comes_back_with_its_destination(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = publisher_of(rig, ignore);
    uint64_t ticket;
    char to[64];
    assert_true(ticket_of_delivery(p, &rig->delivery, ticket_place(p, CONEY_STR("a.longer.destination")), &ticket));
    struct ticket_reading reading = ticket_read(p, ticket);
    assert_ptr_equal(reading.one, &rig->delivery);
    assert_null(reading.record);
    ticket_place_text(p, reading.place, to, sizeof to);
    assert_string_equal(to, "a.longer.destination");
    ticket_done(p, &reading);
}

static void a_pointer_that_does_not_fit_has_a_record(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = publisher_of(rig, NULL);
    coney_delivery *far = (coney_delivery *)(uintptr_t)UINT64_C(0x00ff123456789ab0);
    uint64_t ticket, again;
    assert_true(ticket_of_delivery(p, far, ticket_place(p, CONEY_STR("x")), &ticket));
    struct ticket_reading reading = ticket_read(p, ticket);
    assert_null(reading.one);
    assert_int_equal(reading.record->count, 1);
    assert_ptr_equal(reading.record->deliveries[0], far);
    ticket_done(p, &reading);
    assert_true(ticket_of_delivery(p, far, ticket_place(p, CONEY_STR("x")), &again));
    assert_true(again == ticket);
    reading = ticket_read(p, again);
    ticket_done(p, &reading);
}

static void the_callers_tag_is_not_touched(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = publisher_of(rig, ignore);
    const uint64_t tags[] = {0, 1, UINT64_C(0x7fffffffffffffff), UINT64_C(0x8000000000000001), UINT64_MAX};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        uint64_t ticket;
        assert_true(ticket_of_caller(p, tags[i], ticket_place(p, CONEY_STR("x")), &ticket));
        struct ticket_reading reading = ticket_read(p, ticket);
        assert_null(reading.one);
        assert_true(reading.tag == tags[i]);
        assert_int_equal(reading.place, 0);
        ticket_done(p, &reading);
    }
}

static void a_destination_is_told_only_when_it_is_the_one(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = publisher_of(rig, NULL);
    char to[300];
    for (int i = 0; i < 1000; i++) {
        char given[64];
        text_print(given, sizeof given, "%.*squeue-%d", i % 30, "abcdefghijklmnopqrstuvwxyz0123", i);
        uint32_t place = ticket_place(p, coney_bytes_str(given));
        ticket_place_text(p, place, to, sizeof to);
        assert_string_equal(to, place != 0 ? given : "");
    }
}

static void no_text_of_the_wire_reaches_the_log_as_it_is(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = publisher_of(rig, NULL);
    char to[8];
    ticket_place_text(p, ticket_place(p, coney_bytes_of("\x01\n", 2)), to, sizeof to);
    assert_string_equal(to, "??");
}

static void what_is_no_name_is_not_remembered(void **state)
{
    struct rig *rig = *state;
    coney_publisher *p = publisher_of(rig, NULL);
    char to[300];
    memset(to, 'x', sizeof to);
    assert_int_equal(ticket_place(p, coney_bytes_of(to, 256)), 0);
    assert_int_not_equal(ticket_place(p, coney_bytes_of(to, 255)), 0);
    assert_int_equal(ticket_place(p, coney_bytes_of(NULL, 0)), 0);
}

int main(void)
{
#define RIGGED(test) cmocka_unit_test_setup_teardown(test, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        RIGGED(a_delivery_comes_back_with_its_destination),
        RIGGED(a_pointer_that_does_not_fit_has_a_record),
        RIGGED(the_callers_tag_is_not_touched),
        RIGGED(a_destination_is_told_only_when_it_is_the_one),
        RIGGED(no_text_of_the_wire_reaches_the_log_as_it_is),
        RIGGED(what_is_no_name_is_not_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
