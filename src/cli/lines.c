/* lines.c: an input cut into lines. */
#define _GNU_SOURCE
#include "lines.h"
#include "session.h"
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 16 };

bool lines_open(struct lines *l, const char *file, bool whole)
{
    *l = (struct lines){.file = file, .fd = STDIN_FILENO, .whole = whole};
    if (file != NULL)
        l->fd = open(file, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0)
        complain(0, "%s: %s", file, strerror(errno));
    return l->fd >= 0;
}

int lines_end(const struct lines *l, enum lines_answer answer, uint64_t number)
{
    const char *file = l->file != NULL ? l->file : "standard input";
    switch (answer) {
    case LINES_ONE:
    case LINES_END:
    case LINES_STOPPED:
        return EXIT_DONE;
    case LINES_TOO_LONG:
        return complain(EXIT_FAILED, "%s: line %" PRIu64 " is longer than %" PRId64 " bytes", file, number, LINES_LONGEST);
    case LINES_NO_MEMORY:
        return complain(EXIT_FAILED, "out of memory");
    case LINES_FAILED:
        return complain(EXIT_FAILED, "%s: %s", file, strerror(errno));
    }
    return EXIT_FAILED;
}

/* Makes room to read into: moves what is left to the front, then grows. */
static enum lines_answer make_room(struct lines *l)
{
    if (l->start > 0) {
        memmove(l->data, l->data + l->start, l->end - l->start);
        l->scanned -= l->start;
        l->end -= l->start;
        l->start = 0;
    }
    if (l->cap - l->end >= ROOM / 2)
        return LINES_ONE;
    if (l->end > (size_t)LINES_LONGEST)
        return LINES_TOO_LONG;
    size_t cap = l->cap == 0 ? ROOM : l->cap * 2;
    char *data = realloc(l->data, cap);
    if (data == NULL)
        return LINES_NO_MEMORY;
    l->data = data;
    l->cap = cap;
    return LINES_ONE;
}

static enum lines_answer read_more(struct lines *l)
{
    enum lines_answer room = make_room(l);
    if (room != LINES_ONE)
        return room;
    if (stop_wait_readable(l->fd))
        return LINES_STOPPED;
    ssize_t got = read(l->fd, l->data + l->end, l->cap - l->end);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN ? LINES_ONE : LINES_FAILED;
    if (got == 0)
        l->ended = true;
    l->end += (size_t)got;
    return LINES_ONE;
}

static const char *line_end(struct lines *l)
{
    if (l->whole || l->scanned == l->end)
        return NULL;
    const char *found = memchr(l->data + l->scanned, '\n', l->end - l->scanned);
    l->scanned = l->end;
    return found;
}

enum lines_answer lines_next(struct lines *l, coney_bytes *line)
{
    const char *end;
    while ((end = line_end(l)) == NULL && !l->ended) {
        enum lines_answer more = read_more(l);
        if (more != LINES_ONE)
            return more;
    }
    if (end == NULL && l->start == l->end && !l->whole)
        return LINES_END;
    size_t size = end != NULL ? (size_t)(end - l->data) - l->start : l->end - l->start;
    *line = coney_bytes_of(l->data + l->start, size);
    l->start = l->scanned = end != NULL ? l->start + size + 1 : l->end;
    l->whole = false;
    return LINES_ONE;
}

void lines_close(struct lines *l)
{
    if (l->file != NULL)
        close(l->fd);
    free(l->data);
    l->data = NULL;
}
