/* log.c: formats a line for the user's log callback. */
#include "base/log.h"

#include "base/text.h"

void log_vline(const struct log *log, coney_log_level level, const char *format, va_list args)
{
    if (log->fn == NULL || level > log->level)
        return;
    char line[1024];
    text_vprint(line, sizeof line, format, args);
    log->fn(log->ctx, level, line);
}

void log_line(const struct log *log, coney_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_vline(log, level, format, args);
    va_end(args);
}
