#!/bin/sh
# Stops the agent. Pods continue until the package is purged, which needs the program once more. If the service was enabled, a
# later installation enables it again.
set -e
[ "$1" = remove ] || exit 0
state=/var/lib/edge-agent
if [ -e /etc/kubeedge/config/edgecore.yaml ]; then
    mkdir -p "$state" || true
    if ! ln -f /usr/bin/edge-agent "$state/reset" 2>/dev/null && ! cp /usr/bin/edge-agent "$state/reset"; then
        rm -f "$state/reset"
        echo "failed to copy /usr/bin/edge-agent to $state: a purge will leave the node on this machine" >&2
    fi
fi
[ -d /run/systemd/system ] || exit 0
if systemctl is-enabled --quiet edge-agent.service; then
    { mkdir -p "$state" && touch "$state/enabled"; } ||
        echo "failed to write $state/enabled: a later installation does not enable edge-agent.service" >&2
fi
systemctl disable --now edge-agent.service
