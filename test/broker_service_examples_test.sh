#!/usr/bin/env bash
# The service examples against a real node: each does what its first comment says, and ends well on SIGTERM. They run in a virtual
# host of their own, so they have the names of queues and streams that a reader sees.
[[ -n ${CONEY_TEST_URI:-} && -n ${CONEY_AMQP_PORT:-} && -n ${RABBITMQCTL:-} ]] || { echo "the environment names no broker"; exit 77; }
cd "$(dirname "$0")/.." || exit 1
. test/cli_cases.bash
examples=${CONEY_EXAMPLES:?names the directory of the examples}
patience=$((30 * ${CONEY_TEST_SCALE:-1}))
host=${CONEY_TEST_URI#*://}
host=${host##*@}
host=${host%%[:/]*}
vhost=examples-$$-$RANDOM
export CONEY_AMQP_URI=amqp://guest:guest@$host:$CONEY_AMQP_PORT/$vhost CONEY_STREAM_URI=${CONEY_TEST_URI%/}/$vhost
export CONEY_LOG=warning
trap '"$RABBITMQCTL" -q delete_vhost "$vhost"; rm -rf "$scratch"' EXIT
"$RABBITMQCTL" -q add_vhost "$vhost" && "$RABBITMQCTL" -q set_permissions -p "$vhost" guest '.*' '.*' '.*' || exit 1

# A foreign library may be missing where an example was not built: then the case ends here, well.
needs() {
    [[ -x $examples/$1 ]] || { echo "    not built: $1"; exit 0; }
}

# Starts an example beside the case.
serves() {
    needs "$1"
    begins "$examples/$@"
}

# SIGTERM ends it, and it ends well.
terminates() {
    kill -TERM $!
    await gone $!
    ends 0
    out=$(<"$scratch/out")
}
gone() { ! kill -0 "$1" 2>/dev/null; }

# Lines of standard input become messages of a queue, once the service has declared it.
into() {
    await declared "$1"
    "$coney" amqp publish "$@"
}

streams() {
    await created "$1"
    "$coney" stream publish "$1"
}

# Takes so many messages off a queue, into $got.
takes() {
    local queue=$1 count=$2
    shift 2
    got=$(timeout "$patience" "$coney" amqp consume "$queue" --count "$count" "$@")
}

declared() { "$coney" amqp declare queue "$1" --passive >"$scratch/passive" 2>&1; }
created() { "$coney" stream stats "$1" >"$scratch/stats" 2>&1; }
holds() { [[ $("$coney" amqp declare queue "$1" --passive --json) == *"\"messages\":$2,"* ]]; }
printed() { grep -sqF -- "$1" "$scratch/out"; }
complained() { grep -sqF -- "$1" "$scratch/err"; }

# What is in a database of SQLite.
asks() {
    python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone())' "$@"
}
answers() {
    [[ $(asks "$1" "$2" 2>/dev/null) == "$3" ]]
}

every_description_is_without_mistakes() {
    for name in service service_work_queue service_topics service_rpc service_replay service_lanes service_middleware; do
        runs 0 "$examples/$name" check
        matches "$out" 'all is well'
    done
}

without_a_broker_the_reason_is_told() {
    CONEY_AMQP_URI=amqp://127.0.0.1:1 runs 1 timeout "$patience" "$examples/service"
    matches "$err" '127\.0\.0\.1:1'
}

the_first_service_gives_a_receipt_for_each_order() {
    serves service
    for id in 1 2 3; do echo "{\"id\": $id, \"customer\": \"ada\", \"total\": 9.5}"; done | into orders
    takes receipts 3
    same "$got" $'{"order_id":1}\n{"order_id":2}\n{"order_id":3}'
    terminates
    same "$err" ''
    await holds orders 0
}

an_order_that_is_none_is_dropped_and_named() {
    serves service
    echo '{"id": -1, "customer": "ada", "total": 9.5}' | into orders
    await complained 'id: '
    terminates
    matches "$err" "'orders'.*id: "
    await holds orders 0
    await holds receipts 0
}

a_job_is_tried_again_until_it_can_be_done() {
    serves service_work_queue
    echo "{\"path\": \"$scratch/late\"}" | into jobs
    await printed '(attempt 2)'
    echo hello >"$scratch/late"
    await printed "$scratch/late: 6 bytes"
    terminates
    await holds jobs 0
    await holds jobs.dead 0
}

a_job_that_fails_four_times_is_set_aside() {
    serves service_work_queue
    echo '{"path": "/not/there"}' | into jobs
    takes jobs.dead 1 --format json
    matches "$got" '/not/there'
    matches "$got" '"x-coney-attempts"'
    terminates
    same "$(grep -c '^/not/there: .*(attempt [1-4])$' <<<"$out")" 4
    await holds jobs 0
}

an_event_reaches_all_who_listen() {
    serves service_topics
    await declared billing
    await declared audit
    echo '{"id": 7, "country": "fr", "total": 10}' |
        "$coney" amqp publish --exchange events --routing-key order.fr.placed
    echo 'nothing to bill' | "$coney" amqp publish --exchange events --routing-key order.fr.seen
    await printed 'order.fr.placed {"id": 7, "country": "fr", "total": 10}'
    await printed 'invoice.fr {"order":7,"country":"fr","amount":12'
    await printed 'order.fr.seen nothing to bill'
    terminates
    await holds billing 0
    await holds audit 0
}

three_prices_are_asked_for() {
    runs 0 timeout "$patience" "$examples/service_rpc"
    same "$out" $'1 of tea: 2.50\n2 of tea: 5.00\n3 of tea: 7.50'
    same "$err" ''
}

prices_are_told_to_others() {
    serves service_rpc serve
    await declared prices
    got=$(echo '{"article": "tea", "pieces": 4}' | "$coney" amqp request prices)
    same "$got" '{"total":10.0}'
    terminates
}

# All, what is new, and again from where it was told. A stored offset takes one in the stream itself, so the fourth order's is unknown.
a_stream_is_read_on_and_again() {
    serves service_replay
    for id in 1 2 3; do echo "{\"id\": $id, \"total\": 10}"; done | streams order-log
    await printed '2: order 3 of 10.00, 30.00 in all'
    terminates
    same "$(wc -l <<<"$out")" 3

    serves service_replay
    echo '{"id": 4, "total": 1}' | streams order-log
    await printed ': order 4 '
    terminates
    matches "$out" '^[0-9]+: order 4 of 1.00, 1.00 in all$'

    serves service_replay --from 1
    await printed ': order 4 '
    terminates
    matches "$out" $'^1: order 2 of 10.00, 10.00 in all\n2: order 3 of 10.00, 20.00 in all\n[0-9]+: order 4 of 1.00, 21.00 in all$'

    for place in first 2020-01-31; do
        serves service_replay --from "$place"
        await printed '31.00 in all'
        terminates
        same "$(wc -l <<<"$out")" 4
    done
    runs 2 "$examples/service_replay" --from yesterday
    matches "$err" 'yesterday'
    "$coney" stream delete order-log
}

lanes_keep_the_order_of_each_account() {
    runs 0 timeout "$patience" "$examples/service_lanes"
    same "$err" ''
    for account in 0 1 2 3 4 5 6 7; do
        matches "$out" "account $account: 50 movements, $((50 * (account + 1))).00"
    done
}

sales() { seq "$1" | sed 's|.*|{"id": &, "total": 9.5}|' | streams sales; }

# Killed in the midst of its writing, again and again.
every_sale_is_in_the_database_once() {
    local database=$scratch/sales.db query='select count(*), count(distinct id), max(offset) from sales'
    for _ in 1 2 3; do
        serves service_sqlite "$database"
        sales 20000
        await printed ' sales'
        kill -KILL $!
        wait $! 2>/dev/null || true
    done
    serves service_sqlite "$database"
    await answers "$database" "$query" '60000 20000 59999'
    terminates
    same "$err" ''
    serves service_sqlite "$database"
    await printed 'from offset 60000'
    terminates
    same "$(asks "$database" "$query")" '60000 20000 59999'
    "$coney" stream delete sales
}

# Somebody else holds the database: the program ends and says why, and the next run writes all.
what_cannot_be_written_ends_the_writer() {
    local database=$scratch/locked.db
    serves service_sqlite "$database"
    local writer=$!
    await printed 'from offset 0'
    python3 -c 'import sqlite3, sys, time
held = sqlite3.connect(sys.argv[1])
held.execute("begin immediate")
print("held", flush=True)
time.sleep(60)' "$database" >"$scratch/holder" &
    await filled "$scratch/holder"
    sales 2000
    await gone "$writer"
    wait "$writer" && fail "it ended well"
    matches "$(<"$scratch/err")" 'not written: database is locked'
    kill $!
    serves service_sqlite "$database"
    await answers "$database" 'select count(*), max(offset) from sales' '2000 1999'
    terminates
    "$coney" stream delete sales
}

# Two thirds are there before the relay is.
events_of_the_outbox_are_published_in_order() {
    local database=$scratch/outbox.db
    needs service_outbox
    "$coney" amqp declare queue shipped
    # shellcheck disable=SC2046
    runs 0 "$examples/service_outbox" "$database" add shipped $(seq 500)
    serves service_outbox "$database"
    # shellcheck disable=SC2046
    "$examples/service_outbox" "$database" add shipped $(seq 501 750)
    takes shipped 750
    same "$got" "$(seq 750)"
    await answers "$database" 'select count(*) from outbox' 0
    terminates
}

an_event_that_no_queue_takes_stays() {
    local database=$scratch/stays.db
    serves service_outbox "$database"
    "$examples/service_outbox" "$database" add nowhere '{}'
    await complained 'event 1 stays'
    "$coney" amqp declare queue nowhere
    await answers "$database" 'select count(*) from outbox' 0
    terminates
    await holds nowhere 1
}

a_loop_of_libuv_does_the_work() {
    serves service_uv
    printf '{"name": "tea", "ms": 200}\n{"name": "egg", "ms": 1}\n' | into timers
    await printed 'tea after 200 ms'
    echo '{"name": "soup", "ms": 700}' | into timers
    await holds timers 0
    terminates
    same "$out" $'egg after 1 ms\ntea after 200 ms\nsoup after 700 ms'
    await holds timers 0
}

middleware_turns_away_what_names_no_tenant() {
    serves service_middleware
    echo '{"text": "hello"}' | into notes --header tenant=acme
    echo '{"text": "lost"}' | into notes
    await complained 'notes: attempt 1, not done'
    terminates
    matches "$out" '^acme: hello'
    matches "$err" 'tenant'
    matches "$err" 'notes: attempt 1, done'
    matches "$out" 'coney_messages_consumed_total name=notes status=ack 1'
    await holds notes 0
}

run_cases
