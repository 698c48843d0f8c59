#!/bin/sh
# test_check.sh - `weir check`: answers, exit statuses, JSON and trouble.
#
#   test_check.sh TREE      from the root of the source
. tests/support/cli.sh

# ---- check --------------------------------------------------------------------------------

uses_weir_config() {
    WEIR_CONFIG=$policies "$weir" check login 203.0.113.7
}

config_from_stdin() {
    "$weir" check --config - login 203.0.113.7 <"$policies"
}

quiet() {
    run check --config "$policies" -q login 203.0.113.7 -n "$1" --now "$now"
    is stdout "$(cat "$scratch/out")" '' && is status "$status" "$2"
}

# key_from TEXT STDERR STATUS; %b: backslashes in the text are escapes
key_from() {
    printf %b "$1" | "$weir" check --limit '5 per 1m' --key-file - >"$scratch/out" 2>"$scratch/err"
    status=$?
    is stderr "$(cat "$scratch/err")" "$2" && is status "$status" "$3"
}

t an_answer_is_a_line_and_the_last_one_counts answers 1 \
    'allowed  login/default  1 of 2 left, resets in 15m
allowed  login/default  0 of 2 left, resets in 15m
denied   login/default  0 of 2 left, retry in 15m' \
    check --config "$policies" login 203.0.113.7 --repeat 3 --now "$now"
t several_rules_have_a_row_each answers 1 \
    'allowed  multi/ip  1 of 2 left, resets in 40s
  allowed       all   99 of 100 left, resets in 40s
  allowed       ip    1 of 2 left, resets in 40s
  allowed       user  0 of 1 left, resets in 40s (shadow)
allowed  multi/ip  0 of 2 left, resets in 40s
  allowed       all   98 of 100 left, resets in 40s
  allowed       ip    0 of 2 left, resets in 40s
  shadow-denied user  0 of 1 left, retry in 40s (shadow)
denied   multi/ip  0 of 2 left, retry in 40s
  allowed       all   98 of 100 left, resets in 40s
  denied        ip    0 of 2 left, retry in 40s
  shadow-denied user  0 of 1 left, retry in 40s (shadow)' \
    check -c "$policies" multi ip=203.0.113.7 user=u -n 3 --now "$now"
t a_shadow_limit_is_reported shows 0 'allowed beside/default 3 of 5 left, resets in 40s, shadow-denied by its shadow limit' \
    check -c "$policies" beside u -n 2 --now "$now"
t a_burst_holds_more_than_the_limit answers 0 'allowed  api/default  29 left, resets in 100ms' \
    check -c "$policies" api tenant=a route=/x --now "$now"
t an_exempt_request_is_not_counted answers 0 'allowed  login/default  exempt: not counted' \
    check -c "$policies" login 10.1.2.3
t a_policy_that_is_off_counts_nothing answers 0 'allowed  gone/default  off: not counted' \
    check -c "$policies" gone
t a_limit_of_0_always_denies answers 1 \
    'denied   closed/default  0 of 0 left, retry never: a limit of 0 always denies' \
    check -c "$policies" closed
t a_plan_has_its_own_numbers shows 0 'allowed query/default 19 of 20 left, resets in 1h46m40s' \
    check -c "$policies" --plan paid query t1 --now "$now"
t the_config_can_come_from_the_environment uses_weir_config
t the_config_can_come_from_stdin config_from_stdin
t quiet_prints_nothing_and_is_0_if_allowed quiet 2 0
t quiet_prints_nothing_and_is_1_if_denied quiet 3 1
t a_limit_needs_no_policy answers 0 'allowed  5 per 1m  4 of 5 left, resets in 1m' \
    check --limit '5 per 1m' k
t a_limit_of_ones_own_may_be_0 shows 1 'denied 0 0 of 0 left, retry never: a limit of 0 always denies' \
    check --limit 0 k
t a_bucket_has_a_burst answers 0 'allowed  5 per 1m  9 left, resets in 12s' \
    check --limit='5 per 1m' --algorithm token_bucket --burst 10 k
t a_leaky_bucket_says_how_long_to_wait shows 0 \
    'allowed 10 per 1s 8 of 10 left, wait 100ms before it runs, resets in 200ms' \
    check --limit '10 per 1s' --algorithm=leaky_bucket k -n2 --now "$now"
t precision_widens_the_buckets shows 0 'allowed 5 per 1m 4 of 5 left, resets in 1m0.999s' \
    check --limit '5 per 1m' --precision 1s k --now "$now"
t a_window_may_begin_with_the_first_hit shows 0 'allowed 5 per 1m 4 of 5 left, resets in 1m' \
    check --limit '5 per 1m' --algorithm fixed_window --start first k --now "$now"
t a_denial_may_lock_out shows 1 'denied 1 per 1m 0 of 1 left, retry in 2h' \
    check --limit '1 per 1m' --block-for 2h k -n 2 --now "$now"
t a_cost_beyond_the_limit_never_passes answers 1 \
    'denied   5 per 1m  5 of 5 left, retry never: the cost is more than the limit can hold' \
    check --limit '5 per 1m' --cost 6 k
t a_cost_of_0_changes_nothing shows 0 'allowed 5 per 1m 5 of 5 left' \
    check --limit '5 per 1m' --cost 0 k -n 2
t a_peek_changes_nothing shows 0 'allowed 5 per 1m 5 of 5 left' check --limit '5 per 1m' --peek k -n 2
t a_charge_counts_beyond_the_limit shows 0 'charged 5 per 1m 0 of 5 left, exceeded by 2, resets in 1m' \
    check --limit '5 per 1m' --charge --cost 7 k
t a_refund_is_announced shows 0 'refunded 5 per 1m 5 of 5 left' check --limit '5 per 1m' --refund k
t a_reset_is_announced shows 0 'reset 5 per 1m 5 of 5 left' check --limit '5 per 1m' --reset k
t without_a_policy_a_word_is_the_key_whatever_is_in_it \
    shows 0 'allowed 5 per 1m 4 of 5 left, resets in 1m' check --limit '5 per 1m' a=b
t a_key_with_an_equals_sign_is_given_by_option \
    shows 0 'allowed query/default 9 of 10 left, resets in 1h46m40s' \
    check -c "$policies" query --key a=b --now "$now"
t a_word_with_another_name_before_the_equals_sign_is_a_key \
    shows 0 'allowed query/default 9 of 10 left, resets in 1h46m40s' \
    check -c "$policies" query 'a b=c' --now "$now"
t a_key_may_begin_with_a_dash_after_two shows 0 'allowed 5 per 1m 4 of 5 left, resets in 1m' \
    check --limit '5 per 1m' -- -k
t a_key_may_come_from_stdin key_from 'bob\n' '' 0

# ---- check: JSON --------------------------------------------------------------------------

t json_has_what_the_design_says json 'list(a) == ["allowed", "policy", "rule", "limit", "remaining",
    "retry_after_ms", "reset_after_ms", "delay_ms", "source", "shadow"] and
    list(a.values()) == [False, "login", "default", 2, 0, 900000, 900000, 0, "store", False]' \
    check -c "$policies" login 203.0.113.7 -n 3 --now "$now" --json
t json_has_rules_if_there_are_several json '[r["rule"] for r in a["rules"]] == ["all", "ip", "user"] and
    a["rules"][0] == {"rule": "all", "allowed": True, "limit": 100, "remaining": 98,
    "retry_after_ms": 0, "reset_after_ms": 40000} and
    a["rules"][2]["shadow"] and a["rules"][2]["shadow_denied"] and a["shadow"]' \
    check -c "$policies" multi ip=203.0.113.7 user=u -n 2 --now "$now" -j
t json_says_never json 'a["retry_after_ms"] == -1 and a["policy"] is None' \
    check --limit '5 per 1m' --cost 6 k --json
t json_says_where_an_answer_is_from json 'a["source"] == "exempt"' \
    check -c "$policies" login 10.1.1.1 --json

# ---- check: trouble -----------------------------------------------------------------------

t an_unknown_policy_is_answered_with_a_suggestion refuses "there is no policy 'logn': did you mean 'login'?" \
    check -c "$policies" logn 203.0.113.7
t a_missing_policy_is_asked_for refuses 'the policy is missing: name it before the key, or give a limit: --limit "5 per 1m"' \
    check -c "$policies" ip=203.0.113.7
t a_missing_config_is_asked_for refuses 'the policies are missing: give --config FILE or set WEIR_CONFIG, or give a limit: --limit "5 per 1m"' \
    check login k
t a_missing_key_is_asked_for refuses 'the key is missing: give a KEY after the options' \
    check --limit '5 per 1m'
t a_missing_attribute_is_rejected refuses \
    "policy 'multi': the request has no attribute 'user', which rule 'user' counts by" \
    check -c "$policies" multi ip=203.0.113.7
t a_key_for_several_attributes_is_rejected refuses \
    "policy 'multi' counts by several attributes: give them by name instead of a key" \
    check -c "$policies" multi k
t a_key_and_attributes_are_rejected refuses 'give a key or attributes, not both' \
    check -c "$policies" login k ip=203.0.113.7
t two_keys_are_rejected refuses 'there is more than one key: give one' \
    check --limit '5 per 1m' secret-one secret-two
t an_attribute_given_twice_is_rejected refuses "attribute 'ip' is given twice: give it once" \
    check -c "$policies" login ip=203.0.113.7 ip=203.0.113.8
t an_empty_key_is_rejected refuses 'the key is empty' check --limit '5 per 1m' ''
t an_empty_attribute_is_rejected refuses "policy 'query': attribute 'tenant' is empty" \
    check -c "$policies" query tenant=
t a_bad_address_is_rejected_and_not_shown refuses \
    "policy 'login': attribute 'ip' is not an IP address such as 203.0.113.7 or 2001:db8::7" \
    check -c "$policies" login 203.0.113
t a_key_that_is_not_utf8_is_rejected refuses \
    'the key is not valid UTF-8, or contains a NUL byte' \
    check --limit '5 per 1m' "$(printf 'a\377b')"
t a_key_with_a_nul_is_rejected key_from 'a\0000b' \
    'weir: the key is not valid UTF-8, or contains a NUL byte' 2
head -c 1000000 /dev/zero | tr '\0' k >"$scratch/long"
t a_key_of_a_megabyte_is_rejected refuses \
    'the key is too long: the values that a rule counts by may have 4096 bytes together' \
    check --limit '5 per 1m' --key-file "$scratch/long"
t an_attribute_of_a_megabyte_is_rejected refuses \
    "policy 'query': attribute 'tenant' is too long: the values that a rule counts by may have 4096 bytes together" \
    check -c "$policies" query --key-file "$scratch/long"
t a_negative_cost_is_rejected refuses "--cost must be from 0 to 2^53, not '-1'" \
    check --limit '5 per 1m' --cost -1 k
t a_cost_that_is_no_number_is_rejected refuses "--cost takes a whole number, not '1e3'" \
    check --limit '5 per 1m' --cost 1e3 k
t a_cost_beyond_all_bounds_is_rejected refuses \
    "--cost must be from 0 to 2^53, not '99999999999999999999'" \
    check --limit '5 per 1m' --cost 99999999999999999999 k
t no_repetition_is_rejected refuses "--repeat must be from 1 to 2^53, not '0'" \
    check --limit '5 per 1m' k -n 0
t a_bad_duration_is_rejected refuses "--limit: '2 hours' is not a duration: write 2h" \
    check --limit '5 per 2 hours' k
t a_limit_without_a_time_is_rejected refuses \
    "--limit: '5' has no time: write 5 per 1m, or another duration" check --limit 5 k
t a_bad_precision_is_rejected refuses "--precision: '3 secs' is not a duration: write 3s" \
    check --limit '5 per 1m' --precision '3 secs' k
t a_bad_lockout_is_rejected refuses "--block-for: '3 secs' is not a duration: write 3s" \
    check --limit '5 per 1m' --block-for '3 secs' k
t a_bad_start_is_rejected refuses '--start must be epoch or first' \
    check --limit '5 per 1m' --start last k
t a_mistyped_algorithm_is_answered_with_a_suggestion refuses \
    "there is no algorithm 'token_bukcet': did you mean 'token_bucket'?" \
    check --limit '5 per 1m' --algorithm token_bukcet k
t a_burst_where_there_is_none_is_rejected refuses \
    'sliding_window has no burst: only token_bucket and leaky_bucket do' \
    check --limit '5 per 1m' --burst 9 k
t numbers_beside_a_policy_are_rejected refuses \
    '--burst needs a limit: add --limit "5 per 1m", or leave it out' \
    check -c "$policies" --burst 9 login k
t a_config_beside_a_limit_is_rejected refuses \
    '--limit needs no policies: leave out --config, or name a policy instead' \
    check -c "$policies" --limit '5 per 1m' k
t two_verbs_are_rejected refuses \
    '--peek, --refund, --reset and --charge exclude each other: give one of them' \
    check --limit '5 per 1m' --peek --reset k
t an_unreadable_config_is_rejected refuses \
    "$scratch/none.yaml: cannot read it: No such file or directory: check the path" \
    check -c "$scratch/none.yaml" login k
t an_unreadable_key_is_rejected refuses \
    "cannot read $scratch/none: No such file or directory: check the path" \
    check --limit '5 per 1m' --key-file "$scratch/none"

unknown_store() {
    run check --limit '5 per 1m' --store 'mongodb://user:password@host' k
    is status "$status" 2 && grep -q "^weir: there is no store 'mongodb:'" "$scratch/err" &&
        ! grep -q password "$scratch/err"
}

open_secret() {
    echo x >"$scratch/secret"
    chmod 644 "$scratch/secret"
    run check --limit '5 per 1m' --secret-file "$scratch/secret" k
    is status "$status" 2 && grep -q 'chmod 600' "$scratch/err"
}

makes_a_secret() {
    "$weir" check --limit '5 per 1m' --secret-file "$scratch/made" k &&
        is mode "$(stat -c %a "$scratch/made")" 600
}

bad_config() {
    printf 'version: 1\npolicies:\n  a: {limit: 3 per 1h, bye: ip}\n  b: {limit: x}\n' >"$scratch/bad.yaml"
    run check -c "$scratch/bad.yaml" a k
    is status "$status" 2 && is stdout "$(cat "$scratch/out")" '' &&
        grep -q "^weir: $scratch/bad.yaml:3:24: " "$scratch/err" &&
        grep -q "^weir: $scratch/bad.yaml:4:14: " "$scratch/err"
}

t an_unknown_store_is_rejected_without_its_password unknown_store
t a_secret_that_others_can_read_is_rejected open_secret
t a_secret_is_made_for_its_owner_alone makes_a_secret
t all_problems_of_a_config_are_reported_at_once bad_config
finish
