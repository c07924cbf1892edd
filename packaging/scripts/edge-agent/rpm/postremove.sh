#!/bin/sh
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if [ "$1" = 0 ]; then
        systemctl reset-failed edge-agent.service 2>/dev/null || true
    fi
fi
