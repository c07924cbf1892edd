//! Graceful node shutdown: pods end in the order of their priorities before the machine does.

mod logind;

use std::fs;

use anyhow::{Context, ensure};
use e2e::{AGENT, Node, Process, containerd::RealRig, until};
use serde_json::{Value, json};

use self::logind::Logind;
use crate::case::{apply, leaves_nothing, pod};

/// A pod that writes a line to `log` on the node when it is told to end, and takes `seconds` for that.
fn slow_pod(rig: &RealRig, name: &str, seconds: u32, spec: &Value) -> Value {
    let directory = rig.directory.path().join("ends").display().to_string();
    let script = format!(
        "trap 'sleep {seconds}; echo {name} >> /ends/log; exit 0' TERM; sleep 2147483647 & wait"
    );
    let mut pod = pod(
        name,
        &json!({
            "terminationGracePeriodSeconds": 30,
            "containers": [{
                "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "ends", "mountPath": "/ends"}],
            }],
            "volumes": [{"name": "ends", "hostPath": {"path": directory, "type": "DirectoryOrCreate"}}],
        }),
    );
    if let (Some(into), Some(more)) = (pod["spec"].as_object_mut(), spec.as_object()) {
        into.extend(more.clone());
    }
    pod
}

/// The periods of pods, and of critical ones in the end.
const PERIODS: &[(&str, &str)] = &[
    ("shutdownGracePeriod", "20s"),
    ("shutdownGracePeriodCriticalPods", "10s"),
];

fn start_agent(
    rig: &mut RealRig,
    logind: &Logind,
    settings: &[(&str, &str)],
) -> anyhow::Result<()> {
    rig.node.process.terminate()?;
    rig.node.set_kubelet(settings)?;
    let mut command = Node::command(&rig.node.config)?;
    command.env("DBUS_SYSTEM_BUS_ADDRESS", &logind.address);
    rig.node.process = Process::start(AGENT, command, &rig.directory.path().join("node"))?;
    rig.node.process.wait_for("edge-agent started")
}

fn ready(rig: &RealRig) -> anyhow::Result<Value> {
    let node = rig.cloud.node()?.context("no node")?;
    let conditions = node["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default().into_iter();
    conditions
        .find(|condition| condition["type"] == "Ready")
        .context("no condition Ready")
}

#[test]
fn pods_end_by_priority_before_the_machine_shuts_down() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    // before the agent starts, which watches the directory then
    let manifests = rig.directory.path().join("node/manifests");
    fs::create_dir_all(&manifests)?;
    let logind = Logind::start(rig.directory.path())?;
    start_agent(&mut rig, &logind, PERIODS)?;
    logind.wait_held(1)?;
    let (_, [what, who, _, mode]) = logind.locks()?;
    ensure!(
        [&*what, &*who, &*mode] == ["shutdown", "edge-agent", "delay"],
        "{what}, {who}, {mode}"
    );
    let critical = json!({"priorityClassName": "system-node-critical"});
    let manifest = slow_pod(&rig, "fixed", 0, &json!({}));
    fs::write(manifests.join("fixed.json"), manifest.to_string())?;
    apply(
        &rig,
        &[
            slow_pod(&rig, "critical", 0, &critical),
            slow_pod(&rig, "slow", 3, &json!({})),
        ],
    )?;
    for name in ["critical", "slow", "fixed-edge-1"] {
        rig.wait_ready(name)?;
    }
    logind.announce(true)?;
    until("a node that is shutting down", || {
        let ready = ready(&rig)?;
        ensure!(
            ready["status"] == "False" && ready["message"] == "node is shutting down",
            "{ready}"
        );
        Ok(())
    })?;
    apply(&rig, &[pod("late", &json!({}))])?;
    logind.wait_held(0)?;
    let log = rig.node.process.log();
    ensure!(!log.contains("shutdown period exceeded"), "{log}");
    let order = fs::read_to_string(rig.directory.path().join("ends/log"))?;
    let order: Vec<_> = order.lines().collect();
    let at = |name: &str| order.iter().position(|line| *line == name);
    ensure!(
        order.len() == 3 && at("critical") == Some(2) && at("slow") < at("critical"),
        "{order:?}"
    );
    for name in ["critical", "slow", "fixed-edge-1"] {
        let failed = rig.wait_phase(name, "Failed")?;
        let status = &failed["status"];
        let message = "Pod was terminated in response to imminent node shutdown.";
        ensure!(
            status["reason"] == "Terminated" && status["message"] == message,
            "{status}"
        );
        let disrupted = status["conditions"].as_array().into_iter().flatten();
        let disrupted = disrupted
            .clone()
            .find(|condition| condition["type"] == "DisruptionTarget");
        ensure!(
            disrupted.is_some_and(|one| one["reason"] == "TerminationByKubelet"),
            "{status}"
        );
    }
    let late = rig.wait_phase("late", "Failed")?;
    ensure!(
        late["status"]["reason"] == "NodeShutdown",
        "{}",
        late["status"]
    );
    // the shutdown is cancelled: the next one is delayed again, and pods may run
    logind.announce(false)?;
    logind.wait_held(1)?;
    rig.cloud.wait_node("Ready")?;
    apply(&rig, &[pod("next", &json!({}))])?;
    rig.wait_ready("next")?;
    // after a restart, the static pod runs again: no controller creates it
    start_agent(&mut rig, &logind, PERIODS)?;
    rig.wait_ready("fixed-edge-1")?;
    logind.wait_held(1)?;
    fs::remove_file(manifests.join("fixed.json"))?;
    leaves_nothing(&rig)
}

#[test]
fn each_priority_has_a_period_of_its_own() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let logind = Logind::start(rig.directory.path())?;
    let period = |priority: i64, seconds: i64| {
        format!("{{priority: {priority}, shutdownGracePeriodSeconds: {seconds}}}")
    };
    let periods = [period(0, 20), period(1000, 20), period(100_000, 20)].join(", ");
    let periods = format!("[{periods}]");
    start_agent(
        &mut rig,
        &logind,
        &[("shutdownGracePeriodByPodPriority", &periods)],
    )?;
    logind.wait_held(1)?;
    let class = |name: &str, value: i64| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    apply(&rig, &[class("middle", 5000), class("high", 100_000)])?;
    let of_class = |name: &str| json!({"priorityClassName": name});
    apply(
        &rig,
        &[
            // the one that ends first takes longest
            slow_pod(&rig, "low", 3, &json!({})),
            slow_pod(&rig, "middle", 1, &of_class("middle")),
            slow_pod(&rig, "high", 0, &of_class("high")),
        ],
    )?;
    for name in ["low", "middle", "high"] {
        rig.wait_ready(name)?;
    }
    logind.announce(true)?;
    logind.wait_held(0)?;
    let order = fs::read_to_string(rig.directory.path().join("ends/log"))?;
    ensure!(order.lines().eq(["low", "middle", "high"]), "{order:?}");
    leaves_nothing(&rig)
}
