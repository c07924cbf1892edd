#!/bin/sh
# Stops the agent. Pods continue until the package is purged, which needs the program once more.
set -e
[ "$1" = remove ] || exit 0
if [ -d /run/systemd/system ]; then
    systemctl disable --now edge-agent.service
fi
if [ -e /etc/kubeedge/config/edgecore.yaml ]; then
    mkdir -p /var/lib/edge-agent
    ln -f /usr/bin/edge-agent /var/lib/edge-agent/reset 2>/dev/null || cp /usr/bin/edge-agent /var/lib/edge-agent/reset
fi
