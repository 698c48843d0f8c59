#!/bin/sh
# test_health.sh - `weir health`: what it asks, prints and exits with.
#
#   test_health.sh TREE      from the root of the source
. tests/support/cli.sh
. tests/support/served.sh

unanswered() {
    run health "unix:$scratch/none"
    is status "$status" 1 && is stdout "$(cat "$scratch/out")" '' && is stderr "$(cat "$scratch/err")" \
        "weir: cannot reach unix:$scratch/none: No such file or directory: is the server running?"
}

# listener [FILE]: accepts one client, and sends it the bytes of the file, or nothing
listener() {
    python3 - "$scratch/mute" "$@" <<'END' &
import os, socket, sys
path = sys.argv[1]
s = socket.socket(socket.AF_UNIX)
s.bind(path + ".new")
s.listen()
os.rename(path + ".new", path)
c, _ = s.accept()
c.settimeout(60)
c.recv(4096)
if len(sys.argv) > 2:
    c.sendall(open(sys.argv[2], "rb").read())
else:
    c.recv(4096)  # until the client gives up
END
    mute=$!
    for _ in $(seq 1000); do
        [ ! -S "$scratch/mute" ] || return 0
        sleep 0.01
    done
    return 1
}

mute_server() {
    listener || return 1
    timeout 8 "$weir" health --timeout 50ms "unix:$scratch/mute" >"$scratch/out" 2>"$scratch/err" # not 10 s
    status=$?
    wait "$mute"
    rm -f "$scratch/mute"
    is status "$status" 1 && is stderr "$(cat "$scratch/err")" \
        "weir: cannot reach unix:$scratch/mute: it does not answer"
}

other_server() {
    printf 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi' >"$scratch/answer"
    listener "$scratch/answer" || return 1
    run health "unix:$scratch/mute"
    wait "$mute"
    rm -f "$scratch/mute"
    is status "$status" 1 && is stdout "$(cat "$scratch/out")" \
        'not alive: is it a weir server? (status 200)'
}

t without_a_server_it_is_not_healthy unanswered
t a_server_that_does_not_answer_is_not_waited_for mute_server
t another_server_is_not_healthy other_server
t two_servers_are_refused refuses "health takes one server: see 'weir help health'" health http://a http://b
t a_bad_url_is_an_error refuses "'x' is not a server URL: write http://HOST:PORT, https://HOST:PORT or unix:PATH" \
    health x
t a_bad_timeout_is_an_error refuses "--timeout: '5' is not a duration: write a whole number and one of ms, \
s, m, h, d, w, as in 15m" health --timeout 5

# ---- with a server ---------------------------------------------------------------------------

printf '%s' 0123456789abcdef >"$scratch/token"
chmod 600 "$scratch/token"
serve --config "$policies" --store "file:$scratch/data" --listen "unix:$socket" --threads 1 \
    --token-file "check:$scratch/token" || exit 1

by_variable() {
    WEIR_SERVER=unix:$socket WEIR_TOKEN_FILE=/none "$weir" health --ready
}

t a_server_is_alive answers 0 alive health "unix:$socket"
t a_server_is_ready answers 0 ready health --ready "unix:$socket"
t no_token_is_needed_nor_read by_variable

# A request in flight keeps the server draining, while a connection that was open asks it.
draining() {
    python3 - "$socket" "$server" <<'END' || return 1
import os, signal, socket, sys, time
path, server = sys.argv[1], int(sys.argv[2])
slow, asker = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
for s in slow, asker:
    s.settimeout(60)
    s.connect(path)
slow.sendall(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer 0123456789abcdef\r\n"
             b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n")
asker.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
assert b" 200 " in asker.recv(4096)
asker.sendall(b"GET /readyz HTTP/1.1\r\nHo")
os.kill(server, signal.SIGTERM)
end = time.monotonic() + 60
while os.path.exists(path):  # until it listens no more
    assert time.monotonic() < end
asker.sendall(b"st: x\r\n\r\n")
answer = asker.recv(4096)
assert b" 503 " in answer and b'"draining":true' in answer, answer
open(path + ".answer", "wb").write(answer)
END
    wait "$server"
}

# The same bytes, from a server that the command can still reach.
not_ready() {
    listener "$socket.answer" || return 1
    run health --ready "unix:$scratch/mute"
    wait "$mute"
    rm -f "$scratch/mute"
    is status "$status" 1 && is stdout "$(cat "$scratch/out")" 'not ready: it is stopping (status 503)'
}

t a_server_that_stops_is_not_ready draining
t a_server_that_is_not_ready_says_why not_ready
finish
