#!/bin/sh
# A purge removes the cloud: its objects, keys and certificates.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # a service that had failed would stay in the list of units
    systemctl reset-failed cloudsim.service 2>/dev/null || true
fi
if [ "$1" = purge ]; then
    if [ -e /var/lib/private/cloudsim ] || [ -e /var/lib/cloudsim ]; then
        echo "Deleting the cloud's CA, objects and keys in /var/lib/cloudsim; nodes must be reset and join another cloud."
    fi
    rm -rf /var/lib/cloudsim /var/lib/private/cloudsim /var/lib/cloudsim.enabled
fi
