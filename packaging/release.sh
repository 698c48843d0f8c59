#!/bin/sh
# release.sh - makes a release: dist/release/ with source, program, packages of Debian, bill of
# materials and checksums. All of it is built twice, in other folders and at another time, and must
# be the same bytes.
#
#   packaging/release.sh      from the root of the source; the release of Debian is this machine's
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=packaging/version.sh
. packaging/version.sh
tree=$PWD
# shellcheck disable=SC1091
system=$(. /etc/os-release && echo "${ID}${VERSION_ID:-}")
name=weir-$version-$system-$(dpkg --print-architecture)
[ -z "$(git status --porcelain 2>/dev/null)" ] ||
    echo 'release.sh: there are changes that are not committed; they are part of this release' >&2

# program SOURCE WORK OUT: the tarball with what `./dev install` would install, and what is in it.
program() {
    mkdir -p "$2"
    tar -xf "$1" -C "$2"
    (
        cd "$2/weir-$version"
        CFLAGS="-ffile-prefix-map=$PWD=. $(dpkg-buildflags --get CPPFLAGS)" \
            LDFLAGS="$(dpkg-buildflags --get LDFLAGS)" \
            meson setup out --prefix /usr/local --libdir lib --strip \
            -Db_pie=true -Dpostgres=enabled -Dredis=enabled
        ninja -C out
        DESTDIR=$2/stage meson install -C out --no-rebuild
    ) >"$2/log" 2>&1 || {
        tail -n 30 "$2/log" >&2
        exit 1
    }
    mv "$2/stage/usr/local" "$2/$name"
    mkdir -p "$2/$name/share/doc/weir"
    cp -r LICENSE CHANGELOG.md README.md docs examples "$2/$name/share/doc/weir/"
    rm "$2/$name/share/doc/weir/docs/meson.build"
    packaging/sbom.py "$version" "$2/$name/bin/weir" "$2/$name/lib/libweir.so.1" >"$3/$name.spdx.json"
    (cd "$2" && find "$name" ! -type d | LC_ALL=C sort >list &&
        tar --no-recursion --files-from=list --owner=0 --group=0 --numeric-owner \
            --mode=u+rw,go+rX-w --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -cf "$name.tar")
    xz -6 -T1 "$2/$name.tar"
    mv "$2/$name.tar.xz" "$3/"
}

# build WORK OUT: everything, in a folder of its own.
build() {
    mkdir -p "$2"
    packaging/source.sh "$2" >/dev/null
    program "$2/weir-$version.tar.xz" "$1" "$2"
    packaging/deb/build.sh --here "$2/weir-$version.tar.xz" "$1/dist"
    find "$1/dist/deb" -type f \( -name '*.deb' -o -name '*.dsc' -o -name '*.debian.tar.xz' \) \
        -exec mv -t "$2" {} +
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=$work/first second=$work/another/and/a/longer/one
echo 'building once'
build "$first" "$first.out"
echo 'building again, as another user would'
(
    umask 077 && mkdir "$work/home"
    export TZ=Pacific/Chatham LC_ALL=C HOME="$work/home"
    build "$second" "$work/second.out"
)
differing=
for file in "$first.out"/*; do
    cmp -s "$file" "$work/second.out/${file##*/}" || differing="$differing ${file##*/}"
done
if [ -n "$differing" ] || [ "$(ls "$first.out")" != "$(ls "$work/second.out")" ]; then
    rm -rf "$tree/dist/differing"
    mkdir -p "$tree/dist"
    mv "$work" "$tree/dist/differing"
    echo "release.sh: not the same bytes twice:$differing (see dist/differing)" >&2
    exit 1
fi
(cd "$first.out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
rm -rf dist/release
mkdir -p dist
mv "$first.out" dist/release
chmod 755 dist/release
echo 'the same bytes twice; dist/release has'
(cd dist/release && find . -type f -printf "  %9s  %f\n" | LC_ALL=C sort -k 2)
