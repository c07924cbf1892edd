//! Compares the desired pods with the API, the runtime and the disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, ensure};
use serde_json::Value;
use wire::cri::ContainerState;

use crate::{Rig, until};

/// A pod as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPod {
    /// Its UID.
    pub uid: String,
    /// The ids of its containers, without the runtime's name.
    pub containers: BTreeSet<String>,
}

/// The only pods that should run.
#[derive(Clone, Debug)]
pub struct DesiredPods<'a> {
    /// Their names.
    pub names: BTreeSet<String>,
    /// A file that all containers mount, and its expected content.
    pub file: (&'a str, &'a str),
}

impl DesiredPods<'_> {
    /// Waits until exactly these pods run: the API says so, the runtime has exactly their containers, none started twice, each sees the
    /// file as expected, and the disk has no volumes of others.
    pub fn wait(&self, rig: &Rig) -> anyhow::Result<BTreeMap<String, SeenPod>> {
        until("exactly the desired pods", || self.compare(rig))
    }

    fn compare(&self, rig: &Rig) -> anyhow::Result<BTreeMap<String, SeenPod>> {
        // The cheap checks come first, because this is called often.
        let running = rig.runtime.cri.containers()?;
        ensure!(
            running
                .values()
                .all(|state| *state == ContainerState::ContainerRunning),
            "a container does not run: {running:?}"
        );
        ensure!(
            running.len() == self.names.len(),
            "{} containers, not {}",
            running.len(),
            self.names.len()
        );
        let (ready, not_ready) = rig.runtime.cri.sandboxes()?;
        ensure!(
            not_ready.is_empty(),
            "dead sandboxes are left: {not_ready:?}"
        );
        let (path, content) = self.file;
        for container in running.keys() {
            let found = rig.runtime.cri.exec(&container.id, &["cat", path])?;
            ensure!(
                found == content,
                "{path} in {container:?} is {found:?}, not {content:?}"
            );
        }
        let pods = pods(rig.cloud.pods()?)?;
        let names: BTreeSet<_> = pods.keys().cloned().collect();
        ensure!(
            names == self.names,
            "the API has {names:?}, not {:?}",
            self.names
        );
        let told: BTreeSet<_> = pods.values().flat_map(|pod| &pod.containers).collect();
        let have: BTreeSet<_> = running.keys().map(|container| &container.id).collect();
        ensure!(
            told == have,
            "the API tells of containers {told:?}, the runtime has {have:?}"
        );
        let uids: BTreeSet<_> = pods.values().map(|pod| pod.uid.clone()).collect();
        ensure!(
            ready.iter().eq(&uids),
            "sandboxes of {ready:?}, pods {uids:?}"
        );
        let on_disk = directories(&rig.node.pods)?;
        ensure!(
            on_disk == uids,
            "the disk has pods {on_disk:?}, the API {uids:?}"
        );
        Ok(pods)
    }
}

/// Checks the pods of a list, all of which must be Running and ready, and never restarted.
fn pods(pods: BTreeMap<String, Value>) -> anyhow::Result<BTreeMap<String, SeenPod>> {
    pods.into_iter()
        .map(|(name, pod)| Ok((name, read_pod(&pod)?)))
        .collect()
}

fn read_pod(pod: &Value) -> anyhow::Result<SeenPod> {
    let name = &pod["metadata"]["name"];
    ensure!(
        pod["metadata"]["deletionTimestamp"].is_null(),
        "{name} is being deleted"
    );
    ensure!(
        pod["status"]["phase"] == "Running",
        "{name} is {}",
        pod["status"]
    );
    let mut containers = BTreeSet::new();
    for status in pod["status"]["containerStatuses"]
        .as_array()
        .context("no container statuses")?
    {
        ensure!(
            status["ready"] == true,
            "a container of {name} is not ready: {status}"
        );
        ensure!(
            status["restartCount"] == 0,
            "a container of {name} was restarted: {status}"
        );
        let id = text(&status["containerID"]);
        containers.insert(
            id.split_once("://")
                .context("a container id without runtime")?
                .1
                .to_owned(),
        );
    }
    Ok(SeenPod {
        uid: text(&pod["metadata"]["uid"]),
        containers,
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn directories(path: &std::path::Path) -> anyhow::Result<BTreeSet<String>> {
    let entries =
        fs::read_dir(path).with_context(|| format!("{} cannot be read", path.display()))?;
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}
