#!/bin/sh
# test_prefix.sh - `./dev install PREFIX` installs what was built, and `./dev uninstall` removes
# that and nothing else.
#
#   test_prefix.sh TREE      from the root of the source
. tests/support/tap.sh
tree=$1
prefix=$scratch/a/prefix

installs() {
    mkdir -p "$prefix/bin" && touch "$prefix/bin/other" &&
        packaging/install.sh "$tree" "$prefix" | tee "$scratch/said" && grep -qx '  bin/weir' "$scratch/said"
}

works() {
    [ "$("$prefix/bin/weir" --version)" = "$("$tree/weir" --version)" ] &&
        grep -qxF "prefix=$prefix" "$(find "$prefix" -name weir.pc)" &&
        [ -s "$prefix/share/man/man1/weir.1" ]
}

# Each file is listed, so that each can be removed.
is_listed() {
    (cd "$prefix" && find . ! -type d -printf '%P\n') | grep -vx bin/other | sort >"$scratch/there"
    sort "$prefix/share/weir/manifest" | diff - "$scratch/there"
}

# Over one that runs, and that had a file which this version does not have.
replaces() {
    "$prefix/bin/weir" serve --config examples/policies.yaml --store memory: \
        --listen "unix:$scratch/socket" >"$scratch/log" 2>&1 &
    server=$!
    touch "$prefix/bin/old" && echo bin/old >>"$prefix/share/weir/manifest" &&
        packaging/install.sh "$tree" "$prefix"
    status=$?
    kill "$server"
    wait "$server"
    [ "$status" = 0 ] && works && [ ! -e "$prefix/bin/old" ]
}

removes() {
    packaging/install.sh --remove "$prefix" || return 1
    [ "$(cd "$scratch/a" && find . -type f)" = ./prefix/bin/other ]
}

removes_once() {
    ! packaging/install.sh --remove "$prefix" 2>"$scratch/said" &&
        grep -q "has nothing that './dev install' installed" "$scratch/said"
}

t it_installs installs
t what_is_installed_works works
t all_of_it_is_listed is_listed
t a_new_version_replaces_one_that_runs replaces
t uninstall_removes_it_and_nothing_else removes
t there_is_nothing_left_to_remove removes_once
finish
