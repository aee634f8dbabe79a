#!/usr/bin/env bash
# The coney command without a broker: what it refuses, what it says, and what it returns.
cd "$(dirname "$0")/.." || exit 1
. test/cli_cases.bash

help_and_version_go_to_standard_output() {
    runs 0 "$coney" --version
    matches "$out" '^coney [0-9]+\.[0-9]+\.[0-9]+$'
    for words in help 'help latency' 'help perf stream' 'help stream' 'latency --help' 'stream consume -h' '--help' \
        'amqp --help' 'help amqp declare' 'amqp declare -h' 'amqp declare queue --help' 'help perf amqp'; do
        # shellcheck disable=SC2086
        runs 0 "$coney" $words
        matches "$out" '^Usage: coney'
        same "$err" ''
    done
}

a_wrong_command_line_is_2_and_leaves_standard_output_empty() {
    for words in '' 'nothing' 'stream' 'stream nothing' 'latency --nothing' 'latency --period 5' 'stream stats' \
        'perf stream --publishers 0' 'perf stream --publishers 0 --consumers 0' 'stream publish s --line-ids' \
        'stream consume s --format %q' 'stream create s --max-age 1500ms' '--uri x latency' 'help nothing' \
        'amqp' 'amqp declare' 'amqp declare s' 'amqp get' 'amqp publish' 'amqp publish s --routing-key k' 'amqp bind s' \
        'amqp consume s --no-ack --requeue' 'amqp consume s --format %o' 'amqp publish s --header x' 'amqp request' \
        'perf amqp --publishers 0' 'perf amqp --ack twice' 'latency --stream s --queue q' 'help amqp nothing'; do
        # shellcheck disable=SC2086
        runs 2 "$coney" $words
        same "$out" ''
        matches "$err" '.'
    done
}

a_broker_that_is_not_there_is_3() {
    runs 3 "$coney" stream stats s --uri rabbitmq-stream://127.0.0.1:1
    same "$out" ''
    matches "$err" '127\.0\.0\.1:1'
    for words in 'latency --queue q' 'perf amqp' 'amqp get q' 'amqp publish q' 'amqp declare exchange e'; do
        # shellcheck disable=SC2086
        runs 3 "$coney" $words --uri amqp://127.0.0.1:1
        same "$out" ''
        matches "$err" '127\.0\.0\.1:1'
    done
    runs 3 "$coney" latency --uri rabbitmq-stream://127.0.0.1:1
    same "$out" ''
}

a_uri_that_is_none_is_2() {
    runs 2 "$coney" stream stats s --uri http://localhost
    matches "$err" 'http'
    runs 2 "$coney" amqp get q --uri rabbitmq-stream://localhost
    matches "$err" 'rabbitmq-stream'
    runs 2 "$coney" stream stats s --uri amqp://localhost
    matches "$err" 'amqp'
}

an_input_file_that_is_missing_is_named() {
    runs 1 "$coney" amqp publish q --file /nothing/here
    matches "$err" '/nothing/here: No such file'
    runs 1 "$coney" stream publish s --file /nothing/here
    matches "$err" '/nothing/here: No such file'
}

tls_options_beside_a_plain_uri_are_2() {
    for words in 'amqp get q --uri amqp://127.0.0.1:1' 'stream stats s --uri rabbitmq-stream://127.0.0.1:1'; do
        # shellcheck disable=SC2086
        runs 2 "$coney" $words --cacert /nothing/here
        same "$out" ''
        matches "$err" 'TLS'
    done
}

results_that_find_no_room_are_a_failure() {
    local code=0
    "$coney" help >/dev/full 2>"$scratch/err" || code=$?
    same "$code" 1
    matches "$(<"$scratch/err")" 'standard output: No space left'
    code=0
    "$coney" help >&- 2>"$scratch/err" || code=$?
    same "$code" 1
    matches "$(<"$scratch/err")" 'standard output: Bad file descriptor'
}

bash_completes_commands_options_and_values() {
    # shellcheck disable=SC1091
    . src/cli/coney.bash
    COMP_WORDS=("$coney" perf stream --send '') COMP_CWORD=4
    _coney
    same "${COMPREPLY[*]}" 'one batch wait'
    COMP_WORDS=("$coney" stream st) COMP_CWORD=2
    _coney
    same "${COMPREPLY[*]}" 'stats'
    COMP_WORDS=("$coney" amqp declare '') COMP_CWORD=3
    _coney
    same "${COMPREPLY[*]}" 'queue exchange'
}

run_cases
