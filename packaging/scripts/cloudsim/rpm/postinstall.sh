#!/bin/sh
# Loads the service again; an upgrade restarts it if it runs.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart cloudsim.service
    if [ "$1" = 1 ] && [ -e /var/lib/private/cloudsim ] && ! systemctl is-enabled --quiet cloudsim.service; then
        echo "The cloud of an earlier installation is in /var/lib/private/cloudsim. Start it: systemctl enable --now cloudsim"
    fi
fi
