"""certificates.py - certificates for tests, as examples/tls/make-certs.sh makes them."""
import subprocess


def make_certs(folder, *names):
    """ca.pem, server.pem, server.key, client.pem and client.key in this folder; the authority
    that is there stays."""
    subprocess.run(["examples/tls/make-certs.sh", str(folder), *names], check=True,
                   capture_output=True, timeout=30)


def openssl(*words):
    """What it prints, or says if it fails."""
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=30,
                          check=False)
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr


def serial_of(certificate):
    return int(openssl("x509", "-in", certificate, "-noout", "-serial").partition("=")[2], 16)
