#!/bin/sh
# Stops the service; an upgrade ($1 is 1) does not. Configuration and data stay, as rpm has no purge.
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl disable --now cloudsim.service
fi
