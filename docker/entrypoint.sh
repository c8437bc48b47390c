#!/bin/sh
# Starts the role its first argument names; the rest goes to that process. Any other word runs as a command.
#
# Secrets come as files below BERTH_SECRETS_DIR (/run/secrets). Those that are settings of their own become their variables here; the
# others (django_key, replica_key, key_peppers) the platform reads there itself.
set -eu

secrets=${BERTH_SECRETS_DIR:-/run/secrets}

from_file() { # VARIABLE FILE: sets VARIABLE from FILE unless it is set
    eval "given=\${$1:-}"
    if [ -z "$given" ] && [ -r "$secrets/$2" ]; then
        export "$1=$(cat "$secrets/$2")"
    fi
}

from_file BERTH_DATABASE_URL database_url
from_file BERTH_REDIS_URL redis_url
from_file BERTH_METRICS_TOKEN metrics_token

role=${1:-web}
[ $# -eq 0 ] || shift

case "$role" in
    migrate)
        from_file BERTH_NODE_TOKEN node_token
        python manage.py migrate --noinput
        exec python manage.py bootstrap "$@"
        ;;
    web)
        export BERTH_ROLE=web
        exec python manage.py serve --host 0.0.0.0 --port 8000 "$@"
        ;;
    gateway)
        export BERTH_ROLE=gateway
        exec python manage.py serve --host 0.0.0.0 --port 8000 --drain 30 "$@"
        ;;
    scheduler)
        exec celery -A berth worker -Q scheduler -n "scheduler@$(hostname)" -P threads -c 6 -l INFO \
            --without-gossip --without-mingle "$@"
        ;;
    beat)
        exec celery -A berth beat -s /tmp/beat-schedule --pidfile "" -l WARNING "$@"
        ;;
    agent)
        # It holds no credential of the database or the broker.
        unset BERTH_DATABASE_URL BERTH_REDIS_URL
        address=$(hostname -i | cut -d' ' -f1)
        exec python -m scheduler.node --join "${JOIN_URL:-ws://web:8000}" --token-file "$secrets/node_token" \
            --name "${NODE_NAME:-local}" --address "$address" --state-dir "$BERTH_HOME/node" "$@"
        ;;
    runtime)
        exec python -m gpuruntime serve --host 0.0.0.0 --port 8000 "$@"
        ;;
    *)
        exec "$role" "$@"
        ;;
esac
