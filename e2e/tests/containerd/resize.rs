//! Resized pods: what the kernel allows their processes afterwards.

use anyhow::ensure;
use e2e::{Allowed, ControlGroup, containerd::RealRig, cpu_share, until};
use serde_json::{Value, json};

use crate::{
    case::{apply, leaves_nothing, pod},
    resources::{pid_of, unusual},
};

/// Requests and limits: thousandths of a core, MiB.
fn resources(requests: (u64, u64), limits: (u64, u64)) -> Value {
    let amounts =
        |(cpu, memory)| json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
    json!({"requests": amounts(requests), "limits": amounts(limits)})
}

/// A pod with one container, whose process has an argument that no other has.
fn resizable(name: &str, policy: &str) -> Value {
    let policy = json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}, {"resourceName": "memory", "restartPolicy": policy}]);
    pod(
        name,
        &json!({"restartPolicy": "OnFailure", "containers": [{
            "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait", unusual(name)],
            "resizePolicy": policy,
            "resources": resources((100, 16), (200, 32)),
        }]}),
    )
}

fn resize(rig: &RealRig, name: &str, resources: &Value) -> anyhow::Result<()> {
    let patch = json!({"spec": {"containers": [{"name": "main", "resources": resources}]}});
    let patch = patch.to_string();
    let words = [
        "patch",
        "pod",
        name,
        "--subresource=resize",
        "--patch",
        &patch,
    ];
    rig.cloud.kubectl.run(&words).map(drop)
}

/// Waits until the kernel allows the container, and its pod, as much as these limits, in shares, microseconds and MiB.
fn until_allowed(name: &str, shares: u64, quota: u64, memory: u64) -> anyhow::Result<()> {
    until(&format!("other limits of {name}"), || {
        let group = ControlGroup::of(&pid_of(&unusual(name))?)?;
        for group in [group.parent()?, group] {
            let found = group.limits()?;
            let expected = Allowed {
                cpu_share: cpu_share(shares),
                cpu_quota: Some(quota),
                memory: Some(memory << 20),
                ..found
            };
            ensure!(
                found == expected,
                "{}: {found:?}, not {expected:?}",
                group.path().display()
            );
        }
        anyhow::Ok(())
    })
}

/// Waits until the status shows these resources, no condition about a resize, and this number of restarts.
fn until_reported(rig: &RealRig, name: &str, wanted: &Value, restarts: u64) -> anyhow::Result<()> {
    rig.wait_pod(name, |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        let pending = conditions(pod);
        if status["resources"] == *wanted
            && status["allocatedResources"] == wanted["requests"]
            && status["restartCount"] == restarts
            && pending.is_empty()
        {
            Ok(())
        } else {
            Err(format!("{status} {pending:?}"))
        }
    })
    .map(drop)
}

/// Returns the conditions about a resize: type and reason.
fn conditions(pod: &Value) -> Vec<String> {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|one| {
            one["type"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("PodResize"))
        })
        .map(|one| format!("{} {}", one["type"], one["reason"]).replace('"', ""))
        .collect()
}

#[test]
fn a_resized_pod_has_its_new_limits_in_the_kernel() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    apply(
        &rig,
        &[
            resizable("stays", "NotRequired"),
            resizable("restarts", "RestartContainer"),
        ],
    )?;
    for name in ["stays", "restarts"] {
        rig.wait_ready(name)?;
        until_allowed(name, 102, 20_000, 32)?;
    }
    let id = |rig: &RealRig| RealRig::container_id(&rig.wait_ready("stays")?, "main");
    let first = id(&rig)?;
    // more, other memory, less of both
    for (requests, limits, shares, quota) in [
        ((200, 16), (400, 32), 204, 40_000),
        ((200, 24), (400, 48), 204, 40_000),
        ((50, 8), (100, 24), 51, 10_000),
    ] {
        let wanted = resources(requests, limits);
        resize(&rig, "stays", &wanted)?;
        until_allowed("stays", shares, quota, limits.1)?;
        until_reported(&rig, "stays", &wanted, 0)?;
    }
    // more than the node has
    let last = resources((50, 8), (100, 24));
    let mut huge = last.clone();
    for part in ["requests", "limits"] {
        huge[part]["cpu"] = "1k".into();
    }
    resize(&rig, "stays", &huge)?;
    rig.wait_pod("stays", |pod| match conditions(pod) {
        pending if pending == ["PodResizePending Infeasible"] => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    until_allowed("stays", 51, 10_000, 24)?;
    // the agent knows what the containers have after its own restart, too
    rig.restart_with(&[])?;
    until_allowed("stays", 51, 10_000, 24)?;
    resize(&rig, "stays", &last)?;
    until_reported(&rig, "stays", &last, 0)?;
    ensure!(id(&rig)? == first, "the container was replaced");

    // a policy that wants a restart for memory, and none for processors
    let more = resources((200, 16), (400, 32));
    resize(&rig, "restarts", &more)?;
    until_allowed("restarts", 204, 40_000, 32)?;
    until_reported(&rig, "restarts", &more, 0)?;
    let more = resources((200, 16), (400, 64));
    resize(&rig, "restarts", &more)?;
    until_reported(&rig, "restarts", &more, 1)?;
    until_allowed("restarts", 204, 40_000, 64)?;
    leaves_nothing(&rig)
}
