#!/bin/sh
# library.sh - programs are built with the packages of the library. On a root, by test.sh.
. tests/support/tap.sh
folder=/srv/dist/deb/$1

installs() {
    apt-get -qq update && apt-get -qq -y --no-install-recommends install \
        "$folder"/libweir1_*.deb "$folder"/libweir-dev_*.deb
}

shared() {
    # shellcheck disable=SC2046 # one word a flag
    cc -o "$scratch/program" /usr/share/doc/libweir-dev/examples/embed.c \
        $(pkg-config --cflags --libs weir) && ldd "$scratch/program" | grep -F libweir.so.1
}

static() {
    # shellcheck disable=SC2046
    cc -o "$scratch/program" /usr/share/doc/libweir-dev/examples/embed.c \
        $(pkg-config --static --cflags --libs weir | sed 's/-lweir/-l:libweir.a/')
}

t apt_installs_it installs
t a_program_links_the_shared_library shared
t it_runs "$scratch/program"
t a_program_links_the_static_library static
t that_runs_too "$scratch/program"
finish
