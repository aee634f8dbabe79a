/* missing.c: what a codec without its library answers. */
#include "codec/missing.h"

#include "base/text.h"

#include <ctype.h>
#include <string.h>

static coney_status refuse(const coney_codec *codec, coney_fault *fault)
{
    char name[16];
    size_t len = strnlen(codec->name, sizeof name - 1);
    for (size_t i = 0; i < len; i++)
        name[i] = (char)toupper((unsigned char)codec->name[i]);
    name[len] = '\0';
    if (fault != NULL) {
        fault->path[0] = '\0';
        text_print(fault->text, sizeof fault->text, "this build of coney has no %s codec: build it with -DCONEY_%s=ON", name,
                   name);
    }
    return CONEY_EUNSUPPORTED;
}

coney_status missing_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out, coney_arena *arena,
                            coney_fault *fault)
{
    (void)body, (void)type, (void)out, (void)arena;
    return refuse(codec, fault);
}

coney_status missing_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                            coney_arena *arena, coney_fault *fault)
{
    (void)type, (void)value, (void)sink, (void)arena;
    return refuse(codec, fault);
}
