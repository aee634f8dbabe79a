/* json.h: writes JSON to a stream, one value a line. What went wrong with the stream is left to ferror.
 *
 *     struct json j;
 *     json_begin(&j, stdout);
 *     json_text(&j, "stream", coney_bytes_str("invoices"));
 *     json_array(&j, "offsets");
 *     json_unsigned(&j, NULL, 7);          // no key inside an array
 *     json_close(&j);
 *     json_close(&j);                      // {"stream":"invoices","offsets":[7]} and a new line
 */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <coney/value.h>

#include <stdio.h>

enum { JSON_DEPTH = CONEY_VALUE_DEPTH + 4 };

struct json {
    FILE *out;
    unsigned depth;
    bool started;           /* the open object or array has a member */
    bool named;             /* its next member's name is written */
    char close[JSON_DEPTH]; /* what ends each open one */
};

/* Opens the outermost object. */
void json_begin(struct json *j, FILE *out);

/* Opens a member that is an array or an object; at most JSON_DEPTH deep. */
void json_array(struct json *j, const char *key);
void json_object(struct json *j, const char *key);

/* Closes what was opened last; after the outermost it ends the line. */
void json_close(struct json *j);

/* The name of the next member, when it may be anything; the member's own key is then NULL. */
void json_name(struct json *j, coney_bytes name);

/* Members. Keys are plain ASCII and are not escaped. */
void json_text(struct json *j, const char *key, coney_bytes text); /* what is not UTF-8 becomes U+FFFD */
void json_base64(struct json *j, const char *key, coney_bytes bytes);
void json_signed(struct json *j, const char *key, int64_t number);
void json_unsigned(struct json *j, const char *key, uint64_t number);
void json_decimal(struct json *j, const char *key, double number); /* three decimals */
void json_bool(struct json *j, const char *key, bool is);
void json_null(struct json *j, const char *key);

/* Anything: times as texts, binary as base64; what JSON has no number for is null. */
void json_value(struct json *j, const char *key, const coney_value *value);

/* All of it is UTF-8, so that json_text loses nothing. O(bytes). */
bool json_is_text(coney_bytes bytes);

#endif
