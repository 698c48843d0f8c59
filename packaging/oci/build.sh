#!/bin/sh
# build.sh - builds the image of the Containerfile, without a daemon and without a registry.
#
#   packaging/oci/build.sh [SUITE]      from the root of the source, as root; SUITE is trixie
#
# Debian comes from the mirror that this machine uses (packaging/root.sh), or from the image that
# $DEBIAN_IMAGE names. The results are in dist/:
#   weir-VERSION-docker.tar   for `docker load` and `podman load`; it has the health check
#   weir-VERSION-oci.tar      for registries (`skopeo copy oci-archive:…`); this format has none
set -eu
cd "$(dirname "$0")/../.."
suite=${1:-trixie}
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build | head -n 1)
roots=${WEIR_ROOTS:-/var/tmp/weir-roots}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
buildah() {
    command buildah --root "$roots/images" --runroot "$roots/images.run" "$@"
}

# A commit has one image: its time is that of all files in it.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)

base=${DEBIAN_IMAGE:-localhost/weir-debian:$suite}
if [ -z "${DEBIAN_IMAGE:-}" ] && ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    packaging/root.sh "$suite" tar -C / --one-file-system -c . >"$roots/$suite.tar"
    container=$(buildah from scratch)
    buildah add -q "$container" "$roots/$suite.tar" / >/dev/null
    buildah commit -q "$container" "$base" >/dev/null
    buildah rm "$container" >/dev/null
    rm -f "$roots/$suite.tar"
fi

mkdir -p dist
buildah build --layers --format docker --timestamp "$epoch" --build-arg "DEBIAN=$base" \
    --build-arg "VERSION=$version" --build-arg "REVISION=$revision" \
    --ignorefile .dockerignore -t "localhost/weir:$version" -f Containerfile . >dist/oci.log 2>&1 || {
    tail -n 30 dist/oci.log >&2
    exit 1
}
for format in docker oci; do
    rm -f "dist/weir-$version-$format.tar"
    buildah push -q "localhost/weir:$version" \
        "$format-archive:dist/weir-$version-$format.tar:weir:$version"
    echo "dist/weir-$version-$format.tar ($(du -h --apparent-size "dist/weir-$version-$format.tar" | cut -f 1))"
done
