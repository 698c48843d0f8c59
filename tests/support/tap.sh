# shellcheck shell=sh
# tap.sh - for tests written in sh: `. tests/support/tap.sh`, then t for each test and finish at the end.
#
# $scratch is a folder of the suite's own, gone afterwards.
set -u
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tests=0
failures=0

# What a person's shell happens to have must not decide a test.
for name in $(env | sed -n 's/^\(WEIR_[A-Z_]*\)=.*/\1/p' | grep -v '^WEIR_TEST_'); do
    unset "$name"
done

# t NAME COMMAND...: passed if the command succeeds; shows what it printed if not.
t() {
    tests=$((tests + 1))
    name=$1
    shift
    if "$@" >"$scratch/printed" 2>&1; then
        echo "ok $tests - $name"
    else
        echo "not ok $tests - $name"
        sed 's/^/# /' "$scratch/printed"
        failures=$((failures + 1))
    fi
}

# The plan comes last, so that a script that stopped half way has none.
finish() {
    echo "1..$tests"
    [ "$failures" = 0 ]
    exit
}
