#!/bin/sh
# test.sh - what Compose makes of compose.yaml: all files that it mounts are there, and nothing is
# reachable from other machines.
#
#   packaging/compose/test.sh      from the root of the source, as root
set -eu
cd "$(dirname "$0")/../.."
mkdir -p dist/compose
packaging/root.sh -p docker-compose trixie sh -c 'mkdir /tmp/p && tar -xzf /srv/dist/weir-compose-*.tar.gz -C /tmp/p &&
    cd /tmp/p/packaging/compose && export WEIR_TOKEN=a-token POSTGRES_PASSWORD=a-password &&
    docker-compose config --format json >/srv/dist/compose/config.json &&
    ! (unset WEIR_TOKEN; docker-compose config -q 2>/srv/dist/compose/refused) &&
    find /tmp/p -type f >/srv/dist/compose/files'
grep -q 'WEIR_TOKEN.*set it in .env' dist/compose/refused
python3 - <<'END'
import json
config = json.load(open("dist/compose/config.json"))
files = open("dist/compose/files").read().split("\n")
for name, service in config["services"].items():
    for mount in service.get("volumes", []):
        source = mount["source"]
        assert mount["type"] == "volume" or any(f == source or f.startswith(source + "/") for f in files), source
    for port in service.get("ports", []):
        assert port["host_ip"] == "127.0.0.1", (name, port)
weir = config["services"]["weir"]
assert weir["environment"] == {"WEIR_STORE": "postgres://weir:a-password@postgres/weir", "WEIR_TOKEN": "a-token"}, weir
assert weir["read_only"] and weir["cap_drop"] == ["ALL"]
print("compose: all well")
END
