#!/bin/sh
# build.sh - builds the packages of Debian: dist/deb/SUITE/*.deb, and their source.
#
#   packaging/deb/build.sh [SUITE...]
#
# Without a SUITE, for the release that this machine runs, on the machine itself. For a SUITE, on a
# root of it. What was built from the same source is not built again.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=packaging/version.sh
. packaging/version.sh

fail() {
    echo "build.sh: $*" >&2
    exit 1
}

# What debian/control needs, by the first name where there are alternatives.
build_depends() {
    sed -n '/^Build-Depends:/,/^[A-Z].*:/s/^ \([a-z0-9.+-]*\).*/\1/p' packaging/deb/debian/control |
        sed 's/^debhelper-compat$/debhelper/; /^dh-sequence-/d'
}

# In a folder that is as long as it is new: no package may contain its name.
build_here() {
    # shellcheck disable=SC1091
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    # shellcheck disable=SC1091
    number=$(. /etc/os-release && echo "${VERSION_ID:-}")
    [ -n "$suite" ] || fail 'this is no release of Debian'
    umask 022 # the source of a package keeps the modes of its files
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp "$1" "$work/weir_$version.orig.tar.xz"
    tar -xf "$1" -C "$work"
    cd "$work/weir-$version"
    cp -r packaging/deb/debian debian

    # A release of Debian that comes later has a later version, so that it replaces this one.
    revision=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
    {
        echo "weir ($revision~deb${number:-0sid}) $suite; urgency=medium"
        printf '\n  * Built for %s.\n\n' "$suite"
        echo " -- $(sed -n 's/^ -- \(.*>\)  .*/\1/p' debian/changelog | head -n 1)" \
            " $(date -R -u -d "@$((SOURCE_DATE_EPOCH + 60))")"
        echo
        cat debian/changelog
    } >debian/changelog.new
    mv debian/changelog.new debian/changelog

    dpkg-buildpackage -us -uc >"$work/log" 2>&1 || {
        tail -n 40 "$work/log" >&2
        fail "cannot build the packages of $suite"
    }
    rm -rf "$2/deb/$suite"
    mkdir -p "$2/deb/$suite"
    find "$work" -maxdepth 1 -type f ! -name log -exec mv -t "$2/deb/$suite" {} +
    sha256sum <"$1" >"$2/deb/$suite/.source"
}

report() {
    (cd dist/deb && find "$1" -name '*.deb' ! -name '*-dbgsym_*' | LC_ALL=C sort |
        while read -r file; do echo "built dist/deb/$file"; done)
}

if [ "${1:-}" = --here ]; then # --here SOURCE FOLDER: on a root, or twice for a release
    build_here "$2" "$3"
    exit
fi
source=$(packaging/source.sh dist)
if [ $# -eq 0 ]; then
    (build_here "$PWD/$source" "$PWD/dist")
    # shellcheck disable=SC1091
    report "$(. /etc/os-release && echo "$VERSION_CODENAME")"
fi
for suite; do
    if [ "$(cat "dist/deb/$suite/.source" 2>/dev/null)" != "$(sha256sum <"$source")" ]; then
        packaging/root.sh -p "build-essential $(build_depends | xargs)" "$suite" \
            packaging/deb/build.sh --here "/srv/$source" /srv/dist
    fi
    report "$suite"
done
