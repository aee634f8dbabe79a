/* output.c: standard output and the first thing that went wrong with it. */
#include "output.h"
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int failure; /* an errno */

bool output_flush(void)
{
    if (!ferror(stdout)) {
        errno = 0;
        if (fflush(stdout) == 0)
            return true;
    }
    if (failure == 0)
        failure = errno != 0 ? errno : EIO;
    return false;
}

int output_end(int code)
{
    if ((output_flush() && failure == 0) || failure == EPIPE)
        return code;
    complain(0, "standard output: %s", strerror(failure));
    return code == EXIT_DONE ? EXIT_FAILED : code;
}
