#!/bin/sh
# Stops the service; an upgrade ($1 is 1) does not. Configuration and data stay, as rpm has no purge.
[ "$1" = 0 ] || exit 0
if [ -d /run/systemd/system ]; then
    systemctl disable --now edge-agent.service
fi
if [ -e /etc/kubeedge/config/edgecore.yaml ]; then
    echo "The node stays on this machine: its pods run, and its configuration is /etc/kubeedge/config/edgecore.yaml."
    echo "To remove it, install edge-agent again and run: edge-agent reset"
fi
