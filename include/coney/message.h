/* coney/message.h: messages in the AMQP 1.0 format, which is what streams store and every RabbitMQ client can read.
 *
 *     const coney_field properties[] = {{CONEY_STR_INIT("region"), coney_value_string(CONEY_STR("eu"))}};
 *     coney_message m = {
 *         .body = CONEY_STR("{\"id\":7}"),
 *         .properties.content_type = CONEY_STR("application/json"),
 *         .properties.message_id = coney_value_u64(7),
 *         .application_properties = properties,
 *         .application_property_count = 1,
 *     };
 *
 *     coney_message_view view;
 *     coney_value region;
 *     if (coney_message_parse(encoded, &view) != CONEY_OK)
 *         fprintf(stderr, "not readable: %s\n", view.error);
 *     else if (coney_value_find(&view.application_properties, CONEY_STR("region"), &region))
 *         printf("%.*s\n", (int)region.as.bytes.len, (const char *)region.as.bytes.data);
 *
 * Rules that hold for both directions:
 * - A slot that is zero (a null value, bytes whose `data` is NULL) is absent. An empty text is CONEY_STR(""). AMQP 1.0 does
 *   not tell an absent header field or property from one that is null; in maps a key with a null value is present.
 * - Everything is a view: of the user's memory when sending, of the encoded message when reading.
 * - Nothing here allocates, blocks or keeps state. Any thread, any callback.
 */
#ifndef CONEY_MESSAGE_H
#define CONEY_MESSAGE_H

#include <coney/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sections that a message may have. */
#define CONEY_MESSAGE_SECTIONS 10000

typedef enum coney_body_kind {
    CONEY_BODY_DATA = 0,       /* bytes */
    CONEY_BODY_VALUE = 1,      /* one value of any type */
    CONEY_BODY_SEQUENCE = 2,   /* lists */
    CONEY_BODY_NONE = 3,       /* read: there is no body section; treat it as an empty one. Never sent */
    CONEY_BODY_PARTS = 4,      /* deliveries only: several data sections; join them with coney_message_body_copy */
    CONEY_BODY_UNREADABLE = 5, /* deliveries only: the entry is not AMQP 1.0 */
} coney_body_kind;

/* Each slot has the type that is named here. When sending, the slots that are u8 or u32 take any integer type, as long as the
 * number fits. */
typedef struct coney_message_header {
    coney_value durable;        /* bool */
    coney_value priority;       /* u8 */
    coney_value ttl;            /* u32, milliseconds */
    coney_value first_acquirer; /* bool */
    coney_value delivery_count; /* u32 */
} coney_message_header;

typedef struct coney_message_properties {
    coney_value message_id; /* u64, uuid, binary or string, and read back as the same */
    coney_bytes user_id;    /* binary */
    coney_bytes to;
    coney_bytes subject;
    coney_bytes reply_to;
    coney_value correlation_id;       /* as message_id */
    coney_bytes content_type;         /* ASCII */
    coney_bytes content_encoding;     /* ASCII */
    coney_value absolute_expiry_time; /* timestamp */
    coney_value creation_time;        /* timestamp, may be before 1970 */
    coney_bytes group_id;
    coney_value group_sequence; /* u32 */
    coney_bytes reply_to_group_id;
} coney_message_properties;

/* A message to send. Zero is a message whose body is empty. The layout is frozen.
 *
 * Maps are arrays of fields, in the order in which they are sent; a null value is sent as null.
 * - application_properties: string keys, and values that are not compound (AMQP 1.0). A RabbitMQ consumer of AMQP 0-9-1 that
 *   meets a char or a uuid here has its connection closed by the broker, and does not see decimals at all.
 * - annotations and the footer: each key must begin with "x-" and is sent as a symbol. RabbitMQ 4.1 and later throw on any
 *   other key when they convert the message for a consumer, so others are refused with CONEY_EINVAL. */
typedef struct coney_message {
    coney_bytes body;   /* DATA: the content of the one data section */
    coney_value value;  /* VALUE: it. SEQUENCE: a list. Otherwise null */
    uint32_t body_kind; /* a coney_body_kind */
    uint32_t reserved;  /* zero, like the four below */
    coney_message_header header;
    coney_message_properties properties;
    const coney_field *application_properties;
    size_t application_property_count;
    const coney_field *message_annotations;
    size_t message_annotation_count;
    const coney_field *delivery_annotations;
    size_t delivery_annotation_count;
    const coney_field *footer;
    size_t footer_count;
    uint64_t reserved_more[4];
} coney_message;

/* Encodes `m` into `cap` bytes at `into`. *size is the size it takes, also with CONEY_ETOOBIG, so `cap` 0 with a NULL `into`
 * measures. When the message cannot be encoded, *size is 0 and *field, unless `field` is NULL, is the static name of the
 * member at fault ("properties.group_sequence"); otherwise *field is NULL.
 * CONEY_EINVAL: the member does not fit its slot (type, range, key; a compound value that coney_value_check refuses; a reserved
 * member that is not zero). CONEY_ETOOBIG: it does not fit into `cap`, or a section would pass 4 GiB. */
CONEY_API coney_status coney_message_encode(const coney_message *m, void *into, size_t cap, size_t *size,
                                            const char **field) CONEY_MUST_CHECK;

/* A message that was read. The maps and lists are null values when the message does not have the section; read them with
 * coney_value_find and coney_value_next_field. The layout is frozen. */
typedef struct coney_message_view {
    const char *error;   /* NULL, or what coney_message_parse could not read: "properties.creation_time". Static memory */
    coney_bytes encoded; /* the whole message */
    coney_value header;  /* a list: see coney_message_get_header */
    coney_value delivery_annotations;
    coney_value message_annotations;
    coney_value properties; /* a list: see coney_message_get_properties */
    coney_value application_properties;
    coney_value footer;
    coney_bytes body;       /* the body sections as they are encoded: read them with coney_message_body */
    uint32_t body_kind;     /* a coney_body_kind */
    uint32_t body_sections; /* how many */
    uint64_t body_size;     /* DATA: bytes of all data sections together; otherwise 0 */
    uint64_t reserved[4];
} coney_message_view;

/* Reads and checks a whole message; *out is a view of `encoded`, valid as long as that is. After CONEY_OK nothing in the view
 * can fail to be read. Time and stack do not depend on what counts and sizes in the message claim.
 * CONEY_ECORRUPT: `out->error` says which part is damaged, and nothing else in *out may be read. Refused are: bytes that are no
 * section or are cut short; sections out of order or given twice (data and sequence may repeat), or more than
 * CONEY_MESSAGE_SECTIONS of them; fields of the wrong type in header and properties; descriptors that are neither a ulong nor a
 * symbol (reserved by AMQP 1.0); nesting beyond CONEY_VALUE_DEPTH.
 * Accepted beyond the standard: no body section (and no section at all), strings where symbols belong in the properties and
 * the reverse, keys of any type in maps, repeated keys. */
CONEY_API coney_status coney_message_parse(coney_bytes encoded, coney_message_view *out) CONEY_MUST_CHECK;

/* Decodes the header or the properties of a parsed message. False when it has no such section: every slot of *out is then
 * absent. */
CONEY_API bool coney_message_get_header(const coney_message_view *view, coney_message_header *out);
CONEY_API bool coney_message_get_properties(const coney_message_view *view, coney_message_properties *out);

/* A walk over the body sections. Filled by coney_message_body; its fields are not for users. */
typedef struct coney_body_iter {
    const uint8_t *at;
    const uint8_t *end;
} coney_body_iter;

CONEY_API coney_body_iter coney_message_body(const coney_message_view *view);

/* The next body section: of DATA a binary value each, of SEQUENCE a list each, of VALUE the value, once. False at the end. */
CONEY_API bool coney_message_body_next(coney_body_iter *iter, coney_value *out);

/* The content of all data sections together: its size, and a copy of its first `cap` bytes, which returns how many it copied.
 * Both 0 when the body is not data. */
CONEY_API size_t coney_message_body_size(const coney_message_view *view);
CONEY_API size_t coney_message_body_copy(const coney_message_view *view, void *into, size_t cap);

#ifdef __cplusplus
}
#endif

#endif
