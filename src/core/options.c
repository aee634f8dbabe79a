/* options.c: see options.h. */
#include "core/options.h"

#include "base/text.h"
#include "core/call.h"

#include <string.h>

coney_status options_copy(void *ours, size_t ours_size, const void *theirs, size_t theirs_size, coney_call *call)
{
    if (theirs == NULL)
        return CONEY_OK;
    const uint8_t *bytes = theirs;
    for (size_t i = ours_size; i < theirs_size; i++)
        if (bytes[i] != 0)
            return op_refuse(call, CONEY_EUNSUPPORTED,
                             "the options hold a member that this libconey (%s) does not know: it is older than the "
                             "headers that the program was compiled with",
                             coney_version());
    memcpy(ours, theirs, theirs_size < ours_size ? theirs_size : ours_size);
    return CONEY_OK;
}

coney_status reserved_check(const uint8_t *reserved, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (reserved[i] != 0)
            return CONEY_EINVAL;
    return CONEY_OK;
}

coney_status name_check(const char *what, const char *name, size_t max, coney_call *call)
{
    if (name == NULL || name[0] == '\0')
        return op_refuse(call, CONEY_EINVAL, "the %s has no name", what);
    size_t len = strlen(name);
    if (len > max)
        return op_refuse(call, CONEY_EINVAL, "the name of the %s is %zu bytes long: the broker takes at most %zu", what, len,
                         max);
    if (strpbrk(name, "\r\n") != NULL)
        return op_refuse(call, CONEY_EINVAL, "the name of the %s has a line end in it", what);
    if (!text_is_utf8(name))
        return op_refuse(call, CONEY_EINVAL, "the name of the %s is not UTF-8", what);
    return CONEY_OK;
}
