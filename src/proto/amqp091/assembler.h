/* assembler.h: puts a message that came in any split together, as a unit (content.h).
 *
 * One for each channel that receives; zero is one that waits for a method. It checks the order of the frames and the sizes they
 * declare, and says how much room the owner's buffer needs as the bytes come in, never by what a header only promises. It owns
 * no memory. Any thread, one at a time.
 *
 *     const char *fault = amqp_assembler_check(&a, frame, size, limit, &room);
 *     if (fault != NULL) the connection is over;             // a->declared and the limit: for its text
 *     make sure that `buffer` holds `room` bytes
 *     if (amqp_assembler_add(&a, frame, size, buffer))
 *         `buffer` holds a unit of `room` bytes, for amqp_unit_read; the assembler waits for the next method
 */
#ifndef CONEY_PROTO_AMQP091_ASSEMBLER_H
#define CONEY_PROTO_AMQP091_ASSEMBLER_H

#include "proto/amqp091/content.h"

enum amqp_assembler_state { AMQP_WAITS_FOR_METHOD = 0, AMQP_WAITS_FOR_HEADER, AMQP_WAITS_FOR_BODY };

struct amqp_assembler {
    uint8_t state;     /* enum amqp_assembler_state */
    size_t len;        /* bytes of the unit that are in the buffer */
    uint64_t declared; /* size of the body, as the header said */
    uint64_t left;     /* of it, still to come */
};

#define AMQP_BODY_LIMIT UINT32_MAX /* the largest body there may be: one frame of the unit must hold it */

/* What amqp_assembler_check says; the pointers may be compared. */
extern const char amqp_fault_no_method[];      /* a content header without a method that announces it */
extern const char amqp_fault_no_header[];      /* a body without a content header */
extern const char amqp_fault_second_header[];  /* a content header inside a body */
extern const char amqp_fault_method_inside[];  /* a method before the content of another is complete */
extern const char amqp_fault_body_overrun[];   /* more body than the header declared */
extern const char amqp_fault_header_size[];    /* a content header too short for its fields */
extern const char amqp_fault_header_class[];   /* a content header of another class than its method's */
extern const char amqp_fault_header_weight[];  /* a weight other than 0 */
extern const char amqp_fault_body_negative[];  /* a body size with its top bit set */
extern const char amqp_fault_body_too_large[]; /* a body size over the limit: `declared` says which */

/* Checks the next frame of the channel: one whole frame, `size` bytes as amqp_frame_size measured them, whose type is method,
 * header or body; a method only if it carries content, or if amqp_assembler_busy. NULL and *room, the bytes that the unit has
 * after amqp_assembler_add; or one of the faults, after which the assembler is not used again. `limit` bounds the body, as
 * AMQP_BODY_LIMIT does in any case. */
const char *amqp_assembler_check(struct amqp_assembler *a, const uint8_t *frame, size_t size, uint64_t limit, size_t *room);

/* Copies the frame that amqp_assembler_check has just passed to its place in `buffer`, which holds what was added before and
 * has that much room. True when the unit is complete. */
bool amqp_assembler_add(struct amqp_assembler *a, const uint8_t *frame, size_t size, uint8_t *buffer);

/* True between a method and the last byte of its body: a method on this channel, a unit included, is then a fault. */
static inline bool amqp_assembler_busy(const struct amqp_assembler *a)
{
    return a->state != AMQP_WAITS_FOR_METHOD;
}

/* The bytes of the whole unit, once its header was added: room for more is never needed. 0 before that. */
static inline uint64_t amqp_assembler_total(const struct amqp_assembler *a)
{
    return a->state == AMQP_WAITS_FOR_BODY ? a->len + a->left + 1 : 0;
}

#endif
