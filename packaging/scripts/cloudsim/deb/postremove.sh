#!/bin/sh
# A purge removes the cloud: its objects, keys and certificates.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
if [ "$1" = purge ]; then
    rm -rf /var/lib/cloudsim /var/lib/private/cloudsim
fi
