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
    [CONEY_EVENT_CHANNEL_CLOSED] = "channel closed",
    [CONEY_EVENT_CONSUMER_CANCELED] = "consumer canceled",
    [CONEY_EVENT_BLOCKED] = "blocked",
    [CONEY_EVENT_UNBLOCKED] = "unblocked",
    [CONEY_EVENT_TOPOLOGY_FAILED] = "topology failed",
    [CONEY_EVENT_QUEUE_RENAMED] = "queue renamed",
    [CONEY_EVENT_RETURNED] = "returned",
    [CONEY_EVENT_SECRET_RENEWED] = "secret renewed",
    [CONEY_EVENT_SECRET_REFUSED] = "secret refused",
    [CONEY_EVENT_NOT_SETTLED] = "not settled",
};

const char *coney_event_name(coney_event_type type)
{
    size_t index = (size_t)type;
    if (index >= sizeof names / sizeof names[0] || names[index] == NULL)
        return "unknown event";
    return names[index];
}
