/* service.c: a service of somebody else's, built against the installed framework as C17 and as C++17. Needs no broker. */
#include <coney/service.h>

#include <stdio.h>
#include <string.h>

#define ORDER(F) F(u64, id) F(string, customer)
CONEY_TYPE(order, ORDER);

/* True when an order comes back from the codec as it went in, or the library was built without that codec and says so. */
static bool is_round(const coney_codec *codec)
{
    order in;
    order out;
    coney_sink sink;
    coney_fault fault;
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    memset(&sink, 0, sizeof sink);
    memset(&fault, 0, sizeof fault);
    in.id = 42;
    in.customer = coney_bytes_str("ada");

    coney_arena *arena = coney_arena_new();
    coney_status status = coney_encode(codec, order_type(), &in, &sink, NULL, &fault);
    if (status == CONEY_OK) {
        coney_bytes body = {sink.data, sink.len};
        status = coney_decode(codec, body, order_type(), &out, arena, &fault);
    }
    bool round = status == CONEY_EUNSUPPORTED || (status == CONEY_OK && out.id == 42 && out.customer.len == 3);
    printf("%s: %s %s\n", codec->name, coney_status_name(status), fault.text);
    coney_arena_free(&arena);
    coney_sink_free(&sink);
    return round;
}

int main(void)
{
    coney_app *app = coney_app_new("orders", "1.0.0");
    if (app == NULL) {
        fprintf(stderr, "coney_app_new gave no app\n");
        return 1;
    }
    coney_app_free(&app);
    return is_round(coney_json()) && is_round(coney_cbor()) && is_round(coney_msgpack()) ? 0 : 1;
}
