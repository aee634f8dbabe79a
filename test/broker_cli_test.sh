#!/usr/bin/env bash
# The coney command against a real node: what goes in comes out, what scripts can rely on, and how it ends.
[[ -n ${CONEY_TEST_URI:-} ]] || { echo "CONEY_TEST_URI names no broker"; exit 77; }
export CONEY_URI=$CONEY_TEST_URI
cd "$(dirname "$0")/.." || exit 1
. test/cli_cases.bash
stream=cli-test-$$-$RANDOM
trap '"$coney" stream delete "$stream" --if-exists; rm -rf "$scratch"' EXIT

fresh() {
    "$coney" stream delete "$stream" --if-exists
    "$coney" stream create "$stream" --max-length 100MB --max-age 1h --segment 10MB
}

# How many messages the stream holds.
stored() {
    "$coney" stream consume "$stream" --from first --idle 1s --format '%o\n' | wc -l
}

create_and_delete_are_silent_and_say_what_went_wrong() {
    "$coney" stream delete "$stream" --if-exists
    runs 0 "$coney" stream create "$stream" --max-age 1h
    same "$out$err" ''
    runs 1 "$coney" stream create "$stream" --max-age 1h
    matches "$err" "$stream"
    runs 0 "$coney" stream create "$stream" --max-age 1h --if-missing
    runs 1 "$coney" stream create "$stream" --max-age 2h --if-missing
    runs 0 "$coney" stream delete "$stream"
    same "$out$err" ''
    runs 1 "$coney" stream delete "$stream"
    matches "$err" "$stream"
    runs 0 "$coney" stream delete "$stream" --if-exists
    same "$out$err" ''
}

stats_and_metadata_are_lines_or_json() {
    fresh
    runs 0 "$coney" stream metadata "$stream" --json
    matches "$out" '^\{"leader":"[^"]+:[0-9]+","replicas":\[\]\}$'
    runs 0 "$coney" stream metadata "$stream"
    matches "$out" '^leader +[^ ]+:[0-9]+$'
    if [[ $("$coney" stream stats "$stream" 2>&1) == *'RabbitMQ 3.11'* ]]; then return; fi
    runs 0 "$coney" stream stats "$stream"
    matches "$out" 'first_offset +-1'
    seq 10 | "$coney" stream publish "$stream"
    runs 0 "$coney" stream stats "$stream" --json
    matches "$out" '^\{"first_offset":0,"committed_chunk_offset":[0-9]+,"committed_offset":-?[0-9]+,"last_chunk_offset":[0-9]+\}$'
}

a_stream_that_is_missing_is_1_and_named() {
    "$coney" stream delete "$stream" --if-exists
    for words in 'stream metadata' 'stream consume' 'stream publish' 'latency --stream' 'perf stream --stream'; do
        # shellcheck disable=SC2086
        runs 1 "$coney" $words "$stream"
        same "$out" ''
        matches "$err" "$stream"
    done
}

a_wrong_password_is_3() {
    local host=${CONEY_URI#*://}
    host=${host##*@}
    runs 3 "$coney" stream stats "$stream" --uri "rabbitmq-stream://guest:wrong@${host%%/*}"
    same "$out" ''
}

lines_come_back_in_order() {
    fresh
    seq 20000 | "$coney" stream publish "$stream"
    "$coney" stream consume "$stream" --from first --count 20000 >"$scratch/back"
    seq 20000 | cmp - "$scratch/back"
    runs 0 "$coney" stream consume "$stream" --from 19999 --count 1 --format '%o:%b'
    same "$out" '19999:20000'
}

a_whole_file_comes_back_byte_by_byte() {
    fresh
    head -c 500000 /dev/urandom >"$scratch/binary"
    "$coney" stream publish "$stream" --file "$scratch/binary" --whole
    "$coney" stream consume "$stream" --from first --count 1 --format %b >"$scratch/back"
    cmp "$scratch/binary" "$scratch/back"
}

json_output_is_an_object_a_line() {
    fresh
    printf 'say "hi"\n\xff\n' | "$coney" stream publish "$stream"
    runs 0 "$coney" stream consume "$stream" --from first --count 2 --format json
    matches "$out" '^\{"offset":0,"timestamp":"[-0-9]+T[0-9:.]+Z","body":"say \\"hi\\""\}
\{"offset":1,"timestamp":"[-0-9]+T[0-9:.]+Z","body_base64":"/w=="\}$'
}

a_time_in_the_past_begins_at_the_first_chunk_after_it() {
    fresh
    seq 3 | "$coney" stream publish "$stream"
    runs 0 "$coney" stream consume "$stream" --from 2020-01-01T00:00:00Z --count 1
    same "$out" 1
}

a_name_goes_on_where_it_ended() {
    fresh
    seq 30 | "$coney" stream publish "$stream"
    runs 0 "$coney" stream consume "$stream" --name reader --from first --count 10
    same "$out" "$(seq 1 10)"
    runs 0 "$coney" stream consume "$stream" --name reader --from first --count 10
    same "$out" "$(seq 11 20)"
    runs 0 "$coney" stream consume "$stream" --name reader --idle 1s
    same "$out" "$(seq 21 30)"
}

lines_with_ids_are_stored_once_however_often_they_are_published() {
    fresh
    seq 100 >"$scratch/lines"
    runs 0 "$coney" stream publish "$stream" --name writer --line-ids --file "$scratch/lines"
    seq 110 >"$scratch/lines"
    runs 0 "$coney" stream publish "$stream" --name writer --line-ids --file "$scratch/lines"
    same "$(stored)" 110
}

a_line_that_no_frame_can_hold_is_refused_and_named() {
    fresh
    { echo one; head -c 3000000 /dev/zero | tr '\0' x; echo; } >"$scratch/lines"
    runs 1 "$coney" stream publish "$stream" --file "$scratch/lines"
    matches "$err" 'line 2, 3000000 bytes'
    same "$(stored)" 1
}

an_input_that_cannot_be_read_is_named() {
    fresh
    runs 1 "$coney" stream publish "$stream" --file /
    matches "$err" '/: Is a directory'
}

a_reader_that_leaves_ends_consume_quietly() {
    fresh
    seq 20000 | "$coney" stream publish "$stream"
    local codes
    "$coney" stream consume "$stream" --from first 2>"$scratch/err" | head -1 >"$scratch/out"
    codes=("${PIPESTATUS[@]}")
    same "${codes[0]}" 0
    same "$(<"$scratch/out")" 1
    same "$(<"$scratch/err")" ''
}

latency_reports_and_sums_up() {
    runs 0 "$coney" latency --messages 10 --period 100ms --report 500ms --duration 1s --json
    local number='[0-9]+\.[0-9]{3}'
    local figures="\"average_ms\":$number,\"p50_ms\":$number,\"p99_ms\":$number,\"p999_ms\":$number,\"max_ms\":$number"
    matches "$out" "^\{\"messages\":[0-9]+,$figures\}
\{\"messages\":[0-9]+,$figures\}
\{\"messages\":100,$figures,\"summary\":true\}$"
    same "$err" ''
}

interrupted_latency_sums_up_and_is_0() {
    for signal in INT TERM; do
        fresh
        begins "$coney" latency --stream "$stream" --period 50ms --report 100ms --duration 1h
        await filled "$scratch/out"
        kill -$signal $!
        ends 0
        matches "$(tail -1 "$scratch/out")" '^summary +[1-9]'
        same "$err" ''
    done
}

interrupted_consume_keeps_what_it_wrote() {
    fresh
    seq 5 | "$coney" stream publish "$stream"
    begins "$coney" stream consume "$stream" --name reader --from first
    await filled "$scratch/out"
    kill -INT $!
    ends 0
    seq 6 7 | "$coney" stream publish "$stream"
    "$coney" stream consume "$stream" --name reader --idle 1s >>"$scratch/out"
    same "$(<"$scratch/out")" "$(seq 7)"
}

a_stream_that_is_deleted_ends_consume_with_1() {
    fresh
    echo one | "$coney" stream publish "$stream"
    begins "$coney" stream consume "$stream" --from first
    await filled "$scratch/out"
    "$coney" stream delete "$stream"
    ends 1
    matches "$err" "'$stream' has ended: .*does not exist"
}

perf_sends_and_gets_what_count_says() {
    for way in one batch; do
        runs 0 "$coney" perf stream --count 30001 --publishers 2 --consumers 2 --send $way --json
        matches "$out" '"published":30001,"confirmed":30001,'
        matches "$out" '"not_confirmed":0,"consumed":60002,"consumed_per_second":[0-9.]+,"messages":[1-9]'
    done
    runs 0 "$coney" perf stream --count 20 --send wait --json
    matches "$out" '"confirmed":20,.*"consumed":20,.*"messages":20,'
    same "$err" ''
}

perf_keeps_its_rate_and_its_duration() {
    runs 0 "$coney" perf stream --rate 1000 --duration 1s
    matches "$out" '^published +[1-9]'
    matches "$out" 'published_per_second +([0-9]{1,3}|10[0-4][0-9])\.' # less on a busy machine, never more
}

perf_replays_a_stream() {
    fresh
    seq 5000 | "$coney" stream publish "$stream"
    runs 0 "$coney" perf stream --stream "$stream" --publishers 0 --consumers 2 --from first --count 5000 --json
    matches "$out" '^\{"consumed":10000,"consumed_per_second":[0-9.]+\}$'
}

published() {
    [[ -n $("$coney" stream consume "$stream" --from first --count 1 --format %o --idle 200ms) ]]
}

interrupted_perf_sums_up_and_is_0() {
    fresh
    begins "$coney" perf stream --stream "$stream" --rate 1000
    await published
    kill -INT $!
    ends 0
    matches "$(<"$scratch/out")" 'not_confirmed +0'
    same "$err" ''
}

the_examples_publish_and_consume() {
    [[ -x ${CONEY_EXAMPLES:-}/publish && -x $CONEY_EXAMPLES/consume ]] || return 0
    "$coney" stream delete "$stream" --if-exists
    runs 0 "$CONEY_EXAMPLES/publish" "$stream" 1000 "$CONEY_URI"
    same "$out$err" ''
    begins "$CONEY_EXAMPLES/consume" "$stream" audit "$CONEY_URI"
    await grep -q '^999: hello$' "$scratch/out"
    kill -TERM $!
    ends 0
    same "$(wc -l <"$scratch/out")" 1000
    "$CONEY_EXAMPLES/publish" "$stream" 1 "$CONEY_URI"
    begins "$CONEY_EXAMPLES/consume" "$stream" audit "$CONEY_URI"
    await filled "$scratch/out"
    kill -TERM $!
    ends 0
    matches "$(<"$scratch/out")" '^100[1-9]: hello$' # the stored offset takes an offset, too
}

run_cases
