#!/bin/sh
# source.sh - writes the source as a tarball, with the same bytes each time: prints its name.
#
#   packaging/source.sh [FOLDER]      default: dist
#
# The files are those of the working tree that git knows or would add; without git, all but what
# builds leave behind. $XZ_LEVEL is how well it is compressed.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=packaging/version.sh
. packaging/version.sh
folder=${1:-dist}
mkdir -p "$folder"

list() {
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -z --cached --others --exclude-standard | while_there
    else
        find . -mindepth 1 \( -path './build*' -o -path ./dist -o -name .git -o -name __pycache__ \
            -o -name weir-data \) -prune -o ! -type d ! -name '*.swp' -printf '%P\0'
    fi | LC_ALL=C sort -z
}

# A file that is deleted but not yet committed is no longer part of the tree.
while_there() {
    # shellcheck disable=SC2016 # the inner shell expands it
    xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' sh
}

tarball=weir-$version.tar
work=$(mktemp -d "$folder/source.XXXXXX")
trap 'rm -rf "$work"' EXIT
list >"$work/list"
tar --no-recursion --null --files-from="$work/list" --transform "s|^|weir-$version/|" \
    --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r-w,a-s --mtime="@$SOURCE_DATE_EPOCH" \
    --format=gnu -cf "$work/$tarball"
xz "-${XZ_LEVEL:-6}" -T1 "$work/$tarball"
chmod 644 "$work/$tarball.xz"
mv "$work/$tarball.xz" "$folder/$tarball.xz"
echo "$folder/$tarball.xz"
