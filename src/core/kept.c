/* kept.c: see kept.h. */
#include "core/kept.h"

coney_status coney_kept_settle(coney_kept **kept, coney_settle how)
{
    if (kept == NULL || *kept == NULL)
        return CONEY_OK;
    if (how <= CONEY_KEPT)
        return CONEY_EINVAL;
    coney_kept *settling = *kept;
    *kept = NULL;
    return settling->settle(settling, how);
}
