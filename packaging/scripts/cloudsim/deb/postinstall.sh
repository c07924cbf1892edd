#!/bin/sh
# Loads the service again; an upgrade restarts it if it runs. A service that a removal has disabled is enabled and started again.
# `systemctl enable --now cloudsim` starts a new one.
set -e
case "$1" in configure | abort-remove) ;; *) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ -e /var/lib/cloudsim.enabled ]; then
    rm -f /var/lib/cloudsim.enabled
    echo "cloudsim.service was enabled before its removal; starting it"
    systemctl enable cloudsim.service
    systemctl restart cloudsim.service || echo "failed to start cloudsim.service; the cause: systemctl status cloudsim" >&2
else
    systemctl try-restart cloudsim.service
    if [ "$1" = configure ] && [ -z "$2" ]; then
        echo "Start the cloud: systemctl enable --now cloudsim"
    fi
fi
