/* kept.h: the common head of a delivery that a user has taken out of its handler, whatever the protocol. */
#ifndef CONEY_CORE_KEPT_H
#define CONEY_CORE_KEPT_H

#include <coney/coney.h>

struct coney_kept {
    /* Settles and frees it; `how` is a settlement. Any thread. */
    coney_status (*settle)(struct coney_kept *kept, coney_settle how);
};

#endif
