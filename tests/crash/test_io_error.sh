#!/bin/sh
# test_io_error.sh - a disk whose calls fail, by strace: what is answered then, and what is kept.
#
#   test_io_error.sh TREE      from the root of the source
. tests/support/cli.sh
dir=$scratch/store

# kept: how many of 100 are counted for the key ann
kept() {
    "$weir" check --json --peek --store "file:$dir" --limit '100 per 1d' ann |
        python3 -c 'import json, sys; print(100 - json.load(sys.stdin)["remaining"])'
}

# ask_while CALL INJECTION N [ARG...]: N checks, in a process whose system call does that
ask_while() {
    call=$1 injection=$2 times=$3
    shift 3
    strace -f -qqq -o "$scratch/calls" -e "trace=$call" -e "inject=$call:$injection" -P "$dir/journal.1" \
        "$weir" check --json --store "file:$dir" --limit '100 per 1d' -n "$times" "$@" ann \
        >"$scratch/out" 2>"$scratch/err"
}

# from SOURCE: how many answers came from there
from() {
    grep -c "\"source\":\"$1\"" "$scratch/out"
}

fresh() {
    rm -rf "$dir"
}

# All that was answered as kept is; what was not may be.
no_less_than_answered() {
    answered=$(from store)
    is_kept=$(kept)
    echo "$answered answered as kept, $(from fallback) not, $is_kept kept"
    [ "$is_kept" -ge "$answered" ] && [ "$is_kept" -le 100 ]
}

failing_sync() {
    fresh
    ask_while fdatasync error=EIO:when=4 10 --sync always
    grep -q INJECTED "$scratch/calls" && [ "$(from fallback)" -gt 0 ] && no_less_than_answered
}

# The call after the failed one is to another file.
no_second_sync() {
    fresh
    ask_while fdatasync error=EIO:when=4+ 20 --sync always
    [ "$(grep -c INJECTED "$scratch/calls")" = 1 ]
}

# The next process has a snapshot written before it goes on.
warning() {
    fresh
    ask_while fdatasync error=EIO:when=4 10 --sync always
    [ -e "$dir/failed" ] && [ ! -e "$dir/snapshot" ] || return 1
    no_less_than_answered && [ ! -e "$dir/failed" ] && [ -e "$dir/snapshot" ]
}

failing_write() {
    fresh
    ask_while pwrite64 error=ENOSPC:when=4 10 --sync "$1"
    grep -q INJECTED "$scratch/calls" && [ "$(from fallback)" -gt 0 ] && no_less_than_answered
}

# killed_at N: killed by the N-th write, before it is made
killed_at() {
    fresh
    ask_while pwrite64 "signal=KILL:error=EIO:when=$1" 10 --sync os # which writes nothing ahead
    no_less_than_answered && is kept "$(kept)" "$(($1 - 2))"
}

if ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
    echo '1..1'
    echo 'ok 1 - calls that fail # skip strace is not there, or may not trace'
    exit 0
fi
t a_failed_sync_is_reported_and_loses_nothing failing_sync
t a_failed_sync_is_not_tried_again no_second_sync
t a_failed_sync_is_a_warning_to_the_next_process warning
t a_failed_write_is_reported_and_loses_nothing failing_write 50ms
t a_failed_write_is_reported_when_nothing_is_synced failing_write os
for n in 2 3 4 7; do
    t "killed_at_write_${n}_it_has_what_was_written_before" killed_at "$n"
done
finish
