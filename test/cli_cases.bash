# Cases of the coney command: every function of the including script is one whose name is a sentence: words and underscores.
# Included, not run.
#
# A case fails at its first check that fails, or when a command in it does. $coney is the tool, $scratch a directory that goes
# at the end.
set -u
coney=${CONEY_TOOL:?names the coney command}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
out= err=

# Runs a command that must return this code; its standard output is then in $out, its standard error in $err.
runs() {
    local expected=$1 code=0
    shift
    "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
    out=$(<"$scratch/out") err=$(<"$scratch/err")
    [[ $code == "$expected" ]] || fail "$* returned $code and not $expected: $err"
}

# Starts a command beside the case, with $scratch/out and $scratch/err empty; `ends CODE` is how it must end.
begins() {
    rm -f "$scratch/out" "$scratch/err"
    "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
}

ends() {
    local code=0
    wait $! || code=$?
    err=$(<"$scratch/err")
    [[ $code == "$1" ]] || fail "it returned $code and not $1: $err"
}

fail() {
    echo "    $1" >&2
    exit 1
}

same() {
    [[ $1 == "$2" ]] || fail "'$1' where '$2' was expected"
}

matches() {
    [[ $1 =~ $2 ]] || fail "'$1' does not match '$2'"
}

# This file has something in it.
filled() {
    [[ -s $1 ]]
}

# Waits until a command succeeds, for ten seconds at most.
await() {
    local deadline=$((SECONDS + 10))
    until "$@"; do
        ((SECONDS < deadline)) || fail "waited in vain for: $*"
        sleep 0.05
    done
}

run_cases() {
    local name failed=0
    for name in $(compgen -A function | grep _ | grep -vx run_cases); do
        (
            set -eE
            trap 'echo "    line $LINENO" >&2' ERR
            trap 'jobs -p | xargs -r kill' EXIT
            "$name"
        )
        if [[ $? == 0 ]]; then
            echo "ok      $name"
        else
            echo "FAILED  $name"
            failed=1
        fi
    done
    exit $failed
}
