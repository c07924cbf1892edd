//! A cloud with nodes in the process of a test: no cluster, no root, no container runtime, no fixed port.
//!
//! ```
//! use hollow::testing::{
//!     TestCloud, k8s_openapi::api::core::v1::Pod, kube::Api, kube::runtime::wait::conditions::is_pod_running,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cloud = TestCloud::start().await?;
//! cloud.apply("{apiVersion: v1, kind: Pod, metadata: {name: hello}, spec: {containers: [{name: main, image: nginx}]}}").await?;
//! let pods = Api::<Pod>::default_namespaced(cloud.client());
//! let pod = cloud.wait(pods, "hello", is_pod_running()).await?;
//! assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("edge-1"));
//! cloud.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/testing.md` has examples with faults, devices and time.

mod builder;
mod error;
mod manifests;
pub(crate) mod recording;

use std::{fmt::Debug, path::Path};

pub use clock;
use cloudsim::{Cloud, faults::Faults};
pub use crds;
pub use k8s_openapi;
use k8s_openapi::api::core::v1::Node;
pub use kube;
use kube::{
    Api, Client, Resource,
    api::DynamicObject,
    runtime::wait::{Condition, await_condition},
};
pub use mapper;
use mapper::{Config, Mapper, Protocol};
pub use replay;
use serde::{Serialize, de::DeserializeOwned};
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::{builder::Builder, error::Error, recording::ReplayError};
use crate::{
    fleet::{Fleet, HollowNode},
    snapshot::{Snapshot, Source},
};

/// A cloud and its nodes, called `edge-1`, `edge-2`, …, which run pods on the simulated runtime. All of it ends when this is
/// dropped; [`Self::stop`] waits for the end.
pub struct TestCloud {
    // Nodes must end before the cloud to which they are connected, and their folders are removed last.
    fleet: Fleet,
    cloud: Cloud,
    timeout: std::time::Duration,
    snapshots: Option<Source>,
    _directory: TempDir,
}

impl Debug for TestCloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestCloud")
            .field("cloud", &self.cloud)
            .finish_non_exhaustive()
    }
}

impl TestCloud {
    /// Returns a builder: one node, all controllers, state in memory, free ports.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Starts a cloud with the builder's defaults; its node is Ready.
    ///
    /// # Errors
    /// The same as for [`Builder::start`].
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Runs `story` in virtual time on this thread: clouds and nodes that it starts, and everything that it waits for. Time passes only
    /// while all of them wait; then it jumps to the next event. The same seed gives the same run, with the same [trace](clock::Trace).
    ///
    /// Tokio must be built with `--cfg tokio_unstable` for that: otherwise the order of events at the same instant can differ. Nodes do not
    /// read manifests of static pods, and have no socket for mappers; report values of devices with [`HollowNode::devices`].
    ///
    /// # Errors
    /// [`Error::Simulation`]: this thread is in virtual time already, or a runtime cannot be created.
    pub fn virtual_time<T>(
        seed: u64,
        story: impl AsyncFnOnce(Builder) -> T,
    ) -> Result<clock::Simulated<T>, Error> {
        let builder = Self::builder().seed(seed);
        clock::simulate(seed, Box::pin(story(builder))).map_err(Error::Simulation)
    }

    /// Returns a client of the API with all rights, which uses no socket.
    pub fn client(&self) -> Client {
        self.cloud.client()
    }

    /// Returns a kubeconfig for programs such as kubectl that reach the API over TLS.
    pub fn kubeconfig(&self) -> &str {
        self.cloud.kubeconfig()
    }

    /// Returns the cloud: addresses, join token, sessions of nodes.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Takes a snapshot of the cloud and its nodes, from which [`Builder::snapshot`] starts another cloud in the same state: with the same
    /// UIDs, resource versions, keys and containers. Both are in memory.
    ///
    /// # Errors
    /// [`Error::NotInMemory`]: the cloud has a data directory or a store of its own.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let taken = self
            .snapshots
            .as_ref()
            .and_then(|source| source.take().ok());
        taken.ok_or(Error::NotInMemory)
    }

    /// Returns the deliberate faults: links, certificates, messages.
    pub fn faults(&self) -> &Faults {
        self.cloud.faults()
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[HollowNode] {
        self.fleet.nodes()
    }

    /// Returns the node of this name, which can be stopped, killed and started again.
    ///
    /// # Errors
    /// [`Error::NoNode`]: there is none.
    pub fn node(&mut self, name: &str) -> Result<&mut HollowNode, Error> {
        let node = self
            .fleet
            .nodes_mut()
            .iter_mut()
            .find(|node| node.name == name);
        node.ok_or_else(|| Error::NoNode {
            name: name.to_owned(),
        })
    }

    /// Applies manifests, documents of YAML or JSON, as `kubectl apply --server-side` does; in namespace `default` if they name none.
    /// Returns the objects as the API has them.
    ///
    /// # Errors
    /// [`Error::Manifest`]: the text is not a valid manifest, or the API does not serve its kind. [`Error::Refused`]: the API refuses it;
    /// the documents before it are applied.
    pub async fn apply(&self, manifests: &str) -> Result<Vec<DynamicObject>, Error> {
        manifests::apply(&self.client(), manifests).await
    }

    /// Waits until the object of this name fulfils a condition, and returns the object. A condition may be a closure,
    /// `|object: Option<&Pod>| …`, or one of kube's ([`kube::runtime::wait::conditions`]).
    ///
    /// # Errors
    /// [`Error::Timeout`] with the last state of the object: it did not become as wanted in the [time](Builder::timeout) for one wait.
    /// [`Error::Gone`]: the condition came true when the object was deleted; use [`Self::wait_gone`] to wait for that.
    /// [`Error::Watch`]: the API does not allow watching it.
    pub async fn wait<K>(
        &self,
        api: Api<K>,
        name: &str,
        wanted: impl Condition<K>,
    ) -> Result<K, Error>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
    {
        let found = self.await_condition(api, name, wanted).await?;
        found.ok_or_else(|| Error::Gone {
            name: name.to_owned(),
        })
    }

    /// Waits until there is no object of this name.
    ///
    /// # Errors
    /// [`Error::Timeout`] and [`Error::Watch`], as for [`Self::wait`].
    pub async fn wait_gone<K>(&self, api: Api<K>, name: &str) -> Result<(), Error>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
    {
        self.await_condition(api, name, |object: Option<&K>| object.is_none())
            .await
            .map(drop)
    }

    async fn await_condition<K>(
        &self,
        api: Api<K>,
        name: &str,
        wanted: impl Condition<K>,
    ) -> Result<Option<K>, Error>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
    {
        match timeout(self.timeout, await_condition(api.clone(), name, wanted)).await {
            Ok(found) => found.map_err(|error| Error::Watch(Box::new(error))),
            Err(_) => {
                let last = api.get_opt(name).await.ok().flatten();
                let last = last.and_then(|object| serde_json::to_string(&object).ok());
                let last = last.unwrap_or_else(|| "it is not there".to_owned());
                Err(Error::Timeout {
                    name: name.to_owned(),
                    within: self.timeout,
                    last,
                })
            }
        }
    }

    /// Waits until the node's condition `Ready` is true or, with `ready` false, is not.
    ///
    /// # Errors
    /// The same as for [`Self::wait`].
    pub async fn wait_ready(&self, node: &str, ready: bool) -> Result<Node, Error> {
        let is_as_wanted = move |node: Option<&Node>| {
            node.is_some_and(|node| cloudsim::controllers::scheduler::is_ready(node) == ready)
        };
        self.wait(Api::all(self.client()), node, is_as_wanted).await
    }

    /// Runs a mapper on a node: it registers with the agent, and gets the devices of this protocol on the node. It ends when the
    /// returned value is dropped.
    ///
    /// # Errors
    /// [`Error::NoNode`]: there is no such node. [`Error::NoSocket`]: mappers cannot reach it, as in virtual time. [`Error::Mapper`]: its
    /// socket cannot be created.
    pub fn run_mapper(
        &self,
        node: &str,
        protocol_name: &str,
        protocol: impl Protocol,
    ) -> Result<RunningMapper, Error> {
        let name = || node.to_owned();
        let found = self.nodes().iter().find(|one| one.name == node);
        let node = found.ok_or_else(|| Error::NoNode { name: name() })?;
        if !node.is_reachable() {
            return Err(Error::NoSocket { node: name() });
        }
        let directory = node.directory();
        let config = Config {
            socket: directory.join(format!("{protocol_name}.sock")),
            agent: directory.join("dmi.sock"),
            ..Config::new(protocol_name, protocol_name)
        };
        let shutdown = CancellationToken::new();
        let mapper = Mapper::bind(config, protocol)?;
        let task = tokio::spawn(mapper.run(shutdown.clone()));
        Ok(RunningMapper {
            _ends: shutdown.drop_guard(),
            task,
        })
    }

    /// Plays the edge of a recording against this cloud, as fast as the cloud answers. The node has the name of the recording, so it must
    /// be none of this cloud's nodes. Returns what the cloud sent differently, and what could not be sent. [`replay::Script`] has the
    /// messages.
    ///
    /// # Errors
    /// [`Error::Replay`]: the recording cannot be used, or the cloud does not accept its node.
    pub async fn replay(&self, recording: &Path) -> Result<replay::Outcome, Error> {
        Ok(recording::replay(&self.cloud, recording).await?)
    }

    /// Stops the nodes and the cloud.
    ///
    /// # Errors
    /// [`Error::Panicked`]: a part of the cloud has panicked, now or before.
    pub async fn stop(self) -> Result<(), Error> {
        let Self { fleet, cloud, .. } = self;
        fleet.stop().await;
        Ok(cloud.stop().await?)
    }
}

/// A mapper that runs until this is dropped.
#[derive(Debug)]
pub struct RunningMapper {
    _ends: DropGuard,
    task: JoinHandle<Result<(), mapper::RunError>>,
}

impl RunningMapper {
    /// Waits until the mapper fails, and returns why.
    pub async fn wait_failed(&mut self) -> Option<mapper::RunError> {
        (&mut self.task).await.ok()?.err()
    }
}

/// Runs the examples of `docs/testing.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
struct Guide;

/// Compiles the examples of `docs/replay.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/replay.md")]
struct ReplayGuide;

#[cfg(test)]
mod tests;
