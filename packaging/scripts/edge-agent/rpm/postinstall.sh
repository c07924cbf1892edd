#!/bin/sh
# Loads the service again; an upgrade restarts it if it runs.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart edge-agent.service
    if [ "$1" = 1 ] && [ -e /etc/kubeedge/config/edgecore.yaml ] && ! systemctl is-enabled --quiet edge-agent.service; then
        echo "This machine has joined before. Start the agent: systemctl enable --now edge-agent"
    fi
fi
unit=/etc/systemd/system/edge-agent.service
if [ -e "$unit" ]; then
    echo "$unit replaces the service of this package, and may run another program. To use the package's:" >&2
    echo "  rm $unit; systemctl daemon-reload; systemctl restart edge-agent" >&2
fi
