#!/usr/bin/env bash
# The coney command over AMQP against a real node: what goes in comes out, what scripts can rely on, and how it ends.
[[ -n ${CONEY_TEST_URI:-} && -n ${CONEY_AMQP_PORT:-} ]] || { echo "the environment names no broker"; exit 77; }
cd "$(dirname "$0")/.." || exit 1
. test/cli_cases.bash
host=${CONEY_TEST_URI#*://}
host=${host##*@}
host=${host%%[:/]*}
export CONEY_AMQP_URI=amqp://guest:guest@$host:$CONEY_AMQP_PORT CONEY_STREAM_URI=$CONEY_TEST_URI
queue=cli-amqp-$$-$RANDOM
dead=$queue-dead
exchange=$queue-exchange
clean() {
    "$coney" amqp delete queue "$queue"
    "$coney" amqp delete queue "$dead"
    "$coney" amqp delete exchange "$exchange"
}
trap 'clean; rm -rf "$scratch"' EXIT

# An empty queue.
fresh() {
    clean
    "$coney" amqp declare queue "$queue" "$@"
}

# How many messages a queue holds.
ready() {
    "$coney" amqp declare queue "$1" --passive --json | sed 's/.*"messages":\([0-9]*\).*/\1/'
}

holds() {
    [[ $(ready "$1") == "$2" ]]
}

missing() {
    ! "$coney" amqp declare queue "$1" --passive 2>/dev/null
}

declarations_are_silent_and_may_be_repeated() {
    clean
    for _ in 1 2; do
        runs 0 "$coney" amqp declare queue "$queue" --queue-type classic --message-ttl 1h --argument x-max-priority=3
        same "$out$err" ''
        runs 0 "$coney" amqp declare exchange "$exchange" --type topic
        same "$out$err" ''
        runs 0 "$coney" amqp bind "$queue" --exchange "$exchange" --routing-key 'a.*'
        same "$out$err" ''
    done
    runs 1 "$coney" amqp declare queue "$queue" --queue-type classic --message-ttl 2h
    matches "$err" "$queue"
    runs 1 "$coney" amqp declare exchange "$exchange" --type fanout
    matches "$err" "$exchange"
    for _ in 1 2; do
        runs 0 "$coney" amqp unbind "$queue" --exchange "$exchange" --routing-key 'a.*'
        runs 0 "$coney" amqp delete queue "$queue"
        runs 0 "$coney" amqp delete exchange "$exchange"
        same "$out$err" ''
    done
}

deletes_keep_to_their_conditions() {
    fresh
    echo one | "$coney" amqp publish "$queue"
    runs 1 "$coney" amqp delete queue "$queue" --if-empty
    matches "$err" 'not empty'
    runs 0 "$coney" amqp purge "$queue" --verbose
    matches "$err" "1 messages of queue '$queue'"
    runs 0 "$coney" amqp delete queue "$queue" --if-empty --if-unused
    await missing "$queue"
}

passive_says_what_is_there() {
    fresh
    seq 3 | "$coney" amqp publish "$queue"
    runs 0 "$coney" amqp declare queue "$queue" --passive --json
    same "$out" "{\"queue\":\"$queue\",\"messages\":3,\"consumers\":0}"
    runs 0 "$coney" amqp declare queue "$queue" --passive
    matches "$out" '(^|
)messages +3(
|$)'
}

what_is_missing_is_1_and_named() {
    clean
    for words in 'amqp consume' 'amqp get' 'amqp purge' 'amqp declare queue --passive' 'perf amqp --publishers 0 --queue' \
        "amqp bind --exchange $exchange" 'amqp declare exchange --passive'; do
        # shellcheck disable=SC2086
        runs 1 "$coney" $words "$queue"
        same "$out" ''
        matches "$err" "$queue"
    done
    echo one >"$scratch/lines"
    runs 1 "$coney" amqp publish "$queue" --file "$scratch/lines"
    matches "$err" 'line 1 was returned, no queue takes it: 312'
    runs 0 "$coney" amqp publish "$queue" --file "$scratch/lines" --drop-unroutable
    same "$err" ''
    runs 1 "$coney" amqp publish --exchange "$exchange" --file "$scratch/lines"
    matches "$err" "line 1 was refused with code 404: .*$exchange"
}

a_wrong_password_is_3() {
    runs 3 "$coney" amqp get "$queue" --uri "amqp://guest:wrong@$host:$CONEY_AMQP_PORT"
    same "$out" ''
}

each_protocol_has_its_own_variable_and_both_have_one() {
    fresh
    runs 4 env -u CONEY_AMQP_URI CONEY_URI="$CONEY_AMQP_URI" "$coney" amqp get "$queue"
    runs 4 env CONEY_URI=amqp://127.0.0.1:1 "$coney" amqp get "$queue"
    runs 2 env -u CONEY_AMQP_URI CONEY_URI="$CONEY_STREAM_URI" "$coney" amqp get "$queue"
}

lines_come_back_in_order() {
    fresh
    seq 20000 | "$coney" amqp publish "$queue"
    "$coney" amqp consume "$queue" --count 20000 >"$scratch/back"
    seq 20000 | cmp - "$scratch/back"
    await holds "$queue" 0
}

a_whole_file_comes_back_byte_by_byte() {
    fresh
    head -c 500000 /dev/urandom >"$scratch/binary"
    "$coney" amqp publish "$queue" --file "$scratch/binary" --whole
    "$coney" amqp get "$queue" --format %b >"$scratch/back"
    cmp "$scratch/binary" "$scratch/back"
}

messages_become_files() {
    fresh
    printf 'one\ntwo\n' | "$coney" amqp publish "$queue"
    mkdir "$scratch/files"
    runs 0 "$coney" amqp consume "$queue" --count 2 --into "$scratch/files"
    same "$out" ''
    same "$(cat "$scratch/files/1")-$(cat "$scratch/files/2")" one-two
    echo three | "$coney" amqp publish "$queue"
    runs 1 "$coney" amqp consume "$queue" --into "$scratch/nowhere"
    matches "$err" 'nowhere/1: No such'
    await holds "$queue" 1
}

properties_and_headers_go_along() {
    fresh --max-priority 5
    echo 'say "hi"' | "$coney" amqp publish --routing-key "$queue" --transient --content-type text/plain --header 'id="7"' \
        --header region=eu --header try=3 --expiration 90s --priority 4 --message-id m1 --reply-to answers
    runs 0 "$coney" amqp get "$queue" --format json
    same "$out" '{"exchange":"","routing_key":"'"$queue"'","redelivered":false,"persistent":false,"content_type":"text/plain","reply_to":"answers","message_id":"m1","expiration":"90000","priority":4,"headers":{"id":"7","region":"eu","try":3},"body":"say \"hi\""}'
    echo x | "$coney" amqp publish "$queue" --correlation-id c9
    runs 0 "$coney" amqp consume "$queue" --count 1 --verbose --format '%i %k %b\n'
    same "$out" "c9 $queue x"
    matches "$err" '"correlation_id":"c9"'
}

topics_and_headers_route() {
    fresh
    "$coney" amqp declare exchange "$exchange" --type topic
    "$coney" amqp bind "$queue" --exchange "$exchange" --routing-key 'orders.*'
    echo yes | "$coney" amqp publish --exchange "$exchange" --routing-key orders.eu
    echo no >"$scratch/lines"
    runs 1 "$coney" amqp publish --exchange "$exchange" --routing-key bills.eu --file "$scratch/lines"
    "$coney" amqp delete exchange "$exchange"
    "$coney" amqp declare exchange "$exchange" --type headers
    "$coney" amqp bind "$queue" --exchange "$exchange" --argument x-match=all --argument try=3
    echo third | "$coney" amqp publish --exchange "$exchange" --header try=3
    runs 1 "$coney" amqp publish --exchange "$exchange" --header try=4 --file "$scratch/lines"
    runs 0 "$coney" amqp get "$queue" --count 9
    same "$out" $'yes\nthird'
}

requeued_messages_stay_and_rejected_ones_go_where_the_queue_says() {
    clean
    "$coney" amqp declare queue "$dead"
    "$coney" amqp declare queue "$queue" --dead-letter-exchange amq.direct --dead-letter-routing-key "$dead"
    "$coney" amqp bind "$dead" --exchange amq.direct --routing-key "$dead"
    seq 5 | "$coney" amqp publish "$queue"
    for _ in 1 2; do
        runs 0 "$coney" amqp consume "$queue" --requeue --idle 500ms
        same "$out" "$(seq 5)"
        runs 0 "$coney" amqp get "$queue" --requeue --count 3
        same "$out" "$(seq 3)"
        await holds "$queue" 5
    done
    runs 0 "$coney" amqp consume "$queue" --reject --count 4
    await holds "$dead" 4
    runs 0 "$coney" amqp get "$queue" --reject
    await holds "$dead" 5
    same "$(ready "$queue")" 0
}

what_a_count_does_not_reach_stays() {
    fresh
    seq 100 | "$coney" amqp publish "$queue"
    runs 0 "$coney" amqp consume "$queue" --count 10
    same "$out" "$(seq 10)"
    await holds "$queue" 90
    runs 0 "$coney" amqp consume "$queue" --no-ack --idle 500ms
    same "$out" "$(seq 11 100)"
}

an_empty_queue_is_4() {
    fresh
    runs 4 "$coney" amqp get "$queue"
    same "$out$err" ''
}

a_stream_is_read_from_where_one_says() {
    fresh --queue-type stream --max-age 1h
    seq 10 | "$coney" amqp publish "$queue"
    runs 0 "$coney" amqp consume "$queue" --from first --count 10
    same "$out" "$(seq 10)"
    runs 0 "$coney" amqp consume "$queue" --from 7 --count 1 --prefetch 1
    same "$out" 8
    runs 0 "$coney" stream consume "$queue" --from first --count 2
    same "$out" "$(seq 2)"
}

# Answers one request that waits in the queue.
answers() {
    local reply id
    read -r reply id < <("$coney" amqp consume "$queue" --count 1 --format '%r %i\n')
    echo pong | "$coney" amqp publish --routing-key "$reply" --correlation-id "$id" --drop-unroutable
}

a_request_gets_its_reply_or_says_why_not() {
    fresh
    printf 'ping\n' >"$scratch/lines"
    begins "$coney" amqp request "$queue" --file "$scratch/lines" --timeout 10s
    local request=$!
    answers
    wait $request
    same "$(<"$scratch/out")" pong
    runs 1 "$coney" amqp request "$queue" --file "$scratch/lines" --timeout 300ms
    matches "$err" 'request 1: '
    clean
    runs 1 "$coney" amqp request "$queue" --file "$scratch/lines"
    matches "$err" 'request 1: '
    same "$out" ''
}

an_interrupt_ends_a_request_that_waits() {
    fresh
    printf 'ping\n' >"$scratch/lines"
    begins "$coney" amqp request "$queue" --file "$scratch/lines" --timeout 1h
    await holds "$queue" 1
    kill -INT $!
    ends 1
}

a_reader_that_leaves_ends_consume_quietly_and_loses_nothing_unread() {
    fresh
    seq 20000 | "$coney" amqp publish "$queue"
    local codes
    "$coney" amqp consume "$queue" 2>"$scratch/err" | head -1 >"$scratch/out"
    codes=("${PIPESTATUS[@]}")
    same "${codes[0]}" 0
    same "$(<"$scratch/out")" 1
    same "$(<"$scratch/err")" ''
    (($(ready "$queue") > 10000)) || fail "more was taken than was written"
}

interrupted_consume_keeps_what_it_wrote() {
    fresh
    seq 5 | "$coney" amqp publish "$queue"
    begins "$coney" amqp consume "$queue"
    await filled "$scratch/out"
    kill -INT $!
    ends 0
    seq 6 7 | "$coney" amqp publish "$queue"
    "$coney" amqp consume "$queue" --idle 500ms >>"$scratch/out"
    same "$(<"$scratch/out")" "$(seq 7)"
}

a_queue_that_is_deleted_ends_consume_with_1() {
    fresh
    echo one | "$coney" amqp publish "$queue"
    begins "$coney" amqp consume "$queue"
    await filled "$scratch/out"
    "$coney" amqp delete queue "$queue"
    ends 1
    matches "$err" "$queue"
}

perf_sends_and_gets_what_count_says() {
    local type way
    for type in classic quorum stream; do
        runs 0 "$coney" perf amqp --queue-type $type --count 3001 --publishers 2 --consumers 2 --confirm --send batch --json
        matches "$out" '"published":3001,"confirmed":3001,'
        matches "$out" "\"not_confirmed\":0,\"consumed\":$([[ $type == stream ]] && echo 6002 || echo 3001),\"consumed_per_second\""
        matches "$out" '"messages":[1-9]'
    done
    for way in run single none; do
        runs 0 "$coney" perf amqp --count 3000 --ack $way --prefetch 10 --json
        matches "$out" '^\{"published":3000,"published_per_second":[0-9.]+,"consumed":3000,'
    done
    runs 0 "$coney" perf amqp --count 20 --send wait --confirm --json
    matches "$out" '"confirmed":20,.*"consumed":20,.*"messages":20,'
    same "$err" ''
}

perf_begins_with_what_was_prefilled() {
    for way in run single none; do
        runs 0 "$coney" perf amqp --publishers 0 --consumers 2 --prefill 3000 --ack $way --json
        matches "$out" '^\{"consumed":3000,"consumed_per_second":[0-9.]+\}$'
    done
    runs 0 "$coney" perf amqp --queue-type stream --publishers 0 --consumers 2 --prefill 3000 --json
    matches "$out" '^\{"consumed":6000,'
    runs 0 "$coney" perf stream --publishers 0 --consumers 2 --prefill 3000 --json
    matches "$out" '^\{"consumed":6000,'
    runs 0 "$coney" perf amqp --prefill 300 --count 1000 --json
    matches "$out" '"published":1000,.*"consumed":1300,'
}

perf_takes_no_more_than_count_says() {
    fresh
    seq 5000 | "$coney" amqp publish "$queue"
    runs 0 "$coney" perf amqp --queue "$queue" --publishers 0 --consumers 3 --count 1000 --json
    matches "$out" '^\{"consumed":1000,'
    await holds "$queue" 4000
}

perf_keeps_its_rate_and_its_duration() {
    runs 0 "$coney" perf amqp --rate 1000 --duration 1s --confirm
    matches "$out" '^published +[1-9]'
    matches "$out" 'published_per_second +([0-9]{1,3}|10[0-4][0-9])\.' # less on a busy machine, never more
}

a_queue_made_for_a_run_goes_with_it() {
    clean
    runs 0 "$coney" perf amqp --queue "$queue" --count 10 --json
    runs 0 "$coney" latency --queue "$queue" --duration 100ms --json
    missing "$queue" || fail "the queue remains"
    fresh
    runs 0 "$coney" latency --queue "$queue" --duration 100ms --json
    runs 0 "$coney" amqp declare queue "$queue" --passive
}

latency_reports_and_sums_up() {
    runs 0 "$coney" latency --queue "$queue" --messages 10 --period 100ms --report 500ms --duration 1s --json
    local number='[0-9]+\.[0-9]{3}'
    local figures="\"average_ms\":$number,\"p50_ms\":$number,\"p99_ms\":$number,\"p999_ms\":$number,\"max_ms\":$number"
    matches "$out" "^\{\"messages\":[0-9]+,$figures\}
\{\"messages\":[0-9]+,$figures\}
\{\"messages\":100,$figures,\"summary\":true\}$"
    same "$err" ''
}

interrupted_runs_sum_up_and_are_0() {
    fresh
    begins "$coney" latency --queue "$queue" --period 50ms --report 100ms --duration 1h
    await filled "$scratch/out"
    kill -INT $!
    ends 0
    matches "$(tail -1 "$scratch/out")" '^summary +[1-9]'
    same "$err" ''
    begins "$coney" perf amqp --queue "$queue" --consumers 0 --rate 1000 --confirm
    await published
    kill -TERM $!
    ends 0
    matches "$(<"$scratch/out")" 'not_confirmed +0'
    same "$err" ''
}


published() {
    (($(ready "$queue") > 0))
}

tls_is_verified_unless_told_otherwise() {
    [[ -n ${CONEY_TLS:-} ]] || return 0
    fresh
    local uri
    for uri in "amqps://guest:guest@localhost:$CONEY_AMQPS_PORT" "rabbitmq-stream+tls://guest:guest@localhost:$CONEY_STREAM_TLS_PORT"; do
        local words=(amqp declare queue "$queue" --passive --uri "$uri")
        [[ $uri == amqps* ]] || words=(perf stream --count 10 --json --uri "$uri")
        runs 0 "$coney" "${words[@]}" --cacert "$CONEY_TLS/ca.pem"
        runs 0 "$coney" "${words[@]}" --insecure
        runs 0 "$coney" "${words[@]}" --cacert "$CONEY_TLS/ca.pem" --cert "$CONEY_TLS/client.pem" --key "$CONEY_TLS/client.key"
        runs 3 "$coney" "${words[@]}"
        same "$out" ''
        matches "$err" '[Cc]ertificate'
        runs 3 "$coney" "${words[@]}" --cacert "$CONEY_TLS/ca.pem" --server-name elsewhere.example
        matches "$err" 'elsewhere.example'
        runs 3 "$coney" "${words[@]}" --cacert /nothing/here
        matches "$err" '/nothing/here'
    done
}

run_cases
