#!/bin/sh
# lint.sh - lintian has nothing to say, not even for information. On a root, by test.sh.
. tests/support/tap.sh
folder=/srv/dist/deb/$1

# Versions of lintian differ, so what is meant to be so is not in overrides, which another version
# would find fault with: the compiler cuts texts into pieces, which look misspelt; the service is
# for systemd alone; and the version of the policy must be one that both releases know.
case $1 in
bookworm) accepted=spelling-error-in-binary,package-supports-alternative-init-but-no-init.d-script ;;
*) accepted=spelling-error-in-binary,out-of-date-standards-version ;;
esac

is_clean() {
    lintian --suppress-tags "$accepted" --display-info --allow-root --tag-display-limit 0 \
        "$folder"/*.changes >"$scratch/said" 2>&1
    cat "$scratch/said"
    [ ! -s "$scratch/said" ]
}

t lintian_has_nothing_to_say is_clean
finish
