#!/bin/sh
# Loads the service again; an upgrade restarts it if it runs.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart edge-agent.service
fi
