/* copy.h: deep copies of what users hand over, into an arena. Not thread-safe by itself. */
#ifndef CONEY_SERVICE_COPY_H
#define CONEY_SERVICE_COPY_H

#include <coney/codec.h>
#include <coney/value.h>

/* Where copies go: the memory of an app or a router. `out_of_memory` is set by the first copy that finds none, and never cleared. */
struct copier {
    coney_arena *arena;
    bool *out_of_memory;
};

/* NULL: memory is out; for a text or fields also when they are NULL. `from` NULL: zeroed memory. */
const char *copier_text(struct copier to, const char *text);
void *copier_bytes(struct copier to, const void *from, size_t len);
const coney_field *copier_fields(struct copier to, const coney_field *fields, size_t count);

/* Copies what a caller knows of an options struct of `size` bytes (NULL: all zero) into `ours`. False: there are more bytes, and one of them is not zero. */
bool app_take_options(void *ours, size_t ours_size, const void *theirs, size_t size);
#define NEWER_TEXT "has members that this library does not know: the program was compiled for a newer coney"

#endif
