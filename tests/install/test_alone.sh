#!/bin/sh
# test_alone.sh - libweir builds alone, without the server and the shared stores, and is small then.
#
#   test_alone.sh      from the root of the source
. tests/support/tap.sh
LARGEST=450 # KiB of the shared library, stripped

# Only these libraries are there for it.
lend() {
    mkdir "$scratch/pc" || return 1
    for name in libsodium yaml-0.1 libxxhash hiredis; do
        cp "$(pkg-config --variable=pcfiledir "$name")/$name.pc" "$scratch/pc/" || return 1
    done
}

builds() {
    PKG_CONFIG_LIBDIR=$scratch/pc PKG_CONFIG_PATH='' \
        meson setup "$scratch/build" --prefix "$scratch/usr" --libdir lib -Dserver=false \
        -Dpostgres=disabled -Dredis=disabled && meson install -C "$scratch/build"
}

installs_the_library_only() {
    (cd "$scratch/usr" && find . ! -type d | sed 's/so\.[0-9.]*$/so/' | sort -u) >"$scratch/found"
    printf '%s\n' ./include/weir.h ./lib/libweir.a ./lib/libweir.so ./lib/pkgconfig/weir.pc |
        diff - "$scratch/found"
}

needs_three_libraries_and_that_of_c() {
    readelf -d "$scratch/usr/lib/libweir.so" |
        sed -n 's/.*(NEEDED).*\[\(lib[a-z]*\).*/\1/p' | sort >"$scratch/needed"
    printf '%s\n' libc libsodium libxxhash libyaml | diff - "$scratch/needed"
}

is_small() {
    strip -o "$scratch/stripped" "$scratch/usr/lib/libweir.so" &&
        size=$(($(wc -c <"$scratch/stripped") / 1024)) && echo "$size KiB" &&
        [ "$size" -gt 0 ] && [ "$size" -le "$LARGEST" ]
}

compiles() {
    # shellcheck disable=SC2046 # one word a flag
    cc -Wall -Wextra -Werror "$1" -o "$scratch/program" \
        $(PKG_CONFIG_PATH=$scratch/usr/lib/pkgconfig pkg-config --cflags --libs weir) -pthread
}

runs_the_example() {
    compiles examples/embed.c && "$scratch/program"
}

says_which_stores_it_has_not() {
    cat >"$scratch/stores.c" <<'END'
#include <stdio.h>
#include <weir.h>

int main(void)
{
    const char *stores[] = { "redis://127.0.0.1", "postgres://127.0.0.1", "memory:" };

    for (int i = 0; i < 3; i++) {
        weir_options options = { .store = stores[i] };
        weir_diag diag;
        weir *w;

        if (weir_open(&w, &options, &diag)) {
            puts(diag.text);
        } else {
            puts("opened");
            weir_close(w);
        }
    }
}
END
    compiles "$scratch/stores.c" && "$scratch/program" >"$scratch/said" && diff - "$scratch/said" <<'END'
this weir was built without hiredis and has no store 'redis:'
this weir was built without libpq and has no store 'postgres:'
opened
END
}

# The same with Redis, but without TLS to it, for which OpenSSL would be needed.
builds_without_tls() {
    PKG_CONFIG_LIBDIR=$scratch/pc PKG_CONFIG_PATH='' \
        meson setup "$scratch/plain" -Dserver=false -Dpostgres=disabled -Dredis=enabled \
        -Dtls=disabled --default-library static && ninja -C "$scratch/plain" &&
        cat >"$scratch/tls.c" <<'END' &&
#include <stdio.h>
#include <weir.h>

int main(void)
{
    weir_diag diag;
    weir *w;

    if (weir_open(&w, &(weir_options){ .store = "rediss://127.0.0.1" }, &diag))
        puts(diag.text);
}
END
        cc -Iinclude "$scratch/tls.c" -o "$scratch/tls" "$scratch/plain/libweir.a" -lsodium -lyaml \
            -lxxhash -lhiredis -pthread && "$scratch/tls" >"$scratch/said" &&
        diff - "$scratch/said" <<'END'
this weir was built without OpenSSL and has no TLS to Redis, so no 'rediss:'
END
}

refuses_tests_without_the_server() {
    ! meson setup "$scratch/other" -Dserver=false -Dtests=true >"$scratch/said" &&
        grep -F 'need the server: leave out -Dserver=false' "$scratch/said"
}

lend
t it_builds_with_none_of_the_libraries_of_the_server builds
export LD_LIBRARY_PATH="$scratch/usr/lib"
t it_installs_the_library_and_nothing_else installs_the_library_only
t it_needs_three_libraries_and_that_of_c needs_three_libraries_and_that_of_c
t it_is_small is_small
t it_runs_the_example runs_the_example
t it_names_the_stores_it_was_built_without says_which_stores_it_has_not
t it_builds_without_tls_to_redis_and_says_so builds_without_tls
t it_refuses_to_build_tests_without_the_server refuses_tests_without_the_server
finish
