#!/bin/sh
# build.sh - the package for npm, dist/weir-server-VERSION.tgz, with the program for Linux on x86-64.
#
#   packaging/npm/build.sh [SUITE]      from the root of the source, as root; SUITE is trixie
#
# The same tree gives the same bytes, as long as Debian's packages are the same. npm is not needed.
set -eu
cd "$(dirname "$0")/../.."
suite=${1:-trixie}
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build | head -n 1)
packages=$(sed -n "/^build_packages='/,/'\$/p" dev | tr -d "'" | sed 's/^build_packages=//' | xargs)

rm -rf dist/npm
mkdir -p dist/npm/package/bin
packaging/root.sh -p "$packages" "$suite" packaging/npm/stage.sh /srv/weir \
    /srv/dist/npm/package/linux-x64 >dist/npm/build.log 2>&1 || {
    tail -n 30 dist/npm/build.log >&2
    exit 1
}
install -m 755 packaging/npm/bin/*.js dist/npm/package/bin
install -m 644 packaging/npm/index.js packaging/npm/index.d.ts packaging/npm/package.json \
    packaging/npm/README.md LICENSE dist/npm/package
tar -C dist/npm --sort=name --owner=0 --group=0 --numeric-owner --format=ustar \
    --mtime='1985-10-26 08:15:00Z' -cf - package | gzip -9n >"dist/weir-server-$version.tgz"
echo "dist/weir-server-$version.tgz ($(du -h "dist/weir-server-$version.tgz" | cut -f 1))"
