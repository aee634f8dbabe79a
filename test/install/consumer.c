/* consumer.c: a program of somebody else's, built against the installed library as C17 and as C++17. Needs no broker. */
#include <coney/coney.h>
#include <coney/stream.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    if (strcmp(coney_version(), CONEY_VERSION) != 0) {
        fprintf(stderr, "compiled against %s, but %s is loaded\n", CONEY_VERSION, coney_version());
        return 1;
    }
    coney_call call;
    memset(&call, 0, sizeof call);
    coney_stream_env *env = coney_stream_env_open("rabbitmq-stream://guest:guest@127.0.0.1:1", NULL, &call);
    if (env != NULL || call.status != CONEY_ECONNECT || call.text[0] == '\0') {
        fprintf(stderr, "opening a port where nothing listens: %s '%s'\n", coney_status_name(call.status), call.text);
        return 1;
    }
    printf("coney %s: %s\n", coney_version(), call.text);
    return 0;
}
