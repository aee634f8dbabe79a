/* samples.h: one of every method and its payload as the wire has it; for the tests of this folder.
 *
 * The bytes are written down from the protocol's document, not by the codec.
 */
#ifndef CONEY_PROTO_AMQP091_SAMPLES_H
#define CONEY_PROTO_AMQP091_SAMPLES_H

#include "proto/amqp091/codec.h"

struct sample {
    struct amqp_method method;
    const char *payload; /* for bytes_of */
};

/* clang-format off */
#define S(literal) CONEY_STR_INIT(literal)
#define TABLE {.type = CONEY_VALUE_MAP, .encoding = CONEY_ENCODING_AMQP091, .count = 2, .as.bytes = {"\001aI\0\0\0\005", 7}}
#define TABLE_HEX " 00000007 01'a' 'I' 00000005 "
#define METHOD(ID, ...) {.id = AMQP_##ID, __VA_ARGS__}

static const struct sample samples[] = {
    {METHOD(CONNECTION_START, .connection_start = {0, 9, TABLE, S("PLAIN AMQPLAIN"), S("en_US")}),
     "000a 000a 00 09" TABLE_HEX "0000000e 'PLAIN AMQPLAIN' 00000005 'en_US'"},
    {METHOD(CONNECTION_START_OK, .connection_start_ok = {TABLE, S("PLAIN"), S("\0u\0p"), S("en_US")}),
     "000a 000b" TABLE_HEX "05 'PLAIN' 00000004 00 'u' 00 'p' 05 'en_US'"},
    {METHOD(CONNECTION_SECURE, .connection_secure = {S("why")}), "000a 0014 00000003 'why'"},
    {METHOD(CONNECTION_SECURE_OK, .connection_secure_ok = {S("so")}), "000a 0015 00000002 'so'"},
    {METHOD(CONNECTION_TUNE, .connection_tune = {2047, 131072, 60}), "000a 001e 07ff 00020000 003c"},
    {METHOD(CONNECTION_TUNE_OK, .connection_tune = {1, 8192, 0}), "000a 001f 0001 00002000 0000"},
    {METHOD(CONNECTION_OPEN, .connection_open = {S("/")}), "000a 0028 01'/' 00 00"},
    {METHOD(CONNECTION_OPEN_OK, .close = {0}), "000a 0029 00"},
    {METHOD(CONNECTION_CLOSE, .close = {320, S("bye"), 60, 40}), "000a 0032 0140 03'bye' 003c 0028"},
    {METHOD(CONNECTION_CLOSE_OK, .close = {0}), "000a 0033"},
    {METHOD(CONNECTION_BLOCKED, .connection_blocked = {S("low on memory")}), "000a 003c 0d'low on memory'"},
    {METHOD(CONNECTION_UNBLOCKED, .close = {0}), "000a 003d"},
    {METHOD(CONNECTION_UPDATE_SECRET, .connection_update_secret = {S("token"), S("due")}), "000a 0046 00000005'token' 03'due'"},
    {METHOD(CONNECTION_UPDATE_SECRET_OK, .close = {0}), "000a 0047"},
    {METHOD(CHANNEL_OPEN, .close = {0}), "0014 000a 00"},
    {METHOD(CHANNEL_OPEN_OK, .close = {0}), "0014 000b 00000000"},
    {METHOD(CHANNEL_FLOW, .channel_flow = {true}), "0014 0014 01"},
    {METHOD(CHANNEL_FLOW_OK, .channel_flow = {false}), "0014 0015 00"},
    {METHOD(CHANNEL_CLOSE, .close = {404, S("no"), 50, 10}), "0014 0028 0194 02'no' 0032 000a"},
    {METHOD(CHANNEL_CLOSE_OK, .close = {0}), "0014 0029"},
    {METHOD(ACCESS_REQUEST, .access_request = {S("/data"), false, true, false, true, true}), "001e 000a 05'/data' 1a"},
    {METHOD(ACCESS_REQUEST_OK, .access_request_ok = {1}), "001e 000b 0001"},
    {METHOD(EXCHANGE_DECLARE, .exchange_declare = {S("x"), S("topic"), false, true, false, true, false, TABLE}),
     "0028 000a 0000 01'x' 05'topic' 0a" TABLE_HEX},
    {METHOD(EXCHANGE_DECLARE_OK, .close = {0}), "0028 000b"},
    {METHOD(EXCHANGE_DELETE, .exchange_delete = {S("x"), true, true}), "0028 0014 0000 01'x' 03"},
    {METHOD(EXCHANGE_DELETE_OK, .close = {0}), "0028 0015"},
    {METHOD(EXCHANGE_BIND, .exchange_bind = {S("to"), S("from"), S("k"), false, TABLE}),
     "0028 001e 0000 02'to' 04'from' 01'k' 00" TABLE_HEX},
    {METHOD(EXCHANGE_BIND_OK, .close = {0}), "0028 001f"},
    {METHOD(EXCHANGE_UNBIND, .exchange_bind = {S("to"), S("from"), S("k"), true, TABLE}),
     "0028 0028 0000 02'to' 04'from' 01'k' 01" TABLE_HEX},
    {METHOD(EXCHANGE_UNBIND_OK, .close = {0}), "0028 0033"},
    {METHOD(QUEUE_DECLARE, .queue_declare = {S("q"), true, false, true, false, true, TABLE}), "0032 000a 0000 01'q' 15" TABLE_HEX},
    {METHOD(QUEUE_DECLARE_OK, .queue_declare_ok = {S("q"), 7, 65536}), "0032 000b 01'q' 00000007 00010000"},
    {METHOD(QUEUE_BIND, .queue_bind = {S("q"), S("x"), S("key"), false, TABLE}), "0032 0014 0000 01'q' 01'x' 03'key' 00" TABLE_HEX},
    {METHOD(QUEUE_BIND_OK, .close = {0}), "0032 0015"},
    {METHOD(QUEUE_PURGE, .queue_purge = {S("q"), true}), "0032 001e 0000 01'q' 01"},
    {METHOD(QUEUE_PURGE_OK, .queue_messages = {3}), "0032 001f 00000003"},
    {METHOD(QUEUE_DELETE, .queue_delete = {S("q"), false, true, false}), "0032 0028 0000 01'q' 02"},
    {METHOD(QUEUE_DELETE_OK, .queue_messages = {UINT32_MAX}), "0032 0029 ffffffff"},
    {METHOD(QUEUE_UNBIND, .queue_unbind = {S("q"), S("x"), S("key"), TABLE}), "0032 0032 0000 01'q' 01'x' 03'key'" TABLE_HEX},
    {METHOD(QUEUE_UNBIND_OK, .close = {0}), "0032 0033"},
    {METHOD(BASIC_QOS, .basic_qos = {0, 200, true}), "003c 000a 00000000 00c8 01"},
    {METHOD(BASIC_QOS_OK, .close = {0}), "003c 000b"},
    {METHOD(BASIC_CONSUME, .basic_consume = {S("q"), S("me"), false, true, false, true, TABLE}),
     "003c 0014 0000 01'q' 02'me' 0a" TABLE_HEX},
    {METHOD(BASIC_CONSUME_OK, .basic_consumer = {S("me")}), "003c 0015 02'me'"},
    {METHOD(BASIC_CANCEL, .basic_cancel = {S("me"), true}), "003c 001e 02'me' 01"},
    {METHOD(BASIC_CANCEL_OK, .basic_consumer = {S("me")}), "003c 001f 02'me'"},
    {METHOD(BASIC_PUBLISH, .basic_publish = {S("x"), S("key"), true, false}), "003c 0028 0000 01'x' 03'key' 01"},
    {METHOD(BASIC_RETURN, .basic_return = {312, S("NO_ROUTE"), S(""), S("key")}), "003c 0032 0138 08'NO_ROUTE' 00 03'key'"},
    {METHOD(BASIC_DELIVER, .basic_deliver = {S("me"), 258, true, S("x"), S("key")}), "003c 003c 02'me' 0000000000000102 01 01'x' 03'key'"},
    {METHOD(BASIC_GET, .basic_get = {S("q"), true}), "003c 0046 0000 01'q' 01"},
    {METHOD(BASIC_GET_OK, .basic_get_ok = {9, false, S("x"), S("key"), 4}), "003c 0047 0000000000000009 00 01'x' 03'key' 00000004"},
    {METHOD(BASIC_GET_EMPTY, .close = {0}), "003c 0048 00"},
    {METHOD(BASIC_ACK, .basic_ack = {UINT64_MAX, true}), "003c 0050 ffffffffffffffff 01"},
    {METHOD(BASIC_REJECT, .basic_reject = {1, true}), "003c 005a 0000000000000001 01"},
    {METHOD(BASIC_RECOVER_ASYNC, .basic_recover = {true}), "003c 0064 01"},
    {METHOD(BASIC_RECOVER, .basic_recover = {false}), "003c 006e 00"},
    {METHOD(BASIC_RECOVER_OK, .close = {0}), "003c 006f"},
    {METHOD(BASIC_NACK, .basic_nack = {7, false, true}), "003c 0078 0000000000000007 02"},
    {METHOD(CONFIRM_SELECT, .confirm_select = {true}), "0055 000a 01"},
    {METHOD(CONFIRM_SELECT_OK, .close = {0}), "0055 000b"},
    {METHOD(TX_SELECT, .close = {0}), "005a 000a"},
    {METHOD(TX_SELECT_OK, .close = {0}), "005a 000b"},
    {METHOD(TX_COMMIT, .close = {0}), "005a 0014"},
    {METHOD(TX_COMMIT_OK, .close = {0}), "005a 0015"},
    {METHOD(TX_ROLLBACK, .close = {0}), "005a 001e"},
    {METHOD(TX_ROLLBACK_OK, .close = {0}), "005a 001f"},
};
/* clang-format on */

enum { SAMPLES = sizeof samples / sizeof *samples };

#endif
