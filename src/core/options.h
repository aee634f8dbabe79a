/* options.h: the checks that every public function makes of the structs and names that it is given. Any thread. */
#ifndef CONEY_CORE_OPTIONS_H
#define CONEY_CORE_OPTIONS_H

#include <coney/coney.h>

/* Copies what the caller knows of an options struct of `theirs` bytes into `ours` (zeroed first), which is `ours_size` bytes long.
 * CONEY_EUNSUPPORTED when there are more bytes than that and one of them is not zero: the caller was compiled against a newer coney. */
coney_status options_copy(void *ours, size_t ours_size, const void *theirs, size_t theirs_size, coney_call *call);

/* CONEY_EINVAL when one of the reserved bytes of a caller's struct is not zero. */
#define RESERVED_TEXT "a reserved member is not zero: zero the whole struct before its members are set"
coney_status reserved_check(const uint8_t *reserved, size_t count);

/* The name of a stream, a queue, a consumer …: one line of UTF-8, 1 to `max` bytes. `what` is the noun for the text. The broker takes the line
 * ends out of a stream's name, and a name that is no UTF-8 crashes its connection. */
coney_status name_check(const char *what, const char *name, size_t max, coney_call *call);

#endif
