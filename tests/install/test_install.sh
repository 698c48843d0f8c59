#!/bin/sh
# test_install.sh - what is installed is complete, and programs outside this tree can use it.
#
#   test_install.sh TREE      from the root of the source
. tests/support/tap.sh
tree=$1
prefix=$scratch/usr

install_it() {
    meson install --no-rebuild -C "$tree" --destdir "$scratch/stage" || return 1
    pc=$(find "$scratch/stage" -name weir.pc)
    staged=$(sed -n 's/^prefix=//p' "$pc")
    mv "$scratch/stage$staged" "$prefix"
    libraries=$(dirname "$(find "$prefix" -name libweir.a)")
}

is_complete() {
    for file in "$prefix/bin/weir" "$prefix/include/weir.h" "$libraries/libweir.a" \
        "$libraries/libweir.so" "$libraries/libweir.so.1" "$libraries/pkgconfig/weir.pc" \
        "$prefix/share/man/man1/weir.1" "$prefix/share/man/man8/weir-serve.8" \
        "$prefix/share/man/man5/weir-policies.5" \
        "$prefix/share/bash-completion/completions/weir" \
        "$prefix/share/zsh/site-functions/_weir" \
        "$prefix/share/fish/vendor_completions.d/weir.fish" \
        "$prefix/share/weir/proto/weir/v1/weir.proto" \
        "$prefix/share/weir/proto/envoy/service/ratelimit/v3/rls.proto"; do
        [ -s "$file" ] || { echo "$file is missing" && return 1; }
    done
    extra=$(find "$prefix" -type f | grep -v -e /weir -e /libweir -e /_weir)
    [ -z "$extra" ] || { echo "what is this: $extra" && return 1; }
}

has_soname() {
    readelf -d "$libraries/libweir.so" | grep -F 'Library soname: [libweir.so.1]'
}

# What weir.h declares is what the library exports, no more and no less.
exports_what_is_declared() {
    sed -n 's/^WEIR_API.*[ *]\(weir_[a-z_]*\)(.*/\1/p' include/weir.h | sort >"$scratch/declared"
    nm -D --defined-only "$libraries/libweir.so" | awk '{ print $3 }' | sort >"$scratch/exported"
    [ -s "$scratch/declared" ] && diff "$scratch/declared" "$scratch/exported"
}

flags() {
    PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --define-variable=prefix="$prefix" "$@" weir
}

versions_agree() {
    version=$(flags --modversion)
    [ "$("$prefix/bin/weir" --version)" = "weir $version" ] &&
        printf '#include <weir.h>\nWEIR_VERSION_MAJOR.WEIR_VERSION_MINOR.WEIR_VERSION_PATCH\n' |
        cc -E -P -I"$prefix/include" - | tail -n 1 | tr -d ' ' | grep -xF "$version"
}

# shared COMPILER SOURCE, static COMPILER SOURCE: makes $scratch/program
shared() {
    # shellcheck disable=SC2046 # one word a flag
    "$1" -Wall -Wextra -Wpedantic -Werror "$2" -o "$scratch/program" $(flags --cflags --libs) &&
        ldd "$scratch/program" | grep -F "$libraries/libweir.so.1"
}

# libweir.a and nothing else that is static: Debian's libpq.a would need half a system. pkg-config
# must name all that it needs.
static() {
    # shellcheck disable=SC2046
    "$1" -Wall -Wextra -Wpedantic -Werror "$2" -o "$scratch/program" \
        $(flags --static --cflags --libs | sed 's/-lweir/-l:libweir.a/')
}

runs() {
    "$scratch/program"
}

keeps_the_limit() {
    [ "$("$scratch/program" | tr '\n' ' ')" = 'allowed allowed refused ' ]
}

t it_installs install_it
export LD_LIBRARY_PATH="$libraries"
t nothing_is_missing_and_nothing_is_extra is_complete
t the_shared_library_has_a_soname has_soname
t it_exports_what_is_declared exports_what_is_declared
t all_say_the_same_version versions_agree
t the_example_links_the_shared_library shared cc examples/embed.c
t the_shared_example_runs runs
t the_example_links_the_static_library static cc examples/embed.c
t the_static_example_runs runs
t cplusplus_links_the_shared_library shared c++ tests/install/usage.cc
t shared_cplusplus_keeps_a_limit keeps_the_limit
t cplusplus_links_the_static_library static c++ tests/install/usage.cc
t static_cplusplus_keeps_a_limit keeps_the_limit
finish
