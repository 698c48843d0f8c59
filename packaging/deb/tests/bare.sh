#!/bin/sh
# bare.sh - apt installs the server on a bare root, and it decides. On a root, by test.sh.
. tests/support/tap.sh
folder=/srv/dist/deb/$1

installs() {
    apt-get -qq update && apt-get -qq -y --no-install-recommends install "$folder"/weir_*.deb
}

has_no_compiler() {
    ! command -v cc && ! command -v gcc
}

# The same as systemd would start, by its user. In a network of its own, where 7878 is free.
cat >"$scratch/serve" <<'END'
command=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/weir.service)
ip link set lo up
setpriv --reuid=weir --regid=weir --init-groups --no-new-privs -- $command >/tmp/log 2>&1 &
curl -s --retry 100 --retry-delay 1 --retry-connrefused localhost:7878/readyz || exit 1
for _ in 1 2 3 4 5 6; do
    curl -s -d '{"policy":"login","key":"203.0.113.7"}' localhost:7878/v1/check
    echo
done
stat -c '%U %a' /var/lib/weir
kill $!
wait $!
echo "ended with $?"
END

decides() {
    apt-get -qq -y --no-install-recommends install curl iproute2 >/dev/null 2>&1 || return 1
    unshare --net sh "$scratch/serve" >"$scratch/answers" 2>&1
    cat "$scratch/answers" /tmp/log
    [ "$(grep -c '"allowed":true' "$scratch/answers")" = 5 ] &&
        [ "$(grep -c '"allowed":false' "$scratch/answers")" = 1 ] &&
        grep -qxF 'weir 700' "$scratch/answers" && grep -qxF 'ended with 0' "$scratch/answers"
}

has_a_user_of_its_own() {
    getent passwd weir | grep -x 'weir:x:[0-9]*:[0-9]*:.*:/var/lib/weir:.*nologin'
}

t apt_installs_it installs
t nothing_is_compiled has_no_compiler
t it_has_a_user_of_its_own has_a_user_of_its_own
t curl_gets_a_decision decides
finish
