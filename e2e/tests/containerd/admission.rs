//! Pods that the node cannot take.

use anyhow::ensure;
use e2e::containerd::RealRig;
use serde_json::json;

use crate::case::{apply, leaves_nothing, pod};

#[test]
fn pods_that_do_not_fit_fail_and_others_run() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
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
        let failed = rig.wait_phase(name, "Failed")?;
        ensure!(failed["status"]["reason"] == reason, "{name}: {}", failed["status"]);
    }
    rig.wait_ready("fits")?;
    let listed = rig.containerd.bare.list(None).map_err(|status| anyhow::anyhow!("{status}"))?;
    ensure!(listed.len() == 1, "only the one that fits has a container: {listed:?}");
    leaves_nothing(&rig)
}
