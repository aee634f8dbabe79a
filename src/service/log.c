/* log.c: lines of a log for standard error. */
#include "base/text.h"

#include <coney/service.h>

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LINE_LONGEST = 4096, LINE_TAIL = 8 };

static const struct {
    const char *name;
    int level; /* 0: off */
} levels[] = {
    {"off", 0},
    {"error", CONEY_LOG_ERROR},
    {"warning", CONEY_LOG_WARNING},
    {"info", CONEY_LOG_INFO},
    {"debug", CONEY_LOG_DEBUG},
};

enum { LEVELS = sizeof levels / sizeof levels[0] };

coney_log_level coney_log_level_of_env(coney_log_level otherwise)
{
    const char *text = getenv("CONEY_LOG");
    for (size_t i = 0; text != NULL && i < LEVELS; i++)
        if (strcmp(text, levels[i].name) == 0)
            return (coney_log_level)levels[i].level;
    return otherwise;
}

static const char *level_name(coney_log_level level)
{
    for (size_t i = 1; i < LEVELS; i++)
        if (levels[i].level == (int)level)
            return levels[i].name;
    return "?";
}

static void put_time(char *line, size_t cap)
{
    struct timespec now;
    struct tm utc;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    text_print(line, cap, "time=%s.%03ldZ", text, now.tv_nsec / 1000000);
}

/* As it stands between two quotes: quotes, backslashes and what would end or disturb the line escaped. Cut when it is longer than a line may be. */
static void put_quoted(char *line, size_t cap, const char *text)
{
    size_t len = strlen(line);
    for (; *text != '\0' && len + LINE_TAIL < cap; text++) {
        unsigned char byte = (unsigned char)*text;
        bool is_plain = byte >= 0x20 && byte != 0x7f && byte != '"' && byte != '\\';
        if (is_plain)
            line[len++] = (char)byte;
        else if (byte == '"' || byte == '\\')
            text_print(line + len, cap - len, "\\%c", byte);
        else if (byte == '\n')
            text_print(line + len, cap - len, "\\n");
        else
            text_print(line + len, cap - len, "\\x%02x", byte);
        len += is_plain ? 0 : strlen(line + len);
    }
    line[len] = '\0';
}

static void write_all(const char *line, size_t len)
{
    while (len > 0) {
        ssize_t written = write(STDERR_FILENO, line, len);
        if (written < 0 && errno != EINTR)
            return;
        line += written > 0 ? written : 0;
        len -= written > 0 ? (size_t)written : 0;
    }
}

void coney_log_stderr(void *ctx, coney_log_level level, const char *text)
{
    (void)ctx;
    int error = errno;
    char line[LINE_LONGEST];
    put_time(line, sizeof line);
    text_append(line, sizeof line, " level=%s msg=\"", level_name(level));
    put_quoted(line, sizeof line, text != NULL ? text : "");
    text_append(line, sizeof line, "\"\n");
    write_all(line, strlen(line));
    errno = error;
}
