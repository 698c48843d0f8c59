#!/bin/sh
# test_demo.sh - the demo shows what it says, and leaves nothing behind.
#
#   test_demo.sh TREE      from the root of the source
. tests/support/tap.sh
weir=$1/weir
mkdir "$scratch/tmp"

shows_it_all() {
    TMPDIR=$scratch/tmp examples/demo.sh "$weir" >"$scratch/out" || return 1
    cat "$scratch/out"
    [ "$(grep -c '  allowed  login/default' "$scratch/out")" = 6 ] &&
        [ "$(grep -c '  denied   login/default' "$scratch/out")" = 2 ] &&
        grep -q '^Still denied' "$scratch/out" && grep -q '^Exactly 3' "$scratch/out"
}

leaves_nothing() {
    [ -z "$(ls -A "$scratch/tmp")" ] &&
        ! kill -0 "$(sed -n 's/^serving on .* process //p' "$scratch/out" | tail -n 1)"
}

# SIGINT as soon as it serves.
is_interrupted() {
    TMPDIR=$scratch/tmp setsid examples/demo.sh "$weir" >"$scratch/out" 2>&1 &
    demo=$!
    for _ in $(seq 3000); do
        ! grep -q '^serving on' "$scratch/out" || break
        sleep 0.01
    done
    kill -TERM "$demo"
    wait "$demo"
    [ $? = 143 ] && leaves_nothing
}

t the_demo_hits_limits_and_they_survive_a_kill shows_it_all
t the_demo_leaves_nothing_behind leaves_nothing
t a_demo_that_is_stopped_leaves_nothing_behind is_interrupted
finish
