/* consumer.c: a program of somebody else's, built against the installed library as C17 and as C++17. Needs no broker. */
#include <coney/amqp.h>
#include <coney/stream.h>

#include <stdio.h>
#include <string.h>

/* Both open a port where nothing listens: true when they say so. */
static bool is_refused(const void *handle, const char *uri, const coney_call *call)
{
    if (handle == NULL && call->status == CONEY_ECONNECT && call->text[0] != '\0') {
        printf("coney %s: %s\n", coney_version(), call->text);
        return true;
    }
    fprintf(stderr, "opening %s: %s '%s'\n", uri, coney_status_name(call->status), call->text);
    return false;
}

int main(void)
{
    const char *stream_uri = "rabbitmq-stream://guest:guest@127.0.0.1:1";
    const char *amqp_uri = "amqp://guest:guest@127.0.0.1:1";
    coney_call call;
    memset(&call, 0, sizeof call);
    if (strcmp(coney_version(), CONEY_VERSION) != 0) {
        fprintf(stderr, "compiled against %s, but %s is loaded\n", CONEY_VERSION, coney_version());
        return 1;
    }
    if (!is_refused(coney_stream_env_open(stream_uri, NULL, &call), stream_uri, &call))
        return 1;
    return is_refused(coney_amqp_open(amqp_uri, NULL, &call), amqp_uri, &call) ? 0 : 1;
}
