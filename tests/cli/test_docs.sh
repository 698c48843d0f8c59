#!/bin/sh
# test_docs.sh - what docs/cli.md shows is what the tool prints.
#
#   test_docs.sh TREE      from the root of the source
#
# Commands are the lines of ```console blocks that begin with "$ "; below each stands all
# that it prints. The first ```yaml block is policies.yaml. Hashes differ from run to run.
. tests/tap.sh
tree=$(cd "$1" && pwd)
doc=$PWD/docs/cli.md
unset WEIR_CONFIG WEIR_ENABLED WEIR_ENABLED_POLICIES

mask() {
    sed 's/[0-9a-f]\{32\}/HASH/g'
}

# The console blocks, one command and its output after the other.
shown() {
    awk '/^```console$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$doc" | mask
}

# The same, with what the commands print here and now.
printed() {
    shown | grep '^\$ ' | while IFS= read -r line; do
        echo "$line"
        (cd "$scratch/here" && PATH=$tree:$PATH sh -c "${line#\$ }" 2>&1 </dev/null)
    done | mask
}

are_the_same() {
    shown >"$scratch/shown"
    printed >"$scratch/really"
    [ "$(grep -c '^\$ ' "$scratch/shown")" -ge 10 ] && diff "$scratch/shown" "$scratch/really"
}

mkdir "$scratch/here"
awk '/^```yaml$/ && !seen { inside = seen = 1; next } /^```$/ { inside = 0 } inside' "$doc" \
    >"$scratch/here/policies.yaml"

t every_example_prints_what_is_shown are_the_same
finish
