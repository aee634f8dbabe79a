/* codec_json_fuzz.c: any bytes as a body of JSON: see codec_fuzz.h. */
#include "codec_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_codec(coney_json(), coney_bytes_of(data, size));
    return 0;
}
