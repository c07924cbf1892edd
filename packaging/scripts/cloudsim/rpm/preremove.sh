#!/bin/sh
# Stops the service; an upgrade ($1 is 1) does not. Configuration and data stay, as rpm has no purge.
[ "$1" = 0 ] || exit 0
if [ -d /run/systemd/system ]; then
    systemctl disable --now cloudsim.service
fi
if [ -e /var/lib/private/cloudsim ]; then
    echo "The cloud's data stays. Remove it: rm -r /var/lib/cloudsim /var/lib/private/cloudsim"
fi
