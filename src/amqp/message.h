/* message.h: a coney_amqp_message on its way to the wire: looked through once, measured, written.
 *
 * A form is made before any lock is taken and refuses whatever has no form on the wire; after that nothing can fail but for a limit of the
 * connection. Pure functions of bytes; any thread.
 *
 *     struct message_form form;
 *     coney_status status = message_form_make(&form, message, &target, &field);    // field: what is wrong
 *     size = message_form_size(&form, payload_max)
 *     message_form_write(&form, at, channel, payload_max)
 */
#ifndef CONEY_AMQP_MESSAGE_H
#define CONEY_AMQP_MESSAGE_H

#include "proto/amqp091/properties.h"
#include "proto/amqp091/publish.h"

#include <coney/amqp.h>

/* basic.publish, whole: its frame, id, ticket, two names, bits. */
#define MESSAGE_METHOD_MAX (AMQP_FRAME_BYTES + 4 + 2 + 2 * (1 + AMQP_SHORT_MAX) + 1)

/* Where messages go and how, unless they say otherwise. */
struct message_target {
    coney_bytes exchange;
    coney_bytes routing_key;
    bool transient;
    bool drop_unroutable;
};

/* Borrows what the message points to, and points into itself: it is not moved. */
struct message_form {
    coney_bytes method;
    struct amqp_properties properties;
    size_t properties_size;
    coney_bytes body;
    bool mandatory;
    char expiration[AMQP_EXPIRATION_MAX];
    uint8_t method_bytes[MESSAGE_METHOD_MAX];
};

/* The caller's struct of `size` bytes: itself when it is of our size, else what we know of it in *copy; NULL when it holds what we do not know, or
 * a reserved byte is not zero. */
const coney_amqp_message *message_known_copy(const coney_amqp_message *message, size_t size, coney_amqp_message *copy);

static inline const coney_amqp_message *message_known(const coney_amqp_message *message, size_t size, coney_amqp_message *copy)
{
    static const uint8_t none[sizeof message->reserved];
    if (__builtin_expect(message != NULL && size == sizeof *message, 1) && memcmp(message->reserved, none, sizeof none) == 0)
        return message;
    return message_known_copy(message, size, copy);
}

static inline size_t message_method_size(coney_bytes exchange, coney_bytes routing_key)
{
    return MESSAGE_METHOD_MAX - 2 * AMQP_SHORT_MAX + exchange.len + routing_key.len;
}

/* Writes the frame of basic.publish and returns its bytes, message_method_size; the names are at most 255 bytes long. */
size_t message_method_write(uint8_t at[MESSAGE_METHOD_MAX], coney_bytes exchange, coney_bytes routing_key, bool mandatory);

/* CONEY_OK; or CONEY_EINVAL or CONEY_ETOOBIG, and *field is the static name of the member at fault. */
coney_status message_form_make(struct message_form *form, const coney_amqp_message *message,
                               const struct message_target *target, const char **field);

/* Whether the properties fit the one frame that they must stand in. */
static inline bool message_form_fits(const struct message_form *form, uint32_t payload_max)
{
    return form->properties_size <= amqp_properties_max(payload_max);
}

static inline size_t message_form_size(const struct message_form *form, uint32_t payload_max)
{
    return amqp_publish_size(form->method.len, form->properties_size, form->body.len, payload_max);
}

/* Writes exactly that many bytes. */
void message_form_write(const struct message_form *form, uint8_t *at, uint16_t channel, uint32_t payload_max);

/* A form that is held: one piece of memory that borrows nothing, for a call that waits. */
struct message_held {
    size_t method;
    size_t properties;
    size_t body;
    bool mandatory;
    uint8_t bytes[]; /* the three behind each other */
};

/* The bytes of the whole struct; message_hold writes them at `held`. */
size_t message_held_size(const struct message_form *form);
void message_hold(const struct message_form *form, struct message_held *held);

/* As message_form_fits. */
static inline bool message_held_fits(const struct message_held *held, uint32_t payload_max)
{
    return held->properties <= amqp_properties_max(payload_max);
}

/* message_form_size and message_form_write of what was held. */
size_t message_held_wire_size(const struct message_held *held, uint32_t payload_max);
void message_held_write(const struct message_held *held, uint8_t *at, uint16_t channel, uint32_t payload_max);

#endif
