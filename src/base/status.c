/* status.c: the one table of statuses: their names, and a sentence that says what each means and what to do next. */
#include <coney/coney.h>

struct entry {
    const char *name;
    const char *text;
};

#define STATUS(name, text) [name] = {#name, text}

static const struct entry entries[] = {
    STATUS(CONEY_OK, "all is well"),
    STATUS(CONEY_EINVAL, "an argument or option is not valid: the call's text names it; correct it and call again"),
    STATUS(CONEY_ENOMEM, "memory could not be had: free some, or lower the bounds of outboxes and credits"),
    STATUS(CONEY_ECLOSED, "the handle is closed, or was closed while the call waited: open it again to go on"),
    STATUS(CONEY_ETIMEDOUT,
           "the deadline passed before the answer came: try again, with a later deadline if the broker is busy"),
    STATUS(CONEY_ECANCELED, "coney_call_cancel ended the call: what was sent to the broker may still take effect"),
    STATUS(CONEY_EAGAIN, "no room now, and nothing was queued: try again when on_writable says so, or allow the call to wait"),
    STATUS(CONEY_EDEADLK,
           "a blocking call on the thread that would have to answer it: set on_done, or call from another thread"),
    STATUS(CONEY_EFORKED, "the handle belongs to the parent process: free it here and open one in this process"),
    STATUS(CONEY_ERESOLVE, "a host name could not be resolved: check its spelling and the system's name service"),
    STATUS(CONEY_ECONNECT, "no address accepted a connection: check that the broker is running, and its host and port"),
    STATUS(CONEY_ELOST,
           "the connection was lost before the answer came: it is not known whether the request took effect; try again"),
    STATUS(CONEY_EPROTOCOL,
           "the peer sent bytes that the protocol does not allow: check that the port is the right one for it"),
    STATUS(CONEY_EAUTH, "the broker refused the user name, the password or the mechanism: check the credentials"),
    STATUS(CONEY_EVHOST,
           "the virtual host does not exist or the user may not enter it: check its name and the user's permissions"),
    STATUS(CONEY_EACCESS, "the user lacks the permission for this resource: grant configure, write or read on it"),
    STATUS(CONEY_ENOTFOUND, "there is no such thing: create it first, or check the name"),
    STATUS(CONEY_EEXIST, "it exists already, with the same arguments: use it as it is"),
    STATUS(CONEY_EPRECONDITION,
           "it exists with other arguments, or the broker does not accept the arguments: compare them with what is there"),
    STATUS(CONEY_EUNAVAILABLE, "it exists but has no leader or replica that can serve it now: try again when the node is back"),
    STATUS(CONEY_ETOOBIG, "larger than the negotiated or configured limit: send less at a time, or raise the limit"),
    STATUS(CONEY_ENOOFFSET, "nothing is stored under this name: start from an offset of your choice"),
    STATUS(CONEY_EUNSUPPORTED, "this broker, or this build of coney, does not have the feature: upgrade it, or do without"),
    STATUS(CONEY_ECORRUPT,
           "stored data failed its checksum or cannot be decoded: go on after it, and check the disks of the broker"),
    STATUS(CONEY_EBROKER, "the broker answered with a code that has no status of its own: see the call's code and text"),
    STATUS(CONEY_EREFUSED, "the broker did not store the message: the code says why; it may be sent again"),
    STATUS(CONEY_ERETURNED,
           "the message could not be routed and was returned: check the exchange, the routing key and the bindings"),
    STATUS(CONEY_EUNKNOWN, "the message may or may not be stored: send it again where a duplicate does no harm"),
    STATUS(CONEY_ELIMIT, "the process is out of descriptors, threads or another bounded resource: raise the limit (ulimit -n)"),
    STATUS(CONEY_ETLS,
           "TLS could not be agreed with the peer: the text says whether a certificate, a name, a version or a port is wrong"),
};

static const struct entry *entry_of(coney_status status)
{
    size_t index = (size_t)status;
    return index < sizeof entries / sizeof entries[0] ? &entries[index] : NULL;
}

const char *coney_status_text(coney_status status)
{
    const struct entry *entry = entry_of(status);
    return entry != NULL ? entry->text
                         : "a number that is no status of this version: compare coney_version() with CONEY_VERSION";
}

const char *coney_status_name(coney_status status)
{
    const struct entry *entry = entry_of(status);
    return entry != NULL ? entry->name : "CONEY_?";
}
