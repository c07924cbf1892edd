#!/bin/sh
# A purge removes the node: its pods, configuration, certificates, database and volumes.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
[ "$1" = purge ] || exit 0
if [ -x /var/lib/edge-agent/reset ] && ! /var/lib/edge-agent/reset reset --force; then
    echo "failed to remove the node; start the container runtime, then run: /var/lib/edge-agent/reset reset" >&2
    exit 1
fi
rm -rf /var/lib/edge-agent
