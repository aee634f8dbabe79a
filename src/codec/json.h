/* json.h: the two halves of the JSON codec. Any thread. */
#ifndef CONEY_CODEC_JSON_H
#define CONEY_CODEC_JSON_H

#include "codec/bind.h"

/* The functions of coney_codec. */
coney_status codec_json_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                               coney_arena *arena, coney_fault *fault);
coney_status codec_json_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                               coney_arena *arena, coney_fault *fault);

/* Whether the body is one JSON value with nothing behind it that may stand where the binding is; else the fault says what it is. */
bool codec_json_is_value(struct bind *b, coney_bytes body);

#endif
