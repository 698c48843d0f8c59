#!/bin/sh
# root.sh - runs a command on a bare Debian, in a root of its own that is thrown away afterwards.
#
#   packaging/root.sh [-p 'PACKAGE...'] [-b] SUITE COMMAND...
#
# SUITE is a release of Debian, such as bookworm. COMMAND runs as root in /srv/weir, which is this
# tree and cannot be changed; what it writes to /srv/dist stays in dist/. It sees the network of
# this machine, and no process of it survives its end. With -p, the packages are there. With -b,
# systemd runs there, and the network is one of its own, in which all ports are free.
#
# The bare roots, and those with packages, are kept in $WEIR_ROOTS (/var/tmp/weir-roots) between
# runs. They come from the mirror that this machine's apt uses, or from $DEBIAN_MIRROR and
# $DEBIAN_SECURITY_MIRROR.
set -eu
tree=$(cd "$(dirname "$0")/.." && pwd)
roots=${WEIR_ROOTS:-/var/tmp/weir-roots}

fail() {
    echo "root.sh: $*" >&2
    exit 2
}

usage="usage: packaging/root.sh [-p 'PACKAGE...'] [-b] SUITE COMMAND..."
packages=''
boots=
while getopts bp: option; do
    case $option in
    b) boots=yes ;;
    p) packages=$OPTARG ;;
    *) fail "$usage" ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 1 ] || fail "$usage"
suite=$1
shift
[ "$(id -u)" = 0 ] || fail 'only root can make a root: use sudo'
command -v debootstrap >/dev/null || fail 'debootstrap is missing: install it'

# mirror_of PATTERN: the address from which this machine's apt takes the release that matches.
mirror_of() {
    # shellcheck disable=SC2016 # the dollars are apt's
    apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^$1 //p" | head -n 1
}

# inside ROOT COMMAND...: in namespaces of its own, so that mounts and processes end with it.
inside() {
    root=$1
    shift
    mkdir -p "$root/srv/weir" "$root/srv/dist" "$tree/dist"
    # shellcheck disable=SC2016 # the inner shell expands them
    ROOT=$root TREE=$tree unshare --mount --propagation private --pid --fork --kill-child sh -euc '
        mount -t proc proc "$ROOT/proc"
        mount --rbind /dev "$ROOT/dev"
        mount --bind "$TREE" "$ROOT/srv/weir"
        mount -o remount,bind,ro "$ROOT/srv/weir"
        mount --bind "$TREE/dist" "$ROOT/srv/dist"
        exec chroot "$ROOT" env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            sh -c "cd /srv/weir && exec \"\$@\"" sh "$@"' sh "$@"
}

# booted ROOT COMMAND...: systemd is the first process of the namespaces, and starts what is enabled.
booted() {
    root=$1
    shift
    rm -f "$root/usr/sbin/policy-rc.d"
    mkdir -p "$root/srv/weir" "$root/srv/dist" "$root/.outside"
    # shellcheck disable=SC2016 # the inner shell expands them
    ROOT=$root TREE=$tree unshare --mount --propagation private --pid --fork --kill-child \
        --uts --ipc --net --cgroup sh -euc '
        mount --bind "$ROOT" "$ROOT"
        cd "$ROOT"
        mount -t proc proc proc
        mount -t sysfs sysfs sys -o ro
        mount -t cgroup2 cgroup2 sys/fs/cgroup
        mount -t tmpfs tmpfs run
        mount -t tmpfs tmpfs dev -o mode=755
        for name in null zero full random urandom tty; do
            touch "dev/$name"
            mount --bind "/dev/$name" "dev/$name"
        done
        mkdir dev/pts
        mount -t devpts devpts dev/pts -o newinstance,ptmxmode=666
        ln -s pts/ptmx dev/ptmx
        mount --bind "$TREE" srv/weir
        mount -o remount,bind,ro srv/weir
        mount --bind "$TREE/dist" srv/dist
        pivot_root . .outside
        umount -l /.outside
        exec env -i container=weir /lib/systemd/systemd --show-status=no' \
        </dev/null >"$root.boot.log" 2>&1 &
    starter=$!
    trap 'kill -9 $starter 2>/dev/null || true; discard' EXIT
    for _ in $(seq 100); do
        first=$(cat "/proc/$starter/task/$starter/children" 2>/dev/null || true)
        first=${first% }
        [ -z "$first" ] || ! enter "$first" systemctl is-system-running >/dev/null 2>&1 || break
        sleep 0.2
    done
    enter "$first" test -d /run/systemd/system || {
        cat "$root.boot.log" >&2
        fail 'systemd does not start here'
    }
    enter "$first" sh -c 'cd /srv/weir && exec "$@"' sh "$@"
}

# enter PROCESS COMMAND...: in its namespaces and its root.
enter() {
    process=$1
    shift
    nsenter --target "$process" --mount --pid --uts --ipc --net --cgroup --root \
        env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# make_bare ROOT: nothing but what every Debian has.
make_bare() {
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    mirror=${DEBIAN_MIRROR:-$(mirror_of "$codename")}
    security=${DEBIAN_SECURITY_MIRROR:-$(mirror_of "$codename-security")}
    [ -n "$mirror" ] || fail 'apt here has no mirror of Debian: set DEBIAN_MIRROR'
    debootstrap --variant=minbase "$suite" "$1" "$mirror" >"$roots/debootstrap.log" 2>&1 || {
        tail -n 5 "$roots/debootstrap.log" >&2
        fail "cannot make a root of $suite"
    }
    {
        echo "deb $mirror $suite main"
        [ "$suite" = sid ] || echo "deb $mirror $suite-updates main"
        [ "$suite" = sid ] || [ -z "$security" ] || echo "deb $security $suite-security main"
    } >"$1/etc/apt/sources.list"
    apt-config dump Acquire | grep -e Proxy -e Check-Valid >"$1/etc/apt/apt.conf.d/99machine" ||
        true
    cp -L /etc/resolv.conf "$1/etc/"
    # Neither a service nor a unit can be started without an init.
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
    chmod +x "$1/usr/sbin/policy-rc.d"
}

install_packages() {
    # shellcheck disable=SC2086 # one word a package
    inside "$1" sh -c 'apt-get -qq update && apt-get -qq -y --no-install-recommends install "$@"' \
        sh $packages >"$1.log" 2>&1 || {
        tail -n 20 "$1.log" >&2
        fail "cannot install: $packages"
    }
}

# kept NAME COMMAND: the root of that name; COMMAND makes it if it is missing, one run at a time.
kept() {
    kept=$roots/$1
    [ ! -e "$kept/etc/debian_version" ] || return 0
    echo "root.sh: making $kept" >&2
    rm -rf --one-file-system "$kept.new"
    "$2" "$kept.new"
    mv "$kept.new" "$kept"
}

make_full() {
    cp -a --reflink=auto "$bare" "$1"
    install_packages "$1"
}

mkdir -p "$roots"
exec 9>"$roots/lock"
flock 9
kept "$suite" make_bare
if [ -n "$packages" ]; then
    bare=$kept
    kept "$suite-$(echo "$packages" | xargs -n 1 | sort | sha256sum | cut -c 1-12)" make_full
fi
exec 9>&-

scratch=$(mktemp -d "$roots/run.XXXXXX")
discard() {
    rm -rf --one-file-system "$scratch" "$scratch.boot.log"
}
trap discard EXIT
trap 'exit 130' INT TERM
cp -a --reflink=auto "$kept/." "$scratch/"
mkdir -p "$tree/dist"
if [ -n "$boots" ]; then
    booted "$scratch" "$@"
else
    inside "$scratch" "$@"
fi
