# shellcheck shell=sh
# tool.sh - for tests of the command line: `. tests/support/tool.sh`, with $weir set to the program.
. tests/support/tap.sh
: "${weir:?}"

# says STATUS ARG...: run the tool; its answer is then in $scratch/out, its trouble in
# $scratch/err, and just one of the two has something in it.
says() {
    expected=$1
    shift
    "$weir" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    cat "$scratch/out" "$scratch/err"
    [ "$status" = "$expected" ] || { echo "the exit status is $status, not $expected" && return 1; }
    if [ -s "$scratch/out" ] && [ -s "$scratch/err" ]; then
        echo 'there is something on stdout and on stderr' && return 1
    fi
}

# answers STATUS PATTERN ARG...: a line of the answer on stdout has the pattern.
answers() {
    wanted=$1
    pattern=$2
    shift 2
    says "$wanted" "$@" && grep -q -e "$pattern" "$scratch/out"
}

# troubles PATTERN ARG...: exit status 2, and one line on stderr that has the pattern.
troubles() {
    pattern=$1
    shift
    says 2 "$@" && [ ! -s "$scratch/out" ] && [ "$(wc -l <"$scratch/err")" = 1 ] &&
        grep -q "^weir: .*$pattern" "$scratch/err"
}
