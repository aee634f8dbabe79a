/* missing.h: the codecs of a build that was made without their libraries: they say so. */
#ifndef CONEY_CODEC_MISSING_H
#define CONEY_CODEC_MISSING_H

#include <coney/codec.h>

/* CONEY_EUNSUPPORTED: "this build of coney has no JSON codec: build it with -DCONEY_JSON=ON" */
coney_status missing_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out, coney_arena *arena,
                            coney_fault *fault);
coney_status missing_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                            coney_arena *arena, coney_fault *fault);

#endif
