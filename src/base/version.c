/* version.c: which library is loaded. */
#include <coney/coney.h>

const char *coney_version(void)
{
    return CONEY_VERSION;
}
