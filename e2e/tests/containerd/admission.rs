//! Pods that the node cannot take.

use anyhow::{Context, ensure};
use e2e::{Cloud, NODE, Ports, containerd::RealRig};
use serde_json::{Value, json};

use crate::{
    case::{apply, leaves_nothing, pod},
    probes::wait_event,
    subject::{Subject, for_both},
};

for_both!(pods_that_do_not_fit_fail_and_others_run);

fn pods_that_do_not_fit_fail_and_others_run(mut rig: Subject) -> anyhow::Result<()> {
    let requests = |amounts| json!({"containers": [{"resources": {"requests": amounts}}]});
    let sysctl = json!([{"name": "kernel.msgmax", "value": "65536"}]);
    let elsewhere =
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    let cases = [
        (
            "cpu",
            requests(json!({"cpu": "10000"})),
            "OutOfcpu",
            "resource: cpu, requested: 10000000, used: ",
        ),
        (
            "memory",
            requests(json!({"memory": "100Ti"})),
            "OutOfmemory",
            "memory, requested: 109951162777600, ",
        ),
        (
            "storage",
            requests(json!({"ephemeral-storage": "10Pi"})),
            "OutOfephemeral-storage",
            "storage, requested: ",
        ),
        (
            "selector",
            json!({"nodeSelector": {"disk": "fast"}}),
            "NodeAffinity",
            elsewhere,
        ),
        (
            "affinity",
            required_pod("kubernetes.io/hostname", "NotIn"),
            "NodeAffinity",
            elsewhere,
        ),
        (
            "system",
            json!({"os": {"name": "windows"}}),
            "PodOSNotSupported",
            "the OS field doesn't match node OS",
        ),
        (
            "sysctl",
            json!({"securityContext": {"sysctls": sysctl}}),
            "SysctlForbidden",
            "forbidden sysctl: \"kernel.msgmax\"",
        ),
    ];
    let mut fits = pod("fits", &requests(json!({"cpu": "10m", "memory": "8Mi"})));
    fits["spec"]["affinity"] = required_pod("kubernetes.io/hostname", "In")["affinity"].clone();
    let mut items: Vec<_> = cases
        .iter()
        .map(|(name, spec, ..)| pod(name, spec))
        .collect();
    items.push(fits);
    apply(&rig, &items)?;
    for (name, _, reason, text) in cases {
        fails(&rig, name, reason, text)?;
    }
    rig.as_ref().wait_ready("fits")?;
    let listed = rig.cri().containers()?;
    ensure!(
        listed.len() == 1,
        "only the one that fits has a container: {listed:?}"
    );
    a_port_is_one_pods(&rig)?;
    a_node_is_full(&mut rig)?;
    a_critical_pod_makes_room(&rig)?;
    rig.leaves_nothing()
}

/// A pod for nodes whose label is, or is not, this node's name.
fn required_pod(label: &str, operator: &str) -> Value {
    let expression = json!({"key": label, "operator": operator, "values": [NODE]});
    let term = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}})
}

fn a_port_is_one_pods(rig: &Subject) -> anyhow::Result<()> {
    let port = Ports::free()?.api;
    let on_port = json!({"containers": [{"ports": [{"containerPort": 80, "hostPort": port}]}]});
    apply(rig, &[pod("first", &on_port)])?;
    rig.as_ref().wait_ready("first")?;
    apply(rig, &[pod("second", &on_port)])?;
    let taken =
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    fails(rig, "second", "NodePorts", taken)
}

fn a_node_is_full(rig: &mut Subject) -> anyhow::Result<()> {
    let before = rig.cri().running()?;
    rig.node().set_kubelet(&[("maxPods", "2")])?;
    rig.node().process.start_again()?;
    apply(rig, &[pod("third", &json!({}))])?;
    fails(
        rig,
        "third",
        "OutOfpods",
        "resource: pods, requested: 1, used: 2, capacity: 2",
    )?;
    ensure!(
        rig.cri().running()? == before,
        "pods that were there do not stay"
    );
    Ok(())
}

/// Of the two that are there, the one that requests nothing goes.
fn a_critical_pod_makes_room(rig: &Subject) -> anyhow::Result<()> {
    apply(
        rig,
        &[pod(
            "critical",
            &json!({"priorityClassName": "system-node-critical"}),
        )],
    )?;
    let gone = rig.as_ref().wait_phase("first", "Failed")?;
    let (status, why) = (&gone["status"], "Preempted in order to admit critical pod");
    ensure!(
        status["reason"] == "Preempting" && status["message"] == why,
        "{status}"
    );
    let conditions = status["conditions"].as_array().context("no conditions")?;
    let disrupted = conditions
        .iter()
        .find(|one| one["type"] == "DisruptionTarget");
    let disrupted = disrupted.context("no DisruptionTarget")?;
    ensure!(
        disrupted["status"] == "True" && disrupted["reason"] == "TerminationByKubelet",
        "{disrupted}"
    );
    wait_event(rig, "first", "Preempting", why)?;
    for name in ["critical", "fits"] {
        rig.as_ref().wait_ready(name)?;
    }
    Ok(())
}

/// It has failed for this reason, and its message and an event say why.
fn fails(rig: &impl AsRef<Cloud>, name: &str, reason: &str, text: &str) -> anyhow::Result<()> {
    let failed = rig.as_ref().wait_phase(name, "Failed")?;
    let status = &failed["status"];
    let message = status["message"].as_str().unwrap_or_default();
    let why = message
        .strip_prefix("Pod was rejected: ")
        .unwrap_or_default();
    ensure!(
        status["reason"] == reason && why.contains(text),
        "{name}: {status}"
    );
    ensure!(
        status["containerStatuses"].is_null(),
        "{name}: containers are mentioned: {status}"
    );
    wait_event(rig, name, reason, why)
}

#[test]
fn who_does_not_tolerate_a_taint_is_not_let_in() -> anyhow::Result<()> {
    // the cloud would take such pods away before the node can refuse them
    let rig = RealRig::start_with(&["--controllers", "*,-taint-eviction"])?;
    apply(&rig, &[pod("before", &json!({}))])?;
    rig.wait_ready("before")?;
    rig.cloud
        .kubectl
        .run(&["taint", "node", NODE, "e2e/out=yes:NoExecute"])?;
    let tolerates = |value: &str| json!({"tolerations": [{"key": "e2e/out", "value": value, "effect": "NoExecute"}]});
    apply(
        &rig,
        &[
            pod("none", &json!({})),
            pod("other", &tolerates("no")),
            pod("tolerates", &tolerates("yes")),
        ],
    )?;
    for name in ["none", "other"] {
        let why =
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
        fails(&rig, name, "TaintToleration", why)?;
    }
    for name in ["tolerates", "before"] {
        rig.wait_ready(name)?;
    }
    leaves_nothing(&rig)
}
