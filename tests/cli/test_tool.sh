#!/bin/sh
# test_tool.sh - the command line as scripts and people meet it.
#
#   test_tool.sh TREE      from the root of the source
weir=$1/weir
. tests/support/tool.sh
policies=examples/policies.yaml

fits_a_screen() {
    says 0 "$@" && [ "$(wc -l <"$scratch/out")" -le 24 ] && ! grep -q '.\{81\}' "$scratch/out"
}

five_pass_and_the_sixth_does_not() {
    says 1 check -c "$policies" login 203.0.113.7 --repeat 6 &&
        [ "$(cut -d ' ' -f 1 "$scratch/out" | tr '\n' ' ')" = \
            'allowed allowed allowed allowed allowed denied ' ]
}

is_json() {
    says "$@" --json && python3 -m json.tool <"$scratch/out"
}

is_silent() {
    says "$@" && [ ! -s "$scratch/out" ] && [ ! -s "$scratch/err" ]
}

cannot_write() {
    "$weir" check --limit '5 per 1m' someone >/dev/full 2>"$scratch/err"
    [ $? = 2 ] && grep 'cannot write' "$scratch/err"
}

tells_all_problems() {
    printf 'version: 1\npolicies:\n  a: {limit: 5 per 1x, by: ip}\n  b: {limt: 5 per 1m}\n' \
        >"$scratch/bad.yaml"
    says 1 policy lint "$scratch/bad.yaml" && [ "$(wc -l <"$scratch/err")" = 2 ] &&
        grep "^$scratch/bad.yaml:3:[0-9]*: '1x' is not a duration" "$scratch/err" &&
        grep "^$scratch/bad.yaml:4:[0-9]*: unknown key 'limt'.*did you mean 'limit'" "$scratch/err"
}

# A key of the bytes that printf makes of FORMAT.
refuses_key() {
    pattern=$1
    shift
    # shellcheck disable=SC2059 # the format is what is tested
    printf "$@" >"$scratch/key"
    troubles "$pattern" check --limit '5 per 1m' --key-file "$scratch/key"
}

prints_no_identity() {
    says 2 check -c "$policies" login secret-person
    ! grep secret-person "$scratch/err" &&
        says 0 policy explain "$policies" login 203.0.113.77 && ! grep 203.0.113.77 "$scratch/out"
}

# What `./dev serve` tells people to try, asked of a server of the test's own.
lines_to_try_work() {
    sed -n 's|^  build/weir ||p' dev | sed "s|http://localhost:7878|unix:$scratch/socket|" \
        >"$scratch/lines"
    [ -s "$scratch/lines" ] || return 1
    "$weir" serve --config "$policies" --store memory: --listen "unix:$scratch/socket" \
        2>"$scratch/log" &
    server=$!
    until grep -q '"event":"ready"' "$scratch/log"; do
        kill -0 "$server" || return 1
        sleep 0.01
    done
    good=0
    while read -r line; do
        # shellcheck disable=SC2086 # one word an argument
        says 0 $line || good=1
    done <"$scratch/lines"
    kill "$server" && wait "$server" && [ "$good" = 0 ]
}

t it_prints_its_version answers 0 '^weir [0-9]*\.[0-9]*\.[0-9]*$' --version
t without_a_command_it_explains_itself_and_fails says 2
for command in '' serve check policy 'policy lint' 'policy explain' 'policy import' 'policy push' store \
    'store check' 'store repair' migrate doctor top bench; do
    # shellcheck disable=SC2086 # two words are two arguments
    t "help_fits_a_screen_$(echo "${command:-overview}" | tr ' ' _)" fits_a_screen $command --help
done

t a_limit_is_kept five_pass_and_the_sixth_does_not
t a_limit_of_ones_own answers 0 '^allowed .* 4 of 5 left' check --limit '5 per 1m' someone
t a_cost_beyond_the_limit_is_denied answers 1 '^denied .*never' check --limit '5 per 1m' --cost 6 x
t quiet_is_silent is_silent 1 check --limit 0 someone --quiet
t an_answer_is_json is_json 0 check -c "$policies" cleanup ip=203.0.113.7 email=a@example.com
t a_denial_is_json is_json 1 check --limit 0 someone
t an_explanation_is_json is_json 0 policy explain "$policies" query acme --plan paid
t the_examples_are_fine answers 0 "^$policies: ok" policy lint "$policies"
t the_commands_printed_by_dev_work lines_to_try_work
t all_problems_are_reported_at_once tells_all_problems
t failed_writes_are_errors cannot_write

t a_mistyped_command troubles "did you mean 'check'" chek
t a_mistyped_option troubles 'did you mean --algorithm' check --limit '5 per 1m' --algoritm x y
t a_mistyped_policy troubles "did you mean 'login'" check -c "$policies" logn 203.0.113.7
t a_mistyped_algorithm troubles "did you mean 'token_bucket'" \
    check --limit '5 per 1m' --algorithm token_buket someone
t a_policy_that_does_not_exist troubles 'there is no policy' check -c "$policies" zzz 203.0.113.7
t a_file_that_does_not_exist troubles 'cannot read' check -c "$scratch/none" login 203.0.113.7
t a_folder_for_a_file troubles 'cannot read' check -c "$scratch" login 203.0.113.7
t a_missing_attribute troubles "'email'" check -c "$policies" cleanup ip=203.0.113.7
t a_bad_unit troubles "'1x' is not a duration" check --limit '5 per 1x' someone
t a_limit_beyond_all_bounds troubles 'below 2^53' check --limit '9007199254740992 per 1m' someone
t a_negative_cost troubles 'cost must be' check --limit '5 per 1m' --cost -1 someone
t an_empty_key troubles 'empty' check --limit '5 per 1m' ''
t a_key_with_a_nul refuses_key 'NUL' 'a\000b'
t a_key_that_is_not_utf8 refuses_key 'UTF-8' 'a\377b'
t a_key_of_a_megabyte refuses_key 'too long' '%01000000d' 0

t no_identity_is_ever_printed prints_no_identity
finish
