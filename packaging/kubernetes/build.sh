#!/bin/sh
# build.sh - the manifests for Kubernetes as one file, dist/weir-kubernetes-VERSION.tar.gz.
#
#   packaging/kubernetes/build.sh      from the root of the source
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build | head -n 1)
tar -C packaging --sort=name --owner=0 --group=0 --numeric-owner --format=ustar --mtime=@0 \
    --exclude='*.sh' --exclude=schema -cf - kubernetes | gzip -9n >"dist/weir-kubernetes-$version.tar.gz"
echo "dist/weir-kubernetes-$version.tar.gz"
