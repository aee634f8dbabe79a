/* output.h: standard output, which is what a run is for: what could not be written is a failure, unless its reader has left. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>

/* Writes out what stdout holds. False: it cannot be written to any more. One thread at a time. */
bool output_flush(void);

/* The same at the end of the process. Returns `code`, or EXIT_FAILED instead of EXIT_DONE, after saying why, when not everything
 * was written. A reader that has left (EPIPE) is no failure. */
int output_end(int code);

#endif
