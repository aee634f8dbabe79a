/* json_quick.h: reading the JSON that most messages are, in one pass and without a tree: an object whose fields are texts
 * without escapes, numbers of up to 18 digits without an exponent, true and false. Any thread. */
#ifndef CONEY_CODEC_JSON_QUICK_H
#define CONEY_CODEC_JSON_QUICK_H

#include "codec/bind.h"

enum { JSON_QUICK_PADDING = 16 }; /* bytes behind the copy that may be read */

/* Fills `out` from `copy`, `len` bytes of the body in the arena and JSON_QUICK_PADDING zeros; texts are left there. False: there is
 * more in it than this can read, or something is wrong with it; `copy`, the binding and `out` are spoilt, and the whole is to be
 * read in the other way. True: it was JSON, and b->status says whether it was a `type`. */
bool codec_json_quick(struct bind *b, char *copy, size_t len, const coney_type *type, uint8_t *out);

#endif
