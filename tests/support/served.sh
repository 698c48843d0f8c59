# shellcheck shell=sh
# served.sh - for tests that run `weir serve`: `. tests/support/served.sh`, after cli.sh.
: "${scratch:?}" "${weir:?}"
unset LISTEN_FDS LISTEN_PID NOTIFY_SOCKET
socket=$scratch/socket

# serve ARG...: leaves $server, once it answers at $socket; its log is $scratch/served
serve() {
    rm -f "$socket"
    "$weir" serve "$@" 2>"$scratch/served" &
    server=$!
    for _ in $(seq 1000); do
        [ ! -S "$socket" ] || ! curl -fsS --unix-socket "$socket" http://weir/healthz \
            >/dev/null 2>&1 || return 0
        kill -0 "$server" || break
        sleep 0.01
    done
    cat "$scratch/served"
    return 1
}

stop() {
    kill -TERM "$server" && wait "$server"
    is 'status after SIGTERM' $? 0
}

get() {
    curl -sS --unix-socket "$socket" -o "$scratch/out" -w '%{http_code}\n' "$@"
}

