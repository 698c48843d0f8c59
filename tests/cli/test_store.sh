#!/bin/sh
# test_store.sh - counters that outlive a command: `weir check --store file:DIR`, `weir store`.
#
#   test_store.sh TREE      from the root of the source
. tests/support/cli.sh
dir=$scratch/store

# ask ARG...: one check of a limit of 3
ask() {
    "$weir" check --store "file:$dir" --limit '3 per 1h' "$@"
}

fresh() {
    rm -rf "$dir" "$scratch/out" "$scratch/err"
}

# counted N: as many journals as that, each with one record
counted() {
    fresh
    for i in $(seq "$1"); do
        ask -q "key-$i" || return
    done
}

# wait_for COMMAND...: until it succeeds, but not for ever
wait_for() {
    for _ in $(seq 3000); do
        "$@" 2>/dev/null && return
        sleep 0.01
    done
    return 1
}

# own: a process that has the store open, and waits for a reader until `release`
own() {
    mkfifo "$scratch/held"
    exec 9<>"$scratch/held"
    "$weir" check --store "file:$dir" --limit '3 per 1h' bob -n 1000000000 >&9 &
    owner=$!
    wait_for grep -qxF "$owner" "$dir/lock"
}

release() {
    kill "$owner"
    wait "$owner" 2>/dev/null
    exec 9>&-
    rm -f "$scratch/held"
}

flip() {
    python3 - "$1" "$2" <<'EOF'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]))
    byte = f.read(1)[0]
    f.seek(int(sys.argv[2]))
    f.write(bytes([byte ^ 1]))
EOF
}

# What is in the directory, but for the lock, whose pid may differ.
fingerprint() {
    (cd "$dir" && find . -type f ! -name lock -exec sha256sum {} + | sort)
}

# tells STATUS PATTERN ARG...: a line of stdout is like that, spaces aside
tells() {
    expected_status=$1 pattern=$2
    shift 2
    run "$@"
    tr -s ' ' <"$scratch/out" | grep -qx -e " *$pattern" || { cat "$scratch/out" "$scratch/err" && return 1; }
    is status "$status" "$expected_status"
}

# ---- check --------------------------------------------------------------------------------

limit_holds() {
    fresh
    for expected in 0 0 0 1 1; do
        ask -q bob "$@"
        is status $? "$expected" || return
    done
}

# limit_holds_over_kills LIMIT ARG...: each life is killed while it asks; what it had printed is
# the least that it was told.
limit_holds_over_kills() {
    rate="$1 per 1h"
    most=$1
    shift
    fresh
    rm -f "$scratch"/life-*
    for life in $(seq 20); do
        : >"$scratch/life-$life"
        "$weir" check --store "file:$dir" --limit "$rate" bob -n 1000000 "$@" >"$scratch/life-$life" &
        pid=$!
        wait_for test -s "$scratch/life-$life"
        kill -9 "$pid"
        wait "$pid" 2>/dev/null
    done
    "$weir" check --store "file:$dir" --limit "$rate" bob -n "$most" "$@" >"$scratch/life-last"
    told=$(cat "$scratch"/life-* | grep -c '^allowed.*left')
    [ "$told" -le "$most" ] || { echo "$told were admitted" && return 1; }
    tells 1 "denied $rate 0 of $most left.*" check --store "file:$dir" --limit "$rate" bob --peek
}

second_is_refused() {
    fresh
    own
    run check --store "file:$dir" --limit '3 per 1h' bob
    is stderr "$(cat "$scratch/err")" \
        "weir: $dir is in use by process $owner: stop it first, or send requests to it" &&
        is status "$status" 2
    result=$?
    release
    return "$result"
}

is_private() {
    counted 9 && is modes "$(stat -c %a "$dir" "$dir"/* | sort -u | tr '\n' ' ')" '600 700 ' &&
        ! grep -r key- "$dir"
}

other_secret() {
    counted 1
    run check --store "file:$dir" --secret-file "$scratch/other" --limit '3 per 1h' bob
    is status "$status" 2 && grep -q 'was written with another secret' "$scratch/err"
}

journals_are_summed_up() {
    counted 30 && [ "$(find "$dir" -name 'journal.*' | wc -l)" -le 9 ] && [ -f "$dir/snapshot" ] &&
        shows 0 'keys 30' store check "$dir"
}

shared_by_rules() {
    fresh
    for expected in 0 0 1; do
        run check --store "file:$dir" -c "$policies" multi ip=203.0.113.7 user=u
        is status "$status" "$expected" || return
    done
    tr -s ' ' <"$scratch/out" | grep -q '^ allowed all 98 of 100 left'
}

t a_limit_holds_over_several_calls limit_holds
t a_limit_holds_with_each_decision_synced limit_holds --sync always
t a_limit_holds_when_the_system_syncs limit_holds --sync=os
t a_limit_holds_over_kill_9 limit_holds_over_kills 20000
t a_limit_holds_over_kill_9_when_synced limit_holds_over_kills 5000 --sync always
t a_second_process_is_rejected_with_the_pid_of_the_first second_is_refused
t several_rules_are_charged_all_or_none_over_calls shared_by_rules
t files_are_private_and_contain_no_identities is_private
t another_secret_is_rejected other_secret
t many_short_calls_leave_few_journals journals_are_summed_up
t sync_without_a_store_is_rejected refuses \
    '--sync is for a store on disk: add --store file:DIR, or leave it out' \
    check --limit '3 per 1h' --sync os bob
t a_bad_sync_mode_is_rejected refuses \
    "sync must be always, os, or an interval from 1ms to 60s such as 50ms, not 'often'" \
    check --store "file:$dir" --limit '3 per 1h' --sync often bob
t a_store_without_a_directory_is_rejected refuses 'the directory is missing, as in file:/var/lib/weir' \
    check --store file: --limit '3 per 1h' bob

# ---- store check --------------------------------------------------------------------------

summarises() {
    counted 3
    answers 0 "$dir: sound
  keys      3
  snapshot  none yet
  journals  3 to replay, 3 records, 528 bytes
  epoch     4" store check "$dir"
}

summarises_json() {
    counted 9
    json 'a["sound"] and a["keys"] == 9 and a["expired"] == 0 and a["snapshot_keys"] >= 8 and
        a["journal_records"] <= 1 and a["torn_bytes"] == 0 and a["damage"] == []' \
        store check "file:$dir" --json
}

tells_expired() {
    fresh
    "$weir" check --store "file:$dir" --limit '3 per 1h' -q bob --now "$now"
    shows 0 'keys 1, 1 of them expired' store check "$dir"
}

changes_nothing() {
    counted 9
    truncate -s -40 "$(find "$dir" -name 'journal.*' | sort -V | tail -n 1)"
    fingerprint >"$scratch/before"
    run store check "$dir"
    fingerprint >"$scratch/after"
    cmp "$scratch/before" "$scratch/after"
}

# The end mark of 32 bytes and 8 of the last record.
torn() {
    counted 3
    truncate -s -40 "$dir/journal.3"
    tells 0 'torn [67][0-9] bytes that a crash cut short: normal, opening removes them' store check "$dir" &&
        ask key-3 >"$scratch/out" 2>"$scratch/err" &&
        grep -q "^weir: the journal's end was torn: [67][0-9] bytes that were never answered were cut" \
            "$scratch/err" &&
        grep -q '2 of 3 left' "$scratch/out"
}

flipped() {
    counted 3
    flip "$dir/journal.2" 130
    shows 1 "$1" store check "$dir" && shows 1 'keys 2' store check "$dir" &&
        json 'a["damage"] == [{"file": "journal.2", "what": "is damaged", "offset": 64,
            "bytes": 80, "missing_records": 1}] and not a["sound"]' store check --json "$dir" &&
        is status "$status" 1
}

not_opened() {
    counted 3
    flip "$dir/journal.2" 130
    fingerprint >"$scratch/before"
    run check --store "file:$dir" --limit '3 per 1h' bob
    fingerprint >"$scratch/after"
    is status "$status" 2 && grep -q "^weir: $dir/journal.2 is damaged at byte 64: " "$scratch/err" &&
        grep -q 'weir store repair' "$scratch/err" && cmp "$scratch/before" "$scratch/after"
}

# damaged TEXT COMMAND...: after the command, check reports the damage, and the store does not open
damaged() {
    expected=$1
    shift
    (cd "$dir" && "$@") && tells 1 "damage $expected" store check "$dir" &&
        run check --store "file:$dir" --limit '3 per 1h' bob && is status "$status" 2
}

missing_first() {
    counted 3 && damaged 'journal.2 is there, but neither a snapshot nor the first journal' rm journal.1
}

missing_middle() {
    counted 3 && damaged 'journal.3 is there, but the journal before it is missing' rm journal.2
}

missing_under_a_snapshot() {
    counted 11 && damaged 'journal.11 is there, but the journal before it is missing' rm journal.10
}

emptied() {
    counted 3 && damaged 'journal.2 has no header, and another journal follows' truncate -s 0 journal.2
}

cut_short() {
    counted 3 && damaged 'journal.2 ends before its end, and another journal follows at byte 64: [67][0-9] bytes do not verify' \
        truncate -s 136 journal.2
}

bad_snapshot() {
    counted 9 && damaged 'snapshot is damaged at byte [0-9]*: [0-9]* bytes do not verify, [0-9]* records* in them' \
        flip snapshot 200
}

longer_snapshot() {
    counted 9 && damaged "snapshot is damaged at byte $(stat -c %s "$dir/snapshot"): 4 bytes do not verify" \
        sh -c 'echo abc >>snapshot'
}

leaves_processes_alone() {
    fresh
    own
    run store "$1" "$dir"
    is stderr "$(cat "$scratch/err")" \
        "weir: $dir is in use by process $owner: stop it first, or send requests to it" &&
        is status "$status" 2
    result=$?
    release
    return "$result"
}

not_a_store() {
    mkdir -p "$scratch/empty"
    refuses "there is no secret in $scratch/empty: if the store was made with a secret file, give \
--secret-file; if not, this is not a store" store "$1" "$scratch/empty" &&
        is 'what was made there' "$(ls "$scratch/empty")" ''
}

secret_elsewhere() {
    fresh
    ask -q bob --secret-file "$scratch/elsewhere" && shows 0 "$dir: sound" store check "$dir" \
        --secret-file "$scratch/elsewhere" && ! "$weir" store check "$dir"
}

wrong_secret() {
    counted 1
    "$weir" check --secret-file "$scratch/wrong" --limit '3 per 1h' -q bob
    run store check "$dir" --secret-file "$scratch/wrong"
    is status "$status" 2 && grep -q 'journal.1 was written with another secret' "$scratch/err"
}

t check_reports_the_contents_of_a_store summarises
t check_prints_json_for_programs summarises_json
t check_reports_expired_keys tells_expired
t check_changes_nothing changes_nothing
t a_torn_tail_is_normal_and_cut_when_opened torn
t a_flipped_bit_is_damage flipped \
    'damage journal.2 is damaged at byte 64: 80 bytes do not verify, 1 record in them'
t a_damaged_store_is_not_opened_and_not_changed not_opened
t a_missing_first_journal_is_damage missing_first
t a_missing_journal_is_damage missing_middle
t a_missing_journal_under_a_snapshot_is_damage missing_under_a_snapshot
t an_emptied_journal_is_damage_if_another_follows emptied
t a_journal_cut_short_is_damage_if_another_follows cut_short
t a_flipped_bit_of_a_snapshot_is_damage bad_snapshot
t bytes_behind_a_snapshot_are_damage longer_snapshot
t check_does_not_disturb_a_process leaves_processes_alone check
t repair_does_not_disturb_a_process leaves_processes_alone repair
t a_folder_that_is_no_store_is_rejected_and_left_alone not_a_store check
t folders_without_a_store_are_not_repaired not_a_store repair
t a_folder_that_does_not_exist_is_rejected refuses \
    "there is no store $scratch/none: No such file or directory" store check "$scratch/none"
t a_file_is_no_store refuses \
    "$policies is not a directory: name the directory of the store" store check "$policies"
t no_folder_is_asked_for refuses 'the store is missing: name its directory' store check
t the_secret_may_be_elsewhere secret_elsewhere
t a_secret_that_does_not_exist_is_not_made refuses \
    "there is no secret file $scratch/none: give the one that the store was made with" \
    store check "$scratch" --secret-file "$scratch/none"
t the_wrong_secret_is_an_error wrong_secret

# ---- store repair -------------------------------------------------------------------------

repaired() {
    counted 3
    flip "$dir/journal.2" 130
    cp -r "$dir" "$scratch/original"
    answers 0 "journal.2 is damaged at byte 64: 80 bytes do not verify, 1 record in them
$dir: repaired, 2 live keys kept; the old files are in $dir/damaged-4" store repair "$dir" &&
        for file in journal.1 journal.2 journal.3; do
            cmp "$scratch/original/$file" "$dir/damaged-4/$file" || return
        done &&
        shows 0 "$dir: sound" store check "$dir" && shows 0 'keys 2' store check "$dir" &&
        ask key-1 | grep -q '1 of 3 left' && ask key-2 | grep -q '2 of 3 left'
}

repaired_snapshot() {
    counted 17
    ask -q key-1
    flip "$dir/snapshot" 200
    cp "$dir/snapshot" "$scratch/original-snapshot"
    run store repair "$dir"
    is status "$status" 0 && cmp "$scratch/original-snapshot" "$dir"/damaged-*/snapshot &&
        shows 0 "$dir: sound" store check "$dir" && ask key-1 -q
}

repaired_without_a_header() {
    counted 10
    flip "$dir/snapshot" 9
    run store repair "$dir"
    is status "$status" 0 && ask key-10 | grep -q '1 of 3 left' && ask key-1 | grep -q '2 of 3 left'
}

nothing_to_repair() {
    counted 3
    truncate -s -40 "$dir/journal.3"
    fingerprint >"$scratch/before"
    answers 0 "$dir: sound, there is nothing to repair" store repair "$dir" || return
    fingerprint >"$scratch/after"
    cmp "$scratch/before" "$scratch/after"
}

repaired_twice() {
    counted 3 && rm "$dir/journal.1" && "$weir" store repair "$dir" && counted_more &&
        rm "$dir/journal.5" && "$weir" store repair "$dir" && shows 0 "$dir: sound" store check "$dir" &&
        [ -d "$dir/damaged-4" ] && [ -d "$dir/damaged-7" ]
}

counted_more() {
    ask -q more-1 && ask -q more-2
}

# What one reservation has written verifies whole or not at all: its record, and what it holds.
repaired_reservations() {
    fresh
    for user in ann bob cid; do
        "$weir" reserve --store "file:$dir" -c "$scratch/held.yaml" --ttl 1h --id "$user" --cost 4 \
            held "$user" || return
    done
    flip "$dir/journal.2" 240
    "$weir" store repair "$dir" && shows 0 "$dir: sound" store check "$dir" &&
        shows 0 'committed held/default 9 of 10 left, resets in 6m' commit --store "file:$dir" ann --cost 1 &&
        shows 0 'committed held/default 9 of 10 left, resets in 6m' commit --store "file:$dir" cid --cost 1 &&
        "$weir" check --peek --store "file:$dir" -c "$scratch/held.yaml" held bob >"$scratch/out" &&
        grep -q '10 of 10 left' "$scratch/out" || return
    run commit --store "file:$dir" bob --cost 1
    is status "$status" 2 && grep -q 'there is no such reservation' "$scratch/err"
}

# versions: those of all files of the store, each once
versions() {
    for file in "$dir"/journal.* "$dir/snapshot"; do
        [ -f "$file" ] && od -An -tu4 -j8 -N4 "$file"
    done | tr -d ' ' | sort -u | xargs
}

# Journals up to version 7 and snapshots of version 4 are those of keys that are made apart.
old_stays_old() {
    for damaged in "snapshot 9" "snapshot 200" "journal.11 9" "journal.11 100"; do
        fresh
        cp -r tests/unit/engine/apart/snapshot "$dir"
        chmod 700 "$dir"
        chmod 600 "$dir"/*
        shows 0 "$dir: sound" store check "$dir" && is before "$(versions)" '4 6' || return
        flip "$dir/${damaged% *}" "${damaged#* }"
        run store check "$dir"
        is status "$status" 1
        "$weir" store repair "$dir" && shows 0 "$dir: sound" store check "$dir" &&
            is after "$(versions)" '4 7' && ask -q bob && ask -q bob && ask bob | grep -q '0 of 3 left' &&
            shows 0 "$dir: sound" store check "$dir" && is 'in use' "$(versions)" '4 7' || return
    done
    counted 20
    is new "$(versions)" '5 8'
}

cat >"$scratch/held.yaml" <<'END'
version: 1
policies:
  held: {limit: 10 per 1h, by: user, algorithm: token_bucket}
END
t repair_keeps_reservations_whole_or_not_at_all repaired_reservations
t repair_keeps_what_verifies_and_the_old_files repaired
t repair_of_a_snapshot_keeps_what_the_journals_have repaired_snapshot
t repair_without_a_header_keeps_the_journals repaired_without_a_header
t a_sound_store_is_not_repaired nothing_to_repair
t a_store_can_be_repaired_again repaired_twice
t a_store_of_an_earlier_version_is_checked_and_repaired_as_one old_stays_old
finish
