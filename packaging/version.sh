# shellcheck shell=sh
# version.sh - for the scripts that build packages: `. packaging/version.sh`, from the root of the
# source, sets $version and the time that all files of a package have.
# shellcheck disable=SC2034 # for the scripts
version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" meson.build | head -n 1)
# That of the release, so that the same source makes the same bytes.
SOURCE_DATE_EPOCH=$(date -d "$(sed -n 's/^ -- .*>  //p' packaging/deb/debian/changelog |
    head -n 1)" +%s)
export SOURCE_DATE_EPOCH
