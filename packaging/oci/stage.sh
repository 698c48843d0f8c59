#!/bin/sh
# stage.sh - builds weir, and puts it with all that it needs into a folder that can be a root.
#
#   packaging/oci/stage.sh TREE ROOT      on a Debian with the packages to build it
#
# Beside the libraries there are the copyright files of their packages, and what dpkg knows of
# them, so that scanners can tell which versions the image has.
set -eu
tree=$1 root=$2
. "$tree/packaging/libraries.sh"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

meson setup "$build" "$tree" -Dpostgres=enabled -Dredis=enabled -Dstrip=true --prefix=/usr >&2
ninja -C "$build" weir >&2

install -d "$root/usr/bin" "$root/etc/weir" "$root/etc/ssl/certs" "$root/usr/lib/ssl" \
    "$root/var/lib/dpkg/status.d" "$root/usr/share/doc/weir"
install -d -m 1777 "$root/tmp"
install -d -o 65532 -g 65532 -m 700 "$root/var/lib/weir"
# As in Debian: what is in /usr can be found outside it, too.
ln -s usr/lib "$root/lib"
[ ! -d /lib64 ] || ln -s usr/lib64 "$root/lib64"
install -s "$build/weir" "$root/usr/bin/weir"
install -m 644 "$tree/LICENSE" "$root/usr/share/doc/weir/copyright"
install -m 644 "$tree/packaging/oci/weir.yaml" "$root/etc/weir/weir.yaml"

libraries_of "$build/weir" >"$build/libraries"
while read -r library; do
    case $library in
    /usr/*) to=$root$library ;;
    *) to=$root/usr$library ;;
    esac
    install -D -m 755 "$(readlink -f "$library")" "$to"
done <"$build/libraries"

packages_of_libraries <"$build/libraries" >"$build/packages"
printf '%s\n' ca-certificates tzdata >>"$build/packages"
while read -r package; do
    install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
done <"$build/packages"

# For rediss://, webhooks with https:, and Postgres with sslmode=verify-full and sslrootcert=system.
install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
ln -s /etc/ssl/certs "$root/usr/lib/ssl/certs"
ln -s /etc/ssl/certs/ca-certificates.crt "$root/usr/lib/ssl/cert.pem"

# For limits per day, week, month, quarter and year.
mkdir -p "$root/usr/share/zoneinfo"
tar -C /usr/share/zoneinfo -c --exclude=./posix --exclude=./right --sort=name . |
    tar -C "$root/usr/share/zoneinfo" -x

printf 'root:x:0:0::/:/nonexistent\nweir:x:65532:65532::/var/lib/weir:/nonexistent\n' \
    >"$root/etc/passwd"
printf 'root:x:0:\nweir:x:65532:\n' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
cp /etc/os-release "$root/etc/os-release"
