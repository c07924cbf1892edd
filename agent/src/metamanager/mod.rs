//! MetaManager: stores what the cloud wants of this node, and reports this node's state until the cloud confirms it.
//!
//! In: the cloud's messages, from EdgeHub. Out: an ordinary `kube::Client` over the store ([`MetaManager::client`]), through
//! which EdgeD reads its pods and writes their status. Only this module writes what the cloud sends, and acknowledges it once
//! it is on disk. Requests for objects that are not stored go to the cloud; statuses are reported until the cloud confirms
//! them.
//!
//! Source: KubeEdge's MetaManager.

mod damaged;
mod desired;
mod devices;
mod export;
pub(crate) mod mirror;
mod node_confirmed;
mod pods_complete;
mod record;
mod remote;
mod report;
mod response;
mod server;
mod takeover;
mod task;
mod unhandled;
mod watched;

use std::{sync::Arc, time::Duration};

use componentbase::Queue;
use componentbase::{PodsComplete, Reconnections};
use kube::Client;
use kubeapi::{Api, client_of};
use objectstore::{Resource, Store};
use tokio::sync::mpsc;

pub(crate) use self::{
    damaged::{remove_damaged_copies, remove_unrecoverable},
    export::{DeviceRows, ExportSummary, export},
    server::{Done, Operation, Operations, Refusal, ensure_address, remove_addresses},
    takeover::{has_edgecore_run_since, note_exported},
};
use self::{
    desired::Desired,
    devices::{ModuleForwarder, ModuleReceivers},
    pods_complete::CompletenessTracker,
    remote::Remote,
    report::Reporter,
    unhandled::Unhandled,
};
pub use self::{
    devices::{CloudMessages, DeviceObject, DeviceObjects, RouterMessages},
    node_confirmed::NodeConfirmed,
    server::{
        AccountAuthentication, Authentication, BoundAddress, CredentialsError, InCluster,
        InClusterCa, InClusterCaError, KeyError, Loopback, MetaServer, MetaServerConfig,
        MetaServerError, TlsError, TokenRules, loopback_files,
    },
    takeover::take_over,
    task::Task,
};
use crate::{
    edgehub::{EdgeHub, Inbound},
    outbox,
};

/// What MetaManager needs.
#[derive(Debug)]
pub struct Config {
    /// This node's name.
    pub node_name: String,
    /// The store of all objects.
    pub store: Arc<dyn Store>,
    /// The connection to the cloud.
    pub hub: EdgeHub,
    /// The messages from the cloud.
    pub inbound: Inbound,
    /// How long the cloud may take to answer, and how often statuses are reported.
    pub timing: Timing,
    /// The Kubernetes API for programs of this node; `None` where it is not served.
    pub server: Option<MetaServerConfig>,
}

/// How long the cloud may take to answer, and how often statuses are reported.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The longest wait for the cloud's answer to a request of this node.
    pub query_timeout: Duration,
    /// The time between two reports of a pod's status that has not changed; `None` reports only changes.
    pub pod_status_interval: Option<Duration>,
}

impl Default for Timing {
    /// EdgeCore's defaults.
    fn default() -> Self {
        Self {
            query_timeout: Duration::from_secs(60),
            pod_status_interval: None,
        }
    }
}

/// The handle of MetaManager.
#[derive(Clone)]
pub struct MetaManager {
    client: Client,
    pods_complete: PodsComplete,
    devices: DeviceObjects,
    reconnections: Reconnections,
    node_confirmed: NodeConfirmed,
    queues: Arc<dyn Fn() -> Vec<Queue> + Send + Sync>,
}

impl MetaManager {
    /// Returns a client over the objects of this node. Reads of ConfigMaps and Secrets, leases and tokens are passed to the
    /// cloud where needed, and answer 503 while it is not connected.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Tells whether the stored pods are all pods that the cloud has for this node.
    pub fn pods_complete(&self) -> PodsComplete {
        self.pods_complete.clone()
    }

    /// Returns the objects of devices and their models.
    pub fn devices(&self) -> DeviceObjects {
        self.devices.clone()
    }

    /// Reports how full the queues are.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        (self.queues)()
    }

    /// Returns a notification for each time that the cloud is connected again.
    pub fn reconnections(&self) -> Reconnections {
        self.reconnections.clone()
    }

    /// Returns a notification for when the cloud has this node.
    pub fn node_confirmed(&self) -> NodeConfirmed {
        self.node_confirmed.clone()
    }
}

/// The parts of MetaManager that are run, or handed to other modules.
#[derive(Debug)]
pub struct Endpoints {
    /// Reads the cloud's messages and reports.
    pub task: Task,
    /// Serves the Kubernetes API, where enabled.
    pub server: Option<MetaServer>,
    /// The cloud's messages about devices other than objects.
    pub device_messages: CloudMessages,
    /// The cloud's messages about MQTT topics.
    pub topic_messages: RouterMessages,
    /// The cloud's messages for HTTP services.
    pub service_messages: RouterMessages,
    /// The cloud's messages of node jobs.
    pub job_messages: RouterMessages,
}

/// Builds MetaManager.
pub fn new(config: Config) -> (MetaManager, Endpoints) {
    let Config {
        node_name,
        store,
        hub,
        inbound,
        timing,
        server,
    } = config;
    let api = Api::builder(Arc::clone(&store)).build();
    let desired = Desired::new(store, node_name.clone());
    let (completeness, pods_complete) = CompletenessTracker::new(desired.clone(), hub.link());
    let (events, items) = mpsc::channel(remote::events::MAX_QUEUED_EVENTS);
    let outbox = outbox::Config {
        what: "events",
        limits: remote::events::EVENT_OUTBOX_LIMITS,
        store: desired.store(),
        hub: hub.clone(),
        deliver: outbox::Delivery::written(hub.clone()),
        // a later event replaces a waiting one
        max_concurrent: 1,
        dropped: Arc::default(),
    };
    let outbox = outbox::new(outbox, items);
    let length = outbox.length();
    let remote_config = remote::Config {
        events,
        timeout: timing.query_timeout,
    };
    let remote = Remote::new(
        api.service(),
        desired.clone(),
        hub.clone(),
        pods_complete.clone(),
        remote_config,
    );
    let client = client_of(remote.clone(), "default");
    let service = server.as_ref().and_then(MetaServerConfig::service);
    let (server, watched) = server
        .map(|config| server::new(config, &node_name, desired.clone(), hub.clone()))
        .unzip();
    let reconnections = Reconnections::new(hub.link());
    let reporter = Reporter::new(
        desired.clone(),
        hub.clone(),
        node_name,
        timing.pod_status_interval,
    );
    let node_confirmed = reporter.node_confirmed();
    let devices = DeviceObjects::new(desired.clone());
    let (forwarder, readers) = ModuleForwarder::new();
    let ModuleReceivers {
        devices: device_messages,
        topics: topic_messages,
        services: service_messages,
        jobs: job_messages,
    } = readers;
    let queues = forwarder.queues();
    let queues = Arc::new(move || {
        queues()
            .into_iter()
            .chain([length.queue()])
            .collect::<Vec<_>>()
    });
    let task = Task {
        inbound,
        hub,
        desired,
        reporter,
        completeness,
        outbox,
        remote,
        watched,
        forwarder,
        unhandled: Unhandled::default(),
        service,
    };
    (
        MetaManager {
            client,
            pods_complete,
            devices,
            reconnections,
            node_confirmed,
            queues,
        },
        Endpoints {
            task,
            server,
            device_messages,
            topic_messages,
            service_messages,
            job_messages,
        },
    )
}

/// Returns the collections with confidential objects: Secrets, and tokens of service accounts.
pub(crate) fn confidential() -> Vec<Resource> {
    vec![Resource::new("", "secrets"), remote::token_resource()]
}
