#!/bin/sh
# test_set_up.sh - ./dev installs the packages that are missing, and only those.
#
#   test_set_up.sh           from the root of the source
#
# dpkg-query is the real one, with a database of the test's own; apt-get is replaced by one that
# only says what it was asked for.
. tests/support/tap.sh
export DPKG_ADMINDIR="$scratch/dpkg" PATH="$scratch/bin:$PATH"
unset DEV_INSTALL
mkdir -p "$DPKG_ADMINDIR/info" "$DPKG_ADMINDIR/updates" "$scratch/bin" "$scratch/tree"
cp dev "$scratch/tree"
touch "$DPKG_ADMINDIR/status"

program() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/bin/$1" && chmod +x "$scratch/bin/$1"
}
program apt-get "echo \"\$*\" >>$scratch/asked; case \$* in *install*) exit 100 ;; esac"
program apt-cache 'exit 0'
# shellcheck disable=SC2016 # the arguments are sudo's
program sudo 'exec "$@"'
program meson 'exit 1'

# installed NAME [PROVIDED]
installed() {
    printf 'Package: %s\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n' "$1"
    [ -z "${2:-}" ] || printf 'Provides: %s\n' "$2"
    printf 'Maintainer: a\nDescription: a\n\n'
}

wanted() {
    sed -n "/^build_packages='/,/'/p" dev | tr -d "'" | sed 's/^build_packages=//'
}

# The packages that ./dev asks apt-get for, having NAME... in the way that the function says.
asked_with() {
    : >"$scratch/asked"
    "$@" >"$DPKG_ADMINDIR/status"
    "$scratch/tree/dev" build 2>&1
    sed -n 's/.* install //p' "$scratch/asked" | tee "$scratch/packages"
}

all_but_gcc() {
    for package in $(wanted); do
        [ "$package" = gcc ] || installed "$package"
    done
}

gcc_removed() {
    all_but_gcc
    installed gcc | sed 's/^Status: .*/Status: deinstall ok config-files/'
}

gcc_provided() {
    all_but_gcc
    installed compilers 'cc (= 1:4.2), gcc (= 4:12), c++'
}

asks_for_gcc() {
    asked_with "$1" && [ "$(cat "$scratch/packages")" = gcc ]
}

asks_for_nothing() {
    asked_with gcc_provided && [ ! -s "$scratch/asked" ]
}

explains() {
    : >"$scratch/asked"
    for verb in test build install uninstall package release matrix fuzz; do
        "$scratch/tree/dev" "$verb" --help >"$scratch/said" && grep -q '^usage: ./dev VERB' "$scratch/said" || return 1
    done
    [ ! -s "$scratch/asked" ]
}

t 'a verb with --help explains itself, and does nothing' explains
t 'a package that is missing is installed, alone' asks_for_gcc all_but_gcc
t 'a package that was removed is installed again' asks_for_gcc gcc_removed
t 'a package that another provides is not installed' asks_for_nothing
finish
