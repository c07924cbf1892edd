//! A machine that stands still: agent, containerd and cloud are stopped for a while (SIGSTOP) and continue. Nothing is restarted. With
//! `OUTRIGGER_STALL_SECONDS` above 150 it is longer than any part of the agent may hang.

use std::{
    env,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::{containerd::RealRig, until, until_within};
use serde_json::json;
use testkit::PROCESS_TIMEOUT;

use crate::case::{apply, leaves_nothing, pod};

/// How long everything stands still by default: longer than a liveness probe may take.
const STALL: Duration = Duration::from_secs(8);

#[test]
fn a_machine_that_stood_still_restarts_nothing() -> anyhow::Result<()> {
    let seconds = env::var("OUTRIGGER_STALL_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let stall = seconds.map_or(STALL, Duration::from_secs);
    let mut rig = RealRig::start()?;
    let probe = json!({"exec": {"command": ["true"]}, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1});
    let probed = json!({"containers": [{"name": "main", "livenessProbe": probe}]});
    apply(&rig, &[pod("probed", &probed), pod("plain", &json!({}))])?;
    let names = ["probed", "plain"];
    names
        .iter()
        .try_for_each(|name| rig.wait_ready(name).map(drop))?;
    let before = (rig.containerd.cri.running()?, rig.node.process.id());
    for _ in 0..2 {
        stand_still(&rig, stall)?;
        // the node reports again
        rig.cloud.wait_node("Ready")?;
        until("the pods are ready", || {
            names
                .iter()
                .try_for_each(|name| rig.wait_ready(name).map(drop))
        })?;
    }
    ensure!(rig.node.process.runs() && rig.cloud.process.runs() && rig.containerd.process.runs());
    let after = (rig.containerd.cri.running()?, rig.node.process.id());
    ensure!(before == after, "{before:?} ran, {after:?} runs");
    for name in names {
        let pod = rig.pod(name)?.context("the pod is gone")?;
        ensure!(
            pod["status"]["containerStatuses"][0]["restartCount"] == 0,
            "{name} was restarted: {pod}"
        );
    }
    let log = rig.node.process.log();
    let restarted = ["module hangs", "blocks its thread", "restarting the agent"];
    ensure!(restarted.iter().all(|text| !log.contains(text)), "{log}");
    leaves_nothing(&rig)
}

/// Stops everything but the containers, and lets it continue.
fn stand_still(rig: &RealRig, stall: Duration) -> anyhow::Result<()> {
    let all = [
        &rig.node.process,
        &rig.containerd.process,
        &rig.cloud.process,
    ];
    all.iter().try_for_each(|process| process.freeze())?;
    let begun = Instant::now();
    until_within(stall + PROCESS_TIMEOUT, "the end of the stall", || {
        let left = stall.saturating_sub(begun.elapsed());
        if left.is_zero() { Ok(()) } else { Err(left) }
    })?;
    // the cloud first: it must not think its nodes dead
    all.iter().rev().try_for_each(|process| process.resume())
}
