#!/bin/sh
# train.sh - has a tree of meson link all files as one (LTO), and make fast what runs most (PGO).
#
#   packaging/train.sh TREE      a tree that `meson setup` has made; then run ninja in it
#
# tests/bench/train.c is built so that it counts what runs, and runs: the same counts each time, so the same
# source and the same packages of Debian give the same program. A tree that was trained is trained
# again when sources have changed. The program must be able to run on this machine.
set -eu
tree=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

sources() {
    find include lua meson.build meson_options.txt packaging/train.sh proto scripts sql src web \
        tests/meson.build tests/bench/train.c tests/support/test_server.* -type f ! -name '*.pyc' |
        LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum
}

now=$(sources)
[ "$now" != "$(cat "$tree/trained" 2>/dev/null)" ] || exit 0

rm -f "$tree/trained"
find "$tree" -name '*.gcda' -delete
meson configure "$tree" -Db_lto=false -Db_pgo=generate
if ! ninja -C "$tree" tests/train >"$tree/train.log" 2>&1 || ! "$tree/tests/train" >>"$tree/train.log" 2>&1; then
    tail -n 30 "$tree/train.log" >&2
    echo "train.sh: cannot train $tree" >&2
    exit 1
fi
meson configure "$tree" -Db_lto=true -Db_pgo=use
echo "$now" >"$tree/trained"
