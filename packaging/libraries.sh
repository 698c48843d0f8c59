# shellcheck shell=sh
# libraries.sh - which shared libraries a program needs, and which packages they are of.
#
#   . packaging/libraries.sh      on a Debian

# libraries_of PROGRAM: their paths, as the loader looks for them; the loader is one of them.
libraries_of() {
    ldd "$1" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/\1/p' | grep . || {
        echo "libraries.sh: $1 has no libraries?" >&2
        return 1
    }
}

# packages_of_libraries: the packages of the paths on stdin, each once.
packages_of_libraries() {
    while read -r library; do
        file=$(readlink -f "$library")
        dpkg -S "$file" 2>/dev/null || dpkg -S "${file#/usr}"
    done | sed 's/:.*//' | sort -u
}
