//! Containers that end soon, on a node on which nothing else happens and whose runtime has no events of CRI: that they have ended is
//! seen at once, and what follows from it is done at once.

use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::{
    at,
    containerd::{IMAGE, RealRig},
};
use serde_json::{Value, json};

use crate::case::{apply, leaves_nothing, pod};

/// How often each is tried at most; most of the tries count.
const TRIES: u32 = 3;
/// A node on which nothing has happened for so long asks its runtime as seldom as it ever does.
const IDLE: Duration = Duration::from_secs(6);
/// How long all but the containers' own work may take: from kubectl's end until the API tells what has become of the pod.
const SOON: Duration = Duration::from_secs(2);

/// How long it took after the pod was applied, on an idle node, until its status was as `wanted`.
fn took(
    rig: &RealRig,
    name: &str,
    spec: &Value,
    wanted: fn(&Value) -> bool,
) -> anyhow::Result<Duration> {
    at(Instant::now() + IDLE);
    apply(rig, &[pod(name, spec)])?;
    let begun = Instant::now();
    rig.wait_pod(name, |pod| {
        if wanted(pod) {
            Ok(())
        } else {
            Err(pod["status"].to_string())
        }
    })?;
    Ok(begun.elapsed())
}

fn has_succeeded(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded"
}

fn is_ready(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array();
    statuses.is_some_and(|all| !all.is_empty() && all.iter().all(|one| one["ready"] == true))
}

/// A pod whose container ends, or lets the next one begin.
struct Case {
    name: &'static str,
    spec: Value,
    /// How long its containers work.
    works: Duration,
    wanted: fn(&Value) -> bool,
}

fn cases() -> [Case; 3] {
    let init = json!({"name": "init", "image": IMAGE, "command": ["/bin/true"]});
    // longer than lists are compared often after the start
    let works = Duration::from_secs(9);
    let command = json!(["sleep", works.as_secs().to_string()]);
    [
        Case {
            name: "ends",
            spec: json!({"restartPolicy": "Never", "containers": [{"command": ["/bin/true"]}]}),
            works: Duration::ZERO,
            wanted: has_succeeded,
        },
        Case {
            name: "begins",
            spec: json!({"initContainers": [init]}),
            works: Duration::ZERO,
            wanted: is_ready,
        },
        Case {
            name: "works",
            spec: json!({"restartPolicy": "Never", "containers": [{"command": command}]}),
            works,
            wanted: has_succeeded,
        },
    ]
}

#[test]
fn the_end_of_a_container_is_seen_at_once() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    for case in cases() {
        let (mut soon, mut all) = (0, Vec::new());
        for number in 0..TRIES {
            let name = format!("{}-{number}", case.name);
            let took = took(&rig, &name, &case.spec, case.wanted)?;
            soon += u32::from(took < case.works + SOON);
            all.push(took);
            if soon * 2 > TRIES {
                break;
            }
        }
        ensure!(soon * 2 > TRIES, "{}: {all:?}", case.name);
    }
    leaves_nothing(&rig)
}
