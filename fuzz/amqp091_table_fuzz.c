/* amqp091_table_fuzz.c: any bytes as the entries of a field table, and as a value that claims to be one.
 *
 * The first byte is the count that a forged value claims; the rest are the entries. What was read through must be walked to its
 * end and rebuilt by a builder: of the same size, with the same bytes from the second time on (L becomes l, a time that
 * milliseconds cannot hold the nearest). A forged value is refused or walked, nothing else. */
#include "proto/amqp091/table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* Whether a walk over everything in the value comes to its end. */
static bool walk(const coney_value *value)
{
    coney_value element;
    coney_value_iter iter = coney_value_elements(value);
    uint32_t count = 0;
    for (; coney_value_next(&iter, &element); count++)
        if (!walk(&element))
            return false;
    return coney_value_iter_ok(&iter) && (value->type < CONEY_VALUE_LIST || count == value->count);
}

static void copy_elements(coney_builder *b, const coney_value *from)
{
    coney_value element;
    coney_value_iter iter = coney_value_elements(from);
    while (coney_value_next(&iter, &element)) {
        if (element.type < CONEY_VALUE_LIST || element.depth == CONEY_VALUE_DEPTH) {
            coney_builder_add(b, element);
            continue;
        }
        coney_builder_begin(b, (coney_value_type)element.type);
        copy_elements(b, &element);
        coney_builder_end(b);
    }
}

static coney_value rebuilt(const coney_value *table, void *room, size_t cap)
{
    coney_builder b;
    coney_value copy;
    coney_builder_init_table(&b, room, cap);
    coney_builder_begin(&b, CONEY_VALUE_MAP);
    copy_elements(&b, table);
    coney_builder_end(&b);
    require(coney_builder_finish(&b, &copy) == CONEY_OK);
    require(copy.count == table->count && copy.as.bytes.len == table->as.bytes.len);
    require(amqp_table_valid(&copy));
    return copy;
}

static void check_rebuilding(const coney_value *table)
{
    size_t cap = 2 * table->as.bytes.len + 1024;
    uint8_t *first = malloc(cap);
    uint8_t *second = malloc(cap);
    require(first != NULL && second != NULL);
    coney_value once = rebuilt(table, first, cap);
    coney_value twice = rebuilt(&once, second, cap);
    require(bytes_equal(once.as.bytes, twice.as.bytes));
    free(first);
    free(second);
}

static void check_fields(const coney_value *table)
{
    coney_value_iter iter = coney_value_elements(table);
    coney_field field;
    while (coney_value_next_field(&iter, &field)) {
        const char *fault;
        size_t size;
        coney_value found;
        require(coney_value_find(table, field.key, &found));
        require(amqp_table_size(&field, 1, &size, &fault) == CONEY_OK);
        uint8_t *entry = malloc(size);
        require(entry != NULL && amqp_table_write(entry, &field, 1) == entry + size);
        coney_value again;
        require(amqp_table_parse(coney_bytes_of(entry, size), &again) == NULL && again.count == 2);
        free(entry);
    }
}

static void check_forged(coney_bytes entries, uint8_t type, uint32_t count)
{
    coney_value forged = amqp_table_value(entries.data, entries.len, 0);
    forged.type = type;
    forged.count = count;
    bool sound = walk(&forged);
    if (coney_value_check(&forged) == CONEY_OK)
        require(sound);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t len = size - 1;
    uint8_t *copy = malloc(len > 0 ? len : 1);
    require(copy != NULL);
    memcpy(copy, data + 1, len);
    coney_bytes entries = coney_bytes_of(copy, len);
    coney_value table;
    const char *fault = amqp_table_parse(entries, &table);
    if (fault == NULL) {
        require(walk(&table));
        check_rebuilding(&table);
        check_fields(&table);
    } else {
        require(*fault != '\0' && table.type == CONEY_VALUE_NULL);
    }
    check_forged(entries, CONEY_VALUE_MAP, data[0]);
    check_forged(entries, CONEY_VALUE_LIST, data[0]);
    free(copy);
    return 0;
}
