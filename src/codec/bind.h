/* bind.h: turning the items of a body into members of a struct: ranges, defaults, duplicates, required fields, and faults that
 * say where they are. What reads the items is each codec's own (walk.h); headers come here, too.
 *
 * A binding lasts for one decode, on one thread. Everything that fails returns false, with the status and the fault set. */
#ifndef CONEY_CODEC_BIND_H
#define CONEY_CODEC_BIND_H

#include "base/bytes.h"
#include "codec/arena.h"
#include "codec/item.h"
#include "codec/type.h"

enum { BIND_DEPTH = 64 }; /* messages, lists and maps in one another, the whole included */

enum step_kind { STEP_FIELD, STEP_ELEMENT, STEP_ENTRY };

/* One step of the path to what is being decoded. */
struct step {
    const void *at; /* a message's field, a coney_member; a map's key; NULL: none yet */
    size_t index;   /* of a list's element; the length of the key */
    uint8_t kind;   /* a step_kind */
};

struct bind {
    coney_arena *arena;
    coney_fault *fault; /* may be NULL */
    coney_status status;
    coney_status refusal; /* what a fault is: CONEY_ECORRUPT for what was read, CONEY_EINVAL for what is to be written */
    bool settled;         /* texts are in the arena and UTF-8 already */
    uint32_t depth;       /* of the steps, of which the others are not set */
    struct step steps[BIND_DEPTH];
};

static inline void bind_begin(struct bind *b, coney_arena *arena, coney_fault *fault, coney_status refusal, bool settled)
{
    b->arena = arena;
    b->fault = fault;
    b->status = CONEY_OK;
    b->refusal = refusal;
    b->settled = settled;
    b->depth = 0;
}

/* "lines[3].quantity: " and the sentence, with the status of a refusal. Always false. */
bool bind_fail(struct bind *b, const char *format, ...) __attribute__((cold, format(printf, 2, 3)));

/* Memory is out. */
bool bind_no_memory(struct bind *b) __attribute__((cold));

/* "the text "many" where u16 is expected" */
bool bind_mismatch(struct bind *b, const coney_member *member, const struct item *item) __attribute__((cold));

/* The whole is no map. */
bool bind_no_object(struct bind *b, const coney_type *type, const struct item *item) __attribute__((cold));

/* A strict type has no such field. `step` is the message's. */
bool bind_unknown(struct bind *b, const coney_type *type, struct step *step, coney_bytes name) __attribute__((cold));

bool bind_too_deep(struct bind *b) __attribute__((cold));

/* The step into a message, list or map; NULL when it is one too many. */
static inline struct step *bind_enter(struct bind *b, enum step_kind kind)
{
    if (__builtin_expect(b->depth == BIND_DEPTH, 0)) {
        bind_too_deep(b);
        return NULL;
    }
    struct step *step = &b->steps[b->depth++];
    *step = (struct step){.kind = (uint8_t)kind};
    return step;
}

static inline void bind_leave(struct bind *b)
{
    b->depth--;
}

/* Stores an item that is just what the kind of member takes and fits, as nearly all are. False: bind_plain looks closer. */
static inline bool bind_fits(const struct bind *b, uint8_t kind, const struct item *item, void *at)
{
    uint64_t n = item->number;
    switch (kind) {
    case CONEY_KIND_STRING:
        if (item->type != ITEM_TEXT || !b->settled)
            return false;
        *(coney_bytes *)at = item->bytes;
        return true;
    case CONEY_KIND_U64:
        *(uint64_t *)at = n;
        return item->type == ITEM_UNSIGNED;
    case CONEY_KIND_I64:
        *(uint64_t *)at = n;
        return item->type == ITEM_UNSIGNED && n <= INT64_MAX;
    case CONEY_KIND_U32:
        *(uint32_t *)at = (uint32_t)n;
        return item->type == ITEM_UNSIGNED && n <= UINT32_MAX;
    case CONEY_KIND_I32:
        *(uint32_t *)at = (uint32_t)n;
        return item->type == ITEM_UNSIGNED && n <= INT32_MAX;
    case CONEY_KIND_F64:
        *(double *)at = item->real;
        return item->type == ITEM_REAL;
    case CONEY_KIND_BOOL:
        if (item->type != ITEM_BOOL)
            return false;
        *(bool *)at = item->boolean;
        return true;
    default:
        return false;
    }
}

/* Stores an item as a value of the member's kind, which is no message, list or map, nor raw. */
bool bind_plain(struct bind *b, const coney_member *member, struct element element, const struct item *item, void *at);

/* The member was null or not there: its default, nothing, or a fault. `what` says which of the two. */
bool bind_absent(struct bind *b, const coney_member *member, const char *what, void *at);

/* A text's copy in the arena, unless it is there already; it must be UTF-8. */
bool bind_text(struct bind *b, coney_bytes text, coney_bytes *out);

/* Lists and maps in the making: an array in the arena that grows, `out` being the {items, count} of the user. */
struct growth {
    uint8_t *items;
    size_t count;
    size_t cap;
    uint32_t size; /* of an item */
};

enum { GROWTH_FIRST = 32 };

/* Begins with room for `expected` items, or for a few when the number is only claimed. */
bool growth_begin(struct bind *b, struct growth *g, uint32_t size, uint64_t expected, bool claimed);

/* growth_next when there is no room. */
bool growth_double(struct bind *b, struct growth *g);

/* The place of the next item, zeroed; NULL: memory is out. */
static inline uint8_t *growth_next(struct bind *b, struct growth *g)
{
    if (g->count == g->cap && !growth_double(b, g))
        return NULL;
    uint8_t *item = g->items + g->count * g->size;
    g->count++;
    memset(item, 0, g->size);
    return item;
}

/* Both {items, count} of lists and of maps look like this. */
static inline void growth_end(const struct growth *g, void *out)
{
    const void *items = g->count > 0 ? g->items : NULL;
    memcpy(out, &items, sizeof items);
    memcpy((uint8_t *)out + sizeof items, &g->count, sizeof g->count);
}

/* No key is there twice. `step` is the map's. */
bool bind_map_keys(struct bind *b, const struct growth *g, struct step *step);

/* Fields --------------------------------------------------------------------------------------------------------- */

/* Which members of a message were there. The members are expected in their order, which spares the search. */
struct fields {
    const coney_type *type;
    uint64_t lengths; /* bit n: some member's name has n bytes, n modulo 64 */
    uint64_t seen;    /* of up to 64 members */
    uint64_t *more;   /* of a type with more */
    uint32_t next;    /* the index of the one that is expected */
    uint32_t count;   /* of those seen */
};

/* Begins when the first `ordered` members have been there. False: memory is out. */
bool fields_begin(struct bind *b, struct fields *f, const coney_type *type, uint32_t ordered);

static inline bool field_is(const coney_member *member, coney_bytes name)
{
    coney_bytes wire = type_wire_name(member);
    return bytes_equal_short(wire, name);
}

/* The index of the member of this name that is not the next one; the type's count of members: there is none. */
uint32_t fields_search(struct fields *f, coney_bytes name);

static inline uint32_t fields_find(struct fields *f, coney_bytes name)
{
    uint32_t next = f->next;
    uint32_t count = f->type->member_count;
    if (next < count && field_is(&f->type->members[next], name)) {
        f->next = next + 1;
        return next;
    }
    return (f->lengths >> (name.len & 63) & 1) == 0 ? count : fields_search(f, name);
}

/* A fault when the member was there before. */
bool fields_twice(struct bind *b) __attribute__((cold));

static inline bool fields_mark(struct bind *b, struct fields *f, uint32_t index)
{
    uint64_t *word = __builtin_expect(f->more == NULL, 1) ? &f->seen : &f->more[index / 64];
    uint64_t bit = UINT64_C(1) << (index % 64);
    if (__builtin_expect((*word & bit) != 0, 0))
        return fields_twice(b);
    *word |= bit;
    f->count++;
    return true;
}

/* Defaults for the members that were not there, or a fault when one is required. `step` is the message's. */
bool fields_end(struct bind *b, const struct fields *f, struct step *step, uint8_t *out);

/* The same when only the first `ordered` members were there. */
bool fields_absent(struct bind *b, const coney_type *type, uint32_t ordered, struct step *step, uint8_t *out);

#endif
