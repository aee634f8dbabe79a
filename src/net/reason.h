/* reason.h: the errno values of the network in the words of the person who meets them. Static memory, any thread. */
#ifndef CONEY_NET_REASON_H
#define CONEY_NET_REASON_H

#include <stddef.h>

/* What happened: "connection refused". Of a value that has no words here, the system's. */
void reason_words(char *buf, size_t cap, int error);

/* What to do next: "is the broker running, and is this its port?". Never NULL. */
const char *reason_hint(int error);

#endif
