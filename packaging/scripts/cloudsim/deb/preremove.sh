#!/bin/sh
# Stops the service. If it was enabled, a later installation enables it again.
set -e
[ "$1" = remove ] || exit 0
if [ -e /var/lib/private/cloudsim ] || [ -e /var/lib/cloudsim ]; then
    echo "The cloud's data stays in /var/lib/cloudsim. A purge deletes it: the CA of all nodes, all objects and keys."
fi
[ -d /run/systemd/system ] || exit 0
if systemctl is-enabled --quiet cloudsim.service; then
    touch /var/lib/cloudsim.enabled ||
        echo "failed to write /var/lib/cloudsim.enabled: a later installation does not enable cloudsim.service" >&2
fi
systemctl disable --now cloudsim.service
