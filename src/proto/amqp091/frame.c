/* frame.c: names of codes, what is wrong with a frame's head, and fixed frames. */
#include "proto/amqp091/frame.h"

static const struct {
    uint16_t code;
    bool soft;
    const char *name;
} codes[] = {
    {AMQP_CODE_REPLY_SUCCESS, false, "REPLY_SUCCESS"},
    {AMQP_CODE_CONTENT_TOO_LARGE, true, "CONTENT_TOO_LARGE"},
    {AMQP_CODE_NO_ROUTE, true, "NO_ROUTE"},
    {AMQP_CODE_NO_CONSUMERS, true, "NO_CONSUMERS"},
    {AMQP_CODE_CONNECTION_FORCED, false, "CONNECTION_FORCED"},
    {AMQP_CODE_INVALID_PATH, false, "INVALID_PATH"},
    {AMQP_CODE_ACCESS_REFUSED, true, "ACCESS_REFUSED"},
    {AMQP_CODE_NOT_FOUND, true, "NOT_FOUND"},
    {AMQP_CODE_RESOURCE_LOCKED, true, "RESOURCE_LOCKED"},
    {AMQP_CODE_PRECONDITION_FAILED, true, "PRECONDITION_FAILED"},
    {AMQP_CODE_FRAME_ERROR, false, "FRAME_ERROR"},
    {AMQP_CODE_SYNTAX_ERROR, false, "SYNTAX_ERROR"},
    {AMQP_CODE_COMMAND_INVALID, false, "COMMAND_INVALID"},
    {AMQP_CODE_CHANNEL_ERROR, false, "CHANNEL_ERROR"},
    {AMQP_CODE_UNEXPECTED_FRAME, false, "UNEXPECTED_FRAME"},
    {AMQP_CODE_RESOURCE_ERROR, false, "RESOURCE_ERROR"},
    {AMQP_CODE_NOT_ALLOWED, false, "NOT_ALLOWED"},
    {AMQP_CODE_NOT_IMPLEMENTED, false, "NOT_IMPLEMENTED"},
    {AMQP_CODE_INTERNAL_ERROR, false, "INTERNAL_ERROR"},
};

const uint8_t amqp_protocol_header[AMQP_PROTOCOL_HEADER_BYTES] = {'A', 'M', 'Q', 'P', 0, 0, 9, 1};
const uint8_t amqp_heartbeat[AMQP_FRAME_BYTES] = {AMQP_FRAME_HEARTBEAT, 0, 0, 0, 0, 0, 0, AMQP_END};

const char *amqp_code_name(uint16_t code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "UNKNOWN";
}

bool amqp_code_is_soft(uint16_t code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code)
            return codes[i].soft;
    return false;
}

const char *amqp_head_fault(const uint8_t *head, uint32_t payload_max)
{
    uint32_t size = load32(head + 3);
    switch (head[0]) {
    case AMQP_FRAME_METHOD:
    case AMQP_FRAME_HEADER:
    case AMQP_FRAME_BODY:
        break;
    case AMQP_FRAME_HEARTBEAT:
        if (load16(head + 1) != 0)
            return "heartbeat.channel";
        if (size != 0)
            return "heartbeat.size";
        break;
    default:
        return "frame.type";
    }
    return size > payload_max ? "frame.size" : NULL;
}

void amqp_retarget(void *frames, size_t len, uint16_t channel)
{
    uint8_t *at = frames;
    while (len >= AMQP_FRAME_BYTES) {
        size_t size = load32(at + 3);
        if (len - AMQP_FRAME_BYTES < size)
            return;
        store16(at + 1, channel);
        at += size + AMQP_FRAME_BYTES;
        len -= size + AMQP_FRAME_BYTES;
    }
}
