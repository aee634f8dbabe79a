/* amqp091_content_fuzz.c: any bytes as what a peer sends, in any split.
 *
 * The first byte is the size of the pieces in which the rest arrives. Read in one piece, in those pieces, and frame by frame
 * through the assemblers alone, the same messages must come out, and the same fault must end it. Properties are read and written
 * again. */
#include "proto/amqp091/assembler.h"
#include "proto/amqp091/properties.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANNELS = 8, PAYLOAD_MAX = 4096 };

struct channel {
    struct amqp_assembler assembler;
    uint8_t *buffer;
};

struct peer {
    struct channel channels[CHANNELS];
    const char *fault;
    uint64_t sum; /* over all messages, in their order */
    unsigned messages;
};

static void require(bool condition)
{
    if (!condition)
        abort();
}

static uint8_t *exact_copy(const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    require(copy != NULL);
    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

/* Messages --------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t sum, coney_bytes bytes)
{
    const uint8_t *at = bytes.data;
    sum = (sum ^ bytes.len) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < bytes.len; i++)
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static void check_properties(coney_bytes encoded)
{
    struct amqp_properties p, again;
    size_t size;
    const char *field = amqp_properties_read(encoded, &p);
    if (field != NULL) {
        require(*field != '\0');
        return;
    }
    if (amqp_properties_size(&p, &size, &field) != CONEY_OK) {
        require(strcmp(field, "expiration") == 0);
        return;
    }
    uint8_t *written = malloc(size);
    require(written != NULL && amqp_properties_write(written, &p) == written + size);
    require(amqp_properties_read(coney_bytes_of(written, size), &again) == NULL);
    require(again.flags == p.flags && size == encoded.len);
    free(written);
}

static void take_unit(struct peer *peer, const uint8_t *at, size_t len)
{
    struct amqp_unit unit;
    uint8_t *copy = exact_copy(at, len);
    require(amqp_unit_read(copy, len, &unit));
    require(amqp_carries_content(unit.id));
    peer->sum = mix(mix(mix(peer->sum + unit.channel, unit.method), unit.properties), unit.body);
    peer->messages++;
    check_properties(unit.properties);
    free(copy);
}

/* Receiving -------------------------------------------------------------------------------------------------------- */

static void take_content(struct peer *peer, struct channel *channel, const uint8_t *at, size_t size)
{
    size_t room;
    peer->fault = amqp_assembler_check(&channel->assembler, at, size, AMQP_BODY_LIMIT, &room);
    if (peer->fault != NULL)
        return;
    uint8_t *buffer = malloc(room);
    require(buffer != NULL && room > 0);
    if (channel->assembler.len > 0)
        memcpy(buffer, channel->buffer, channel->assembler.len);
    free(channel->buffer);
    channel->buffer = buffer;
    if (amqp_assembler_add(&channel->assembler, at, size, buffer))
        take_unit(peer, buffer, room);
    else
        require(channel->assembler.len == room);
}

static void take_frame(struct peer *peer, const uint8_t *at, size_t size)
{
    struct amqp_frame frame = amqp_frame_of(at);
    if (frame.type == AMQP_FRAME_HEARTBEAT || frame.channel >= CHANNELS)
        return;
    struct channel *channel = &peer->channels[frame.channel];
    bool carries = frame.type != AMQP_FRAME_METHOD || (frame.payload.len >= 4 && amqp_carries_content(load32(at + 7)));
    if (carries || amqp_assembler_busy(&channel->assembler))
        take_content(peer, channel, at, size);
}

static void take(struct peer *peer, const uint8_t *at, size_t size)
{
    uint16_t channel = load16(at + 1);
    if (!amqp_is_unit(at, size))
        take_frame(peer, at, size);
    else if (channel < CHANNELS && amqp_assembler_busy(&peer->channels[channel].assembler))
        peer->fault = amqp_fault_method_inside;
    else if (channel < CHANNELS)
        take_unit(peer, at, size);
}

/* Receives all that is there; gives the bytes that were taken. */
static size_t receive(struct peer *peer, const uint8_t *bytes, size_t len)
{
    size_t taken = 0;
    while (taken < len && peer->fault == NULL) {
        uint8_t *at = exact_copy(bytes + taken, len - taken);
        size_t size = amqp_content_extent(at, len - taken, PAYLOAD_MAX, &peer->fault);
        bool whole = size > 0 && size <= len - taken;
        require(size <= 3 * (PAYLOAD_MAX + AMQP_FRAME_BYTES) && (peer->fault == NULL || size == 0));
        if (whole)
            take(peer, at, size);
        free(at);
        if (!whole)
            break;
        taken += size;
    }
    return taken;
}

static struct peer receive_in_pieces(const uint8_t *bytes, size_t len, size_t piece)
{
    struct peer peer = {0};
    size_t taken = 0;
    for (size_t have = 0; have < len && peer.fault == NULL;) {
        have = len - have < piece ? len : have + piece;
        taken += receive(&peer, bytes + taken, have - taken);
    }
    return peer;
}

static struct peer receive_frames(const uint8_t *bytes, size_t len)
{
    struct peer peer = {0};
    while (len > 0 && peer.fault == NULL) {
        size_t size = amqp_frame_size(bytes, len, PAYLOAD_MAX, &peer.fault);
        if (size == 0 || size > len)
            break;
        take_frame(&peer, bytes, size);
        bytes += size;
        len -= size;
    }
    return peer;
}

static void forget(struct peer *peer)
{
    for (size_t i = 0; i < CHANNELS; i++)
        free(peer->channels[i].buffer);
}

static bool same_fault(const struct peer *a, const struct peer *b)
{
    if (a->fault == NULL || b->fault == NULL)
        return a->fault == b->fault;
    return strcmp(a->fault, b->fault) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const uint8_t *bytes = data + 1;
    size_t len = size - 1;
    struct peer whole = receive_in_pieces(bytes, len, len + 1);
    struct peer pieces = receive_in_pieces(bytes, len, data[0] + 1u);
    struct peer frames = receive_frames(bytes, len);

    require(whole.sum == pieces.sum && whole.messages == pieces.messages && same_fault(&whole, &pieces));
    require(whole.sum == frames.sum && whole.messages == frames.messages);
    /* A method that waits for the frame behind it has not met its assembler yet. */
    require(same_fault(&whole, &frames) || (whole.fault == NULL && frames.fault == amqp_fault_method_inside));
    forget(&whole);
    forget(&pieces);
    forget(&frames);
    return 0;
}
