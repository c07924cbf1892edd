//! A cloud, a node and a containerd.

use std::{
    fs,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use anyhow::Context;
use nix::mount::{MsFlags, mount};
use serde_json::Value;
use tempfile::TempDir;

use super::Containerd;
use crate::{Cloud, Node, until};

/// A cloud, a node and a containerd, each a process.
#[derive(Debug)]
pub struct RealRig {
    /// The node; first, so that it is dropped before what it needs.
    pub node: Node,
    /// The runtime.
    pub containerd: Containerd,
    /// The cloud.
    pub cloud: Cloud,
    /// The directory of everything.
    pub directory: TempDir,
}

impl RealRig {
    /// Starts all three and waits until the node is Ready.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts all three with more arguments for the cloud.
    pub fn start_with(cloud: &[&str]) -> anyhow::Result<Self> {
        Self::start_in(tempfile::tempdir()?, cloud)
    }

    /// Starts all three with a small disk, in memory, for all that the agent keeps. `options` are those of tmpfs(5).
    pub fn start_on_small_disk(options: &str) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        small_disk(&directory.path().join("node"), options)?;
        Self::start_in(directory, &[])
    }

    /// Starts all three with one small disk for all that agent and runtime keep.
    pub fn start_on_one_small_disk(options: &str) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let (node, containerd) = (
            directory.path().join("node"),
            directory.path().join("containerd"),
        );
        small_disk(&node, options)?;
        let part = node.join("containerd");
        for place in [&part, &containerd] {
            fs::create_dir(place)?;
        }
        mount(
            Some(&part),
            &containerd,
            None::<&str>,
            MsFlags::MS_BIND,
            None::<&str>,
        )?;
        Self::start_in(directory, &[])
    }

    /// Restarts the agent with other kubelet settings.
    pub fn restart_with(&mut self, settings: &[(&str, &str)]) -> anyhow::Result<()> {
        self.node.set_kubelet(settings)?;
        self.node.process.start_again()?;
        self.node.process.wait_for("edge-agent started")
    }

    /// Restarts the agent with more lines in its configuration, each given with the line that it follows.
    pub fn restart_with_lines(&mut self, lines: &[(&str, &str)]) -> anyhow::Result<()> {
        lines
            .iter()
            .try_for_each(|(after, new)| self.node.add_after(after, new))?;
        self.node.process.start_again()?;
        self.node.process.wait_for("edge-agent started")
    }

    fn start_in(directory: TempDir, cloud: &[&str]) -> anyhow::Result<Self> {
        let path = directory.path();
        // each spends most of its start waiting
        let (cloud, containerd) = thread::scope(|scope| {
            let containerd = scope.spawn(|| Containerd::start(path));
            let cloud = Cloud::start_with(path, cloud);
            let containerd = containerd
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic));
            (cloud, containerd)
        });
        let (cloud, containerd) = (cloud?, containerd?);
        let node = Node::start(directory.path(), &cloud, &cloud.token()?)?;
        cloud.wait_node("Ready")?;
        Ok(Self {
            node,
            containerd,
            cloud,
            directory,
        })
    }

    /// Returns the directory of container logs.
    pub fn logs(&self) -> PathBuf {
        self.directory.path().join("node/logs")
    }

    /// Returns a pod, or `None`.
    pub fn pod(&self, name: &str) -> anyhow::Result<Option<Value>> {
        self.cloud.pod(name)
    }

    /// Waits until the pod is as `wanted` checks, whose error is shown when it never is.
    pub fn wait_pod(
        &self,
        name: &str,
        wanted: impl Fn(&Value) -> Result<(), String>,
    ) -> anyhow::Result<Value> {
        self.cloud.wait_pod(name, wanted)
    }

    /// Waits until all containers of the pod run and are ready, and their shells have executed `trap`. Before that, a signal finds
    /// runc's own init process, which it ends, or a shell without a handler, which as process 1 ignores it.
    pub fn wait_ready(&self, name: &str) -> anyhow::Result<Value> {
        let pod = self.cloud.wait_ready(name)?;
        let spec = &pod["spec"];
        if spec["hostPID"] == true || spec["shareProcessNamespace"] == true {
            return Ok(pod);
        }
        for container in spec["containers"].as_array().into_iter().flatten() {
            if container["command"].to_string().contains("trap ") {
                let container = container["name"].as_str().unwrap_or_default();
                until(&format!("trap in {name}"), || {
                    // one that has ended has a successor
                    let pod = self.pod(name)?.context("the pod is not there")?;
                    self.containerd
                        .cri
                        .handles_termination(&Self::container_id(&pod, container)?)
                })?;
            }
        }
        Ok(pod)
    }

    /// Waits until the pod has this phase.
    pub fn wait_phase(&self, name: &str, phase: &str) -> anyhow::Result<Value> {
        self.cloud.wait_phase(name, phase)
    }

    /// Returns the id of the pod's container of this name, as its status shows it.
    pub fn container_id(pod: &Value, name: &str) -> anyhow::Result<String> {
        let statuses = pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten();
        let inits = pod["status"]["initContainerStatuses"]
            .as_array()
            .into_iter()
            .flatten();
        let status = statuses.chain(inits).find(|status| status["name"] == name);
        let id = status
            .and_then(|status| status["containerID"].as_str())
            .context("no container id")?;
        Ok(id
            .split_once("://")
            .map_or(id, |(_runtime, id)| id)
            .to_owned())
    }

    /// Returns what a shell command prints in the pod's first container.
    pub fn inside(&self, pod: &str, words: &str) -> anyhow::Result<String> {
        let seen = self.pod(pod)?.context("the pod is not there")?;
        let name = seen["spec"]["containers"][0]["name"]
            .as_str()
            .unwrap_or_default();
        let id = Self::container_id(&seen, name)?;
        self.containerd.cri.exec(&id, &["sh", "-c", words])
    }
}

impl AsRef<Cloud> for RealRig {
    fn as_ref(&self) -> &Cloud {
        &self.cloud
    }
}

/// Mounts a disk in memory. It is unmounted with all other mounts of the test when the runtime is dropped.
fn small_disk(place: &Path, options: &str) -> anyhow::Result<()> {
    fs::create_dir(place)?;
    mount(
        Some("tmpfs"),
        place,
        Some("tmpfs"),
        MsFlags::empty(),
        Some(options),
    )
    .context("a small disk needs root")
}
