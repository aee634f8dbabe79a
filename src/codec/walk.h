/* walk.h: the walk over a body that fills a struct, once for each encoding: a codec's file defines how its items are read, and
 * then includes this.
 *
 *   struct source                                   where the codec stands in the body
 *   enum { COUNTS_ARE_CLAIMS = … };                 1: a list's count is what the body says, and not yet looked at
 *   bool source_take(struct walk *, struct item *)  the next value: all of it, or the head of a list or map
 *   bool source_more(struct walk *, struct item *)  whether the list or map has one more; false with a status is a fault
 *   bool source_key(struct walk *, coney_bytes *)   the key of an entry
 *   void source_pass_foreign(struct walk *, struct item *, uint64_t lengths)  may pass over entries as long as no bit of `lengths`
 *                                                   is set for the length of their key, modulo 64
 *   bool source_pass(struct walk *)                 passes over the next value, however deep
 *   bool source_raw(struct walk *, coney_bytes *, bool *null)  the next value as it is encoded, in the arena
 */
#include "codec/bind.h"

struct walk {
    struct bind bind;
    struct source source;
};

static inline bool source_take(struct walk *w, struct item *item);
static inline bool source_more(struct walk *w, struct item *level);
static inline bool source_key(struct walk *w, coney_bytes *key);
static inline void source_pass_foreign(struct walk *w, struct item *level, uint64_t lengths);
static inline bool source_pass(struct walk *w);
static bool source_raw(struct walk *w, coney_bytes *raw, bool *null);

static bool walk_message(struct walk *w, const coney_type *type, struct item *map, uint8_t *out);

static bool walk_item(struct walk *w, const coney_member *member, struct element element, struct item *item, uint8_t *at,
                      bool *null)
{
    *null = item->type == ITEM_NULL;
    if (*null)
        return true;
    if (element.kind != CONEY_KIND_MESSAGE)
        return bind_plain(&w->bind, member, element, item, at);
    return item->type == ITEM_MAP ? walk_message(w, element.type, item, at) : bind_mismatch(&w->bind, member, item);
}

/* One value, in a member or in a list or map of it. */
static bool walk_value(struct walk *w, const coney_member *member, struct element element, uint8_t *at, bool *null)
{
    struct item item;
    if (__builtin_expect(element.kind == CONEY_KIND_RAW, 0))
        return source_raw(w, (coney_bytes *)(void *)at, null);
    return source_take(w, &item) && walk_item(w, member, element, &item, at, null);
}

/* A value that stands in a list or map, where nothing may be absent. */
static bool walk_inner(struct walk *w, const coney_member *member, struct element element, uint8_t *at)
{
    bool null;
    if (!walk_value(w, member, element, at, &null))
        return false;
    return !null || bind_mismatch(&w->bind, member, &(struct item){.type = ITEM_NULL});
}

static bool walk_elements(struct walk *w, const coney_member *member, struct item *list, struct step *step, uint8_t *out)
{
    struct bind *b = &w->bind;
    struct element element = type_element(member);
    struct growth grown;
    if (!growth_begin(b, &grown, type_layout(element).size, list->open ? 0 : list->count, COUNTS_ARE_CLAIMS))
        return false;
    for (; source_more(w, list); step->index++) {
        uint8_t *at = growth_next(b, &grown);
        if (at == NULL || !walk_inner(w, member, element, at))
            return false;
    }
    growth_end(&grown, out);
    return b->status == CONEY_OK;
}

static bool walk_entry(struct walk *w, const coney_member *member, struct element element, struct step *step, uint8_t *entry)
{
    coney_bytes key;
    if (!source_key(w, &key) || !bind_text(&w->bind, key, &key))
        return false;
    memcpy(entry, &key, sizeof key);
    step->at = key.data;
    step->index = key.len;
    return walk_inner(w, member, element, entry + type_layout(element).entry_value);
}

static bool walk_entries(struct walk *w, const coney_member *member, struct item *map, struct step *step, uint8_t *out)
{
    struct bind *b = &w->bind;
    struct element element = type_element(member);
    struct growth grown;
    if (!growth_begin(b, &grown, type_layout(element).entry_size, map->open ? 0 : map->count, COUNTS_ARE_CLAIMS))
        return false;
    while (source_more(w, map)) {
        uint8_t *entry = growth_next(b, &grown);
        if (entry == NULL || !walk_entry(w, member, element, step, entry))
            return false;
        step->at = NULL;
    }
    growth_end(&grown, out);
    return b->status == CONEY_OK && bind_map_keys(b, &grown, step);
}

static bool walk_container(struct walk *w, const coney_member *member, uint8_t *at)
{
    struct item item;
    bool list = member->shape == CONEY_SHAPE_LIST;
    if (!source_take(w, &item))
        return false;
    if (item.type == ITEM_NULL)
        return true;
    if (item.type != (list ? ITEM_LIST : ITEM_MAP))
        return bind_mismatch(&w->bind, member, &item);
    struct step *step = bind_enter(&w->bind, list ? STEP_ELEMENT : STEP_ENTRY);
    if (step == NULL)
        return false;
    bool ok = list ? walk_elements(w, member, &item, step, at) : walk_entries(w, member, &item, step, at);
    bind_leave(&w->bind);
    return ok;
}

static bool walk_optional(struct walk *w, const coney_member *member, uint8_t *at)
{
    bool null;
    struct element element = type_element(member);
    if (!walk_value(w, member, element, at + type_layout(element).optional_value, &null))
        return false;
    bool present = !null;
    memcpy(at, &present, sizeof present);
    return true;
}

static bool walk_one(struct walk *w, const coney_member *member, struct item *item, uint8_t *at)
{
    bool null;
    if (!walk_item(w, member, type_element(member), item, at, &null))
        return false;
    return !null || bind_absent(&w->bind, member, "null", at);
}

static bool walk_raw(struct walk *w, const coney_member *member, uint8_t *at)
{
    bool null;
    return source_raw(w, (coney_bytes *)(void *)at, &null) && (!null || bind_absent(&w->bind, member, "null", at));
}

static inline __attribute__((always_inline)) bool walk_member(struct walk *w, const coney_member *member, uint8_t *at)
{
    struct item item;
    if (__builtin_expect(member->shape != CONEY_SHAPE_ONE, 0))
        return member->shape == CONEY_SHAPE_OPTIONAL ? walk_optional(w, member, at) : walk_container(w, member, at);
    if (__builtin_expect(member->kind == CONEY_KIND_RAW, 0))
        return walk_raw(w, member, at);
    if (!source_take(w, &item))
        return false;
    return __builtin_expect(bind_fits(&w->bind, member->kind, &item, at), 1) || walk_one(w, member, &item, at);
}

static bool walk_field(struct walk *w, struct fields *fields, coney_bytes key, struct step *step, uint8_t *out)
{
    const coney_type *type = fields->type;
    uint32_t index = fields_find(fields, key);
    step->at = NULL;
    if (index == type->member_count)
        return (type->flags & CONEY_TYPE_STRICT) == 0 ? source_pass(w) : bind_unknown(&w->bind, type, step, key);
    const coney_member *member = &type->members[index];
    step->at = member;
    return fields_mark(&w->bind, fields, index) && walk_member(w, member, out + member->offset);
}

/* The fields from `key` on, the first that is not where the table has it. `ordered` members came before it. */
static bool walk_unordered(struct walk *w, const coney_type *type, struct item *map, coney_bytes key, uint32_t ordered,
                           struct step *step, uint8_t *out)
{
    struct bind *b = &w->bind;
    struct fields fields;
    bool strict = (type->flags & CONEY_TYPE_STRICT) != 0;
    if (!fields_begin(b, &fields, type, ordered) || !walk_field(w, &fields, key, step, out))
        return false;
    for (;;) {
        if (!strict)
            source_pass_foreign(w, map, fields.lengths);
        step->at = NULL;
        if (!source_more(w, map))
            break;
        if (!source_key(w, &key) || !walk_field(w, &fields, key, step, out))
            return false;
    }
    return b->status == CONEY_OK && fields_end(b, &fields, step, out);
}

/* Most senders write the fields in the table's order, and then there is nothing to search or to remember. */
static bool walk_fields(struct walk *w, const coney_type *type, struct item *map, struct step *step, uint8_t *out)
{
    const coney_member *member = type->members;
    const coney_member *end = member + type->member_count;
    for (; source_more(w, map); member++) {
        coney_bytes key;
        if (!source_key(w, &key))
            return false;
        if (member == end || !field_is(member, key))
            return walk_unordered(w, type, map, key, (uint32_t)(member - type->members), step, out);
        step->at = member;
        if (!walk_member(w, member, out + member->offset))
            return false;
        step->at = NULL;
    }
    if (w->bind.status != CONEY_OK)
        return false;
    return member == end || fields_absent(&w->bind, type, (uint32_t)(member - type->members), step, out);
}

static bool walk_message(struct walk *w, const coney_type *type, struct item *map, uint8_t *out)
{
    struct step *step = bind_enter(&w->bind, STEP_FIELD);
    if (step == NULL)
        return false;
    bool ok = walk_fields(w, type, map, step, out);
    bind_leave(&w->bind);
    return ok;
}

/* The whole body. */
static bool walk_body(struct walk *w, const coney_type *type, void *out)
{
    struct item item;
    if (!source_take(w, &item))
        return false;
    return item.type == ITEM_MAP ? walk_message(w, type, &item, out) : bind_no_object(&w->bind, type, &item);
}
