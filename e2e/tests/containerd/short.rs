//! Containers that end soon, on a node on which nothing else happens and whose runtime has no events of CRI: that they have ended is
//! seen at once, and what follows from it is done at once.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::{
    at,
    containerd::{IMAGE, RealRig},
};
use serde_json::{Value, json};

use crate::case::{apply, leaves_nothing, pod};

/// How often each is tried; the median counts.
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

// printed on purpose: the harness keeps it for tests that fail
#[allow(clippy::print_stderr)]
fn soon(
    what: &str,
    spec: &Value,
    works: Duration,
    wanted: fn(&Value) -> bool,
) -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let mut all = Vec::new();
    for number in 0..TRIES {
        all.push(took(&rig, &format!("{what}-{number}"), spec, wanted)?);
    }
    eprintln!("{what}: {all:?}");
    all.sort();
    let median = all.get(all.len() / 2).context("no tries")?;
    ensure!(*median < works + SOON, "{all:?}");
    leaves_nothing(&rig)
}

#[test]
fn a_container_that_ends_at_once_is_seen_at_once() -> anyhow::Result<()> {
    let spec = json!({"restartPolicy": "Never", "containers": [{"command": ["/bin/true"]}]});
    soon("ends", &spec, Duration::ZERO, has_succeeded)
}

#[test]
fn an_init_container_that_ends_at_once_holds_up_nothing() -> anyhow::Result<()> {
    let init = json!({"name": "init", "image": IMAGE, "command": ["/bin/true"]});
    soon(
        "begins",
        &json!({"initContainers": [init]}),
        Duration::ZERO,
        is_ready,
    )
}

/// By then the lists are compared as seldom as before the start.
#[test]
fn a_container_that_ends_later_is_seen_at_once_too() -> anyhow::Result<()> {
    let works = Duration::from_secs(15);
    let command = json!(["sleep", works.as_secs().to_string()]);
    let spec = json!({"restartPolicy": "Never", "containers": [{"command": command}]});
    soon("works", &spec, works, has_succeeded)
}
