#include "base/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* No protocol is linked here, so no encoding is known. */

static void a_plain_value_is_checked_without_an_encoding(void **state)
{
    (void)state;
    const struct {
        coney_value value;
        coney_status status;
    } rows[] = {
        {coney_value_null(), CONEY_OK},
        {coney_value_signed(CONEY_VALUE_I8, 127), CONEY_OK},
        {coney_value_signed(CONEY_VALUE_I8, 128), CONEY_EINVAL},
        {coney_value_signed(CONEY_VALUE_I16, -32769), CONEY_EINVAL},
        {coney_value_signed(CONEY_VALUE_I32, INT64_C(1) << 31), CONEY_EINVAL},
        {coney_value_unsigned(CONEY_VALUE_U8, 256), CONEY_EINVAL},
        {coney_value_unsigned(CONEY_VALUE_U16, 65536), CONEY_EINVAL},
        {coney_value_unsigned(CONEY_VALUE_U32, UINT64_C(1) << 32), CONEY_EINVAL},
        {coney_value_u64(UINT64_MAX), CONEY_OK},
        {coney_value_string(CONEY_STR("text")), CONEY_OK},
        {coney_value_string(coney_bytes_of(NULL, 1)), CONEY_EINVAL},
        {coney_value_bytes(CONEY_VALUE_UUID, CONEY_STR("short")), CONEY_EINVAL},
        {coney_value_bytes((coney_value_type)(CONEY_VALUE_DESCRIBED + 1), CONEY_STR("")), CONEY_EINVAL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        coney_value value = rows[i].value;
        value.encoding = VALUE_ENCODINGS;
        assert_int_equal(value_check_plain(&value), rows[i].status);
        assert_int_equal(coney_value_check(&value), rows[i].status);
    }
}

static void a_value_of_an_encoding_that_does_not_exist_is_refused_and_has_no_elements(void **state)
{
    (void)state;
    static const uint8_t types[] = {CONEY_VALUE_LIST, CONEY_VALUE_MAP, CONEY_VALUE_ARRAY, CONEY_VALUE_DESCRIBED, 255};
    for (size_t i = 0; i < sizeof types; i++) {
        coney_value element;
        coney_value value = coney_value_bytes((coney_value_type)types[i], CONEY_STR("\1aV"));
        value.encoding = VALUE_ENCODINGS;
        value.count = 2;
        assert_int_not_equal(coney_value_check(&value), CONEY_OK);
        coney_value_iter iter = coney_value_elements(&value);
        assert_false(coney_value_next(&iter, &element));
        assert_false(coney_value_iter_ok(&iter));
        assert_false(coney_value_find(&value, CONEY_STR("a"), &element));
    }
}

static void a_plain_value_has_no_elements_and_that_is_no_fault(void **state)
{
    (void)state;
    coney_value element;
    coney_value value = coney_value_i64(1);
    coney_value_iter iter = coney_value_elements(&value);
    assert_false(coney_value_next(&iter, &element));
    assert_true(coney_value_iter_ok(&iter));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_value_is_checked_without_an_encoding),
        cmocka_unit_test(a_value_of_an_encoding_that_does_not_exist_is_refused_and_has_no_elements),
        cmocka_unit_test(a_plain_value_has_no_elements_and_that_is_no_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
