#!/bin/sh
# test_reserve.sh - `weir reserve`, `commit`, `release`, `grow` and `extend`, here and by a server.
#
#   test_reserve.sh TREE      from the root of the source
. tests/support/cli.sh
. tests/support/served.sh

cat >"$policies" <<'END'
version: 1
policies:
  jobs:
    by: user
    rules:
      running: {limit: 2 at once}
      rows: {limit: 1000 per 1h, algorithm: fixed_window, counts: rows}
  quota: {limit: 10 per 1h, by: user, algorithm: fixed_window}
  gone: {limit: 1 per 1s, by: user, mode: 'off'}
END

# asked STORE|SERVER: how all commands below find their limiter
asked() {
    where=$1
}

# ask COMMAND ARG...
ask() {
    command=$1
    shift
    if [ "$where" = here ]; then
        case $command in check | reserve) set -- -c "$policies" "$@" ;; esac
        "$weir" "$command" --store "file:$scratch/data" --now "$now" "$@"
    else
        "$weir" "$command" --server "unix:$socket" --now "$now" "$@"
    fi
}

# says STATUS TEXT COMMAND ARG...: on stdout and stderr together
says() {
    expected_status=$1 expected=$2
    shift 2
    "$@" >"$scratch/out" 2>&1
    status=$?
    is output "$(cat "$scratch/out")" "$expected" && is status "$status" "$expected_status"
}

# The same words from a store of one's own and from a server.
all() {
    asked "$1"
    t "a_reservation_is_held_$1" says 0 \
        'allowed  jobs/running  1 of 2 left, resets in 1m, reservation a:B/job_1.0-x expires in 1m
  allowed       running  1 of 2 left, resets in 1m
  allowed       rows     600 of 1000 left, resets in 46m40s' \
        ask reserve --ttl 1m --id a:B/job_1.0-x --cost rows=400 jobs ann
    t "more_is_checked_onto_it_$1" shows_line 0 'allowed rows 500 of 1000 left, resets in 46m40s' \
        grow a:B/job_1.0-x --cost rows=100
    t "more_may_be_denied_$1" shows_line 1 'denied rows 500 of 1000 left, retry in 46m40s' \
        grow a:B/job_1.0-x --cost rows=501
    t "it_expires_later_$1" shows_line 0 \
        'extended jobs/running 1 of 2 left, resets in 5m, reservation a:B/job_1.0-x expires in 5m' \
        extend a:B/job_1.0-x --ttl 5m
    t "what_was_not_used_is_given_back_$1" says 0 \
        'committed jobs/running  2 of 2 left
  allowed       running  2 of 2 left
  allowed       rows     950 of 1000 left, resets in 46m40s' \
        ask commit a:B/job_1.0-x --cost rows=50
    t "the_same_commit_is_repeated_$1" shows_line 0 \
        'committed jobs/running 2 of 2 left, repeated: nothing was counted again' \
        commit a:B/job_1.0-x --cost rows=50
    t "another_commit_is_an_error_$1" says 2 \
        'weir: the reservation is settled already, with other amounts' ask commit a:B/job_1.0-x --cost rows=51
    t "an_unknown_one_is_an_error_$1" says 2 \
        'weir: there is no such reservation: it was never made, or is long over' ask release nothing
    t "all_is_given_back_$1" says 0 \
        'allowed  quota/default  3 of 10 left, resets in 46m40s, reservation q expires in 5s
released quota/default  10 of 10 left' reserve_and_release
    t "what_is_off_has_no_reservation_$1" says 0 'allowed  gone/default  off: not counted' \
        ask reserve --ttl 1m gone ann
    t "to_settle_none_is_fine_$1" says 0 'released nothing was reserved  off: not counted' ask release ''
    t "a_check_with_an_id_is_charged_once_$1" says 0 \
        'allowed  quota/default  8 of 10 left, resets in 46m40s, reservation c
allowed  quota/default  8 of 10 left, resets in 46m40s, reservation c, repeated: nothing was counted again' \
        ask check --id c --cost 2 quota bob --repeat 2
    t "json_has_the_members_of_http_$1" has_members
    t "an_error_in_json_has_its_code_$1" error_code no_such_reservation commit nothing
    t "a_denied_one_is_1_$1" says 1 '' ask reserve -q --ttl 1m --cost 11 quota bob
}

shows_line() {
    expected_status=$1 expected=$2
    shift 2
    ask "$@" >"$scratch/out" 2>&1
    status=$?
    tr -s ' ' <"$scratch/out" | grep -qxF -e "$expected" -e " $expected" ||
        { cat "$scratch/out" && return 1; }
    is status "$status" "$expected_status"
}

reserve_and_release() {
    ask reserve --ttl 5s --id q --cost 7 quota ann && ask release q | sed 's/, resets in .*//'
}

has_members() {
    ask reserve --json --ttl 5s --id j quota cy >"$scratch/held" &&
        ask commit --json j --cost 3 >"$scratch/settled" &&
        python3 - "$scratch/held" "$scratch/settled" <<'END'
import json, sys
held, settled = (json.load(open(path)) for path in sys.argv[1:])
assert held["reservation"] == "j" and held["expires_in_ms"] == 5000 and held["repeated"] is False, held
assert settled["reservation"] == "j" and settled["expired"] is False and settled["repeated"] is False, settled
assert settled["over"] == 0 and settled["remaining"] == 7, settled
END
}

error_code() {
    ask "$2" --json "$3" >"$scratch/out" 2>/dev/null
    is status $? 2 && grep -q "\"code\":\"$1\"" "$scratch/out"
}

all here
serve --listen "unix:$socket" --config "$policies" --store memory: --trust-client-clock
all by_a_server
stop

t a_reservation_in_memory_would_be_lost refuses \
    'a reservation in memory ends with this command: give --server URL or --store file:DIR' \
    reserve -c "$policies" --ttl 1m quota ann
t so_would_its_commit refuses \
    'a reservation in memory ends with this command: give --server URL or --store file:DIR' commit a:B/job_1.0-x
t a_time_to_live_is_needed refuses 'the time to live is missing: give --ttl TIME, such as 30s' \
    reserve -c "$policies" quota ann
t it_has_bounds refuses 'ttl_ms must be from 1 to 86400000 here, not 86400001' \
    reserve -c "$policies" --store "file:$scratch/data" --ttl 86400001ms quota ann
t a_reservation_is_needed refuses 'the reservation is missing: give its id' commit
t only_one_is_settled_at_a_time refuses 'there is more than one reservation: give one' release a b
t an_odd_id_is_rejected refuses "id must be 1 to 64 of a-z A-Z 0-9 _ . : / -" \
    reserve -c "$policies" --store "file:$scratch/data" --ttl 1m --id 'a b' quota ann
t a_policy_is_needed refuses 'the policy is missing: name it before the key' \
    reserve -c "$policies" --ttl 1m
finish
