/* memory_match.h: which names, keys and headers match which patterns: topics of the broker in memory, and the exchanges of AMQP 0-9-1.
 *
 * Pure functions of their arguments: nothing here allocates, blocks or recurses.
 */
#ifndef CONEY_TRANSPORT_MEMORY_MATCH_H
#define CONEY_TRANSPORT_MEMORY_MATCH_H

#include <coney/value.h>

/* Topics of the broker in memory: words between dots. A pattern has `*` for one word, and `>` at its end for one or more. */
bool memory_topic_is_pattern(coney_bytes name);

/* No empty word, and `*` and `>` only as whole words, `>` only as the last. */
bool memory_topic_is_valid(coney_bytes name);

/* Valid, and no pattern: what can be published to. */
bool memory_topic_is_single(coney_bytes name);
bool memory_topic_matches(coney_bytes pattern, coney_bytes topic);

/* Of two patterns that match the same topic: above 0 when `a` is the more specific. Word by word, from the left: a literal before `*` before `>`. */
int memory_topic_compare(coney_bytes a, coney_bytes b);

/* A topic exchange: `*` is one word, `#` any number of them, none included. */
bool memory_key_matches(coney_bytes pattern, coney_bytes key);

/* A headers exchange: `arguments` of the binding, among them "x-match" (all, any, all-with-x, any-with-x); `headers`: a map or null. A null argument asks
 * for the header's presence alone. Texts are compared as bytes, integers by their number. */
bool memory_headers_match(const coney_field *arguments, size_t count, const coney_value *headers);

/* Whether two values are the same, as a headers exchange sees it. */
bool memory_values_equal(const coney_value *a, const coney_value *b);

#endif
