#!/bin/sh
# test_usage.sh - the command line tool: help, typing errors, and output that cannot be written.
#
#   test_usage.sh TREE      from the root of the source
. tests/support/cli.sh

# ---- help ---------------------------------------------------------------------------------

fits_a_screen() {
    "$@" >"$scratch/page" 2>&1
    awk 'length > 80 { print "too wide: " $0; bad = 1 }
         END { if (NR > 24 || NR < 3) { print NR " lines"; bad = 1 } exit bad }' "$scratch/page"
}

alike() {
    "$weir" help check >"$scratch/one" && "$weir" check --help >"$scratch/two" &&
        "$weir" check login -qh >"$scratch/three" &&
        cmp "$scratch/one" "$scratch/two" && cmp "$scratch/one" "$scratch/three"
}

help_of_the_parts() {
    "$weir" help policy | grep -q 'policy lint' && "$weir" policy --help | grep -q 'policy explain' &&
        ! "$weir" help policy | grep -q '^  check' &&
        "$weir" help | grep -q 'policy explain|diff.*Show which rules apply, or compare' &&
        "$weir" help policy | grep -q 'policy explain  .*and why'
}

nothing_is_trouble() {
    run
    is status "$status" 2 && is stdout "$(cat "$scratch/out")" '' &&
        grep -q '^usage: weir' "$scratch/err"
}

t the_overview_fits_a_screen fits_a_screen "$weir" --help
t the_help_of_check_fits_a_screen fits_a_screen "$weir" help check
t the_help_of_lint_fits_a_screen fits_a_screen "$weir" help policy lint
t the_help_of_explain_fits_a_screen fits_a_screen "$weir" policy explain -h
t all_ways_to_ask_for_help_are_alike alike
t a_group_of_commands_has_an_overview help_of_the_parts
t no_command_is_an_error nothing_is_trouble
t the_help_is_there_for_programs json "all(c['summary'] and c['usage'] is not None for c in a['commands'])
    and [o for c in a['commands'] if c['name'] == 'serve' for o in c['options'] if o['name'] == 'tls-cert'][0]
        == {'name': 'tls-cert', 'letter': '', 'argument': 'FILE', 'help': 'PEM files: serve TLS',
            'shares_line': True, 'words': ''}" help --json
t the_version_is_reported shows 0 "weir $(sed -n 's/.*WEIR_VERSION_M[AI][JN]OR \(.*\)/\1/p' \
    include/weir.h | paste -sd.).$(sed -n 's/.*WEIR_VERSION_PATCH //p' include/weir.h)" --version

# ---- typing errors ------------------------------------------------------------------------

t a_mistyped_command_is_answered_with_a_suggestion \
    refuses "there is no command 'chekc': did you mean 'check'?" chekc
t half_a_command_is_answered_with_a_suggestion \
    refuses "there is no command 'lint': did you mean 'policy lint'?" lint x.yaml
t a_mistyped_second_word_is_answered_with_a_suggestion \
    refuses "there is no command 'policy lnt': did you mean 'policy lint'?" policy lnt
t a_mistyped_first_word_is_answered_with_a_suggestion \
    refuses "there is no command 'polcy lint': did you mean 'policy lint'?" polcy lint
t a_mistyped_topic_of_help_is_answered_with_a_suggestion \
    refuses "there is no command 'chekc': did you mean 'check'?" help chekc
t a_strange_command_points_to_the_help \
    refuses "there is no command 'frobnicate': see 'weir help'" frobnicate
t a_mistyped_option_is_answered_with_a_suggestion \
    refuses 'check has no option --jsom: did you mean --json?' check --jsom login k
t a_mistyped_option_is_shown_without_its_value \
    refuses 'check has no option --kye: did you mean --key?' check --kye=203.0.113.7 login
t a_store_is_not_changed_behind_its_servers_back \
    refuses 'override set needs a running server, which has the store open: give --server URL, not --store' \
    override set login k --block --store file:quotas
t a_mistyped_option_of_the_tool_is_answered_with_a_suggestion \
    refuses 'there is no option --verson: did you mean --version?' --verson
t a_key_that_looks_like_an_option_is_not_shown refuses "an argument begins with '-' but is not an \
option: see 'weir help check', or put '--' before it" check --limit '5 per 1m' --a@example.com
t an_unknown_letter_is_rejected refuses "check has no option -x: see 'weir help check', or put '--' \
before a key that begins with '-'" check -x
t a_missing_value_is_rejected refuses '--limit needs a value: --limit RATE' check k --limit
t a_value_too_many_is_rejected refuses '--json takes no value' check --json=yes login k

# ---- stdout -------------------------------------------------------------------------------

full_disk() {
    "$weir" "$@" >/dev/full 2>"$scratch/err"
    is status $? 2 && is stderr "$(cat "$scratch/err")" \
        'weir: cannot write the output: No space left on device'
}

closed_pipe() {
    { "$weir" check --limit '5 per 1m' k -n 1000000 2>"$scratch/err"; echo $? >"$scratch/status"; } | head -n 1
    is status "$(cat "$scratch/status")" 2 && is stderr "$(cat "$scratch/err")" \
        'weir: cannot write the output: Broken pipe'
}

closed_stdout() {
    "$weir" check --limit '5 per 1m' --secret-file "$scratch/made" k 2>/dev/null >&-
    is status $? 2 && is 'the secret' "$(wc -c <"$scratch/made")" 65
}

# Escape codes that the tool prints into a terminal.
escapes() {
    script -qec "$weir check --limit '5 per 1m' k" /dev/null </dev/null | grep -c "$(printf '\033')"
}

colours() {
    is 'lines with colour' "$(escapes)" 1 && is 'with NO_COLOR' "$(NO_COLOR=1 escapes)" 0 &&
        is 'in a pipe' "$("$weir" check --limit '5 per 1m' k | grep -c "$(printf '\033')")" 0
}

t a_full_disk_is_an_error full_disk check --limit '5 per 1m' k
# Here the write that fails ends a line, so that nothing is left to flush at the end.
t a_full_disk_between_two_lines_is_an_error full_disk check --limit '13 per 1000m' -n 1000 k
t a_full_disk_is_an_error_for_help_too full_disk --help
t a_full_disk_is_an_error_for_lint_too full_disk policy lint "$policies"
t a_closed_pipe_is_an_error_and_ends_it closed_pipe
t a_closed_stdout_is_an_error closed_stdout
t colours_are_for_terminals colours
finish
