#include "proto/stream/codec.h"
#include "proto/stream/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint8_t room[1024];

static struct stream_list end(const struct list_writer *w)
{
    struct stream_list list = {0};
    assert_true(list_end(w, &list));
    return list;
}

static void what_was_added_comes_back_in_order(void **state)
{
    (void)state;
    struct list_writer w = list_begin(room, sizeof room);
    list_add_pair(&w, CONEY_STR("max-age"), CONEY_STR("1h"));
    list_add_pair(&w, CONEY_STR("empty"), CONEY_STR(""));
    struct stream_list list = end(&w);
    assert_int_equal(list.count, 2);

    struct list_iter it = list_iter_of(list);
    coney_bytes key, value;
    assert_true(list_next_pair(&it, &key, &value));
    assert_true(bytes_equal(key, CONEY_STR("max-age")) && bytes_equal(value, CONEY_STR("1h")));
    assert_true(list_next_pair(&it, &key, &value));
    assert_true(bytes_equal(key, CONEY_STR("empty")) && value.len == 0);
    assert_false(list_next_pair(&it, &key, &value));
    assert_false(list_next_pair(&it, &key, &value));
}

static void a_value_is_found_by_its_key(void **state)
{
    (void)state;
    struct list_writer w = list_begin(room, sizeof room);
    list_add_pair(&w, CONEY_STR("product"), CONEY_STR("RabbitMQ"));
    list_add_pair(&w, CONEY_STR("version"), CONEY_STR("4.3.6"));
    struct stream_list list = end(&w);
    assert_true(bytes_equal(list_find(list, CONEY_STR("version")), CONEY_STR("4.3.6")));
    assert_null(list_find(list, CONEY_STR("vers")).data);
    assert_null(list_find((struct stream_list){0}, CONEY_STR("version")).data);
}

static void every_kind_of_element_comes_back_as_it_was(void **state)
{
    (void)state;
    struct list_writer w = list_begin(room, sizeof room);
    list_add_string(&w, CONEY_STR("s"));
    struct list_iter it = list_iter_of(end(&w));
    coney_bytes text;
    assert_true(list_next_string(&it, &text));
    assert_true(bytes_equal(text, CONEY_STR("s")));
    assert_false(list_next_string(&it, &text));

    w = list_begin(room, sizeof room);
    list_add_stat(&w, CONEY_STR("first"), INT64_MIN);
    it = list_iter_of(end(&w));
    int64_t value;
    assert_true(list_next_stat(&it, &text, &value));
    assert_true(value == INT64_MIN && bytes_equal(text, CONEY_STR("first")));
    assert_false(list_next_stat(&it, &text, &value));

    w = list_begin(room, sizeof room);
    list_add_version(&w, (struct stream_version_range){8, 1, 2});
    it = list_iter_of(end(&w));
    struct stream_version_range range;
    assert_true(list_next_version(&it, &range));
    assert_true(range.key == 8 && range.min == 1 && range.max == 2);
    assert_false(list_next_version(&it, &range));

    w = list_begin(room, sizeof room);
    list_add_broker(&w, &(struct stream_broker){3, CONEY_STR("host"), 5552});
    it = list_iter_of(end(&w));
    struct stream_broker broker;
    assert_true(list_next_broker(&it, &broker));
    assert_true(broker.index == 3 && broker.port == 5552 && bytes_equal(broker.host, CONEY_STR("host")));
    assert_false(list_next_broker(&it, &broker));

    w = list_begin(room, sizeof room);
    list_add_error(&w, (struct stream_publish_error){UINT64_MAX, 17});
    it = list_iter_of(end(&w));
    struct stream_publish_error error;
    assert_true(list_next_error(&it, &error));
    assert_true(error.id == UINT64_MAX && error.code == 17);
    assert_false(list_next_error(&it, &error));

    w = list_begin(room, sizeof room);
    list_add_id(&w, 7);
    it = list_iter_of(end(&w));
    uint64_t id;
    assert_true(list_next_id(&it, &id));
    assert_int_equal(id, 7);
    assert_false(list_next_id(&it, &id));
}

static void a_placement_brings_its_replicas(void **state)
{
    (void)state;
    uint8_t inner[16];
    struct list_writer replicas = list_begin(inner, sizeof inner);
    list_add_index(&replicas, 4);
    list_add_index(&replicas, 0xfffe);
    struct list_writer w = list_begin(room, sizeof room);
    list_add_placement(&w, &(struct stream_placement){CONEY_STR("s"), STREAM_CODE_OK, 2, end(&replicas)});

    struct list_iter it = list_iter_of(end(&w));
    struct stream_placement placement;
    assert_true(list_next_placement(&it, &placement));
    assert_int_equal(placement.leader, 2);
    assert_int_equal(placement.replicas.count, 2);
    struct list_iter indexes = list_iter_of(placement.replicas);
    uint16_t index;
    assert_true(list_next_index(&indexes, &index));
    assert_int_equal(index, 4);
    assert_true(list_next_index(&indexes, &index));
    assert_int_equal(index, 0xfffe);
    assert_false(list_next_index(&indexes, &index));
    assert_false(list_next_placement(&it, &placement));
}

static void entries_of_both_versions_come_back_as_they_were(void **state)
{
    (void)state;
    struct stream_publish_entry message = {.id = 1, .entry.data = CONEY_STR("hi")};
    struct stream_publish_entry batch = {
        .id = 2, .entry = {.batch = true, .compression = 4, .records = 9, .uncompressed = 100, .data = CONEY_STR("packed")}};
    struct stream_publish_entry filtered = {.id = 3, .filter = CONEY_STR("fv"), .entry.data = CONEY_STR("x")};

    struct list_writer w = list_begin(room, sizeof room);
    list_add_entry(&w, 1, &message);
    list_add_entry(&w, 1, &batch);
    struct list_iter it = list_iter_of(end(&w));
    struct stream_publish_entry out;
    assert_true(list_next_entry(&it, 1, &out));
    assert_true(out.id == 1 && !out.entry.batch && out.entry.records == 1 && out.entry.uncompressed == 2);
    assert_true(bytes_equal(out.entry.data, CONEY_STR("hi")) && out.filter.data == NULL);
    assert_true(list_next_entry(&it, 1, &out));
    assert_true(out.id == 2 && out.entry.batch && out.entry.compression == 4 && out.entry.records == 9);
    assert_true(out.entry.uncompressed == 100 && bytes_equal(out.entry.data, CONEY_STR("packed")));
    assert_false(list_next_entry(&it, 1, &out));

    w = list_begin(room, sizeof room);
    list_add_entry(&w, 2, &filtered);
    list_add_entry(&w, 2, &message);
    it = list_iter_of(end(&w));
    assert_true(list_next_entry(&it, 2, &out));
    assert_true(bytes_equal(out.filter, CONEY_STR("fv")) && bytes_equal(out.entry.data, CONEY_STR("x")));
    assert_true(list_next_entry(&it, 2, &out));
    assert_null(out.filter.data);
    assert_true(bytes_equal(out.entry.data, CONEY_STR("hi")));
    assert_false(list_next_entry(&it, 2, &out));
}

static void an_iterator_over_bytes_of_unknown_origin_stops_at_their_end(void **state)
{
    (void)state;
    coney_bytes bytes = bytes_of("0001 'k' 0005 'v'");
    struct list_iter it = list_iter_of((struct stream_list){bytes.data, bytes.len, 1});
    coney_bytes key, value;
    assert_false(list_next_pair(&it, &key, &value));
    assert_false(list_next_pair(&it, &key, &value));
    release(bytes);
}

static void a_list_that_does_not_fit_is_not_given_and_says_what_it_needs(void **state)
{
    (void)state;
    uint8_t small[9];
    struct stream_list list = {small, 1, 1};
    struct list_writer w = list_begin(small, sizeof small);
    list_add_pair(&w, CONEY_STR("key"), CONEY_STR("val"));
    assert_false(list_end(&w, &list));
    assert_int_equal(list.count, 1);
    assert_int_equal(w.out.len, 10);
}

static void an_element_that_has_no_form_on_the_wire_spoils_its_list(void **state)
{
    (void)state;
    static char text[STREAM_STRING_MAX + 1];
    uint8_t *big = malloc(200000);
    assert_non_null(big);
    struct stream_list list;

    struct list_writer w = list_begin(big, 200000);
    list_add_string(&w, coney_bytes_of(text, STREAM_STRING_MAX));
    assert_true(list_end(&w, &list));
    list_add_string(&w, coney_bytes_of(text, STREAM_STRING_MAX + 1));
    list_add_string(&w, CONEY_STR("fine"));
    assert_false(list_end(&w, &list));

    struct stream_publish_entry refused[] = {
        {.filter = {text, STREAM_FILTER_MAX + 1}},
        {.entry = {.batch = true, .records = 1}},
        {.entry.data = {text, (size_t)INT32_MAX + 1}},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        w = list_begin(big, 0);
        list_add_entry(&w, 2, &refused[i]);
        assert_true(w.refused);
    }
    struct stream_publish_entry unknown = {.entry = {.batch = true, .compression = 8}};
    w = list_begin(big, 200000);
    list_add_entry(&w, 1, &unknown);
    assert_false(list_end(&w, &list));
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_comes_back_in_order),
        cmocka_unit_test(a_value_is_found_by_its_key),
        cmocka_unit_test(every_kind_of_element_comes_back_as_it_was),
        cmocka_unit_test(a_placement_brings_its_replicas),
        cmocka_unit_test(entries_of_both_versions_come_back_as_they_were),
        cmocka_unit_test(an_iterator_over_bytes_of_unknown_origin_stops_at_their_end),
        cmocka_unit_test(a_list_that_does_not_fit_is_not_given_and_says_what_it_needs),
        cmocka_unit_test(an_element_that_has_no_form_on_the_wire_spoils_its_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
