/* lines.h: the messages of an input: its lines, or all of it. Waits for more unless the run is to end (stop.h). */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <coney/coney.h>

/* The longest line that is read. */
#define LINES_LONGEST (64 * CONEY_MIB)

struct lines {
    const char *file; /* its name, NULL = standard input or whatever `fd` is */
    int fd;           /* borrowed, unless lines_open opened it */
    bool whole;       /* the input is one message */
    bool ended;
    char *data;
    size_t cap;
    size_t start;   /* of the line that comes next */
    size_t scanned; /* no line end before it */
    size_t end;     /* of what was read */
};

enum lines_answer {
    LINES_ONE,     /* *line is the next one */
    LINES_END,     /* there are no more */
    LINES_STOPPED, /* the run is to end */
    LINES_TOO_LONG,
    LINES_NO_MEMORY,
    LINES_FAILED, /* errno says why */
};

/* Opens `file`, or with NULL standard input. False after saying why. */
bool lines_open(struct lines *l, const char *file, bool whole);

/* What the last answer, not LINES_ONE, means for the run: EXIT_DONE, or another code after saying why. `number`: of the line. */
int lines_end(const struct lines *l, enum lines_answer answer, uint64_t number);

/* The next line, without its line end; valid until the next call. A last line without line end counts; an empty input has none,
 * but `whole` gives it as one empty message. */
enum lines_answer lines_next(struct lines *l, coney_bytes *line);

void lines_close(struct lines *l);

#endif
