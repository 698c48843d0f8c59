#!/bin/sh
# test_serve.sh - `weir serve`: its flags, its settings in the file, and what is refused.
#
#   test_serve.sh TREE      from the root of the source
. tests/support/cli.sh
. tests/support/served.sh

# ---- what is refused ------------------------------------------------------------------------

fits_a_screen() {
    "$weir" serve --help >"$scratch/page" &&
        awk 'length > 80 { bad = 1 } END { exit bad || NR > 24 }' "$scratch/page"
}

t the_help_fits_a_screen fits_a_screen
t operands_are_rejected refuses "serve takes options only, not 'x.yaml': did you mean --config?" \
    serve x.yaml
t standard_input_is_rejected refuses \
    'policies cannot come from standard input: the server must be able to read them again' serve --config -
t a_missing_file_is_rejected refuses \
    "$scratch/none.yaml: cannot read it: No such file or directory: check the path" \
    serve -c "$scratch/none.yaml"
t a_time_without_a_unit_is_rejected refuses "--drain-timeout: '5' is not a duration: write a whole \
number and one of ms, s, m, h, d, w, as in 15m" serve --drain-timeout 5
t a_time_out_of_bounds_is_rejected refuses '--idle-timeout must be from 10ms to 1d' \
    serve --idle-timeout 2d
t too_many_threads_are_rejected refuses '--threads must be at most 64' serve --threads 65
t an_unknown_way_of_io_is_rejected refuses "--io: 'poll' is not one of epoll, uring, auto" \
    serve --io poll
t a_network_that_is_none_is_rejected refuses "--trusted-proxies: 'x' is not an address or network: \
write 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32" serve --trusted-proxies 10.0.0.0/8,x
t a_token_without_its_scopes_is_rejected refuses \
    '--token-file takes SCOPES:FILE, as in check,metrics:/etc/weir/token' serve --token-file f
t an_unknown_scope_is_answered_with_a_suggestion refuses \
    "--token-file: there is no scope 'amdin': did you mean 'admin'?" \
    serve --token-file "check,amdin:f"
t a_list_that_is_given_twice_is_rejected refuses "serve takes --listen only once: see 'weir help serve'" \
    serve --listen 127.0.0.1:0 --listen=127.0.0.2:0
t a_second_token_is_rejected refuses "serve takes --token-file only once: see 'weir help serve'" \
    serve --token-file check:f --token-file admin:g
t a_key_without_a_certificate_is_rejected refuses \
    "TLS needs a certificate and its key: --tls-cert (\`tls: {cert: FILE}\`) is missing" \
    serve --tls-key k
t sync_without_a_disk_is_rejected refuses \
    'sync is for a store on disk: use file:DIR, or leave it out' \
    serve --store memory: --sync always

strangers="other machines can reach 0.0.0.0:0 without a token: add one (--token-file
check:FILE, WEIR_TOKEN_FILE=FILE, or \`tokens\` in the file), require client certificates
(--tls-client-ca), or listen on 127.0.0.1"
token='
weir: make a token:  (umask 077; head -c 32 /dev/urandom | base64 >weir.token)
weir: and then:  weir serve --listen 0.0.0.0:0 --token-file check,admin,metrics:weir.token'
t strangers_are_rejected refuses "$(echo "$strangers" | paste -sd ' ')$token" \
    serve --listen 0.0.0.0:0

bad_settings() {
    printf 'version: 1\npolicies: {}\nserver: {thread: 2}\n' >"$scratch/bad.yaml"
    refuses "$scratch/bad.yaml:3:10: unknown key 'thread' in server: did you mean 'threads'?" \
        serve -c "$scratch/bad.yaml" &&
        run policy lint "$scratch/bad.yaml"
    is status "$status" 1 && is stderr "$(cat "$scratch/err")" \
        "$scratch/bad.yaml:3:10: unknown key 'thread' in server: did you mean 'threads'?"
}

bad_token() {
    echo short >"$scratch/token"
    run serve --listen 127.0.0.1:0 --store memory: --token-file "check:$scratch/token"
    is status "$status" 2 && grep -q 'must have 16 to 512 characters' "$scratch/err" &&
        ! grep -q short "$scratch/err"
}

t bad_settings_are_reported_by_serve_and_by_lint bad_settings
t a_bad_token_is_reported_and_not_printed bad_token

# ---- what is served -------------------------------------------------------------------------

# The file is in another folder than the one that the server is started in.
file_says() {
    mkdir "$scratch/etc" && cp "$policies" "$scratch/etc/weir.yaml"
    printf '%s' 0123456789abcdef >"$scratch/etc/token"
    cat >>"$scratch/etc/weir.yaml" <<'END'
server:
  store: file:data
  listen: unix:../socket
  threads: 1
  tokens: [{file: token, scope: check}]
  log: weir.log
END
    serve --config "$scratch/etc/weir.yaml" || return 1
    is 'status without a token' "$(get 'http://weir/v1/check?policy=login&ip=192.0.2.1')" 401 &&
        is 'status with the token' "$(get -H 'Authorization: Bearer 0123456789abcdef' \
            'http://weir/v1/check?policy=login&ip=192.0.2.1')" 200 &&
        is 'status of what it is not for' "$(get -H 'Authorization: Bearer 0123456789abcdef' \
            http://weir/metrics)" 403
    good=$?
    stop && [ "$good" = 0 ] && [ -f "$scratch/etc/data/secret" ] &&
        python3 -c 'import json, sys; print([json.loads(l) for l in open(sys.argv[1])])' \
            "$scratch/etc/weir.log"
}

flags_win() {
    serve --config "$scratch/etc/weir.yaml" --store memory: --token-file "metrics:$scratch/other" \
        --log "$scratch/flag.log" || return 1
    is status "$(get -H 'Authorization: Bearer fedcba9876543210' http://weir/metrics)" 200 &&
        grep -q '^weir_threads 1$' "$scratch/out" &&
        is 'status of the token in the file' "$(get -H 'Authorization: Bearer 0123456789abcdef' \
            'http://weir/v1/check?policy=login&ip=192.0.2.1')" 401
    good=$?
    stop && [ "$good" = 0 ] && [ -s "$scratch/flag.log" ]
}

# Two denials, and then a full page of metrics without identities.
metrics() {
    serve --config "$policies" --store memory: --listen "unix:$scratch/socket" --threads 1 ||
        return 1
    for _ in 1 2 3 4; do
        get 'http://weir/v1/check?policy=login&ip=192.0.2.1' >/dev/null
    done
    is status "$(get http://weir/metrics)" 200 &&
        grep -q '^weir_checks_total{policy="login",outcome="denied",source="store"} 2$' \
            "$scratch/out" && ! grep -q 192.0.2 "$scratch/out" &&
        is 'status of top' "$(get http://weir/v1/top)" 200 && grep -q '"denied":2' "$scratch/out" &&
        ! grep -q 192.0.2 "$scratch/out"
    good=$?
    stop && [ "$good" = 0 ] && is 'first refusals' "$(grep -c '"first":true' "$scratch/served")" 1 &&
        ! grep -q 192.0.2 "$scratch/served"
}

rotate() {
    serve --config "$policies" --store memory: --listen "unix:$scratch/socket" \
        --log "$scratch/log" || return 1
    mv "$scratch/log" "$scratch/log.1"
    kill -HUP "$server"
    for _ in $(seq 1000); do
        ! grep -qs '"event":"reloaded"' "$scratch/log" "$scratch/log.1" || [ ! -f "$scratch/log" ] ||
            break
        sleep 0.01
    done
    stop && grep -q '"event":"stopped"' "$scratch/log" && grep -q '"event":"ready"' "$scratch/log.1"
}

printf '%s' fedcba9876543210 >"$scratch/other"
chmod 600 "$scratch/other"
t the_file_has_the_settings_and_its_paths_are_beside_it file_says
t flags_win_over_the_file flags_win
t metrics_top_and_log_report_denials_without_identities metrics
t a_log_that_was_moved_away_is_opened_again_by_sighup rotate
finish
