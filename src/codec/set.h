/* set.h: decoding one of several types. Any thread. */
#ifndef CONEY_CODEC_SET_H
#define CONEY_CODEC_SET_H

#include <coney/codec.h>

/* Decodes a body into `out`, of set_type->size bytes. `variant` is a member of the set that something else has chosen, a header
 * for one; NULL: the variants are tried in their order, first those that leave nothing over. The fault of a set that nothing
 * fits says what each variant missed. Statuses as coney_decode. */
coney_status set_decode(const coney_codec *codec, coney_bytes body, const coney_type *set_type, const coney_member *variant,
                        void *out, coney_arena *arena, coney_fault *fault);

/* The variant that `text` on the wire chooses; NULL: none. */
const coney_member *set_find(const coney_type *set_type, coney_bytes text);

#endif
