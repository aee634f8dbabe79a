/* bind.c: what a member takes and what it refuses. */
#include "codec/bind.h"

#include "base/text.h"
#include "codec/base64.h"
#include "codec/moment.h"
#include "codec/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Faults --------------------------------------------------------------------------------------------------------- */

static void print_step(char *part, size_t cap, const struct step *step, bool first)
{
    char shown[64];
    bool blank = step->kind != STEP_ELEMENT && step->at == NULL;
    if (blank) {
        text_print(part, cap, "%s", "");
    } else if (step->kind == STEP_FIELD) {
        text_from_wire(shown, sizeof shown, type_wire_name(step->at));
        text_print(part, cap, "%s%s", first ? "" : ".", shown);
    } else if (step->kind == STEP_ENTRY) {
        text_from_wire(shown, sizeof shown, coney_bytes_of(step->at, step->index));
        text_print(part, cap, "[\"%s\"]", shown);
    } else {
        text_print(part, cap, "[%zu]", step->index);
    }
}

/* Writes the path in front of `end`, from its last step to its first, and returns where it begins; never before `start`. */
static char *path_before(const struct bind *b, char *start, char *end)
{
    for (uint32_t i = b->depth; i-- > 0;) {
        char part[96];
        print_step(part, sizeof part, &b->steps[i], i == 0);
        size_t len = strlen(part);
        if ((size_t)(end - start) < len + 3) {
            memcpy(end - 3, "...", 3);
            return end - 3;
        }
        end -= len;
        memcpy(end, part, len);
    }
    return end;
}

bool bind_fail(struct bind *b, const char *format, ...)
{
    b->status = b->refusal;
    if (b->fault == NULL)
        return false;
    coney_fault *fault = b->fault;
    char room[sizeof fault->path];
    char *end = room + sizeof room - 1;
    *end = '\0';
    text_print(fault->path, sizeof fault->path, "%s", path_before(b, room, end));
    text_print(fault->text, sizeof fault->text, "%s%s", fault->path, fault->path[0] != '\0' ? ": " : "");
    size_t len = strlen(fault->text);
    va_list args;
    va_start(args, format);
    text_vprint(fault->text + len, sizeof fault->text - len, format, args);
    va_end(args);
    return false;
}

bool bind_no_memory(struct bind *b)
{
    bind_fail(b, "memory is out");
    b->status = CONEY_ENOMEM;
    return false;
}

bool bind_too_deep(struct bind *b)
{
    return bind_fail(b, "nested deeper than %d", BIND_DEPTH);
}

static void show_integer(char *buf, size_t cap, const struct item *item)
{
    if (item->type == ITEM_UNSIGNED)
        text_print(buf, cap, "%" PRIu64, item->number);
    else if (item->number == UINT64_MAX)
        text_print(buf, cap, "-18446744073709551616");
    else
        text_print(buf, cap, "-%" PRIu64, item->number + 1);
}

static void show(char *buf, size_t cap, const struct item *item)
{
    char word[48];
    switch ((enum item_type)item->type) {
    case ITEM_NULL:
        text_print(buf, cap, "null");
        return;
    case ITEM_BOOL:
        text_print(buf, cap, "%s", item->boolean ? "true" : "false");
        return;
    case ITEM_UNSIGNED:
    case ITEM_NEGATIVE:
        show_integer(word, sizeof word, item);
        text_print(buf, cap, "the number %s", word);
        return;
    case ITEM_REAL:
        type_text_of((struct element){NULL, CONEY_KIND_F64}, &item->real, word);
        text_print(buf, cap, "the number %s%s", word, strpbrk(word, ".ein") != NULL ? "" : ".0");
        return;
    case ITEM_DIGITS:
        text_from_wire(word, sizeof word, item->bytes);
        text_print(buf, cap, "the number %s", word);
        return;
    case ITEM_TEXT:
        text_from_wire(word, sizeof word, item->bytes);
        text_print(buf, cap, "the text \"%s%s\"", word, strlen(word) < item->bytes.len ? "..." : "");
        return;
    case ITEM_BINARY:
        text_print(buf, cap, "binary of %zu bytes", item->bytes.len);
        return;
    case ITEM_TIME:
        text_print(buf, cap, "a time");
        return;
    case ITEM_LIST:
        text_print(buf, cap, "a list");
        return;
    case ITEM_MAP:
        text_print(buf, cap, "an object");
        return;
    case ITEM_OTHER:
        text_print(buf, cap, "an extension");
        return;
    }
}

/* "u16", "an object 'order'", "a list of u64" … */
static void show_expected(char *buf, size_t cap, const coney_member *member, bool element_only)
{
    struct element element = type_element(member);
    const char *word = type_word(element);
    if (!element_only && member->shape == CONEY_SHAPE_LIST)
        text_print(buf, cap, "a list of %s", word);
    else if (!element_only && member->shape == CONEY_SHAPE_MAP)
        text_print(buf, cap, "a map of %s", word);
    else if (element.kind == CONEY_KIND_MESSAGE)
        text_print(buf, cap, "an object %s", word);
    else if (element.kind == CONEY_KIND_ENUM)
        text_print(buf, cap, "a text of %s", word);
    else
        text_print(buf, cap, "%s", word);
}

/* Whether the path has come to an element of the member, not to the member as a whole. */
static bool is_inside(const struct bind *b, const coney_member *member)
{
    return b->depth == 0 || b->steps[b->depth - 1].at != member;
}

bool bind_mismatch(struct bind *b, const coney_member *member, const struct item *item)
{
    char found[96];
    char expected[96];
    show(found, sizeof found, item);
    show_expected(expected, sizeof expected, member, is_inside(b, member));
    return bind_fail(b, "%s where %s is expected", found, expected);
}

bool bind_no_object(struct bind *b, const coney_type *type, const struct item *item)
{
    char found[96];
    show(found, sizeof found, item);
    return bind_fail(b, "%s where an object %s is expected", found, type->name);
}

bool bind_unknown(struct bind *b, const coney_type *type, struct step *step, coney_bytes name)
{
    coney_member unknown = {.name = name.data, .name_len = (uint32_t)name.len};
    step->at = &unknown;
    bind_fail(b, "%s has no such field, and is strict", type->name);
    step->at = NULL;
    return false;
}

/* Plain values --------------------------------------------------------------------------------------------------- */

static bool does_not_fit(struct bind *b, struct element element, const struct item *item)
{
    char number[64];
    if (item->type == ITEM_DIGITS)
        text_from_wire(number, sizeof number, item->bytes);
    else if (item->type == ITEM_REAL)
        type_text_of((struct element){NULL, CONEY_KIND_F64}, &item->real, number);
    else
        show_integer(number, sizeof number, item);
    return bind_fail(b, "%s does not fit %s", number, type_word(element));
}

/* Whether the item is an integer at all; for one that no integer holds the fault says so. */
static bool is_integer(struct bind *b, const coney_member *member, struct element element, const struct item *item)
{
    if (item->type == ITEM_UNSIGNED || item->type == ITEM_NEGATIVE)
        return true;
    bool digits = item->type == ITEM_DIGITS && memchr(item->bytes.data, '.', item->bytes.len) == NULL &&
                  memchr(item->bytes.data, 'e', item->bytes.len) == NULL &&
                  memchr(item->bytes.data, 'E', item->bytes.len) == NULL;
    return digits ? does_not_fit(b, element, item) : bind_mismatch(b, member, item);
}

static bool store_signed(struct bind *b, const coney_member *member, struct element element, const struct item *item,
                         unsigned bits, int64_t *out)
{
    if (!is_integer(b, member, element, item))
        return false;
    if (item->number > (UINT64_C(1) << (bits - 1)) - 1)
        return does_not_fit(b, element, item);
    *out = item->type == ITEM_UNSIGNED ? (int64_t)item->number : -1 - (int64_t)item->number;
    return true;
}

static bool store_unsigned(struct bind *b, const coney_member *member, struct element element, const struct item *item,
                           unsigned bits, uint64_t *out)
{
    if (!is_integer(b, member, element, item))
        return false;
    if (item->type == ITEM_NEGATIVE || item->number > UINT64_MAX >> (64 - bits))
        return does_not_fit(b, element, item);
    *out = item->number;
    return true;
}

static bool real_of(struct bind *b, const coney_member *member, struct element element, const struct item *item, double *out)
{
    switch ((enum item_type)item->type) {
    case ITEM_REAL:
        *out = item->real;
        return true;
    case ITEM_UNSIGNED:
        *out = (double)item->number;
        return true;
    case ITEM_NEGATIVE:
        *out = -1.0 - (double)item->number;
        return true;
    case ITEM_DIGITS:
        return type_text_parse((struct element){NULL, CONEY_KIND_F64}, item->bytes, out) || does_not_fit(b, element, item);
    case ITEM_NULL:
    case ITEM_BOOL:
    case ITEM_TEXT:
    case ITEM_BINARY:
    case ITEM_TIME:
    case ITEM_LIST:
    case ITEM_MAP:
    case ITEM_OTHER:
        break;
    }
    return bind_mismatch(b, member, item);
}

bool bind_text(struct bind *b, coney_bytes text, coney_bytes *out)
{
    *out = text;
    if (b->settled)
        return true;
    if (!utf8_valid(text))
        return bind_fail(b, "a text that is not UTF-8");
    *out = coney_arena_copy(b->arena, text);
    return out->data != NULL || bind_no_memory(b);
}

static bool store_text(struct bind *b, const coney_member *member, const struct item *item, coney_bytes *out)
{
    return item->type == ITEM_TEXT ? bind_text(b, item->bytes, out) : bind_mismatch(b, member, item);
}

static bool store_base64(struct bind *b, coney_bytes text, coney_bytes *out)
{
    uint8_t *bytes = arena_take(b->arena, text.len / 4 * 3);
    if (bytes == NULL)
        return bind_no_memory(b);
    *out = coney_bytes_of(bytes, base64_read(bytes, text));
    return out->len != SIZE_MAX || bind_fail(b, "a text that is not base64 (RFC 4648, padded)");
}

static bool store_bytes(struct bind *b, const coney_member *member, const struct item *item, coney_bytes *out)
{
    if (item->type == ITEM_TEXT && b->settled)
        return store_base64(b, item->bytes, out);
    if (item->type != ITEM_BINARY)
        return bind_mismatch(b, member, item);
    *out = coney_arena_copy(b->arena, item->bytes);
    return out->data != NULL || bind_no_memory(b);
}

static bool store_time(struct bind *b, const coney_member *member, const struct item *item, int64_t *out)
{
    if (item->type == ITEM_TEXT && b->settled && moment_parse(item->bytes, out))
        return true;
    if (item->type != ITEM_TIME)
        return bind_mismatch(b, member, item);
    *out = item->time;
    return true;
}

static bool store_enum(struct bind *b, const coney_member *member, struct element element, const struct item *item, void *out)
{
    char found[48];
    if (item->type != ITEM_TEXT)
        return bind_mismatch(b, member, item);
    const coney_member *constant = type_constant(element.type, item->bytes);
    if (constant != NULL) {
        type_constant_store(element.type, constant, out);
        return true;
    }
    text_from_wire(found, sizeof found, item->bytes);
    return bind_fail(b, "\"%s\" is no %s", found, element.type->name);
}

static bool store_f32(struct bind *b, const coney_member *member, struct element element, const struct item *item, float *out)
{
    double number;
    if (!real_of(b, member, element, item, &number))
        return false;
    *out = (float)number;
    return isfinite(*out) || !isfinite(number) || does_not_fit(b, element, item);
}

bool bind_plain(struct bind *b, const coney_member *member, struct element element, const struct item *item, void *at)
{
    int64_t i64 = 0;
    uint64_t u64 = 0;
    switch ((coney_kind)element.kind) {
    case CONEY_KIND_BOOL:
        if (item->type != ITEM_BOOL)
            return bind_mismatch(b, member, item);
        *(bool *)at = item->boolean;
        return true;
    case CONEY_KIND_I8:
        return store_signed(b, member, element, item, 8, &i64) && (*(int8_t *)at = (int8_t)i64, true);
    case CONEY_KIND_I16:
        return store_signed(b, member, element, item, 16, &i64) && (*(int16_t *)at = (int16_t)i64, true);
    case CONEY_KIND_I32:
        return store_signed(b, member, element, item, 32, &i64) && (*(int32_t *)at = (int32_t)i64, true);
    case CONEY_KIND_I64:
        return store_signed(b, member, element, item, 64, at);
    case CONEY_KIND_U8:
        return store_unsigned(b, member, element, item, 8, &u64) && (*(uint8_t *)at = (uint8_t)u64, true);
    case CONEY_KIND_U16:
        return store_unsigned(b, member, element, item, 16, &u64) && (*(uint16_t *)at = (uint16_t)u64, true);
    case CONEY_KIND_U32:
        return store_unsigned(b, member, element, item, 32, &u64) && (*(uint32_t *)at = (uint32_t)u64, true);
    case CONEY_KIND_U64:
        return store_unsigned(b, member, element, item, 64, at);
    case CONEY_KIND_F32:
        return store_f32(b, member, element, item, at);
    case CONEY_KIND_F64:
        return real_of(b, member, element, item, at);
    case CONEY_KIND_STRING:
        return store_text(b, member, item, at);
    case CONEY_KIND_BYTES:
        return store_bytes(b, member, item, at);
    case CONEY_KIND_TIME:
        return store_time(b, member, item, at);
    case CONEY_KIND_ENUM:
        return store_enum(b, member, element, item, at);
    case CONEY_KIND_RAW:
    case CONEY_KIND_MESSAGE:
    case CONEY_KIND_SET:
        break;
    }
    return bind_mismatch(b, member, item);
}

bool bind_absent(struct bind *b, const coney_member *member, const char *what, void *at)
{
    char expected[96];
    if (member->shape != CONEY_SHAPE_ONE)
        return true;
    if (member->fallback != NULL) {
        struct element element = type_element(member);
        coney_bytes text = coney_bytes_of(member->fallback, member->fallback_len);
        return type_text_parse(element, text, at) ||
               bind_fail(b, "the default \"%s\" is no %s", member->fallback, type_word(element));
    }
    show_expected(expected, sizeof expected, member, false);
    return bind_fail(b, "%s where %s is required", what, expected);
}

/* Lists and maps ------------------------------------------------------------------------------------------------- */

bool growth_begin(struct bind *b, struct growth *g, uint32_t size, uint64_t expected, bool claimed)
{
    *g = (struct growth){.size = size, .cap = expected};
    if (claimed && expected > GROWTH_FIRST)
        g->cap = GROWTH_FIRST;
    g->items = arena_take(b->arena, g->cap * size);
    return g->items != NULL || bind_no_memory(b);
}

bool growth_double(struct bind *b, struct growth *g)
{
    size_t cap = g->cap < GROWTH_FIRST ? GROWTH_FIRST : 2 * g->cap;
    uint8_t *items = arena_resize(b->arena, g->items, g->cap * g->size, cap * g->size);
    if (items == NULL)
        return bind_no_memory(b);
    g->items = items;
    g->cap = cap;
    return true;
}

static int compare_keys(const coney_bytes *a, const coney_bytes *b)
{
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return a->len > 0 ? memcmp(a->data, b->data, a->len) : 0;
}

static void sift(const coney_bytes **keys, size_t root, size_t count)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && compare_keys(keys[child], keys[child + 1]) < 0)
            child++;
        if (compare_keys(keys[root], keys[child]) >= 0)
            return;
        const coney_bytes *moved = keys[root];
        keys[root] = keys[child];
        keys[child] = moved;
    }
}

/* A heap sort: whatever the keys are, it takes n log n steps and no memory. */
static void sort_keys(const coney_bytes **keys, size_t count)
{
    for (size_t root = count / 2; root-- > 0;)
        sift(keys, root, count);
    for (size_t left = count; left-- > 1;) {
        const coney_bytes *largest = keys[0];
        keys[0] = keys[left];
        keys[left] = largest;
        sift(keys, 0, left);
    }
}

bool bind_map_keys(struct bind *b, const struct growth *g, struct step *step)
{
    if (g->count < 2)
        return true;
    const coney_bytes **keys = arena_take(b->arena, g->count * sizeof *keys);
    if (keys == NULL)
        return bind_no_memory(b);
    for (size_t i = 0; i < g->count; i++)
        keys[i] = (const coney_bytes *)(const void *)(g->items + i * g->size);
    sort_keys(keys, g->count);
    for (size_t i = 1; i < g->count; i++) {
        if (compare_keys(keys[i - 1], keys[i]) == 0) {
            step->at = keys[i]->data;
            step->index = keys[i]->len;
            return bind_fail(b, "the same key twice");
        }
    }
    return true;
}

/* Fields --------------------------------------------------------------------------------------------------------- */

static uint64_t *word_of(struct fields *f, uint32_t index)
{
    return f->more == NULL ? &f->seen : &f->more[index / 64];
}

bool fields_begin(struct bind *b, struct fields *f, const coney_type *type, uint32_t ordered)
{
    size_t size = (type->member_count + 63) / 64 * sizeof *f->more;
    *f = (struct fields){.type = type, .next = ordered, .count = ordered};
    if (type->member_count > 64) {
        f->more = arena_take(b->arena, size);
        if (f->more == NULL)
            return bind_no_memory(b);
        memset(f->more, 0, size);
    }
    for (uint32_t i = 0; i < type->member_count; i++)
        f->lengths |= UINT64_C(1) << (type_wire_name(&type->members[i]).len & 63);
    for (uint32_t i = 0; i < ordered; i++)
        *word_of(f, i) |= UINT64_C(1) << (i % 64);
    return true;
}

uint32_t fields_search(struct fields *f, coney_bytes name)
{
    const coney_type *type = f->type;
    for (uint32_t i = 0; i < type->member_count; i++) {
        if (field_is(&type->members[i], name)) {
            f->next = i + 1;
            return i;
        }
    }
    return type->member_count;
}

bool fields_twice(struct bind *b)
{
    return bind_fail(b, "the same field twice");
}

static bool absent(struct bind *b, const coney_member *member, struct step *step, uint8_t *out)
{
    step->at = member;
    return bind_absent(b, member, "nothing", out + member->offset);
}

bool fields_end(struct bind *b, const struct fields *f, struct step *step, uint8_t *out)
{
    for (uint32_t i = 0; f->count < f->type->member_count && i < f->type->member_count; i++) {
        const uint64_t *word = f->more == NULL ? &f->seen : &f->more[i / 64];
        if ((*word >> (i % 64) & 1) == 0 && !absent(b, &f->type->members[i], step, out))
            return false;
    }
    return true;
}

bool fields_absent(struct bind *b, const coney_type *type, uint32_t ordered, struct step *step, uint8_t *out)
{
    for (uint32_t i = ordered; i < type->member_count; i++)
        if (!absent(b, &type->members[i], step, out))
            return false;
    return true;
}
