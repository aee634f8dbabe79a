/* text.h: building sentences in fixed buffers: always terminated, cut at the end of a UTF-8 character, never overflowing. */
#ifndef CONEY_BASE_TEXT_H
#define CONEY_BASE_TEXT_H

#include <coney/coney.h>

#include <stdarg.h>

/* Like snprintf and vsnprintf, with the rule above. */
void text_print(char *buf, size_t cap, const char *format, ...) __attribute__((format(printf, 3, 4)));
void text_vprint(char *buf, size_t cap, const char *format, va_list args) __attribute__((format(printf, 3, 0)));

/* Adds to the text that `buf` holds. */
void text_append(char *buf, size_t cap, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Whether all of it is UTF-8. */
bool text_is_utf8(const char *text);

/* Copies bytes that came from the wire as a text: control characters and bytes that are not UTF-8 become '?'. */
void text_from_wire(char *buf, size_t cap, coney_bytes bytes);

/* The words for an errno value, through the thread-safe interface. */
void text_errno(char *buf, size_t cap, int error);

#endif
