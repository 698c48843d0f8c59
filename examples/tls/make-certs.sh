#!/bin/sh
# make-certs.sh - makes a private CA, and certificates for weir and its clients.
#
#     make-certs.sh DIR [NAME...]      names and addresses of the server; default: localhost 127.0.0.1 ::1
#
# It writes to DIR: ca.pem, which clients must trust and which can be the client_ca of weir; server.pem
# and server.key; client.pem and client.key. Run it again to renew the last four. Do not keep ca.key
# on a server.
#
# The certificates have what current clients require: names and addresses as subjectAltName (the common
# name is ignored), key usages, and at most 397 days of validity. This machine's openssl.cnf is not
# used.
set -eu
if [ $# -lt 1 ]; then
    echo 'usage: make-certs.sh DIR [NAME...]' >&2
    exit 2
fi
dir=$1
shift
[ $# -ge 1 ] || set -- localhost 127.0.0.1 ::1
umask 077
mkdir -p "$dir"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

alt=
for name; do
    case $name in
    *:*) alt=$alt,IP:$name ;;
    *[!0-9.]*) alt=$alt,DNS:$name ;;
    *) alt=$alt,IP:$name ;;
    esac
done

cat >"$new/config" <<END
[req]
distinguished_name = subject
[subject]
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = ${alt#,}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END

new_key() {
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

# issue WHO: a new key, and a certificate for it
issue() {
    new_key "$new/key"
    openssl req -new -config "$new/config" -key "$new/key" -subj "/CN=weir $1" -out "$new/csr"
    if ! openssl x509 -req -in "$new/csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" \
        -set_serial "0x$(openssl rand -hex 15)" -days 397 -sha256 \
        -extfile "$new/config" -extensions "$1" -out "$new/pem" 2>"$new/said"; then
        cat "$new/said" >&2
        exit 1
    fi
    chmod 644 "$new/pem"
    mv "$new/key" "$dir/$1.key"
    mv "$new/pem" "$dir/$1.pem"
}

if [ ! -e "$dir/ca.pem" ]; then
    new_key "$dir/ca.key"
    openssl req -x509 -new -config "$new/config" -extensions authority -key "$dir/ca.key" -sha256 \
        -subj "/CN=weir authority" -days 3650 -out "$dir/ca.pem"
    chmod 644 "$dir/ca.pem"
fi
issue server
issue client
