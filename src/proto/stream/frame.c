/* frame.c: the response codes in words. */
#include "proto/stream/frame.h"

static const char *const code_names[STREAM_CODE_LAST + 1] = {
    [STREAM_CODE_OK] = "OK",
    [STREAM_CODE_STREAM_DOES_NOT_EXIST] = "stream does not exist",
    [STREAM_CODE_SUBSCRIPTION_ID_EXISTS] = "subscription id exists already",
    [STREAM_CODE_SUBSCRIPTION_ID_DOES_NOT_EXIST] = "subscription id does not exist",
    [STREAM_CODE_STREAM_EXISTS] = "stream exists already",
    [STREAM_CODE_STREAM_NOT_AVAILABLE] = "stream not available",
    [STREAM_CODE_SASL_MECHANISM_NOT_SUPPORTED] = "SASL mechanism not supported",
    [STREAM_CODE_AUTHENTICATION_FAILURE] = "authentication failure",
    [STREAM_CODE_SASL_ERROR] = "SASL error",
    [STREAM_CODE_SASL_CHALLENGE] = "SASL challenge",
    [STREAM_CODE_LOOPBACK_ONLY] = "user may connect over loopback only",
    [STREAM_CODE_VHOST_ACCESS_FAILURE] = "virtual host access failure",
    [STREAM_CODE_UNKNOWN_FRAME] = "unknown frame",
    [STREAM_CODE_FRAME_TOO_LARGE] = "frame too large",
    [STREAM_CODE_INTERNAL_ERROR] = "internal error",
    [STREAM_CODE_ACCESS_REFUSED] = "access refused",
    [STREAM_CODE_PRECONDITION_FAILED] = "precondition failed",
    [STREAM_CODE_PUBLISHER_DOES_NOT_EXIST] = "publisher does not exist",
    [STREAM_CODE_NO_OFFSET] = "no offset",
    [STREAM_CODE_CANNOT_CHANGE_MECHANISM] = "SASL mechanism cannot be changed",
    [STREAM_CODE_CANNOT_CHANGE_USERNAME] = "user name cannot be changed",
};

const char *stream_code_name(uint16_t code)
{
    return code <= STREAM_CODE_LAST && code_names[code] != NULL ? code_names[code] : "unknown code";
}
