/* sender_internal.h: what the files of a sender (sender.c, sender_outcome.c, sender_wait.c) say to each other. On the loop. */
#ifndef CONEY_CORE_SENDER_INTERNAL_H
#define CONEY_CORE_SENDER_INTERNAL_H

#include "core/sender.h"

/* sender.c: the last outcome is in, or nothing more will come: ends a close that is under way. */
void sender_finish_close(struct sender *sender);

/* sender_outcome.c: refuses entries that were accepted under a larger limit than the present connection has. */
void sender_refuse_oversized(struct sender *sender);

/* sender_wait.c: calls that wait for room or for the head: there is room again; the head has moved; nothing will ever be accepted. */
void sender_retry_held(struct sender *sender);
void sender_end_flushes(struct sender *sender);
void sender_fail_held(struct sender *sender);

#endif
