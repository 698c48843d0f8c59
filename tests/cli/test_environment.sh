#!/bin/sh
# test_environment.sh - settings of a server by variables: which wins, and what is refused.
#
#   test_environment.sh TREE      from the root of the source
. tests/support/cli.sh
. tests/support/served.sh

# with NAME=VALUE... -- COMMAND ARG...: the variables are only for this command
with() {
    names=
    while [ "$1" != -- ]; do
        export "${1?}"
        names="$names ${1%%=*}"
        shift
    done
    shift
    "$@"
    result=$?
    # shellcheck disable=SC2086 # one word a name
    unset $names
    return "$result"
}

token=0123456789abcdef0123456789abcdef
printf '%s' "$token" >"$scratch/token"
chmod 600 "$scratch/token"

# ---- every option has one ------------------------------------------------------------------

# Each is set to a value that is refused, so that the message shows that it was read.
every_variable_is_read() {
    good=0
    for name in LISTEN THREADS TRUSTED_PROXIES ALLOWED_ORIGINS ALLOW_PLAIN TRUST_CLIENT_CLOCK \
        MAX_KEYS MAX_CONNECTIONS IDLE_TIMEOUT REQUEST_TIMEOUT DRAIN_TIMEOUT MAX_CONNECTION_AGE LOG_LEVEL LOG_FORMAT; do
        with "WEIR_$name=x y" -- run serve --check
        if [ "$status" != 2 ] || ! grep -q "^weir: WEIR_${name}[: ]" "$scratch/err"; then
            echo "WEIR_$name: status $status" && cat "$scratch/err"
            good=1
        fi
    done
    return "$good"
}

# An option that is added later has one, too: its name in the help is also that of a variable.
every_option_has_a_variable() {
    # shellcheck disable=SC2046 # one word an option
    for option in $("$weir" serve --help | grep -o -e '--[a-z-]*' | sort -u); do
        name=WEIR_$(echo "${option#--}" | tr 'a-z-' 'A-Z_')
        [ "$name" != WEIR_CHECK ] || continue
        with "$name=x" -- run serve --check
        ! grep -q "$name is no setting" "$scratch/err" || { cat "$scratch/err" && return 1; }
    done
}

# origin LINE [NAME=VALUE...] -- ARG...: --check has this line
origin() {
    line=$1
    shift
    set -- "$@" --
    settings=
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    arguments=
    while [ "$1" != -- ]; do
        arguments="$arguments $1"
        shift
    done
    # shellcheck disable=SC2086 # words without spaces
    with $settings -- shows 0 "$line" serve --check -c "$scratch/weir.yaml" $arguments
}

cat >"$scratch/weir.yaml" <<'END'
version: 1
policies: {}
server: {store: 'memory:', threads: 2, max_connections: 100, idle_timeout: 1m}
END

t every_variable_is_read every_variable_is_read
t every_option_has_a_variable every_option_has_a_variable
t the_file_is_an_origin origin 'store memory: (file)' --
t a_variable_wins_over_the_file origin 'store file:x (WEIR_STORE)' WEIR_STORE=file:x --
t an_option_wins_over_the_variable origin 'store file:y (--store)' WEIR_STORE=file:x -- --store file:y
t an_empty_variable_is_not_set origin 'store memory: (file)' WEIR_STORE= --
t defaults_are_named origin 'listen 127.0.0.1:7878 (default)' --
t a_list_is_replaced origin 'listen 127.0.0.1:1 (WEIR_LISTEN)' WEIR_LISTEN=127.0.0.1:1 --
t numbers_have_an_origin origin 'max_connections 7 (WEIR_MAX_CONNECTIONS)' WEIR_MAX_CONNECTIONS=7 --
t numbers_have_a_bound with WEIR_MAX_CONNECTIONS=1048577 -- \
    refuses "WEIR_MAX_CONNECTIONS must be at most 1048576" serve -c "$scratch/weir.yaml"
t times_have_an_origin origin 'idle_timeout 1m (file)' WEIR_DRAIN_TIMEOUT=3s --
t a_flag_can_be_true origin 'trust_client_clock true (WEIR_TRUST_CLIENT_CLOCK)' \
    WEIR_TRUST_CLIENT_CLOCK=yes --
t a_flag_can_be_false origin 'trust_client_clock false (WEIR_TRUST_CLIENT_CLOCK)' \
    WEIR_TRUST_CLIENT_CLOCK=0 --
t the_config_has_an_origin with "WEIR_CONFIG=$scratch/weir.yaml" -- \
    shows 0 "config $scratch/weir.yaml (WEIR_CONFIG)" serve --check

# ---- tokens --------------------------------------------------------------------------------

cat >"$scratch/tokens.yaml" <<END
version: 1
policies: {}
server: {store: 'memory:', tokens: [{file: $scratch/token, scope: check}]}
END

t a_token_file_by_a_variable_has_all_scopes with "WEIR_TOKEN_FILE=$scratch/token" -- \
    shows 0 "token check,admin,metrics,reset,view:$scratch/token (WEIR_TOKEN_FILE)" \
    serve --check --listen 0.0.0.0:0 --store memory:
t a_token_by_a_variable_is_not_printed with "WEIR_TOKEN=$token" -- \
    shows 0 'token check,admin,metrics,reset,view:*** (WEIR_TOKEN)' serve --check --listen 0.0.0.0:0 --store memory:
t tokens_of_the_file_are_kept with "WEIR_TOKEN=$token" -- \
    shows 0 "token check:$scratch/token (file)" serve --check -c "$scratch/tokens.yaml"
t a_variable_that_is_not_used_is_told with WEIR_TOKEN_FILE=/none -- \
    shows 0 'WEIR_TOKEN_FILE is not used, as there are other tokens' \
    serve --check -c "$scratch/tokens.yaml"
t a_token_of_an_option_is_kept with WEIR_TOKEN_FILE=/none -- \
    shows 0 "token metrics:$scratch/token (--token-file)" serve --check --store memory: \
    --token-file "metrics:$scratch/token"
t a_short_token_is_refused_and_not_printed with WEIR_TOKEN=short -- \
    refuses "WEIR_TOKEN must have 16 to 512 characters: make one with 'openssl rand -hex 32'" \
    serve --listen 127.0.0.1:0 --store memory:

without_a_token() {
    with WEIR_LISTEN=0.0.0.0:0 -- run serve --store memory:
    is status "$status" 2 && is 'the last line' "$(tail -n 1 "$scratch/err")" \
        "weir: set WEIR_TOKEN_FILE to a file that has a token in it, or WEIR_TOKEN to the token: \
make one with 'openssl rand -hex 32'"
}
t the_refusal_of_an_open_address_names_the_variables without_a_token

# As in a container: nothing but variables, and the commands find the server by the same ones.
only_variables() {
    with "WEIR_LISTEN=127.0.0.1:0,unix:$socket" "WEIR_STORE=memory:" "WEIR_TOKEN=$token" \
        WEIR_THREADS=1 WEIR_LISTN=x -- serve || return 1
    bearer="Authorization: Bearer $token"
    is 'without the token' "$(get http://weir/metrics)" 401 &&
        is 'with the token' "$(get -H "$bearer" http://weir/metrics)" 200 &&
        grep -q '^weir_threads 1$' "$scratch/out" &&
        with "WEIR_LISTEN=0.0.0.0:1,unix:$socket" "WEIR_TOKEN=$token" -- \
            answers 0 'no override is in force' override list &&
        with "WEIR_LISTEN=0.0.0.0:1,unix:$socket" -- answers 0 ready health --ready
    good=$?
    kill -HUP "$server"
    for _ in $(seq 1000); do
        ! grep -q '"event":"reloaded"' "$scratch/served" || break
        sleep 0.01
    done
    is 'after a reload' "$(get -H "$bearer" http://weir/metrics)" 200 || good=1
    stop && [ "$good" = 0 ] && grep -q '"event":"environment".*the token is that of WEIR_TOKEN' \
        "$scratch/served" && ! grep -q "$token" "$scratch/served"
}
t a_server_runs_by_variables_alone only_variables
t a_mistyped_variable_is_in_the_log grep -q '"level":"warn","event":"environment".*WEIR_LISTN.*: did you mean WEIR_LISTEN?' \
    "$scratch/served"

# ---- the store of other commands --------------------------------------------------------------

# So that a password need not be on the command line.
store_of_the_environment() {
    with WEIR_STORE=redis://127.0.0.1:1 -- run doctor
    is status "$status" 2 && grep -q '127.0.0.1:1' "$scratch/err" || return 1
    with WEIR_STORE=redis://127.0.0.1:1 -- run doctor postgres://127.0.0.1:2/weir
    is status "$status" 2 && grep -q 'port 2' "$scratch/err" || return 1
    with WEIR_STORE=postgres://127.0.0.1:1/weir -- run migrate
    is status "$status" 2 && grep -q 'port 1' "$scratch/err" || return 1
    run migrate
    is stderr "$(cat "$scratch/err")" \
        'weir: the database is missing, as in postgres://user@host/database'
}
t migrate_and_doctor_use_the_store_of_the_server store_of_the_environment

# ---- typing errors ---------------------------------------------------------------------------

warns() {
    expected=$1
    shift
    with "$@" -- run serve --check --store memory:
    is status "$status" 0 && is stderr "$(cat "$scratch/err")" "$expected"
}
t a_mistyped_variable_is_a_warning warns "weir: warning: WEIR_STOER is no setting of the server, and \
has no effect: did you mean WEIR_STORE?" WEIR_STOER=memory:
t a_strange_variable_is_a_warning warns \
    'weir: warning: WEIR_FROBNICATE is no setting of the server, and has no effect' WEIR_FROBNICATE=1
t variables_of_a_service_are_none_of_weirs warns '' WEIR_SERVICE_HOST=10.0.0.1 \
    WEIR_SERVICE_PORT=7878 WEIR_SERVICE_PORT_HTTP=7878 WEIR_PORT=tcp://10.0.0.1:7878 \
    WEIR_PORT_7878_TCP=tcp://10.0.0.1:7878 WEIR_PORT_7878_TCP_ADDR=10.0.0.1 \
    WEIR_PORT_7878_TCP_PORT=7878 WEIR_PORT_7878_TCP_PROTO=tcp WEIR_METRICS_PORT=tcp://10.0.0.2:1
t variables_with_other_meanings_are_known warns '' WEIR_SERVER=http://x WEIR_ENABLED=true WEIR_DUMPABLE=1
finish
