#!/bin/sh
# test.sh - installs the packages of Debian on bare roots, and uses them.
#
#   packaging/deb/test.sh [SUITE...]      default: bookworm trixie
#
# For each release of Debian: lintian has nothing to say; on a bare root without an init, apt
# installs the server, and curl gets a decision; under systemd, an older version is upgraded,
# removed and purged; and a program is built with the library.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- bookworm trixie
failed=

# tried NAME COMMAND...: says how it went, and goes on.
tried() {
    name=$1
    shift
    echo "# $name"
    "$@" </dev/null || failed="$failed, $name"
}

# The packages that the server depends on: a root with a network of its own cannot fetch them.
depends() {
    dpkg-deb -f "$1" Depends | tr ',' '\n' | sed 's/^ *//; s/[ |(].*//' | xargs
}

for suite; do
    packaging/deb/build.sh "$suite"
    tests=packaging/deb/tests
    deb=$(echo "dist/deb/$suite"/weir_*.deb)
    tried "$suite: lintian" packaging/root.sh -p lintian "$suite" $tests/lint.sh "$suite"
    tried "$suite: a bare root" packaging/root.sh "$suite" $tests/bare.sh "$suite"
    tried "$suite: systemd" packaging/root.sh -b \
        -p "systemd-sysv curl $(depends "$deb")" "$suite" $tests/lifecycle.sh "$suite"
    tried "$suite: the library" packaging/root.sh -p 'gcc libc6-dev pkgconf' "$suite" \
        $tests/library.sh "$suite"
done
[ -z "$failed" ] || {
    echo "failed${failed#,}" >&2
    exit 1
}
echo "the packages work on: $*"
