#!/bin/sh
# lint.sh - lintian has nothing to say, not even for information. On a root, by test.sh.
. tests/support/tap.sh
folder=/srv/dist/deb/$1

is_clean() {
    lintian --display-info --allow-root --tag-display-limit 0 "$folder"/*.changes >"$scratch/said" \
        2>&1
    cat "$scratch/said"
    [ ! -s "$scratch/said" ]
}

t lintian_has_nothing_to_say is_clean
finish
