#!/bin/sh
# Loads the service again; an upgrade restarts it if it runs. A service that a removal has disabled is enabled and started again.
# `edge-agent join` enables and starts a new one.
set -e
case "$1" in configure | abort-remove) ;; *) exit 0 ;; esac
state=/var/lib/edge-agent
# the program is back
rm -f "$state/reset"
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if [ -e "$state/enabled" ] && [ -e /etc/kubeedge/config/edgecore.yaml ]; then
        echo "edge-agent.service was enabled before its removal; starting it"
        systemctl enable edge-agent.service
        systemctl restart edge-agent.service || echo "failed to start edge-agent.service; the cause: systemctl status edge-agent" >&2
    else
        systemctl try-restart edge-agent.service
    fi
    rm -f "$state/enabled"
fi
rmdir "$state" 2>/dev/null || true
unit=/etc/systemd/system/edge-agent.service
if [ -e "$unit" ]; then
    echo "$unit replaces the service of this package, and may run another program. To use the package's:" >&2
    echo "  rm $unit; systemctl daemon-reload; systemctl restart edge-agent" >&2
fi
if [ "$1" = configure ] && [ -z "$2" ] && [ ! -e /etc/kubeedge/config/edgecore.yaml ]; then
    echo "Join this machine to a cloud: edge-agent join --cloud ADDRESS --token TOKEN"
fi
