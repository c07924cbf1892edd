//! Tables of pods, and what is seen inside of them.

use std::{fmt::Write as _, fs, time::Duration};

use anyhow::ensure;
use e2e::{
    Cloud,
    containerd::{IMAGE, RealRig, Traces},
    until_within,
};
use serde_json::{Value, json};
use testkit::PROCESS_TIMEOUT;

/// A pod, and what a shell in its first container prints.
pub(crate) struct Case<'a> {
    pub(crate) name: &'a str,
    /// Merged over the smallest pod.
    pub(crate) spec: Value,
    /// Shell words, and what they print.
    pub(crate) inside: Vec<(&'a str, &'a str)>,
}

/// The smallest pod, with `spec` merged into its own.
pub(crate) fn pod(name: &str, spec: &Value) -> Value {
    let mut whole = json!({
        "terminationGracePeriodSeconds": 2,
        "nodeName": "edge-1",
        "containers": [{"name": "main", "image": IMAGE}],
    });
    merge(&mut whole, spec);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": {"note": "of e2e"}},
        "spec": whole,
    })
}

/// Objects are merged, arrays of objects item by item, everything else is replaced.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) if from.iter().all(Value::is_object) => {
            for (index, value) in from.iter().enumerate() {
                match into.get_mut(index) {
                    Some(item) => merge(item, value),
                    None => into.push(value.clone()),
                }
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// Applies all of them with one kubectl: as one document, since how it reads several in JSON depends on how they arrive.
pub(crate) fn apply(cloud: &impl AsRef<Cloud>, items: &[Value]) -> anyhow::Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cloud.as_ref().kubectl.apply(&list.to_string()).map(drop)
}

/// Applies all pods at once, and looks into each; all that is wrong is told together.
pub(crate) fn check(rig: &RealRig, cases: &[Case<'_>]) -> anyhow::Result<()> {
    let items: Vec<_> = cases
        .iter()
        .map(|case| pod(case.name, &case.spec))
        .collect();
    apply(rig, &items)?;
    let mut wrong = String::new();
    for case in cases {
        if let Err(error) = rig.wait_ready(case.name) {
            let _ = writeln!(wrong, "{}: {error:#}", case.name);
            continue;
        }
        for (words, expected) in &case.inside {
            match rig.inside(case.name, words) {
                Ok(found) if found.trim_end() == *expected => {}
                Ok(found) => {
                    let _ = writeln!(
                        wrong,
                        "{}: {words}: {:?}, not {expected:?}",
                        case.name,
                        found.trim_end()
                    );
                }
                Err(error) => {
                    let _ = writeln!(wrong, "{}: {words}: {error:#}", case.name);
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}

/// Nothing of any pod is left on the machine when all are deleted.
pub(crate) fn leaves_nothing(rig: &RealRig) -> anyhow::Result<()> {
    leaves_nothing_of(rig, PROCESS_TIMEOUT, |traces| traces)
}

/// Nothing of what `part` picks is left when all pods are deleted, and nothing that the agent makes.
pub(crate) fn leaves_nothing_of(
    rig: &RealRig,
    patience: Duration,
    part: fn(Traces) -> Traces,
) -> anyhow::Result<()> {
    rig.cloud
        .kubectl
        .run(&["delete", "pods", "--all", "--wait=false"])?;
    until_within(patience, "a machine without a trace of pods", || {
        let sandboxes = rig.containerd.raw_cri.sandboxes(None)?;
        ensure!(sandboxes.is_empty(), "sandboxes: {sandboxes:?}");
        let containers = rig.containerd.raw_cri.list(None)?;
        ensure!(containers.is_empty(), "containers: {containers:?}");
        let traces = part(rig.containerd.traces()?);
        ensure!(traces.is_empty(), "{traces:#?}");
        let left: Vec<_> = fs::read_dir(&rig.node.pods)?
            .chain(fs::read_dir(rig.logs())?)
            .collect();
        ensure!(left.is_empty(), "files of pods are left: {left:?}");
        Ok(())
    })
}
