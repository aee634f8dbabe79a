/* event.c: the names of the events. */
#include <coney/coney.h>

static const char *const names[] = {
    [CONEY_EVENT_CONNECTED] = "connected",
    [CONEY_EVENT_DISCONNECTED] = "disconnected",
    [CONEY_EVENT_CONNECT_FAILED] = "connect failed",
    [CONEY_EVENT_RECOVERING] = "recovering",
    [CONEY_EVENT_RECOVERY_FAILED] = "recovery failed",
    [CONEY_EVENT_RECOVERED] = "recovered",
    [CONEY_EVENT_GAVE_UP] = "gave up",
    [CONEY_EVENT_STREAM_GONE] = "stream gone",
    [CONEY_EVENT_CORRUPT_CHUNK] = "corrupt chunk",
    [CONEY_EVENT_UNREADABLE_ENTRY] = "unreadable entry",
    [CONEY_EVENT_OFFSET_NOT_STORED] = "offset not stored",
    [CONEY_EVENT_SERVER_CLOSE] = "server close",
};

const char *coney_event_name(coney_event_type type)
{
    size_t index = (size_t)type;
    if (index >= sizeof names / sizeof names[0] || names[index] == NULL)
        return "unknown event";
    return names[index];
}
