#!/bin/sh
# stage.sh - builds weir, and puts it with its libraries and its loader into a folder, so that it
# runs on every distribution of Linux.
#
#   packaging/npm/stage.sh TREE FOLDER      on a Debian with the packages to build it
set -eu
tree=$1 folder=$2
. "$tree/packaging/libraries.sh"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

meson setup "$build" "$tree" -Dpostgres=enabled -Dredis=enabled >&2
ninja -C "$build" weir >&2

rm -rf "$folder"
install -d "$folder/lib" "$folder/licenses"
gcc -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -s -o "$folder/weir" \
    "$tree/packaging/npm/launcher.c"
install -m 755 -s "$build/weir" "$folder/lib/weir"
libraries_of "$build/weir" >"$build/libraries"
while read -r library; do
    case $library in
    */ld-linux*) install -m 755 "$(readlink -f "$library")" "$folder/lib/weir-ld.so" ;;
    *) install -m 644 "$(readlink -f "$library")" "$folder/lib/${library##*/}" ;;
    esac
done <"$build/libraries"

# Their licences, and where their sources are.
packages_of_libraries <"$build/libraries" | while read -r package; do
    install -m 644 "/usr/share/doc/$package/copyright" "$folder/licenses/$package"
    # shellcheck disable=SC2016 # the braces are dpkg's
    dpkg-query -W -f '${Package} ${Version}, of the source package ${source:Package} ${source:Version}\n' "$package"
done >"$folder/licenses/README"
sed -i "1i Libraries of Debian that are in lib. Debian has the source of each:\n" "$folder/licenses/README"
