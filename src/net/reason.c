/* reason.c: one table of what goes wrong between two hosts. */
#include "net/reason.h"

#include "base/text.h"

#include <errno.h>

struct reason {
    int error;
    const char *words;
    const char *hint;
};

static const struct reason reasons[] = {
    {ECONNREFUSED, "connection refused", "is the broker running, and is this its port?"},
    {ETIMEDOUT, "no answer in time", "is the host up, and does a firewall between here and there let the port through?"},
    {EHOSTUNREACH, "no route to the host", "is the host up, and is this its address?"},
    {ENETUNREACH, "the network cannot be reached", "does this machine have a route for this kind of address?"},
    {ECONNRESET, "the peer reset the connection", "its log says why"},
    {EPIPE, "the peer closed the connection", "its log says why"},
    {ECONNABORTED, "the peer closed the connection without the goodbye of TLS", "its log says why"},
    {EADDRNOTAVAIL, "no local address or port is free for it",
     "are there very many connections, or is this not an address to connect to?"},
    {EACCES, "this machine does not permit the connection", "does a local firewall forbid it?"},
    {EPERM, "this machine does not permit the connection", "does a local firewall forbid it?"},
    {EAFNOSUPPORT, "this machine does not have this kind of address", "is IPv6 switched off here?"},
    {EMFILE, "the process is out of descriptors", "raise its limit (ulimit -n), or open fewer"},
    {ENFILE, "the system is out of descriptors", "raise its limit (fs.file-max), or open fewer"},
    {ENOBUFS, "the system is out of memory for the network", "try again when it is less busy"},
    {ENOMEM, "the system is out of memory", "try again when it is less busy"},
};

static const struct reason *reason_of(int error)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].error == error)
            return &reasons[i];
    return NULL;
}

void reason_words(char *buf, size_t cap, int error)
{
    const struct reason *reason = reason_of(error);
    if (reason != NULL)
        text_print(buf, cap, "%s", reason->words);
    else
        text_errno(buf, cap, error);
}

const char *reason_hint(int error)
{
    const struct reason *reason = reason_of(error);
    return reason != NULL ? reason->hint : "this is what the system said; check the network and the broker's log";
}
