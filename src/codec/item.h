/* item.h: one item of a body, as every encoding of a message has it: a plain value, or the head of a list or a map. */
#ifndef CONEY_CODEC_ITEM_H
#define CONEY_CODEC_ITEM_H

#include <coney/coney.h>

enum item_type {
    ITEM_NULL,
    ITEM_BOOL,
    ITEM_UNSIGNED, /* number */
    ITEM_NEGATIVE, /* -1 - number */
    ITEM_REAL,
    ITEM_DIGITS, /* bytes: a number in decimal that 64 bits or a double cannot hold */
    ITEM_TEXT,   /* bytes, as the next */
    ITEM_BINARY,
    ITEM_TIME,  /* time: milliseconds since 1970 */
    ITEM_LIST,  /* count, unless it is open; as the next */
    ITEM_MAP,   /* entries: a key, then a value */
    ITEM_OTHER, /* what no kind of member can hold */
};

struct item {
    uint8_t type; /* an item_type */
    bool open;    /* lists and maps: ends where it says so */
    union {
        bool boolean;
        uint64_t number;
        double real;
        int64_t time;
        uint64_t count; /* still to come */
        coney_bytes bytes;
    };
};

#endif
