/* memory_stream_test.c: the broker in memory standing in for streams: offsets, where reading begins, what is stored, settlement, seek, retention. */
#include "transport/memory_fixture.h"

static void every_consumer_reads_the_whole_stream_with_offsets(void **state)
{
    (void)state;
    struct scene s;
    scene_stream(&s);
    scene_read(&s, CONEY_STREAM("log", .declare = true, .consumer = "a"));
    scene_read(&s, CONEY_STREAM("log", .consumer = "b"));
    scene_start(&s);
    for (int i = 0; i < 3; i++)
        assert_int_equal(scene_publish(&s, "log", (const char *[]){"0", "1", "2"}[i]), CONEY_OK);
    assert_string_equal(s.readers[0].got, "0 1 2");
    assert_string_equal(s.readers[1].got, "0 1 2");
    assert_int_equal(s.readers[1].offset, 2);
    assert_int_equal(memory_ready(s.broker, "log"), 3);
    scene_end(&s);
}

/* What a consumer gets of five messages that were there before it: 0 to 4, one a second. */
static void begins(coney_stream_source source, const char *got)
{
    struct scene s;
    scene_stream(&s);
    source.name = "log";
    scene_read(&s, coney_source_stream(&source));
    const struct transport *t = s.broker->transport;
    assert_int_equal(t->connect(s.broker->self, s.broker, &s.call), CONEY_OK);
    s.outlet = scene_outlet(&s, NULL);
    for (int i = 0; i < 5; i++) {
        scene_publish(&s, "log", (const char *[]){"0", "1", "2", "3", "4"}[i]);
        scene_advance(&s, CONEY_SECOND);
    }
    t->close_outlet(s.outlet, &s.call);
    scene_start(&s);
    scene_publish(&s, "log", "5");
    scene_publish(&s, "log", "6");
    if (strcmp(s.readers[0].got, got) != 0)
        fail_msg("start %d: got '%s', wanted '%s'", (int)source.start_if_new, s.readers[0].got, got);
    scene_end(&s);
}

static void a_new_consumer_begins_where_its_source_says(void **state)
{
    (void)state;
    begins((coney_stream_source){.start_if_new = CONEY_STREAM_NEXT}, "5 6");
    begins((coney_stream_source){.start_if_new = CONEY_STREAM_FIRST}, "0 1 2 3 4 5 6");
    begins((coney_stream_source){.start_if_new = CONEY_STREAM_LAST}, "4 5 6");
    begins((coney_stream_source){.start_if_new = CONEY_STREAM_OFFSET, .start_offset = 3}, "3 4 5 6");
    begins((coney_stream_source){.start_if_new = CONEY_STREAM_OFFSET, .start_offset = 6}, "6");
    begins((coney_stream_source){.start_if_new = CONEY_STREAM_TIMESTAMP, .start_time = SCENE_NOW / CONEY_MILLISECOND + 2500},
           "3 4 5 6");
}

static void a_consumer_goes_on_after_what_it_settled(void **state)
{
    (void)state;
    struct scene s;
    scene_stream(&s);
    scene_read(&s, CONEY_STREAM("log", .declare = true));
    scene_read(&s, CONEY_STREAM("log", .consumer = ""));
    scene_read(&s, CONEY_STREAM("log", .consumer = "again", .start_if_new = CONEY_STREAM_FIRST, .start_always = true));
    scene_start(&s);
    s.readers[0].plan = "aka"; /* the second one stays open: the stored offset waits for it */
    for (int i = 0; i < 3; i++)
        scene_publish(&s, "log", (const char *[]){"0", "1", "2"}[i]);
    scene_close(&s);
    for (size_t i = 0; i < 3; i++)
        s.readers[i].got[0] = '\0';
    s.broker->transport->settle(&s.readers[0].kept[0], CONEY_ACK);
    scene_start(&s);
    scene_publish(&s, "log", "3");
    assert_string_equal(s.readers[0].got, "1 2 3");
    assert_string_equal(s.readers[1].got, "3");
    assert_string_equal(s.readers[2].got, "0 1 2 3");
    scene_end(&s);
}

static void a_requeued_message_comes_before_the_later_ones_and_a_retry_holds_them_up(void **state)
{
    (void)state;
    struct scene s;
    scene_stream(&s);
    scene_read(&s, CONEY_STREAM("log", .declare = true));
    scene_start(&s);
    s.readers[0].plan = "q";
    scene_publish(&s, "log", "0");
    assert_string_equal(s.readers[0].got, "0 0");
    assert_int_equal(s.readers[0].attempt, 2);
    s.readers[0].how = coney_retry_after(5 * CONEY_SECOND);
    scene_publish(&s, "log", "1");
    s.readers[0].how = CONEY_ACK;
    scene_publish(&s, "log", "2");
    assert_string_equal(s.readers[0].got, "0 0 1");
    scene_advance(&s, 5 * CONEY_SECOND);
    assert_string_equal(s.readers[0].got, "0 0 1 1 2");
    scene_end(&s);
}

static void seek_moves_to_an_offset_that_is_there_and_nowhere_else(void **state)
{
    (void)state;
    struct scene s;
    scene_stream(&s);
    scene_read(&s, CONEY_STREAM("log", .declare = true));
    scene_start(&s);
    for (int i = 0; i < 3; i++)
        scene_publish(&s, "log", (const char *[]){"0", "1", "2"}[i]);
    const struct transport *t = s.broker->transport;
    const coney_position one = {.at = CONEY_STREAM_OFFSET, .offset = 1};
    const coney_position nine = {.at = CONEY_STREAM_OFFSET, .offset = 9};
    assert_int_equal(t->seek(s.readers[0].feed, &one, &s.call), CONEY_OK);
    scene_run(&s);
    assert_string_equal(s.readers[0].got, "0 1 2 1 2");
    assert_int_equal(t->seek(s.readers[0].feed, &nine, &s.call), CONEY_ENOOFFSET);
    scene_publish(&s, "log", "3");
    assert_string_equal(s.readers[0].got, "0 1 2 1 2 3");
    const coney_position next = {.at = CONEY_STREAM_OFFSET, .offset = 4};
    assert_int_equal(t->seek(s.readers[0].feed, &next, &s.call), CONEY_OK);
    scene_publish(&s, "log", "4");
    assert_string_equal(s.readers[0].got, "0 1 2 1 2 3 4");
    scene_end(&s);
}

static void a_stream_keeps_as_much_as_its_length_says(void **state)
{
    (void)state;
    struct scene s;
    scene_stream(&s);
    coney_declare_stream(s.broker, "short", &(coney_stream_spec){.max_length = 10});
    scene_start(&s);
    for (int i = 0; i < 10; i++)
        scene_publish(&s, "short", "four");
    assert_int_equal(memory_ready(s.broker, "short"), 2);
    scene_end(&s);
}

static void what_a_stream_cannot_honour_is_refused(void **state)
{
    (void)state;
    struct scene s;
    scene_stream(&s);
    scene_read(&s, CONEY_STREAM("log", .declare = true));
    scene_start(&s);
    const struct outgoing expires = {.to = CONEY_STR("log"), .expiration = CONEY_SECOND};
    assert_int_equal(scene_send(&s, s.outlet, &expires), CONEY_EUNSUPPORTED);
    const struct outgoing urgent = {.to = CONEY_STR("log"), .has_priority = true};
    assert_int_equal(scene_send(&s, s.outlet, &urgent), CONEY_EUNSUPPORTED);
    assert_int_equal(scene_publish(&s, "", "no name"), CONEY_EINVAL);
    uint8_t *large = calloc(1, (1 << 20) + 1);
    const struct outgoing too_large = {.to = CONEY_STR("log"), .body = {large, (1 << 20) + 1}};
    assert_int_equal(scene_send(&s, s.outlet, &too_large), CONEY_ETOOBIG);
    free(large);
    assert_false(s.broker->transport->delays(s.readers[0].feed));
    assert_null(s.broker->transport->request);
    assert_null(s.broker->transport->tx_begin);
    scene_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_consumer_reads_the_whole_stream_with_offsets),
        cmocka_unit_test(a_new_consumer_begins_where_its_source_says),
        cmocka_unit_test(a_consumer_goes_on_after_what_it_settled),
        cmocka_unit_test(a_requeued_message_comes_before_the_later_ones_and_a_retry_holds_them_up),
        cmocka_unit_test(seek_moves_to_an_offset_that_is_there_and_nowhere_else),
        cmocka_unit_test(a_stream_keeps_as_much_as_its_length_says),
        cmocka_unit_test(what_a_stream_cannot_honour_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
