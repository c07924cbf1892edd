//! The builder of a cloud for a test.

use std::time::Duration;

use cloudsim::{Cloud, Options, controllers::manager::Switches};
use objectstore::MemoryStore;

use super::{Error, TestCloud};
use crate::{
    dump::Dump,
    fleet::{self, Fleet},
    origin::Origin,
    snapshot::{Snapshot, Source},
};

/// How long one wait may take by default: many times what anything takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A change of options.
type Change<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Builds a cloud for a test; see [`TestCloud::builder`].
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    nodes: usize,
    origin: Origin,
    options: Options,
    node_grace: Option<Duration>,
    timeout: Duration,
    change: Option<Change<Options>>,
    change_nodes: Option<Change<fleet::Options>>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("nodes", &self.nodes)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            nodes: 1,
            origin: Origin::default(),
            options: Options::default().any_ports(),
            node_grace: None,
            timeout: TIMEOUT,
            change: None,
            change_nodes: None,
        }
    }

    /// Sets the number of nodes; with 0, the cloud has only the nodes that join it.
    pub fn nodes(self, nodes: usize) -> Self {
        Self { nodes, ..self }
    }

    /// Starts with the Nodes and objects of a dump, beside the nodes of [`Self::nodes`].
    pub fn dump(self, dump: Dump) -> Self {
        let origin = Origin::Dump(dump);
        Self { origin, ..self }
    }

    /// Starts with the objects and nodes of another cloud, exactly as they were, beside the nodes of [`Self::nodes`].
    pub fn snapshot(self, snapshot: Snapshot) -> Self {
        let origin = Origin::Snapshot(snapshot);
        Self { origin, ..self }
    }

    /// Sets how long a node may be silent before it is `NotReady`; the default is 40 seconds. Nodes renew their leases four times as
    /// often. Less than a second counts as one second.
    pub fn node_grace(self, grace: Duration) -> Self {
        Self {
            node_grace: Some(grace.max(Duration::from_secs(1))),
            ..self
        }
    }

    /// Sets whether stored roles and bindings decide what service accounts and other callers may do, which is the default; with
    /// `false`, only `system:masters` has access.
    pub fn rbac(mut self, rbac: bool) -> Self {
        self.options.rbac = rbac;
        self
    }

    /// Sets which controllers of a cluster run, like `--controllers` of `cloudsim up`; the default is all.
    pub fn controllers(mut self, controllers: Switches) -> Self {
        self.options.controllers = controllers;
        self
    }

    /// Sets the seed of random decisions on faulty links: with the same seed a test has the same faults each time.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Sets how long one wait of [`TestCloud::wait`] and similar methods may take; the default is a minute.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Changes any other option of the cloud.
    pub fn cloud(self, change: impl FnOnce(&mut Options) + Send + 'static) -> Self {
        Self {
            change: Some(Box::new(change)),
            ..self
        }
    }

    /// Changes any other option of the nodes.
    pub fn fleet(self, change: impl FnOnce(&mut fleet::Options) + Send + 'static) -> Self {
        Self {
            change_nodes: Some(Box::new(change)),
            ..self
        }
    }

    /// Starts the cloud and its nodes, and waits until all of them are Ready.
    ///
    /// # Errors
    /// [`Error::Directory`], [`Error::Start`] and [`Error::Node`]: it does not start. [`Error::Timeout`]: a node does not become Ready.
    pub async fn start(self) -> Result<TestCloud, Error> {
        // The future is large: it contains the start of a cloud and of agents.
        Box::pin(self.start_all()).await
    }

    async fn start_all(self) -> Result<TestCloud, Error> {
        // There is only one crypto provider; a second call changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().map_err(Error::Directory)?;
        let Self {
            nodes,
            origin,
            mut options,
            node_grace,
            timeout,
            change,
            change_nodes,
        } = self;
        let mut fleet = fleet::Options::new(nodes, directory.path());
        // Tests are not about the rate limit.
        fleet.qps = 0;
        fleet.in_memory = true;
        fleet.machines = origin.machines().to_vec();
        if let Some(grace) = node_grace {
            options.lease_grace = grace;
            // The lease has whole seconds and is renewed four times as often.
            fleet.lease = Duration::from_secs(grace.as_secs());
        }
        if let Some(change) = change {
            change(&mut options);
        }
        if let Some(change) = change_nodes {
            change(&mut fleet);
        }
        origin.set_virtual_time();
        let memory = options.data_dir.is_none() && options.store.is_none();
        let store = memory.then(|| origin.store().unwrap_or_else(MemoryStore::new));
        if let Some(store) = &store {
            options.store = Some(store.clone());
        }
        let cloud = Cloud::start(options).await?;
        let fleet = fleet.beside(&cloud);
        let fleet = Fleet::start(cloud.addresses(), cloud.token(), &fleet).await?;
        let snapshots = store.map(Source::new);
        if let Some(snapshots) = &snapshots {
            snapshots.set_nodes(Some(&fleet));
        }
        let started = TestCloud {
            fleet,
            snapshots,
            cloud,
            timeout,
            _directory: directory,
        };
        for node in started.nodes() {
            started.wait_ready(&node.name, true).await?;
        }
        if let Some(dump) = origin.dump() {
            dump.load(&started.client()).await?;
        }
        Ok(started)
    }
}
