#!/bin/sh
# Loads the service again; an upgrade restarts it if it runs. `edge-agent join` enables and starts it.
set -e
[ "$1" = configure ] || exit 0
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart edge-agent.service
fi
if [ -z "$2" ] && [ ! -e /etc/kubeedge/config/edgecore.yaml ]; then
    echo "Join this machine to a cloud: edge-agent join --cloud ADDRESS --token TOKEN"
fi
