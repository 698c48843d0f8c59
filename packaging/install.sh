#!/bin/sh
# install.sh - installs what was built into a prefix, and removes it again.
#
#   packaging/install.sh TREE PREFIX          what `meson install` installs, for that prefix
#   packaging/install.sh --remove PREFIX      what was installed there, and nothing else
#
# What was installed is listed in PREFIX/share/weir/manifest, so that it can be removed by any tree.
set -eu

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

[ $# -eq 2 ] || fail 'usage: packaging/install.sh TREE|--remove PREFIX'
tree=$1
prefix=$(realpath -m "$2")
manifest=$prefix/share/weir/manifest

# Where it will be written, there must be the right to.
existing=$prefix
while [ ! -e "$existing" ]; do
    existing=$(dirname "$existing")
done
[ -w "$existing" ] || fail "cannot write to $existing: run as root, or with sudo, or choose a PREFIX"

if [ "$tree" = --remove ]; then
    [ -f "$manifest" ] || fail "$prefix has nothing that './dev install' installed"
    (cd "$prefix" && sort -r <share/weir/manifest | while IFS= read -r file; do
        case $file in
        /* | *..*) fail "the list $manifest was changed" ;;
        *) rm -f -- "$file" ;;
        esac
        rmdir -p -- "$(dirname "$file")" 2>/dev/null || true # unless other files are there
    done)
    echo "removed weir from $prefix"
    exit
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
DESTDIR=$stage meson install -C "$tree" --no-rebuild >"$stage/log" 2>&1 || {
    tail -n 20 "$stage/log" >&2
    fail "cannot install $tree"
}
pc=$(find "$stage" -name weir.pc)
built=$stage$(sed -n 's/^prefix=//p' "$pc")
sed -i "s|^prefix=.*|prefix=$prefix|" "$pc"
mkdir -p "$built/share/weir"
(cd "$built" && find . ! -type d -printf '%P\n' | LC_ALL=C sort >"$stage/list" &&
    echo share/weir/manifest >>"$stage/list")
# What an older version had, and this one does not have, goes.
[ ! -f "$manifest" ] || "$0" --remove "$prefix" >/dev/null
mkdir -p "$prefix"
cp "$stage/list" "$built/share/weir/manifest"
# A program that runs cannot be written to, but it can be replaced.
cp -a --no-preserve=ownership --remove-destination "$built/." "$prefix/"
if [ "$(id -u)" = 0 ] && [ "$prefix" = /usr/local ]; then
    ldconfig
fi

cat <<END
installed into $prefix:
$(grep -v manifest "$stage/list" | sed 's/^/  /')
Remove it with: ./dev uninstall $prefix
To run it under systemd, see docs/operations.md.
END
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "$prefix/bin is not in PATH." ;;
esac
