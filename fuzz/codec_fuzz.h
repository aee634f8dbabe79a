/* codec_fuzz.h: what the fuzzers of the codecs have in common: any body decoded into a type with every kind in every shape, and into
 * a small one. What decodes must encode, and decode to the same: written again it has the same bytes. */
#ifndef CONEY_FUZZ_CODEC_FUZZ_H
#define CONEY_FUZZ_CODEC_FUZZ_H

#include "codec/codec_fixture.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* What is written of a body that decodes; empty when it does not. The body is gone before it is written. */
static coney_sink rewritten(const coney_codec *codec, const coney_type *type, coney_bytes body, void *room)
{
    coney_arena *arena = coney_arena_new();
    coney_sink sink = {0};
    coney_fault fault = {.text = ""};
    void *copy = malloc(body.len > 0 ? body.len : 1);
    require(arena != NULL && copy != NULL);
    memcpy(copy, body.data, body.len);
    coney_status status = coney_decode(codec, coney_bytes_of(copy, body.len), type, room, arena, &fault);
    free(copy);
    if (status == CONEY_OK)
        require(coney_encode(codec, type, room, &sink, NULL, &fault) == CONEY_OK && sink.len > 0);
    else
        require(status == CONEY_ECORRUPT && fault.text[0] != '\0');
    coney_arena_free(&arena);
    return sink;
}

static void check_type(const coney_codec *codec, const coney_type *type, coney_bytes body)
{
    void *room = calloc(1, type->size);
    require(room != NULL);
    coney_sink once = rewritten(codec, type, body, room);
    if (once.len > 0) {
        coney_sink twice = rewritten(codec, type, coney_bytes_of(once.data, once.len), room);
        require(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
        coney_sink_free(&twice);
    }
    coney_sink_free(&once);
    free(room);
}

static void check_codec(const coney_codec *codec, coney_bytes body)
{
    if (!codec_is_here(codec))
        return;
    check_type(codec, everything_type(), body);
    check_type(codec, optionals_type(), body);
    check_type(codec, lists_type(), body);
    check_type(codec, maps_type(), body);
    check_type(codec, line_type(), body);
}

#endif
