#!/bin/sh
# demo.sh - weir in a minute: a limit is hit, the server is killed, and the limit still holds.
#
#   examples/demo.sh [WEIR]      from the root of the source; WEIR is the program, build/weir
#
# On a terminal it pauses between steps; elsewhere, or with DEMO_FAST=1, it does not. Its files are in
# a temporary folder, which it removes.
set -eu
weir=${1:-build/weir}
folder=$(mktemp -d)
server=
unset WEIR_SERVER WEIR_TOKEN_FILE WEIR_CONFIG WEIR_ENABLED WEIR_ENABLED_POLICIES

bold='' faint='' red='' green='' yellow='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') faint=$(printf '\033[2m') plain=$(printf '\033[0m')
    red=$(printf '\033[31m') green=$(printf '\033[32m') yellow=$(printf '\033[33m')
fi
case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in
*UTF-8* | *utf8*) full='█' none='░' ;;
*) full='#' none='.' ;;
esac

clean_up() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---- output ---------------------------------------------------------------------------------

pause() {
    if [ -t 1 ] && [ -z "${DEMO_FAST:-}" ]; then sleep "$1"; fi
}

scene() {
    pause 2
    printf '\n%s%s%s\n' "$bold" "$1" "$plain"
    shift
    for line; do echo "$faint$line$plain"; done
    pause 2
}

command_line() {
    printf '%s$%s %s\n' "$yellow" "$plain" "$*"
    pause 1
}

# gauge LEFT LIMIT: how much of a limit is left
gauge() {
    i=0
    while [ "$i" -lt "$2" ]; do
        if [ "$i" -lt "$1" ]; then printf '%s%s' "$green" "$full"; else printf '%s%s' "$faint" "$none"; fi
        printf '%s' "$plain"
        i=$((i + 1))
    done
}

# ---- the demo --------------------------------------------------------------------------------

start_server() {
    : >"$folder/log"
    "$weir" serve --config examples/policies.yaml --store "file:$folder/data" \
        --listen "${address:-127.0.0.1:0}" --log "$folder/log" &
    server=$!
    until grep -q '"event":"ready"' "$folder/log"; do
        kill -0 "$server" 2>/dev/null || {
            cat "$folder/log" >&2
            server=
            exit 1
        }
        sleep 0.02
    done
    address=$(sed -n 's/.*"event":"listening".*"address":"\([^"]*\)".*/\1/p' "$folder/log" | head -n 1)
    url=http://$address
    echo "serving on $url, process $server"
}

# ask LIMIT POLICY WORD...: one check, and how full its limit is then
ask() {
    limit=$1
    shift
    status=0
    answer=$("$weir" check --server "$url" "$@") || status=$?
    [ "$status" -le 1 ] || exit 1
    left=$(echo "$answer" | sed -n '1s/.* \([0-9]*\) of [0-9]* left.*/\1/p')
    if [ "$status" = 0 ]; then verdict="${green}allowed$plain"; else verdict="${red}denied $plain"; fi
    printf '  %s  %s  %s\n' "$(gauge "${left:-0}" "$limit")" "$verdict" \
        "$(echo "$answer" | sed -n '1s/^[a-z]* *//p')"
    pause 0.4
}

printf '%sweir%s: an exact and durable rate limiter.\n' "$bold" "$plain"

scene 'A server, with its counters on disk' \
    'examples/policies.yaml says: login: {limit: 5 per 15m, by: ip}'
command_line weir serve --config examples/policies.yaml --store file:data
start_server

scene 'A client guesses passwords' \
    'Five attempts pass. Every answer says how many are left, or when to retry.'
command_line weir check --server "$url" login 203.0.113.7
for _ in 1 2 3 4 5 6; do ask 5 login 203.0.113.7; done

scene 'The server is killed' 'It has no time to save anything.'
command_line kill -9 "$server"
kill -9 "$server"
wait "$server" 2>/dev/null || true
pause 1
command_line weir serve --config examples/policies.yaml --store file:data
start_server
command_line weir check --server "$url" login 203.0.113.7
ask 5 login 203.0.113.7
[ "$status" = 1 ] || exit 1
echo "${bold}Still denied.$plain Another address is allowed:"
ask 5 login 198.51.100.1

scene 'Several rules, one decision' \
    'cleanup: 1000 per 60s in all, 5 per 60s per address, 3 per 60m per mailbox.' \
    'A request is charged to all of them, or, if one denies it, to none.'
command_line weir check --server "$url" cleanup ip=203.0.113.7 email=ann@example.com
"$weir" check --server "$url" cleanup ip=203.0.113.7 email=ann@example.com --repeat 2 --quiet
"$weir" check --server "$url" cleanup ip=203.0.113.7 email=ann@example.com || exit 1
pause 3
echo "${faint}The mailbox has used up its limit. The address keeps its 2:$plain"
status=0
"$weir" check --server "$url" cleanup ip=203.0.113.7 email=ann@example.com || status=$?
[ "$status" = 1 ] || exit 1
pause 3

scene 'Many requests at once' \
    '20,000 requests for one address over 50 connections, by the Redis protocol.' \
    'register: {limit: 3 per 1h, by: ip}'
command_line weir bench --server "resp://$address" --policy register --key 203.0.113.7 --requests 20000
"$weir" bench --server "resp://$address" --policy register --key 203.0.113.7 --requests 20000 |
    sed -n '2,4p'
pause 2
command_line weir top --server "$url"
"$weir" top --server "$url" --interval 500ms >"$folder/top"
sed -n '6,10p' "$folder/top"
admitted=$(awk '$1 == "register" && NF == 6 { print $5 }' "$folder/top")
[ "$admitted" = 3 ] || exit 1
echo "${bold}Exactly 3 of them were admitted.$plain"
pause 2

scene 'Done' './dev serve starts a server to try; read on in docs/.'
kill -TERM "$server"
wait "$server"
server=
