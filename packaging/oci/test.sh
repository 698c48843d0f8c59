#!/bin/sh
# test.sh - starts the image of dist/, and asks it: see test.py.
#
#   packaging/oci/test.sh      from the root of the source, as root
#
# In namespaces of its own: mounts end with it, and port 7878 is free.
set -eu
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo 'test.sh: only root can mount the image: use sudo' >&2 && exit 2; }
exec unshare --mount --propagation private --net --pid --fork --kill-child --mount-proc \
    python3 packaging/oci/test.py dist/weir-*-docker.tar
