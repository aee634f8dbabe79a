/* coney/codec.h: types of messages described once, by field tables, and the codecs that read and write them.
 *
 *     #define ORDER(F) F(u64, id) F(string, customer) F(f64, total, default("0")) F(list, tags, string, name("labels"))
 *     CONEY_TYPE(order, ORDER);                     // struct order, and order_type(), its field table
 *
 *     coney_arena *arena = coney_arena_new();
 *     coney_fault fault;
 *     order o;
 *     if (coney_decode(coney_json(), body, order_type(), &o, arena, &fault) != CONEY_OK)
 *         fprintf(stderr, "%s\n", fault.text);      // "lines[3].quantity: 70000 does not fit u16"
 *
 * The grammar. `#define NAME(F) F(kind, member, …) F(…) …`, one F for each member, in order:
 *
 *   F(…)                     the member                                     on the wire
 *   ────                     ──────────                                     ───────────
 *   F(bool, x)               bool                                           bool
 *   F(i8, x) … F(u64, x)     int8_t … int64_t, uint8_t … uint64_t           number
 *   F(f32, x) F(f64, x)      float, double                                  number
 *   F(string, x)             coney_bytes: UTF-8, also with NUL inside       string
 *   F(bytes, x)              coney_bytes                                    binary; JSON: base64 (RFC 4648, padded)
 *   F(time, x)               int64_t: milliseconds since 1970               JSON: RFC 3339 text, read with any offset, written
 *                                                                           in UTC; CBOR: tag 1, or read tag 0; MessagePack:
 *                                                                           its timestamp
 *   F(raw, x)                coney_bytes: the value as it is encoded        any one value
 *   F(message, x, T)         T, of CONEY_TYPE or CONEY_MESSAGE              object
 *   F(enum, x, T)            T, of CONEY_ENUM                               string
 *   F(optional, x, kind)     coney_optional_KIND {present, value}           the value; absent or null
 *   F(list, x, kind)         coney_list_KIND {items, count}                 array
 *   F(map, x, kind)          coney_map_KIND {items of {key, value}, count}  object; keys are strings
 *   F(optional_of, x, T)     T_optional                                     the same three, of messages or enums
 *   F(list_of, x, T)         T_list
 *   F(map_of, x, T)          T_map
 *
 * KIND is the kind as it is written, but for bool: coney_optional_boolean, coney_list_boolean, coney_map_boolean.
 *
 * Strings that one of the codecs here has decoded end in a NUL that is not counted, so `.data` serves as a C string where no
 * NUL stands inside.
 *
 * Options of a member, at most four, after its kind, name and type:
 *   name("n")                its name on the wire
 *   default("text")          what it is when it is absent, in the text form of its kind: bool, numbers, string, time, enum
 *
 * A member that has no default and is no optional, list or map is required. Null counts as absent; inside a list or map it
 * is an error. An absent list or map is empty. The same field twice in a message, or the same key twice in a map, is an
 * error; fields that are passed over are not compared.
 *
 * Options of the type, at most four, after its table:
 *   strict                   a field that is not in the table is an error; otherwise it is passed over
 *   to("destination")        where CONEY_MESSAGE's publish function sends it when it is told nothing else; "a.{x}.b" puts the
 *                            text of member x there
 *   header("name")           of sets: see CONEY_SET
 *
 * Everything works as C17 and as C++17. Types own nothing and are static; every function here may be used from any thread.
 */
#ifndef CONEY_CODEC_H
#define CONEY_CODEC_H

#include <coney/coney.h>
#include <coney/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types ------------------------------------------------------------------------------------------------------------ */

typedef enum coney_kind {
    CONEY_KIND_BOOL = 1,
    CONEY_KIND_I8 = 2,
    CONEY_KIND_I16 = 3,
    CONEY_KIND_I32 = 4,
    CONEY_KIND_I64 = 5,
    CONEY_KIND_U8 = 6,
    CONEY_KIND_U16 = 7,
    CONEY_KIND_U32 = 8,
    CONEY_KIND_U64 = 9,
    CONEY_KIND_F32 = 10,
    CONEY_KIND_F64 = 11,
    CONEY_KIND_STRING = 12,
    CONEY_KIND_BYTES = 13,
    CONEY_KIND_TIME = 14,
    CONEY_KIND_RAW = 15,
    CONEY_KIND_ENUM = 16,
    CONEY_KIND_MESSAGE = 17,
    CONEY_KIND_SET = 18, /* of a coney_type only: CONEY_SET */
} coney_kind;

typedef enum coney_shape {
    CONEY_SHAPE_ONE = 0,
    CONEY_SHAPE_OPTIONAL = 1,
    CONEY_SHAPE_LIST = 2,
    CONEY_SHAPE_MAP = 3,
} coney_shape;

struct coney_type;

/* One member of a message, one constant of an enum, or one variant of a set. Made by the macros; frozen layout. */
typedef struct coney_member {
    const char *name;     /* of the member, the constant or the variant */
    const char *rename;   /* name("…"), "" without; enums: the text on the wire; sets: the value that chooses the variant */
    const char *fallback; /* default("…"); NULL: there is none */
    const struct coney_type *(*type)(void); /* messages, enums and variants; else NULL */
    uint32_t name_len;
    uint32_t rename_len;
    uint32_t fallback_len;
    uint32_t offset; /* in the struct; enums: the constant, as an int32_t */
    /* a coney_kind; of a value whose type is a message or an enum: CONEY_KIND_MESSAGE, and the type knows better */
    uint8_t kind;
    uint8_t shape; /* a coney_shape */
    uint8_t reserved[6];
} coney_member;

#define CONEY_TYPE_STRICT 1u

/* Frozen layout. */
typedef struct coney_type {
    const char *name;
    const coney_member *members;
    const char *to; /* to("…"), sets: header("…"); "" without */
    uint32_t member_count;
    uint32_t size; /* of the struct or the enum, bytes */
    uint32_t entry_size;
    uint32_t entry_value;    /* offset of the value in T_entry */
    uint32_t optional_value; /* offset of the value in T_optional */
    uint32_t flags;
    uint8_t kind; /* CONEY_KIND_MESSAGE, CONEY_KIND_ENUM or CONEY_KIND_SET */
    uint8_t reserved[7];
} coney_type;

/* Looks for what the compiler cannot see: two members of one name on the wire, a default that does not fit its member, a
 * destination that names no member or one without a text form; in nested types, too. CONEY_EINVAL: `text` says what and
 * where. An app does this at its start. */
CONEY_API coney_status coney_type_check(const coney_type *type, char *text, size_t cap);

/* Containers of the plain kinds, as of messages and enums: coney only reads `items`; a decode allocates them in its arena. */
#define CONEY_CONTAINERS_(kind, ctype)                                                                                         \
    typedef struct coney_optional_##kind {                                                                                     \
        bool present;                                                                                                          \
        ctype value;                                                                                                           \
    } coney_optional_##kind;                                                                                                   \
    typedef struct coney_list_##kind {                                                                                         \
        const ctype *items;                                                                                                    \
        size_t count;                                                                                                          \
    } coney_list_##kind;                                                                                                       \
    typedef struct coney_entry_##kind {                                                                                        \
        coney_bytes key;                                                                                                       \
        ctype value;                                                                                                           \
    } coney_entry_##kind;                                                                                                      \
    typedef struct coney_map_##kind {                                                                                          \
        const coney_entry_##kind *items;                                                                                       \
        size_t count;                                                                                                          \
    } coney_map_##kind

CONEY_CONTAINERS_(boolean, bool);
CONEY_CONTAINERS_(i8, int8_t);
CONEY_CONTAINERS_(i16, int16_t);
CONEY_CONTAINERS_(i32, int32_t);
CONEY_CONTAINERS_(i64, int64_t);
CONEY_CONTAINERS_(u8, uint8_t);
CONEY_CONTAINERS_(u16, uint16_t);
CONEY_CONTAINERS_(u32, uint32_t);
CONEY_CONTAINERS_(u64, uint64_t);
CONEY_CONTAINERS_(f32, float);
CONEY_CONTAINERS_(f64, double);
CONEY_CONTAINERS_(string, coney_bytes);
CONEY_CONTAINERS_(bytes, coney_bytes);
CONEY_CONTAINERS_(time, int64_t);
CONEY_CONTAINERS_(raw, coney_bytes);

/* The plain kinds: the constant, the word in the names of containers, and the row and the declaration of a member of that
 * kind. bool is there twice, since it may be a macro for _Bool. */
#define CONEY_K_bool CONEY_KIND_BOOL
#define CONEY_K__Bool CONEY_KIND_BOOL
#define CONEY_K_i8 CONEY_KIND_I8
#define CONEY_K_i16 CONEY_KIND_I16
#define CONEY_K_i32 CONEY_KIND_I32
#define CONEY_K_i64 CONEY_KIND_I64
#define CONEY_K_u8 CONEY_KIND_U8
#define CONEY_K_u16 CONEY_KIND_U16
#define CONEY_K_u32 CONEY_KIND_U32
#define CONEY_K_u64 CONEY_KIND_U64
#define CONEY_K_f32 CONEY_KIND_F32
#define CONEY_K_f64 CONEY_KIND_F64
#define CONEY_K_string CONEY_KIND_STRING
#define CONEY_K_bytes CONEY_KIND_BYTES
#define CONEY_K_time CONEY_KIND_TIME
#define CONEY_K_raw CONEY_KIND_RAW
#define CONEY_OPTIONAL_bool coney_optional_boolean
#define CONEY_OPTIONAL__Bool coney_optional_boolean
#define CONEY_OPTIONAL_i8 coney_optional_i8
#define CONEY_OPTIONAL_i16 coney_optional_i16
#define CONEY_OPTIONAL_i32 coney_optional_i32
#define CONEY_OPTIONAL_i64 coney_optional_i64
#define CONEY_OPTIONAL_u8 coney_optional_u8
#define CONEY_OPTIONAL_u16 coney_optional_u16
#define CONEY_OPTIONAL_u32 coney_optional_u32
#define CONEY_OPTIONAL_u64 coney_optional_u64
#define CONEY_OPTIONAL_f32 coney_optional_f32
#define CONEY_OPTIONAL_f64 coney_optional_f64
#define CONEY_OPTIONAL_string coney_optional_string
#define CONEY_OPTIONAL_bytes coney_optional_bytes
#define CONEY_OPTIONAL_time coney_optional_time
#define CONEY_OPTIONAL_raw coney_optional_raw
#define CONEY_LIST_bool coney_list_boolean
#define CONEY_LIST__Bool coney_list_boolean
#define CONEY_LIST_i8 coney_list_i8
#define CONEY_LIST_i16 coney_list_i16
#define CONEY_LIST_i32 coney_list_i32
#define CONEY_LIST_i64 coney_list_i64
#define CONEY_LIST_u8 coney_list_u8
#define CONEY_LIST_u16 coney_list_u16
#define CONEY_LIST_u32 coney_list_u32
#define CONEY_LIST_u64 coney_list_u64
#define CONEY_LIST_f32 coney_list_f32
#define CONEY_LIST_f64 coney_list_f64
#define CONEY_LIST_string coney_list_string
#define CONEY_LIST_bytes coney_list_bytes
#define CONEY_LIST_time coney_list_time
#define CONEY_LIST_raw coney_list_raw
#define CONEY_MAP_bool coney_map_boolean
#define CONEY_MAP__Bool coney_map_boolean
#define CONEY_MAP_i8 coney_map_i8
#define CONEY_MAP_i16 coney_map_i16
#define CONEY_MAP_i32 coney_map_i32
#define CONEY_MAP_i64 coney_map_i64
#define CONEY_MAP_u8 coney_map_u8
#define CONEY_MAP_u16 coney_map_u16
#define CONEY_MAP_u32 coney_map_u32
#define CONEY_MAP_u64 coney_map_u64
#define CONEY_MAP_f32 coney_map_f32
#define CONEY_MAP_f64 coney_map_f64
#define CONEY_MAP_string coney_map_string
#define CONEY_MAP_bytes coney_map_bytes
#define CONEY_MAP_time coney_map_time
#define CONEY_MAP_raw coney_map_raw
#define CONEY_DECL_bool(member, a) bool member;
#define CONEY_DECL__Bool(member, a) bool member;
#define CONEY_DECL_i8(member, a) int8_t member;
#define CONEY_DECL_i16(member, a) int16_t member;
#define CONEY_DECL_i32(member, a) int32_t member;
#define CONEY_DECL_i64(member, a) int64_t member;
#define CONEY_DECL_u8(member, a) uint8_t member;
#define CONEY_DECL_u16(member, a) uint16_t member;
#define CONEY_DECL_u32(member, a) uint32_t member;
#define CONEY_DECL_u64(member, a) uint64_t member;
#define CONEY_DECL_f32(member, a) float member;
#define CONEY_DECL_f64(member, a) double member;
#define CONEY_DECL_string(member, a) coney_bytes member;
#define CONEY_DECL_bytes(member, a) coney_bytes member;
#define CONEY_DECL_time(member, a) int64_t member;
#define CONEY_DECL_raw(member, a) coney_bytes member;
#define CONEY_DECL_optional(member, kind) CONEY_OPTIONAL_##kind member;
#define CONEY_DECL_list(member, kind) CONEY_LIST_##kind member;
#define CONEY_DECL_map(member, kind) CONEY_MAP_##kind member;
#define CONEY_DECL_message(member, T) T member;
#define CONEY_DECL_enum(member, T) T member;
#define CONEY_DECL_optional_of(member, T) T##_optional member;
#define CONEY_DECL_list_of(member, T) T##_list member;
#define CONEY_DECL_map_of(member, T) T##_map member;
#define CONEY_ROW_bool(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_BOOL, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW__Bool(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_BOOL, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_i8(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_I8, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_i16(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_I16, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_i32(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_I32, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_i64(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_I64, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_u8(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_U8, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_u16(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_U16, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_u32(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_U32, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_u64(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_U64, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_f32(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_F32, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_f64(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_F64, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_string(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_STRING, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_bytes(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_BYTES, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_time(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_TIME, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_raw(m, a, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_RAW, CONEY_SHAPE_ONE, NULL, a, b, c, d)
#define CONEY_ROW_optional(m, kind, b, c, d, e) CONEY_ROW_(m, CONEY_K_##kind, CONEY_SHAPE_OPTIONAL, NULL, b, c, d, e)
#define CONEY_ROW_list(m, kind, b, c, d, e) CONEY_ROW_(m, CONEY_K_##kind, CONEY_SHAPE_LIST, NULL, b, c, d, e)
#define CONEY_ROW_map(m, kind, b, c, d, e) CONEY_ROW_(m, CONEY_K_##kind, CONEY_SHAPE_MAP, NULL, b, c, d, e)
#define CONEY_ROW_message(m, T, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_MESSAGE, CONEY_SHAPE_ONE, T##_type, b, c, d, e)
#define CONEY_ROW_enum(m, T, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_ENUM, CONEY_SHAPE_ONE, T##_type, b, c, d, e)
#define CONEY_ROW_optional_of(m, T, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_MESSAGE, CONEY_SHAPE_OPTIONAL, T##_type, b, c, d, e)
#define CONEY_ROW_list_of(m, T, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_MESSAGE, CONEY_SHAPE_LIST, T##_type, b, c, d, e)
#define CONEY_ROW_map_of(m, T, b, c, d, e) CONEY_ROW_(m, CONEY_KIND_MESSAGE, CONEY_SHAPE_MAP, T##_type, b, c, d, e)

/* Options. Each has a word for every slot that options can fill. */
#define CONEY_NAME_
#define CONEY_NAME_name(text) text
#define CONEY_NAME_default(text)
#define CONEY_HAS_DEFAULT_
#define CONEY_HAS_DEFAULT_name(text)
#define CONEY_HAS_DEFAULT_default(text) +1
#define CONEY_DEFAULT_
#define CONEY_DEFAULT_name(text)
#define CONEY_DEFAULT_default(text) text
#define CONEY_FLAG_
#define CONEY_FLAG_strict | CONEY_TYPE_STRICT
#define CONEY_FLAG_to(text)
#define CONEY_FLAG_header(text)
#define CONEY_TO_
#define CONEY_TO_strict
#define CONEY_TO_to(text) text
#define CONEY_TO_header(text) text
#define CONEY_NAMED_(a, b, c, d) "" CONEY_NAME_##a CONEY_NAME_##b CONEY_NAME_##c CONEY_NAME_##d
#define CONEY_FALLBACK_(a, b, c, d) "" CONEY_DEFAULT_##a CONEY_DEFAULT_##b CONEY_DEFAULT_##c CONEY_DEFAULT_##d
#define CONEY_HAS_FALLBACK_(a, b, c, d)                                                                                        \
    (0 CONEY_HAS_DEFAULT_##a CONEY_HAS_DEFAULT_##b CONEY_HAS_DEFAULT_##c CONEY_HAS_DEFAULT_##d)

#define CONEY_ROW_(member, kind, shape, type, a, b, c, d)                                                                      \
    {#member,                                                                                                                  \
     CONEY_NAMED_(a, b, c, d),                                                                                                 \
     CONEY_HAS_FALLBACK_(a, b, c, d) ? CONEY_FALLBACK_(a, b, c, d) : NULL,                                                     \
     type,                                                                                                                     \
     (uint32_t)sizeof(#member) - 1,                                                                                            \
     (uint32_t)sizeof(CONEY_NAMED_(a, b, c, d)) - 1,                                                                           \
     (uint32_t)sizeof(CONEY_FALLBACK_(a, b, c, d)) - 1,                                                                        \
     (uint32_t)offsetof(coney_owner_, member),                                                                                 \
     (uint8_t)(kind),                                                                                                          \
     (uint8_t)(shape),                                                                                                         \
     {0, 0, 0, 0, 0, 0}},

/* What F, E and M stand for in turn. */
#define CONEY_DECL_F_(...) CONEY_DECL_F1_(__VA_ARGS__, , )
#define CONEY_DECL_F1_(kind, member, a, ...) CONEY_DECL_##kind(member, a)
#define CONEY_ROW_F_(...) CONEY_ROW_F1_(__VA_ARGS__, , , , , , )
#define CONEY_ROW_F1_(kind, member, a, b, c, d, e, ...) CONEY_ROW_##kind(member, a, b, c, d, e)
#define CONEY_DECL_E_(...) CONEY_DECL_E1_(__VA_ARGS__, )
#define CONEY_DECL_E1_(constant, ...) constant,
#define CONEY_ROW_E_(...) CONEY_ROW_E1_(__VA_ARGS__, , )
#define CONEY_ROW_E1_(constant, text, ...)                                                                                     \
    {#constant,                                                                                                                \
     text,                                                                                                                     \
     NULL,                                                                                                                     \
     NULL,                                                                                                                     \
     (uint32_t)sizeof(#constant) - 1,                                                                                          \
     (uint32_t)sizeof(text) - 1,                                                                                               \
     0,                                                                                                                        \
     (uint32_t)(constant),                                                                                                     \
     (uint8_t)CONEY_KIND_ENUM,                                                                                                 \
     0,                                                                                                                        \
     {0, 0, 0, 0, 0, 0}},
#define CONEY_DECL_M_(...) CONEY_DECL_M1_(__VA_ARGS__, )
#define CONEY_DECL_M1_(T, ...) T as_##T;
#define CONEY_ROW_M_(...) CONEY_ROW_M1_(__VA_ARGS__, , )
#define CONEY_ROW_M1_(T, text, ...)                                                                                            \
    {#T,                                                                                                                       \
     "" text,                                                                                                                  \
     NULL,                                                                                                                     \
     T##_type,                                                                                                                 \
     (uint32_t)sizeof(#T) - 1,                                                                                                 \
     (uint32_t)sizeof("" text) - 1,                                                                                            \
     0,                                                                                                                        \
     (uint32_t)offsetof(coney_owner_, value.as_##T),                                                                           \
     (uint8_t)CONEY_KIND_MESSAGE,                                                                                              \
     0,                                                                                                                        \
     {0, 0, 0, 0, 0, 0}},

#define CONEY_STATIC_ static inline __attribute__((unused))

/* T_optional, T_list, T_entry and T_map around T, which is declared, and then defined by `definition`. */
#define CONEY_DEFINE_(T, definition)                                                                                           \
    typedef struct T##_list {                                                                                                  \
        const T *items;                                                                                                        \
        size_t count;                                                                                                          \
    } T##_list;                                                                                                                \
    typedef struct T##_entry T##_entry;                                                                                        \
    typedef struct T##_map {                                                                                                   \
        const T##_entry *items;                                                                                                \
        size_t count;                                                                                                          \
    } T##_map;                                                                                                                 \
    definition;                                                                                                                \
    struct T##_entry {                                                                                                         \
        coney_bytes key;                                                                                                       \
        T value;                                                                                                               \
    };                                                                                                                         \
    typedef struct T##_optional {                                                                                              \
        bool present;                                                                                                          \
        T value;                                                                                                               \
    } T##_optional

#define CONEY_TABLE_(T, rows, to, flags, kind)                                                                                 \
    CONEY_STATIC_ const coney_type *T##_type(void)                                                                             \
    {                                                                                                                          \
        typedef T coney_owner_;                                                                                                \
        static const coney_member members[] = {rows};                                                                          \
        static const coney_type type = {#T,                                                                                    \
                                        members,                                                                               \
                                        to,                                                                                    \
                                        (uint32_t)(sizeof members / sizeof *members),                                          \
                                        (uint32_t)sizeof(coney_owner_),                                                        \
                                        (uint32_t)sizeof(T##_entry),                                                           \
                                        (uint32_t)offsetof(T##_entry, value),                                                  \
                                        (uint32_t)offsetof(T##_optional, value),                                               \
                                        flags,                                                                                 \
                                        (uint8_t)(kind),                                                                       \
                                        {0, 0, 0, 0, 0, 0, 0}};                                                                \
        return &type;                                                                                                          \
    }

/* CONEY_TYPE(T, TABLE, options…): struct T, its containers T_optional, T_list, T_entry, T_map, and const coney_type
 * *T_type(void). A type may hold lists and maps of itself. */
#define CONEY_TYPE(...) CONEY_TYPE1_(__VA_ARGS__, , , , , )
#define CONEY_TYPE1_(T, TABLE, a, b, c, d, ...)                                                                                \
    typedef struct T T;                                                                                                        \
    CONEY_DEFINE_(T, struct T{TABLE(CONEY_DECL_F_)});                                                                          \
    CONEY_TABLE_(T, TABLE(CONEY_ROW_F_), "" CONEY_TO_##a CONEY_TO_##b CONEY_TO_##c CONEY_TO_##d,                               \
                 0u CONEY_FLAG_##a CONEY_FLAG_##b CONEY_FLAG_##c CONEY_FLAG_##d, CONEY_KIND_MESSAGE)                           \
    struct T

/* `#define STATE(E) E(STATE_NEW, "new") E(STATE_PAID, "paid")` and CONEY_ENUM(state, STATE): enum state, numbered from 0, its
 * containers, and its texts on the wire. A text that is not in the table is a fault. */
#define CONEY_ENUM(T, TABLE)                                                                                                   \
    typedef enum T { TABLE(CONEY_DECL_E_) } T;                                                                                 \
    CONEY_DEFINE_(T, struct T##_list);                                                                                         \
    CONEY_TABLE_(T, TABLE(CONEY_ROW_E_), "", 0u, CONEY_KIND_ENUM)                                                              \
    struct T##_list

/* Several types on one subscription. `#define EVENT(M) M(order_made, "order.made") M(order_paid, "order.paid")` and
 * CONEY_SET(event, EVENT, header("event-type")): struct event { const coney_type *is; union { order_made as_order_made; … }
 * value; }. `is` says which one it holds: `if (e->is == order_made_type()) … e->value.as_order_made`. The header's value
 * chooses the variant; header("type") is AMQP's property `type`, unless there is a header of that name. Without header(…) the
 * variants are tried in their order, and one that leaves nothing over comes first: what was refused for a field that is
 * missing or unknown is no fault while another variant fits. */
#define CONEY_SET(...) CONEY_SET1_(__VA_ARGS__, , )
#define CONEY_SET1_(T, TABLE, a, ...)                                                                                          \
    typedef struct T T;                                                                                                        \
    CONEY_DEFINE_(                                                                                                             \
        T, struct T {                                                                                                          \
            const coney_type *is;                                                                                              \
            union {                                                                                                            \
                TABLE(CONEY_DECL_M_)                                                                                           \
            } value;                                                                                                           \
        });                                                                                                                    \
    CONEY_TABLE_(T, TABLE(CONEY_ROW_M_), "" CONEY_TO_##a, 0u, CONEY_KIND_SET)                                                  \
    struct T

/* Memory of decoded values ------------------------------------------------------------------------------------------- */

/* Memory that is given back all at once. Grows by itself, keeps what it has for the next use. Not thread-safe by itself. */
typedef struct coney_arena coney_arena;

/* NULL: memory is out. Nothing is allocated before the first use. */
CONEY_API coney_arena *coney_arena_new(void);

/* Uninitialised memory for any type, valid until the reset. NULL: memory is out. `size` may be 0. */
CONEY_API void *coney_arena_alloc(coney_arena *arena, size_t size);

/* A copy in the arena, with a NUL behind it that is not counted; `.data` NULL: memory is out. */
CONEY_API coney_bytes coney_arena_copy(coney_arena *arena, coney_bytes bytes);

/* All that was allocated is invalid. What passes 64 KiB goes back to the system, now and then; the rest is used again. */
CONEY_API void coney_arena_reset(coney_arena *arena);

/* Clears *arena; NULL there is harmless. */
CONEY_API void coney_arena_free(coney_arena **arena);

/* Codecs ------------------------------------------------------------------------------------------------------------- */

/* What went wrong and where. Zero it or not: it is set by a failure only. */
typedef struct coney_fault {
    char path[128]; /* "lines[3].quantity", "" for the whole; cut at the front when it is longer */
    char text[384]; /* the sentence, with the path: what was found there and what was expected */
    uint64_t reserved[2];
} coney_fault;

/* Where an encoder writes. Grows by itself; keeps its memory for the next use. Zero is empty. Not thread-safe by itself. */
typedef struct coney_sink {
    uint8_t *data;
    size_t len;
    size_t cap;
    uint32_t failed; /* memory was out: what was written since is lost */
    uint32_t reserved;
} coney_sink;

/* Makes room for `len` bytes more and returns where they go; the writer adds what it wrote to `len`. NULL: memory is out,
 * `failed` is set. */
CONEY_API uint8_t *coney_sink_reserve(coney_sink *sink, size_t len);
CONEY_API void coney_sink_write(coney_sink *sink, const void *data, size_t len);
CONEY_API void coney_sink_free(coney_sink *sink);

/* A form of messages on the wire. A user's own is a static one of these; the functions may be called from several threads at
 * once. `codec` is the struct itself, so that one that wraps another stands in front of what it needs. */
typedef struct coney_codec {
    const char *name;         /* "json" */
    const char *content_type; /* written with every message, and expected of it; "" = neither */
    /* Fills *out, `type->size` bytes, zeroed before. All of it that is a pointer lies in `arena` or is static: never in
     * `body`, which may be gone before the value is. CONEY_ECORRUPT with a fault; CONEY_ENOMEM. The variants of a set that
     * are tried in turn come as copies of their types at first, which are strict. */
    coney_status (*decode)(const struct coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                           coney_arena *arena, coney_fault *fault);
    /* Appends *value to the sink. CONEY_EINVAL with a fault for what has no form on the wire (a NaN in JSON, bytes in a
     * string that are not UTF-8); CONEY_ENOMEM. The arena is for scratch. */
    coney_status (*encode)(const struct coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                           coney_arena *arena, coney_fault *fault);
    uint64_t reserved[4];
} coney_codec;

/* JSON (RFC 8259; "application/json", and "text/json" or "…+json" are taken, too), by yyjson. Invalid UTF-8, NaN and nesting
 * beyond 64 are faults. A number that has a fraction is none for an integer member, 3.0 neither; an integer is one for a
 * float. 64-bit integers are exact. */
CONEY_API const coney_codec *coney_json(void);

/* CBOR (RFC 8949; "application/cbor"), by libcbor: definite and indefinite lengths, unknown tags passed over; keys must be
 * text. */
CONEY_API const coney_codec *coney_cbor(void);

/* MessagePack ("application/msgpack", "application/x-msgpack" is taken, too), by msgpack-c. Messages are maps. */
CONEY_API const coney_codec *coney_msgpack(void);

/* Each is there in every build. In one that was made without it, it answers CONEY_EUNSUPPORTED, and an app that needs it does
 * not start. */

/* *out becomes the value, whole or not at all (zeroed after a failure). `out` has type->size bytes. `fault` may be NULL.
 * CONEY_ECORRUPT: the body is not a `type`. CONEY_EINVAL: an argument is NULL, or the type is an enum. CONEY_ENOMEM,
 * CONEY_EUNSUPPORTED. */
CONEY_API coney_status coney_decode(const coney_codec *codec, coney_bytes body, const coney_type *type, void *out,
                                    coney_arena *arena, coney_fault *fault);

/* Appends the value to the sink; after a failure the sink is as long as it was. `arena` may be NULL: one is made for the
 * call. */
CONEY_API coney_status coney_encode(const coney_codec *codec, const coney_type *type, const void *value, coney_sink *sink,
                                    coney_arena *arena, coney_fault *fault);

/* Whether a message of this content type is one for the codec: parameters are ignored, case is, too. An empty one is. */
CONEY_API bool coney_codec_takes(const coney_codec *codec, coney_bytes content_type);

/* Headers: a flat type (plain kinds and enums, one or optional) read from a map of values and written as fields; numbers are
 * taken from any integer type that fits, and from texts. Names are compared as they are written. CONEY_ECORRUPT or
 * CONEY_EINVAL with a fault. */
CONEY_API coney_status coney_headers_decode(const coney_value *map, const coney_type *type, void *out, coney_arena *arena,
                                            coney_fault *fault);

/* *fields and *count become an array in the arena, whose texts are the value's; what is an absent optional is left out. */
CONEY_API coney_status coney_headers_encode(const coney_type *type, const void *value, coney_arena *arena,
                                            const coney_field **fields, size_t *count, coney_fault *fault);

#ifdef __cplusplus
}
#endif

#endif
