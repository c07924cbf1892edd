#!/bin/sh
# A purge removes the cloud: its objects, keys and certificates.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # a service that had failed would stay in the list of units
    systemctl reset-failed cloudsim.service 2>/dev/null || true
fi
if [ "$1" = purge ]; then
    rm -rf /var/lib/cloudsim /var/lib/private/cloudsim /var/lib/cloudsim.enabled
fi
