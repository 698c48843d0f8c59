#!/bin/sh
# build.sh - the Compose project as one file, dist/weir-compose-VERSION.tar.gz.
#
#   packaging/compose/build.sh      from the root of the source
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build | head -n 1)
tar --sort=name --owner=0 --group=0 --numeric-owner --format=ustar --mtime=@0 --exclude='*.sh' \
    --exclude=.env -cf - packaging/compose examples/grafana/weir.json \
    examples/prometheus/alerts.yaml | gzip -9n >"dist/weir-compose-$version.tar.gz"
echo "dist/weir-compose-$version.tar.gz"
