//! The agent, or the runtime, or both are killed; others use the same runtime.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, ensure};
use e2e::{
    Cloud, Cri, NODE, RunningContainer,
    containerd::{RawCri, RealRig, Traces},
    until,
};
use serde_json::json;
use testkit::PROCESS_TIMEOUT;

use crate::{
    case::{apply, leaves_nothing, leaves_nothing_of, pod},
    probes::wait_event,
    subject::{Subject, for_both},
};

/// How many pods live through a fault.
const PODS: usize = 4;

fn names() -> Vec<String> {
    (0..PODS).map(|index| format!("steady-{index}")).collect()
}

fn start(cloud: &impl AsRef<Cloud>, cri: &Cri) -> anyhow::Result<BTreeSet<RunningContainer>> {
    let pods: Vec<_> = names().iter().map(|name| pod(name, &json!({}))).collect();
    apply(cloud, &pods)?;
    for name in names() {
        cloud.as_ref().wait_ready(&name)?;
    }
    cri.running()
}

fn check_unchanged(rig: &RealRig, before: &BTreeSet<RunningContainer>) -> anyhow::Result<()> {
    for name in names() {
        let seen = rig.wait_ready(&name)?;
        ensure!(
            seen["status"]["containerStatuses"][0]["restartCount"] == 0,
            "{name} was restarted"
        );
    }
    let now = rig.containerd.cri.running()?;
    ensure!(
        now.is_superset(before),
        "containers were replaced: {before:?}, now {now:?}"
    );
    Ok(())
}

for_both!(an_agent_that_comes_back_adopts);

fn an_agent_that_comes_back_adopts(mut rig: Subject) -> anyhow::Result<()> {
    let before = start(&rig, rig.cri())?;
    ensure!(
        rig.node().process.terminate()?.success(),
        "the agent did not end well"
    );
    ensure!(
        rig.cri().running()? == before,
        "containers ended with the agent"
    );
    // meanwhile one pod goes and one comes
    rig.as_ref()
        .kubectl
        .run(&["delete", "pod", "steady-0", "--wait=false"])?;
    apply(&rig, &[pod("new", &json!({}))])?;
    rig.node().process.start_again()?;
    rig.as_ref().wait_ready("new")?;
    rig.as_ref().wait_gone("steady-0")?;
    let now = rig.cri().running()?;
    ensure!(
        now.intersection(&before).count() == PODS - 1,
        "not adopted: {before:?}, now {now:?}"
    );
    rig.leaves_nothing()
}

#[test]
fn an_agent_that_is_killed_while_pods_start() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let pods: Vec<_> = names().iter().map(|name| pod(name, &json!({}))).collect();
    apply(&rig, &pods)?;
    // each time a little further: with the first sandbox, the first container, the second …
    for count in 1..=PODS {
        until("a few sandboxes", || {
            let (ready, _) = rig.containerd.cri.sandboxes()?;
            ensure!(ready.len() >= count, "{} sandboxes", ready.len());
            Ok(())
        })?;
        rig.node.process.kill()?;
        rig.node.process.start_again()?;
    }
    for name in names() {
        rig.wait_ready(&name)?;
    }
    until("one sandbox and one container for each pod", || {
        let (ready, dead) = rig.containerd.cri.sandboxes()?;
        let (all, running) = (
            rig.containerd.cri.containers()?,
            rig.containerd.cri.running()?,
        );
        ensure!(
            ready.len() == PODS && dead.is_empty(),
            "sandboxes: {ready:?}, dead: {dead:?}"
        );
        // a start that was cut off leaves a dead container, which the status shows as the last one
        ensure!(
            all.len() <= 2 * PODS && running.len() == PODS,
            "containers: {all:?}"
        );
        for (dead, _) in all.iter().filter(|(one, _)| !running.contains(one)) {
            let status = rig.containerd.raw_cri.status(&dead.id)?;
            ensure!(
                status.started_at == 0,
                "a container that ran was replaced: {status:?}"
            );
        }
        Ok(())
    })?;
    // its calls were cut off
    leaves_nothing_of(&rig, PROCESS_TIMEOUT, Traces::of_tasks)
}

#[test]
fn a_runtime_that_is_killed_keeps_its_containers() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let before = start(&rig, &rig.containerd.cri)?;
    // its socket goes with it: what comes back listens on another of the same name
    rig.containerd.process.kill()?;
    fs::remove_file(rig.directory.path().join("runtime.sock"))?;
    apply(&rig, &[pod("patient", &json!({}))])?;
    rig.cloud.wait_node("Ready=False")?;
    let node = rig.cloud.kubectl.json(&["get", "node", NODE])?;
    let conditions = node["status"]["conditions"]
        .as_array()
        .context("no conditions")?;
    let ready = conditions
        .iter()
        .find(|one| one["type"] == "Ready")
        .context("no Ready")?;
    let message = ready["message"].as_str().unwrap_or_default();
    let told =
        ready["reason"] == "EdgeNotReady" && message.starts_with("container runtime is down: ");
    ensure!(told, "{ready}");
    let version = &node["status"]["nodeInfo"]["containerRuntimeVersion"];
    ensure!(
        version
            .as_str()
            .is_some_and(|version| version.starts_with("containerd://")),
        "{version}"
    );
    rig.containerd.start_again()?;
    rig.wait_ready("patient")?;
    check_unchanged(&rig, &before)?;
    rig.cloud.wait_node("Ready")?;
    // both, and pods that are to go meanwhile
    rig.cloud
        .kubectl
        .run(&["delete", "pod", "patient", "--wait=false"])?;
    rig.node.process.kill()?;
    rig.containerd.process.kill()?;
    rig.containerd.start_again()?;
    rig.node.process.start_again()?;
    rig.cloud.wait_gone("patient")?;
    check_unchanged(&rig, &before)?;
    leaves_nothing_of(&rig, PROCESS_TIMEOUT, Traces::alive)
}

#[test]
fn a_container_or_sandbox_that_dies_is_replaced() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    start(&rig, &rig.containerd.cri)?;
    let seen = rig.wait_ready("steady-0")?;
    let (container, sandbox) = {
        let id = RealRig::container_id(&seen, "main")?;
        let listed = rig.containerd.raw_cri.list(None)?;
        let sandbox = listed
            .iter()
            .find(|one| one.id == id)
            .map(|one| one.pod_sandbox_id.clone());
        (id, sandbox.unwrap_or_default())
    };
    rig.containerd.raw_cri.stop(&container, 0)?;
    let other = |pod: &serde_json::Value, old: &str| {
        let new = RealRig::container_id(pod, "main").map_err(|error| error.to_string())?;
        let ready = pod["status"]["containerStatuses"][0]["ready"] == true;
        if ready && new != old {
            Ok(())
        } else {
            Err("it is not replaced".to_owned())
        }
    };
    let seen = rig.wait_pod("steady-0", |pod| other(pod, &container))?;
    ensure!(
        seen["status"]["containerStatuses"][0]["restartCount"] == 1,
        "{}",
        seen["status"]
    );
    let container = RealRig::container_id(&seen, "main")?;
    rig.containerd.raw_cri.stop_sandbox(&sandbox)?;
    rig.wait_pod("steady-0", |pod| other(pod, &container))?;
    let told = "Pod sandbox changed, it will be killed and re-created.";
    wait_event(&rig, "steady-0", "SandboxChanged", told)?;
    leaves_nothing(&rig)
}

#[test]
fn containers_of_others_are_left_alone() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    // what is there before that may be a pod of a store that was lost
    rig.node.process.wait_for("all pods of this node stored")?;
    let raw_cri = &rig.containerd.raw_cri;
    let config = RawCri::sandbox_config("foreign", &rig.directory.path().join("foreign"));
    let sandbox = raw_cri.run_sandbox(config.clone())?;
    let container = raw_cri.create(
        &sandbox,
        config,
        RawCri::container_config("foreign", &["sleep", "1000000"]),
    )?;
    raw_cri.start(&container)?;
    // ours, of a pod that nobody knows any more
    let mut orphan = RawCri::sandbox_config("orphan", &rig.directory.path().join("orphan"));
    for (label, value) in [
        ("name", "orphan"),
        ("namespace", "default"),
        ("uid", "6f1b0f8e-7d1c-4f43-9f0e-2f6a3f1e8f11"),
    ] {
        orphan
            .labels
            .insert(format!("io.kubernetes.pod.{label}"), value.to_owned());
    }
    raw_cri.run_sandbox(orphan)?;
    let before = start(&rig, &rig.containerd.cri)?;
    rig.node.process.kill()?;
    rig.node.process.start_again()?;
    until("the end of the orphan", || {
        let all = rig.containerd.raw_cri.sandboxes(None)?;
        let left = all.iter().any(|one| {
            one.metadata
                .as_ref()
                .is_some_and(|metadata| metadata.name == "orphan")
        });
        ensure!(!left, "it is there");
        Ok(())
    })?;
    check_unchanged(&rig, &before)?;
    let status = rig.containerd.raw_cri.status(&container)?;
    ensure!(
        status.state() == wire::cri::ContainerState::ContainerRunning,
        "a foreign container: {status:?}"
    );
    rig.containerd.raw_cri.stop_sandbox(&sandbox)?;
    rig.containerd.raw_cri.remove_sandbox(&sandbox)?;
    leaves_nothing(&rig)
}

#[test]
fn containers_that_have_vanished_count_as_killed() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let names = ["again", "once"];
    apply(
        &rig,
        &[
            pod("again", &json!({})),
            pod("once", &json!({"restartPolicy": "Never"})),
        ],
    )?;
    let ids = names.map(|name| RealRig::container_id(&rig.wait_ready(name)?, "main"));
    ensure!(
        rig.node.process.terminate()?.success(),
        "the agent did not end well"
    );
    for id in ids {
        let id = id?;
        rig.containerd.raw_cri.stop(&id, 0)?;
        rig.containerd.raw_cri.remove(&id)?;
    }
    rig.node.process.start_again()?;
    rig.wait_pod("again", |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        let again = status["restartCount"] == 1 && status["ready"] == true;
        if again {
            Ok(())
        } else {
            Err("it was not started again, or not counted".to_owned())
        }
    })?;
    let once = rig.wait_phase("once", "Failed")?;
    let status = &once["status"]["containerStatuses"][0];
    let ended = &status["state"]["terminated"];
    ensure!(
        ended["reason"] == "ContainerStatusUnknown" && ended["exitCode"] == 137,
        "{status}"
    );
    ensure!(status["restartCount"] == 0, "{status}");
    leaves_nothing(&rig)
}
