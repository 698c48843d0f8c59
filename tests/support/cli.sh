# shellcheck shell=sh
# cli.sh - for the tests of the command line tool: `. tests/support/cli.sh`, with the tree as $1.
. tests/support/tap.sh
weir=$(cd "$1" && pwd)/weir
policies=$scratch/policies.yaml
# shellcheck disable=SC2034 # for the suites
now=1700000000000
unset NO_COLOR

cat >"$policies" <<'END'
version: 1
defaults: {algorithm: fixed_window, on_error: deny}
policies:
  login: {limit: 2 per 15m, by: ip, algorithm: sliding_window}
  query: {limit: 10 per 1d, by: tenant, plans: {paid: 20 per 1d}}
  cleanup:
    mode: shadow
    rules:
      ip: {limit: 5 per 1m, by: ip, ipv6_prefix: 56}
      email: {limit: 3 per 1h, by: email, mode: 'off'}
  multi:
    rules:
      all: {limit: 100 per 1m}
      ip: {limit: 2 per 1m, by: ip}
      user: {limit: 1 per 1m, by: user, mode: shadow}
  beside: {limit: 5 per 1m, by: user, shadow_limit: 1 per 1m}
  api: {limit: 10 per 1s, burst: 30, by: [tenant, route], algorithm: token_bucket}
  closed: {limit: 0}
  gone: {limit: 1 per 1s, mode: 'off'}
exempt:
  - {ip: 10.0.0.0/8}
END

# run ARG...: leaves $status, $scratch/out and $scratch/err
run() {
    "$weir" "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
}

is() {
    [ "$2" = "$3" ] || {
        printf '%s is\n%s\nand not\n%s\n' "$1" "$2" "$3"
        return 1
    }
}

# answers STATUS STDOUT ARG...: exactly that, and nothing on stderr
answers() {
    expected_status=$1 expected=$2
    shift 2
    run "$@"
    is stdout "$(cat "$scratch/out")" "$expected" && is stderr "$(cat "$scratch/err")" '' &&
        is status "$status" "$expected_status"
}

# refuses STDERR ARG...: status 2, exactly that on stderr, and nothing on stdout
refuses() {
    expected="weir: $1"
    shift
    run "$@"
    is stderr "$(cat "$scratch/err")" "$expected" && is stdout "$(cat "$scratch/out")" '' &&
        is status "$status" 2
}

# shows STATUS TEXT ARG...: there is such a line on stdout, spaces aside
shows() {
    expected_status=$1 expected=$2
    shift 2
    run "$@"
    tr -s ' ' <"$scratch/out" | grep -qxF -e "$expected" -e " $expected" ||
        { cat "$scratch/out" "$scratch/err" && return 1; }
    is status "$status" "$expected_status"
}

# json EXPRESSION ARG...: each line of stdout is JSON, and the expression is true of the last, `a`
json() {
    expression=$1
    shift
    run "$@"
    python3 - "$scratch/out" "$expression" <<'END'
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    a = json.loads(line)
print(a)
sys.exit(not eval(" ".join(sys.argv[2].split())))
END
}
