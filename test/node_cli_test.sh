#!/usr/bin/env bash
# The coney command beside a node of its own that freezes.
cd "$(dirname "$0")/.." || exit 1
. test/cli_cases.bash
node=cli-$$
: "${CONEY_BROKER_SCRIPT:=script/broker}"
trap 'kill -CONT "${CONEY_NODE_PID:-}" 2>/dev/null; "$CONEY_BROKER_SCRIPT" stop --name "$node" --purge >/dev/null; rm -rf "$scratch"' EXIT
"$CONEY_BROKER_SCRIPT" start --name "$node" >/dev/null || fail "no node could be started"
eval "$("$CONEY_BROKER_SCRIPT" env --name "$node")"

# Five seconds for all that a run has to end, and some for a busy machine; each of its steps would wait for ten.
interrupted() {
    begins "$coney" latency --messages 5 --period 200ms --report 1s --duration 60s "$@"
    await filled "$scratch/out"
    kill -STOP "$CONEY_NODE_PID"
    kill -INT $!
    local began=$SECONDS
    ends 1
    kill -CONT "$CONEY_NODE_PID"
    ((SECONDS - began < 9 * ${CONEY_TEST_SCALE:-1})) || fail "it took $((SECONDS - began)) s to end"
    matches "$(<"$scratch/out")" 'summary'
}

an_interrupt_beside_a_broker_that_stands_still_ends_soon_with_the_summary() {
    interrupted
    interrupted --queue latency --uri "amqp://localhost:$CONEY_AMQP_PORT"
}

run_cases
