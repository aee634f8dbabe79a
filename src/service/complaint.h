/* complaint.h: warnings about messages, of which there may be as many as there are messages: of each kind the same words once a second, then how many more
 * there were. The log is called without a lock.
 */
#ifndef CONEY_SERVICE_COMPLAINT_H
#define CONEY_SERVICE_COMPLAINT_H

#include "base/lock.h"

#include <stdint.h>

struct subscription;

enum complaint_kind {
    COMPLAINT_UNDECODABLE,
    COMPLAINT_FAILED,
    COMPLAINT_PUBLISH, /* what it published was lost */
    COMPLAINT_SPENT,   /* it has had all its attempts */
};
enum { COMPLAINT_KINDS = COMPLAINT_SPENT + 1 };

/* What was said last of each kind. Zeroed to begin with. */
struct complaints {
    struct lock lock;
    struct complaint {
        int64_t until; /* on worker_now's clock: said before, the same words are only counted */
        uint64_t more;
        char what[256];
    } kinds[COMPLAINT_KINDS];
};

/* "subscription 'orders': SUBJECT WHAT", a warning; the words that are compared are WHAT. Any thread. */
void complain(const struct subscription *s, struct complaints *complaints, enum complaint_kind kind, const char *subject,
              const char *what);

/* Says what was only counted, of kinds whose second is over, or of all of them. */
void complaints_sum_up(const struct subscription *s, struct complaints *complaints, bool all);

#endif
