/* layout.h: what the messages of the stream protocol are made of, as data; private to the codec.
 *
 * A layout names the fields of a message in wire order, with their places in struct stream_frame. Encoding and decoding are
 * two loops over it, so they cannot disagree. A field's name is what a decoder says when the field is wrong.
 */
#ifndef CONEY_PROTO_STREAM_LAYOUT_H
#define CONEY_PROTO_STREAM_LAYOUT_H

#include "proto/stream/codec.h"

enum { LAYOUT_FIELDS = 6, LAYOUT_PARTS = 5 };

enum field_kind {
    FIELD_U8,
    FIELD_BOOL, /* u8 0 or 1 */
    FIELD_U16,
    FIELD_U32,
    FIELD_U64,
    FIELD_V2_U64,    /* there in version 2 only */
    FIELD_STRING,    /* u16 length, bytes */
    FIELD_BYTES,     /* i32 length, bytes; -1 reads as empty */
    FIELD_CHALLENGE, /* a string, bytes, or nothing */
    FIELD_REST,      /* all bytes that are left */
    FIELD_START,     /* offset specification of types 1 to 5 */
    FIELD_SPEC,      /* the same with type 0 */
    FIELD_LIST,
    FIELD_OPTIONAL_LIST /* may end the frame by not being there */
};

enum list_kind {
    LIST_NONE, /* the field is no list */
    LIST_STRINGS,
    LIST_PAIRS,
    LIST_STATS,
    LIST_VERSIONS,
    LIST_BROKERS,
    LIST_PLACEMENTS,
    LIST_IDS,
    LIST_ERRORS,
    LIST_ENTRIES
};

struct layout_field {
    enum field_kind kind;
    uint16_t at;      /* offset in struct stream_frame */
    const char *name; /* NULL: behind the last field */
    enum list_kind list;
    const char *parts[LAYOUT_PARTS]; /* the names of what stands inside an offset specification or a list's element */
};

struct stream_layout {
    bool code;    /* the response code goes first */
    bool ok_only; /* with another code than OK brokers leave the fields out */
    struct layout_field fields[LAYOUT_FIELDS];
};

/* Reads the count and the elements of a list, checks each of them, and leaves the view of them in *list. `version` is the
 * frame's. */
void list_read(struct reader *r, const struct layout_field *field, uint16_t version, struct stream_list *list);

coney_bytes read_string(struct reader *r, const char *field);

/* False when the string is too long for the wire; nothing is written then. */
bool write_string(struct writer *w, coney_bytes value);

#endif
