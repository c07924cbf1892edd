#!/bin/sh
# A purge removes the node: its pods, configuration, certificates, database and volumes.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # a service that had failed would stay in the list of units
    systemctl reset-failed edge-agent.service 2>/dev/null || true
fi
[ "$1" = purge ] || exit 0
state=/var/lib/edge-agent
if [ -x "$state/reset" ]; then
    if ! "$state/reset" reset --force; then
        cat >&2 <<TEXT
failed to remove the node, for the reason above. Correct it and purge again, or first
  remove the node without its container runtime: $state/reset reset --force --without-runtime
  keep the node's files: rm -r $state
TEXT
        exit 1
    fi
elif [ -e /etc/kubeedge/config/edgecore.yaml ]; then
    echo "The node stays on this machine: its configuration is /etc/kubeedge/config/edgecore.yaml."
    echo "To remove it, install edge-agent again and run: edge-agent reset"
fi
rm -rf "$state"
