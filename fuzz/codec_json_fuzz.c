/* codec_json_fuzz.c: any bytes as a body of JSON: see codec_fuzz.h. The quick way of reading what is plain and the tree must agree:
 * the same status, the same fault, the same value. */
#include "codec/json.h"

#include "codec_fuzz.h"

static coney_status by_tree(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out, coney_arena *arena,
                            coney_fault *fault)
{
    return codec_json_decode_tree(codec, body, type, out, arena, fault);
}

static void check_both_ways(const coney_type *type, coney_bytes body)
{
    coney_arena *arena = coney_arena_new();
    coney_codec tree = *coney_json();
    tree.decode = by_tree;
    void *quick_value = calloc(1, type->size);
    void *tree_value = calloc(1, type->size);
    require(arena != NULL && quick_value != NULL && tree_value != NULL);
    coney_fault faults[2] = {{.text = ""}, {.text = ""}};
    coney_status status = coney_decode(coney_json(), body, type, quick_value, arena, &faults[0]);
    require(coney_decode(&tree, body, type, tree_value, arena, &faults[1]) == status);
    require(strcmp(faults[0].text, faults[1].text) == 0 && strcmp(faults[0].path, faults[1].path) == 0);
    if (status == CONEY_OK) {
        coney_sink a = {0};
        coney_sink b = {0};
        require(coney_encode(coney_json(), type, quick_value, &a, NULL, NULL) == CONEY_OK);
        require(coney_encode(coney_json(), type, tree_value, &b, NULL, NULL) == CONEY_OK);
        require(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
        coney_sink_free(&a);
        coney_sink_free(&b);
    }
    free(quick_value);
    free(tree_value);
    coney_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    coney_bytes body = coney_bytes_of(data, size);
    if (!codec_is_here(coney_json()))
        return 0;
    check_codec(coney_json(), body);
    check_both_ways(ones_type(), body);
    check_both_ways(optionals_type(), body);
    check_both_ways(line_type(), body);
    return 0;
}
