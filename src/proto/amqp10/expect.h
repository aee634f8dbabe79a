/* expect.h: for tests: a message as the bytes that the standard writes, in both directions.
 *
 * Assertions of cmocka, which must be included first.
 */
#ifndef CONEY_PROTO_AMQP10_EXPECT_H
#define CONEY_PROTO_AMQP10_EXPECT_H

#include "base/bytes.h"
#include "proto/amqp10/hex.h"
#include "proto/amqp10/message.h"
#include "proto/amqp10/visit.h"

/* Encodes into memory of the exact size. */
static inline coney_bytes encode(const coney_message *m)
{
    size_t size;
    const char *field = "";
    assert_int_equal(amqp10_message_size(m, &size, &field), CONEY_OK);
    assert_null(field);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    amqp10_message_write(m, bytes);
    return coney_bytes_of(bytes, size);
}

static inline void assert_encodes_as(const coney_message *m, const char *text)
{
    coney_bytes expected = hex(text), encoded = encode(m);
    assert_int_equal(encoded.len, expected.len);
    assert_memory_equal(encoded.data, expected.data, expected.len);
    hex_free(expected);
    hex_free(encoded);
}

static inline void assert_refused_for(const coney_message *m, coney_status status, const char *member)
{
    size_t size = 1;
    const char *field = NULL;
    assert_int_equal(amqp10_message_size(m, &size, &field), status);
    assert_int_equal(size, 0);
    assert_non_null(field);
    assert_string_equal(field, member);
    assert_int_equal(amqp10_message_size(m, &size, NULL), status);
}

/* Parses a message that must be readable. The caller frees view.encoded. */
static inline coney_message_view parse(const char *text)
{
    coney_message_view view;
    if (coney_message_parse(hex(text), &view) != CONEY_OK)
        fail_msg("%s: %s", text, view.error);
    visit_message(&view);
    return view;
}

static inline void assert_corrupt(coney_bytes encoded, const char *error)
{
    coney_message_view view;
    assert_int_equal(coney_message_parse(encoded, &view), CONEY_ECORRUPT);
    assert_string_equal(view.error, error);
}

static inline void assert_corrupt_hex(const char *text, const char *error)
{
    coney_bytes encoded = hex(text);
    assert_corrupt(encoded, error);
    hex_free(encoded);
}

static inline void assert_text(coney_bytes bytes, const char *text)
{
    assert_non_null(bytes.data);
    assert_int_equal(bytes.len, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.len);
}

static inline void assert_body(const coney_message_view *view, const char *text)
{
    char body[64];
    assert_int_equal(view->body_kind, CONEY_BODY_DATA);
    assert_int_equal(coney_message_body_size(view), strlen(text));
    assert_int_equal(coney_message_body_copy(view, body, sizeof body), strlen(text));
    assert_memory_equal(body, text, strlen(text));
}

#endif
