#!/bin/sh
# Makes the files that compose.yaml mounts as secrets; those that are there stay as they are.
set -eu
umask 077
cd "$(dirname "$0")"
mkdir -p secrets

random() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
make() { [ -s "secrets/$1" ] || printf '%s' "$2" >"secrets/$1"; }

for name in postgres_password django_key replica_key node_token metrics_token grafana_password; do
    make "$name" "$(random)"
done
make key_peppers "1:$(random)"
make database_url "postgresql://berth:$(cat secrets/postgres_password)@postgres:5432/berth"
# The containers read them as user 10001, which owns nothing here; the folder keeps everybody else out.
chmod 0711 secrets
chmod 0444 secrets/*
