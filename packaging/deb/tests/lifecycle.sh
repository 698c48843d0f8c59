#!/bin/sh
# lifecycle.sh - the service under systemd: installed, upgraded, removed and purged. On a booted
# root, by test.sh.
. tests/support/tap.sh
new=$(echo "/srv/dist/deb/$1"/weir_*.deb)

# The same package as an older version, whose default configuration was another.
make_old() {
    dpkg-deb -R "$new" "$scratch/old" &&
        sed -i 's/^Version: .*/Version: 0.0.9-1/' "$scratch/old/DEBIAN/control" &&
        echo '# An older default.' >>"$scratch/old/etc/weir/policies.yaml" &&
        (cd "$scratch/old" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' |
            xargs -0 md5sum >DEBIAN/md5sums) &&
        dpkg-deb -b "$scratch/old" "$scratch/weir_0.0.9-1_amd64.deb"
}

# Without a network: all that it depends on is there. An operator's file stays without a question.
install_package() {
    apt-get -y -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
        install "$1"
}

# shellcheck disable=SC2317
is_active() {
    systemctl is-active weir && systemctl is-enabled weir
}

ask() {
    curl -s -d "{\"policy\":\"$1\",\"key\":\"203.0.113.7\"}" localhost:7878/v1/check | tee /dev/stderr
}

# use_up POLICY: five are allowed, then no more.
use_up() {
    for _ in 1 2 3 4 5; do
        ask "$1" | grep -q '"allowed":true' || return 1
    done
    is_denied "$1"
}

is_denied() {
    ask "$1" | grep -q '"allowed":false'
}

main_process() {
    systemctl show --property MainPID --value weir
}

runs_as_its_user() {
    [ "$(ps_user "$(main_process)")" = weir ] && [ "$(stat -c '%U %a' /var/lib/weir)" = 'weir 700' ] &&
        [ "$(stat -c '%U %G %a' /etc/weir)" = 'root weir 750' ] &&
        [ "$(stat -c '%U %G %a' /etc/weir/policies.yaml)" = 'root weir 640' ]
}

ps_user() {
    stat -c %U "/proc/$1"
}

reloads() {
    sed -i 's/^policies:/policies:\n  mail: {limit: 5 per 1h, by: ip}/' /etc/weir/policies.yaml &&
        systemctl reload weir && wait_for '"mail"'
}

# wait_for TEXT: until the server's policies have it.
wait_for() {
    for _ in $(seq 100); do
        ! curl -s localhost:7878/v1/policies | grep -qF "$1" || return 0
        sleep 0.1
    done
    return 1
}

upgrades() {
    before=$(main_process)
    install_package "$new" || return 1
    [ "$(dpkg-query -W -f '${Version}' weir)" = "$(dpkg-deb -f "$new" Version)" ] && is_active &&
        [ "$(main_process)" != "$before" ] && [ "$(main_process)" != 0 ]
}

keeps_the_file_of_the_operator() {
    grep -q '^  mail:' /etc/weir/policies.yaml && runs_as_its_user
}

keeps_the_limits() {
    is_denied login && is_denied mail
}

# A connection that comes while the service is stopped waits, and is answered.
holds_the_socket() {
    systemctl stop weir && systemctl start weir.socket && is_denied login && is_active
    systemctl stop weir.socket weir && systemctl start weir
}

removes() {
    apt-get -y remove weir || return 1
    ! systemctl is-active weir && [ ! -e /usr/bin/weir ] && [ -s /etc/weir/policies.yaml ] &&
        [ -s /var/lib/weir/secret ]
}

returns() {
    install_package "$new" && is_active && keeps_the_limits
}

purges() {
    touch /etc/weir/admin.token
    apt-get -y purge weir 2>&1 | tr -d '\r' >"$scratch/said" # dpkg prints on a terminal
    cat "$scratch/said"
    grep -qx 'Removing /var/lib/weir' "$scratch/said" && grep -qx 'Removing /etc/weir' "$scratch/said" &&
        [ ! -e /etc/weir ] && [ ! -e /var/lib/weir ]
}

leaves_nothing() {
    left=$(find / -xdev -name '*weir*' ! -path '/srv/*' ! -path '/var/cache/*' ! -path "$scratch*" \
        ! -path '/proc/*' ! -path '/var/lib/dpkg/*' ! -path '/var/lib/apt/*' ! -path '/sys/*')
    echo "$left"
    [ -z "$left" ]
}

starts_again() {
    install_package "$new" && is_active && ask login | grep '"remaining":4'
}

t an_older_version_is_made make_old
t it_installs_and_starts install_package "$scratch/weir_0.0.9-1_amd64.deb"
t it_is_active is_active
t it_runs_as_its_own_user runs_as_its_user
t it_reloads_a_changed_file reloads
t a_limit_is_used_up use_up login
t another_is_used_up use_up mail
t an_upgrade_restarts_the_service upgrades
t an_upgrade_keeps_what_the_operator_wrote keeps_the_file_of_the_operator
t an_upgrade_keeps_the_limits keeps_the_limits
t systemd_can_hold_the_socket holds_the_socket
t a_removed_package_leaves_files_and_data removes
t an_installed_one_finds_them_again returns
t a_purge_removes_files_and_data_and_says_so purges
t a_purge_leaves_nothing leaves_nothing
t after_a_purge_limits_begin_anew starts_again
finish
