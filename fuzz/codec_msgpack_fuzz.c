/* codec_msgpack_fuzz.c: any bytes as a body of MessagePack: see codec_fuzz.h. */
#include "codec_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_codec(coney_msgpack(), coney_bytes_of(data, size));
    return 0;
}
