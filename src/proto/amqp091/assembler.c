/* assembler.c: the order of frames, and the places of their bytes in a unit. */
#include "proto/amqp091/assembler.h"

const char amqp_fault_no_method[] = "a content header without a method that announces it";
const char amqp_fault_no_header[] = "a content body without its header";
const char amqp_fault_second_header[] = "a second content header";
const char amqp_fault_method_inside[] = "a method inside the content of another";
const char amqp_fault_body_overrun[] = "a body longer than its header declares";
const char amqp_fault_header_size[] = "a content header too short for its fields";
const char amqp_fault_header_class[] = "a content header of another class than its method";
const char amqp_fault_header_weight[] = "a content header whose weight is not 0";
const char amqp_fault_body_negative[] = "a body size with its top bit set";
const char amqp_fault_body_too_large[] = "a body larger than the limit";

/* Checking -------------------------------------------------------------------------------------------------------- */

static const char *check_header(struct amqp_assembler *a, coney_bytes payload, uint64_t limit)
{
    const uint8_t *at = payload.data;
    if (payload.len < AMQP_HEADER_LEAST)
        return amqp_fault_header_size;
    if (load16(at) != AMQP_CLASS_BASIC)
        return amqp_fault_header_class;
    if (load16(at + 2) != 0)
        return amqp_fault_header_weight;
    a->declared = load64(at + 4);
    if (a->declared > INT64_MAX)
        return amqp_fault_body_negative;
    return a->declared > limit || a->declared > AMQP_BODY_LIMIT ? amqp_fault_body_too_large : NULL;
}

/* What a frame of this type is when another was due; NULL when it was this one. */
static const char *misplaced(const struct amqp_assembler *a, uint8_t type)
{
    switch (type) {
    case AMQP_FRAME_METHOD:
        return a->state == AMQP_WAITS_FOR_METHOD ? NULL : amqp_fault_method_inside;
    case AMQP_FRAME_HEADER:
        if (a->state == AMQP_WAITS_FOR_BODY)
            return amqp_fault_second_header;
        return a->state == AMQP_WAITS_FOR_HEADER ? NULL : amqp_fault_no_method;
    default:
        return a->state == AMQP_WAITS_FOR_BODY ? NULL : amqp_fault_no_header;
    }
}

const char *amqp_assembler_check(struct amqp_assembler *a, const uint8_t *frame, size_t size, uint64_t limit, size_t *room)
{
    struct amqp_frame f = amqp_frame_of(frame);
    const char *fault = misplaced(a, f.type);
    if (fault != NULL)
        return fault;
    if (f.type == AMQP_FRAME_METHOD) {
        *room = size;
        return NULL;
    }
    if (f.type == AMQP_FRAME_HEADER) {
        fault = check_header(a, f.payload, limit);
        *room = a->len + size + (a->declared > 0 ? AMQP_HEAD_BYTES : 0);
        return fault;
    }
    if (f.payload.len > a->left)
        return amqp_fault_body_overrun;
    *room = a->len + f.payload.len + (f.payload.len == a->left ? 1 : 0);
    return NULL;
}

/* Adding ---------------------------------------------------------------------------------------------------------- */

static void append(struct amqp_assembler *a, uint8_t *buffer, const void *data, size_t len)
{
    if (len > 0)
        memcpy(buffer + a->len, data, len);
    a->len += len;
}

/* The unit is complete: what stands in the buffer is the owner's. */
static bool complete(struct amqp_assembler *a)
{
    *a = (struct amqp_assembler){.state = AMQP_WAITS_FOR_METHOD};
    return true;
}

/* Copies the content header and, when a body follows, heads the one frame that is to hold it. */
static bool add_header(struct amqp_assembler *a, const uint8_t *frame, size_t size, uint8_t *buffer)
{
    append(a, buffer, frame, size);
    if (a->declared == 0)
        return complete(a);
    amqp_frame_head_write(buffer + a->len, AMQP_FRAME_BODY, load16(frame + 1), (uint32_t)a->declared);
    a->len += AMQP_HEAD_BYTES;
    a->left = a->declared;
    a->state = AMQP_WAITS_FOR_BODY;
    return false;
}

bool amqp_assembler_add(struct amqp_assembler *a, const uint8_t *frame, size_t size, uint8_t *buffer)
{
    struct amqp_frame f = amqp_frame_of(frame);
    if (f.type == AMQP_FRAME_METHOD) {
        a->len = 0;
        append(a, buffer, frame, size);
        a->state = AMQP_WAITS_FOR_HEADER;
        return false;
    }
    if (f.type == AMQP_FRAME_HEADER)
        return add_header(a, frame, size, buffer);

    append(a, buffer, f.payload.data, f.payload.len);
    a->left -= f.payload.len;
    if (a->left > 0)
        return false;
    buffer[a->len] = AMQP_END;
    return complete(a);
}
