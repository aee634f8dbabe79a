/* mistakes.c: see mistakes.h. */
#include "service/mistakes.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { MISTAKE_MAX = 1024, FIRST_ROOM = 1024 };

/* Room for `len` bytes more and a NUL. */
static bool make_room(struct mistakes *mistakes, size_t len)
{
    size_t cap = mistakes->cap > 0 ? mistakes->cap : FIRST_ROOM;
    while (cap - mistakes->len <= len)
        cap *= 2;
    if (cap == mistakes->cap)
        return true;
    char *text = realloc(mistakes->text, cap);
    if (text == NULL)
        return false;
    mistakes->text = text;
    mistakes->cap = cap;
    return true;
}

static void add_lines(struct mistakes *mistakes, const char *lines, size_t len)
{
    if (!make_room(mistakes, len + 1))
        return;
    if (mistakes->len > 0)
        mistakes->text[mistakes->len++] = '\n';
    memcpy(mistakes->text + mistakes->len, lines, len + 1);
    mistakes->len += len;
}

void mistake(struct mistakes *mistakes, const char *field, const char *format, ...)
{
    mistakes->count++;
    char line[MISTAKE_MAX];
    text_print(line, sizeof line, "%s: %s: ", mistakes->subject, field);
    size_t len = strlen(line);
    va_list args;
    va_start(args, format);
    text_vprint(line + len, sizeof line - len, format, args);
    va_end(args);
    add_lines(mistakes, line, strlen(line));
}

void mistakes_join(struct mistakes *mistakes, const struct mistakes *from)
{
    mistakes->count += from->count;
    if (from->len > 0)
        add_lines(mistakes, from->text, from->len);
}

void mistakes_free(struct mistakes *mistakes)
{
    free(mistakes->text);
    *mistakes = (struct mistakes){0};
}
