/* log.h: hands a line to the user's log callback, if there is one. Any thread. */
#ifndef CONEY_BASE_LOG_H
#define CONEY_BASE_LOG_H

#include <coney/coney.h>

#include <stdarg.h>

struct log {
    coney_log_fn fn; /* NULL = silence; then nothing is formatted either */
    void *ctx;
    coney_log_level level; /* the most talkative level wanted */
};

void log_line(const struct log *log, coney_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* log_line for a function that takes a format itself. */
void log_vline(const struct log *log, coney_log_level level, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
