#!/bin/sh
# test.sh - renders all overlays, alone and with the components, and checks them by the schemas.
#
#   packaging/kubernetes/test.sh      from the root of the source
#
# kubectl renders them: that of this machine, or else (as root) that of a Debian that has one. The
# schemas come from npm; without it, they are not checked.
set -eu
cd "$(dirname "$0")/../.."
rm -rf dist/kubernetes
mkdir -p dist/kubernetes/rendered

# The example of README.md, over each overlay.
for overlay in file postgres redis; do
    whole=dist/kubernetes/$overlay
    mkdir -p "$whole"
    cp packaging/kubernetes/base/weir.yaml "$whole"
    # shellcheck disable=SC2016 # these are no commands
    sed -n '/^```yaml/,/^```/p' packaging/kubernetes/README.md | sed '/^```/d' |
        sed "s|\.\./weir/packaging|../../../weir/packaging|; s|overlays/postgres|overlays/$overlay|" \
            >"$whole/kustomization.yaml"
    sed -i "s|^components: \[\(.*\)\]|components: [\1, \1]|; s|service-monitor\]|ready-without-store]|" \
        "$whole/kustomization.yaml"
done

cat >dist/kubernetes/render.sh <<'END'
set -eu
for overlay in file postgres redis; do
    kubectl kustomize "weir/packaging/kubernetes/overlays/$overlay" >"dist/kubernetes/rendered/$overlay.yaml"
    kubectl kustomize "dist/kubernetes/$overlay" >"dist/kubernetes/rendered/$overlay-whole.yaml"
done
END
# In a root, the tree is /srv/weir, and dist is beside it: here copies are.
if command -v kubectl >/dev/null; then
    here=$(mktemp -d)
    trap 'rm -rf "$here"' EXIT
    cp -a packaging "$here/packaging" && mkdir "$here/weir" && mv "$here/packaging" "$here/weir"
    cp -a dist/kubernetes "$here/kubernetes" && mkdir "$here/dist" && mv "$here/kubernetes" "$here/dist"
    (cd "$here" && sh dist/kubernetes/render.sh)
    cp "$here"/dist/kubernetes/rendered/* dist/kubernetes/rendered
else
    packaging/root.sh -p kubectl trixie sh -c 'cd /srv && sh dist/kubernetes/render.sh'
fi
python3 packaging/kubernetes/test.py dist/kubernetes
