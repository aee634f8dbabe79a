/* bytes.c: the part of bytes that is no inline. */
#include "base/bytes.h"

coney_bytes coney_bytes_str(const char *text)
{
    return text != NULL ? coney_bytes_of(text, strlen(text)) : coney_bytes_of(NULL, 0);
}
