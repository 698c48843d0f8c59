#!/bin/sh
# test_policy.sh - `weir policy`: lint, explain and types.
#
#   test_policy.sh TREE      from the root of the source
. tests/support/cli.sh

# ---- policy lint --------------------------------------------------------------------------

printf 'version: 1\npolicies:\n  a: {limit: 3 per 1h, bye: ip}\n  b: {limit: 3 per 1 hour}\n' >"$scratch/bad.yaml"
bad_lines="3:24: unknown key 'bye' in a policy: did you mean 'by'?
4:14: '1 hour' is not a duration: write 1h"

tells_all() {
    run policy lint "$scratch/bad.yaml" "$policies"
    is status "$status" 1 && is stdout "$(cat "$scratch/out")" "$policies: ok (8 policies, 11 rules)" &&
        is stderr "$(cat "$scratch/err")" "$(echo "$bad_lines" | sed "s|^|$scratch/bad.yaml:|")"
}

lints_stdin() {
    "$weir" policy lint - <"$scratch/bad.yaml" >"$scratch/out" 2>"$scratch/err"
    is status $? 1 && is stderr "$(cat "$scratch/err")" "$(echo "$bad_lines" | sed 's/^/-:/')"
}

unreadable() {
    run policy lint "$scratch/none.yaml" "$scratch/bad.yaml" "$policies"
    is status "$status" 2 && grep -q ': ok' "$scratch/out" && grep -q 'bad.yaml:3:24' "$scratch/err" &&
        grep -q "^weir: cannot read $scratch/none.yaml: No such file or directory" "$scratch/err"
}

nul_in_file() {
    printf 'version: 1\npolicies:\n  a: \0{}\n' >"$scratch/nul.yaml"
    run policy lint "$scratch/nul.yaml"
    is status "$status" 1 && is stderr "$(cat "$scratch/err")" \
        "$scratch/nul.yaml:3:6: there is a NUL byte: a policy file must be UTF-8 text"
}

large_file() {
    head -c 2000000 /dev/zero | tr '\0' '\n' >"$scratch/large.yaml"
    run policy lint "$scratch/large.yaml"
    is status "$status" 1 && grep -q "^$scratch/large.yaml: it is larger than 1 MiB" "$scratch/err"
}

environment() {
    export WEIR_POLICY_LOGN_LIMIT='1 per 1m'
    run policy lint "$policies"
    is 'status without --env' "$status" 0 || return 1
    run policy lint --env "$policies"
    unset WEIR_POLICY_LOGN_LIMIT
    is status "$status" 1 && grep -q '^environment: WEIR_POLICY_LOGN_LIMIT: .*LOGIN' "$scratch/err"
}

strange_name() {
    name=$scratch/$(printf 'a"\\\001\377\303\251.yaml')
    cp "$policies" "$name"
    json 'a["file"].endswith("a\"\\\x01\ufffd\u00e9.yaml")' policy lint --json "$name"
}

t lint_reports_all_problems_of_all_files tells_all
t lint_reads_stdin lints_stdin
t lint_continues_after_an_unreadable_file unreadable
t lint_rejects_a_nul nul_in_file
t lint_rejects_a_large_file large_file
t lint_judges_a_file_by_itself_unless_asked environment
t lint_needs_a_file refuses "the files are missing: name them, or '-' for standard input" policy lint
t lint_has_json_for_good_files json 'a["ok"] and a["policies"] == 8 and a["rules"] == 11 and
    a["problems"] == []' policy lint --json "$policies"
t lint_has_json_for_problems json 'not a["ok"] and [(p["line"], p["column"]) for p in a["problems"]]
    == [(3, 24), (4, 14)] and a["problems"][1]["text"].endswith("write 1h")' \
    policy lint "$scratch/bad.yaml" --json
t json_escapes_what_it_must strange_name

# ---- policy explain -----------------------------------------------------------------------

explain() {
    expected_status=$1 expected=$2
    shift 2
    shows "$expected_status" "$expected" policy explain "$policies" "$@"
}

# with SETTING COMMAND...: in an environment with this setting
with() (
    export "${1?}"
    shift
    "$@"
)

hash_of() {
    "$weir" policy explain "$policies" "$@" | awk '$1 == "tag" { print $2 }'
}

hashes() {
    "$weir" check --limit "5 per 1m" --secret-file "$scratch/made" k || return 1
    one=$(hash_of login ip=::ffff:203.0.113.7 --secret-file "$scratch/made")
    two=$(hash_of login 203.0.113.7 --secret-file "$scratch/made")
    three=$(hash_of login 203.0.113.7)
    is 'the hash' "$(printf %s "$one" | tr -d 0-9a-f | wc -c) $(printf %s "$one" | wc -c)" '0 32' &&
        is 'the same address' "$one" "$two" && [ "$one" != "$three" ]
}

never_raw() {
    ! "$weir" policy explain "$policies" multi ip=203.0.113.77 user=bob-the-user 2>&1 |
        grep -e 203.0.113.77 -e bob-the-user &&
        ! "$weir" policy explain "$policies" multi ip=203.0.113.77 user=bob-the-user --json 2>&1 |
        grep -e 203.0.113.77 -e bob-the-user
}

incomplete() {
    run policy explain "$policies" multi ip=203.0.113.7
    is status "$status" 2 && grep -q '^rule ip' "$scratch/out" && is stderr "$(cat "$scratch/err")" \
        "weir: policy 'multi': the request has no attribute 'user', which rule 'user' counts by"
}

no_secret_made() {
    refuses "there is no secret file $scratch/none: leave out --secret-file, or name one" \
        policy explain "$policies" login 203.0.113.7 --secret-file "$scratch/none" &&
        [ ! -e "$scratch/none" ]
}

problems_first() {
    run policy explain "$scratch/bad.yaml" a
    is status "$status" 2 && is stdout "$(cat "$scratch/out")" '' &&
        grep -q "^$scratch/bad.yaml:3:24: " "$scratch/err"
}

t explain_names_the_line_of_a_limit explain 0 'limit 2 per 15m line 4' login
t explain_shows_what_is_built_in explain 0 'precision 1ms built in: exact' login
t explain_shows_what_the_defaults_say explain 0 'on_error deny line 2, defaults' login
t explain_shows_what_the_policy_says explain 0 'algorithm sliding_window line 4' login
t explain_uses_a_plan explain 0 'limit 20 per 1d line 5, plan paid' query t1 --plan paid
t explain_suggests_for_a_mistyped_plan explain 0 'plan pad no rule has it: did you mean paid?' \
    query t1 --plan pad
t explain_shows_the_burst explain 0 'burst 30 line 17' api tenant=a route=b
t explain_shows_the_policys_mode_from_the_rules explain 0 'mode shadow line 7, the policy'"'"'s' cleanup
t explain_shows_the_rules_own_mode explain 0 'mode off line 10, the rule'"'"'s own' cleanup
t explain_shows_how_an_address_is_normalised explain 0 'normalised ip: IPv6, first 56 bits line 9' \
    cleanup ip=2001:db8::7
t explain_shows_a_mapped_address explain 0 'normalised ip: IPv4, extracted from IPv6' \
    login ip=::ffff:203.0.113.7
t explain_shows_shadow_limits explain 0 'shadow_limit 1 per 1m line 16' beside u
t explain_shows_exemptions explain 0 \
    'This request is allowed and not counted: line 21 exempts it, by its ip.' login 10.0.0.9
t explain_shows_that_a_policy_is_off explain 0 \
    'Requests are allowed and not counted: line 19 turns the policy off.' gone
t explain_shows_what_is_judged_together explain 0 \
    'Requests are judged by 2 rules at once: if one denies, none is charged; 1 rule' multi
t explain_shows_what_is_ignored explain 0 'ignored color no rule uses it' \
    login ip=203.0.113.7 color=red
t explain_shows_an_override with 'WEIR_POLICY_MULTI_IP_LIMIT=7 per 1h' explain 0 \
    'limit 7 per 1h WEIR_POLICY_MULTI_IP_LIMIT; line 14 says 2 per 1m' multi
t explain_shows_a_policy_turned_off_from_outside with WEIR_ENABLED_POLICIES=query explain 0 \
    'Requests are allowed and not counted: WEIR_ENABLED_POLICIES leaves it out.' login
t explain_shows_what_turned_a_policy_off with WEIR_ENABLED_POLICIES=query explain 0 \
    'mode off WEIR_ENABLED_POLICIES' login
t explain_shows_a_limiter_turned_off_from_outside with WEIR_ENABLED=false explain 0 \
    'All requests are allowed and not counted: WEIR_ENABLED turns everything off.' login
t explain_hashes_what_is_the_same_alike hashes
t explain_never_shows_an_identity never_raw
t explain_shows_what_is_missing incomplete
t explain_makes_no_secret no_secret_made
t explain_shows_problems_instead problems_first
t explain_suggests_for_a_mistyped_policy refuses \
    "there is no policy 'logn' in $policies: did you mean 'login'?" policy explain "$policies" logn
t explain_needs_a_policy refuses 'the file or the policy is missing: name both, the file first' \
    policy explain "$policies"
t explain_has_json json 'a["outcome"] == "counted" and a["rules"][1]["limit"] ==
    {"value": 2, "window_ms": 60000, "from": "rule", "line": 14} and a["rules"][1]["by"]["value"] == ["ip"]
    and a["on_error"] == {"value": "deny", "from": "defaults", "line": 2} and
    len(a["rules"][1]["tag"]) == 32 and a["rules"][0]["tag"] is None and
    a["rules"][1]["normalised"] == {"ip": "IPv4"}' \
    policy explain "$policies" multi ip=203.0.113.7 user=u --json

# ---- policy types -------------------------------------------------------------------------

cat >"$scratch/typed.yaml" <<'END'
version: 1
policies:
  a/b: {limit: 3 per 1h}
  several:
    rules:
      one: {limit: 3 per 1h, by: [ip, user], plans: {paid: 4 per 1h, big: 5 per 1h}}
      two: {limit: 3 per 1h, by: [user, tenant], plans: {paid: 4 per 1h}}
END

types() {
    run policy types "$scratch/typed.yaml"
    is status "$status" 0 && is stdout "$(sed -n '2,$p' "$scratch/out")" 'export interface Policies {
  "a/b": { by: never; key: never; plan: never }
  "several": { by: "ip" | "user" | "tenant"; key: never; plan: "paid" | "big" }
}'
}

untyped() {
    run policy types "$scratch/bad.yaml"
    is status "$status" 1 && is stdout "$(cat "$scratch/out")" '' && grep -q 'bad.yaml:3:24' "$scratch/err"
}

t types_has_each_name_once types
t types_shows_problems_instead untyped
t types_needs_one_file refuses "name one policy file, or '-' for standard input" policy types
finish
