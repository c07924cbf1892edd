//! Pods that the node cannot take.

use anyhow::ensure;
use e2e::Ports;
use serde_json::json;

use crate::{
    case::{apply, pod},
    subject::{Subject, for_both},
};

for_both!(pods_that_do_not_fit_fail_and_others_run);

fn pods_that_do_not_fit_fail_and_others_run(mut rig: Subject) -> anyhow::Result<()> {
    let requests = |amounts| json!({"containers": [{"resources": {"requests": amounts}}]});
    let sysctl = json!([{"name": "kernel.msgmax", "value": "65536"}]);
    let cases = [
        ("cpu", requests(json!({"cpu": "10000"})), "OutOfcpu"),
        ("memory", requests(json!({"memory": "100Ti"})), "OutOfmemory"),
        ("storage", requests(json!({"ephemeral-storage": "10Pi"})), "OutOfephemeral-storage"),
        ("selector", json!({"nodeSelector": {"disk": "fast"}}), "NodeAffinity"),
        ("system", json!({"os": {"name": "windows"}}), "PodOSNotSupported"),
        ("sysctl", json!({"securityContext": {"sysctls": sysctl}}), "SysctlForbidden"),
    ];
    let fits = pod("fits", &requests(json!({"cpu": "10m", "memory": "8Mi"})));
    let mut items: Vec<_> = cases.iter().map(|(name, spec, _)| pod(name, spec)).collect();
    items.push(fits);
    apply(&rig, &items)?;
    for (name, _, reason) in cases {
        fails(&rig, name, reason)?;
    }
    rig.as_ref().wait_ready("fits")?;
    let listed = rig.cri().containers()?;
    ensure!(listed.len() == 1, "only the one that fits has a container: {listed:?}");
    a_port_is_one_pods(&rig)?;
    a_node_is_full(&mut rig)?;
    rig.leaves_nothing()
}

fn a_port_is_one_pods(rig: &Subject) -> anyhow::Result<()> {
    let port = Ports::free()?.api;
    let on_port = json!({"containers": [{"ports": [{"containerPort": 80, "hostPort": port}]}]});
    apply(rig, &[pod("first", &on_port)])?;
    rig.as_ref().wait_ready("first")?;
    apply(rig, &[pod("second", &on_port)])?;
    fails(rig, "second", "NodePorts")
}

fn a_node_is_full(rig: &mut Subject) -> anyhow::Result<()> {
    let before = rig.cri().running()?;
    rig.node().set_kubelet(&[("maxPods", "2")])?;
    rig.node().process.start_again()?;
    apply(rig, &[pod("third", &json!({}))])?;
    fails(rig, "third", "OutOfpods")?;
    ensure!(rig.cri().running()? == before, "pods that were there do not stay");
    Ok(())
}

fn fails(rig: &Subject, name: &str, reason: &str) -> anyhow::Result<()> {
    let failed = rig.as_ref().wait_phase(name, "Failed")?;
    ensure!(failed["status"]["reason"] == reason, "{name}: {}", failed["status"]);
    Ok(())
}
