/* memory_match.c: see memory_match.h. */
#include "transport/memory_match.h"

#include "base/bytes.h"

/* The words of a name, between dots. An empty name has one, which is empty. */
struct words {
    coney_bytes rest;
    bool ended;
};

static struct words words_of(coney_bytes name)
{
    return (struct words){.rest = name};
}

static bool word_next(struct words *words, coney_bytes *word)
{
    if (words->ended)
        return false;
    const char *at = words->rest.data;
    const char *dot = words->rest.len > 0 ? memchr(at, '.', words->rest.len) : NULL;
    if (dot == NULL) {
        *word = words->rest;
        words->ended = true;
        return true;
    }
    size_t len = (size_t)(dot - at);
    *word = coney_bytes_of(at, len);
    words->rest = coney_bytes_of(dot + 1, words->rest.len - len - 1);
    return true;
}

static bool word_is(coney_bytes word, char only)
{
    return word.len == 1 && *(const char *)word.data == only;
}

static bool has(coney_bytes bytes, char c)
{
    return bytes.len > 0 && memchr(bytes.data, c, bytes.len) != NULL;
}

bool memory_topic_is_pattern(coney_bytes name)
{
    return has(name, '*') || has(name, '>');
}

bool memory_topic_is_valid(coney_bytes name)
{
    struct words words = words_of(name);
    for (coney_bytes word; word_next(&words, &word);) {
        if (word.len == 0 || (word.len > 1 && (has(word, '*') || has(word, '>'))))
            return false;
        if (word_is(word, '>') && !words.ended)
            return false;
    }
    return true;
}

bool memory_topic_is_single(coney_bytes name)
{
    const char *at = name.data;
    bool in_word = false;
    for (size_t i = 0; i < name.len; i++) {
        if (at[i] == '*' || at[i] == '>' || (at[i] == '.' && !in_word))
            return false;
        in_word = at[i] != '.';
    }
    return in_word;
}

bool memory_topic_matches(coney_bytes pattern, coney_bytes topic)
{
    struct words wanted = words_of(pattern);
    struct words given = words_of(topic);
    coney_bytes want;
    coney_bytes word;
    while (word_next(&wanted, &want)) {
        if (!word_next(&given, &word))
            return false;
        if (word_is(want, '>'))
            return true;
        if (!word_is(want, '*') && !bytes_equal(want, word))
            return false;
    }
    return !word_next(&given, &word);
}

static int word_rank(coney_bytes word)
{
    return word_is(word, '>') ? 0 : word_is(word, '*') ? 1 : 2;
}

int memory_topic_compare(coney_bytes a, coney_bytes b)
{
    struct words left = words_of(a);
    struct words right = words_of(b);
    coney_bytes l;
    coney_bytes r;
    while (word_next(&left, &l) && word_next(&right, &r))
        if (word_rank(l) != word_rank(r))
            return word_rank(l) - word_rank(r);
    return 0;
}

/* As with `*` in file names: when what follows the last `#` does not fit, that `#` takes one word more. */
bool memory_key_matches(coney_bytes pattern, coney_bytes key)
{
    struct words wanted = words_of(pattern);
    struct words given = {.rest = key, .ended = key.len == 0};
    struct words after_hash = {0};
    struct words hash_took = {0};
    bool has_hash = false;
    if (pattern.len == 0)
        return key.len == 0;
    for (;;) {
        coney_bytes want;
        coney_bytes word;
        bool wants = word_next(&wanted, &want);
        if (wants && word_is(want, '#')) {
            has_hash = true;
            after_hash = wanted;
            hash_took = given;
            continue;
        }
        bool gave = word_next(&given, &word);
        if (!wants && !gave)
            return true;
        if (wants && gave && (word_is(want, '*') || bytes_equal(want, word)))
            continue;
        if (!has_hash || !word_next(&hash_took, &word))
            return false;
        wanted = after_hash;
        given = hash_took;
    }
}

bool memory_values_equal(const coney_value *a, const coney_value *b)
{
    int64_t number_a;
    int64_t number_b;
    coney_bytes bytes_a;
    coney_bytes bytes_b;
    if (coney_value_to_i64(a, &number_a) && coney_value_to_i64(b, &number_b))
        return number_a == number_b;
    if (coney_value_to_bytes(a, &bytes_a) && coney_value_to_bytes(b, &bytes_b))
        return bytes_equal(bytes_a, bytes_b);
    if (a->type != b->type)
        return false;
    switch ((coney_value_type)a->type) {
    case CONEY_VALUE_NULL:
        return true;
    case CONEY_VALUE_BOOL:
        return a->as.boolean == b->as.boolean;
    case CONEY_VALUE_F32:
        return !(a->as.f32 < b->as.f32) && !(a->as.f32 > b->as.f32);
    case CONEY_VALUE_F64:
        return !(a->as.f64 < b->as.f64) && !(a->as.f64 > b->as.f64);
    case CONEY_VALUE_U64:
    case CONEY_VALUE_CHAR:
        return a->as.u64 == b->as.u64;
    case CONEY_VALUE_UUID:
    case CONEY_VALUE_DECIMAL:
    case CONEY_VALUE_LIST:
    case CONEY_VALUE_MAP:
    case CONEY_VALUE_ARRAY:
    case CONEY_VALUE_DESCRIBED:
        return a->encoding == b->encoding && bytes_equal(a->as.bytes, b->as.bytes);
    case CONEY_VALUE_I8:
    case CONEY_VALUE_I16:
    case CONEY_VALUE_I32:
    case CONEY_VALUE_I64:
    case CONEY_VALUE_U8:
    case CONEY_VALUE_U16:
    case CONEY_VALUE_U32:
    case CONEY_VALUE_TIMESTAMP:
    case CONEY_VALUE_BINARY:
    case CONEY_VALUE_STRING:
    case CONEY_VALUE_SYMBOL:
        return false;
    }
    return false;
}

static bool argument_matches(const coney_field *argument, const coney_value *headers)
{
    coney_value header;
    if (!coney_value_find(headers, argument->key, &header))
        return false;
    return argument->value.type == CONEY_VALUE_NULL || memory_values_equal(&argument->value, &header);
}

static bool begins_with_x(coney_bytes key)
{
    return key.len >= 2 && memcmp(key.data, "x-", 2) == 0;
}

bool memory_headers_match(const coney_field *arguments, size_t count, const coney_value *headers)
{
    coney_bytes how = CONEY_STR("all");
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(arguments[i].key, CONEY_STR("x-match")))
            coney_value_to_bytes(&arguments[i].value, &how);
    bool any = bytes_equal(how, CONEY_STR("any")) || bytes_equal(how, CONEY_STR("any-with-x"));
    bool with_x = bytes_equal(how, CONEY_STR("all-with-x")) || bytes_equal(how, CONEY_STR("any-with-x"));
    for (size_t i = 0; i < count; i++) {
        coney_bytes key = arguments[i].key;
        if (bytes_equal(key, CONEY_STR("x-match")) || (!with_x && begins_with_x(key)))
            continue;
        if (argument_matches(&arguments[i], headers) == any)
            return any;
    }
    return !any;
}
