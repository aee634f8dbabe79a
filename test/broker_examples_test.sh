#!/usr/bin/env bash
# The embed examples against a real node: coney inside a foreign loop, level- and edge-triggered, brings every message back. An
# edge that is lost shows as a program that never ends.
[[ -n ${CONEY_TEST_URI:-} ]] || { echo "CONEY_TEST_URI names no broker"; exit 77; }
cd "$(dirname "$0")/.." || exit 1
. test/cli_cases.bash
patience=$((20 * ${CONEY_TEST_SCALE:-1}))

# A foreign library may be missing where its example was not built.
embedded() {
    local program=${CONEY_EXAMPLES:?names the directory of the examples}/$1
    shift
    [[ -x $program ]] || { echo "    not built: $program"; return 0; }
    runs 0 timeout "$patience" "$program" "$@" "$CONEY_TEST_URI"
    same "$out" '100 confirmed, 100 delivered'
    same "$err" ''
}

inside_poll() { embedded embed_poll; }
inside_epoll_on_edges() { embedded embed_epoll; }
inside_libuv_on_levels() { embedded embed_uv; }
inside_libevent_on_levels() { embedded embed_event; }
inside_libevent_on_edges() { embedded embed_event --edge; }
inside_glib_on_levels() { embedded embed_glib; }

# Nothing is printed on standard output, and the reason on standard error.
without_a_broker_the_reason_is_told() {
    runs 1 timeout "$patience" "$CONEY_EXAMPLES/embed_poll" rabbitmq-stream://127.0.0.1:1
    matches "$err" '127\.0\.0\.1:1'
}

run_cases
