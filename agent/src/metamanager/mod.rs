//! MetaManager: what the cloud wants of this node, on disk, and what this node has to say, until the cloud has it.
//!
//! In: the cloud's messages, from EdgeHub. Out: an ordinary `kube::Client` over what is stored ([`MetaManager::client`]), through
//! which EdgeD reads what it should do and writes what it does. Only this room writes what the cloud said, and acknowledges it
//! after it is on disk. Requests for what is not stored go to the cloud; statuses are reported until the cloud confirms them.
//!
//! Source: KubeEdge's MetaManager.

mod answer;
mod desired;
mod devices;
mod export;
mod lost;
pub(crate) mod mirror;
mod online;
mod pods_complete;
mod record;
mod remote;
mod report;
mod server;
mod takeover;
mod task;
mod unhandled;
mod watched;

use std::{sync::Arc, time::Duration};

use kube::Client;
use kubeapi::{
    Api, Rules, client_of,
    store::{Resource, Store},
};
use tokio::sync::mpsc;

use self::{
    desired::Desired,
    devices::{Others, Readers},
    pods_complete::Judge,
    remote::Remote,
    report::Reporter,
    unhandled::Unhandled,
};
pub use self::{
    devices::{CloudMessages, DeviceObject, DeviceObjects, RouterMessages},
    online::Online,
    pods_complete::PodsComplete,
    server::{
        Authentication, CredentialsError, Guard, InCluster, InClusterCa, InClusterCaError, KeyError,
        Listening, Loopback, MetaServer, MetaServerConfig, MetaServerError, TlsError, TokenRules,
        loopback_files,
    },
    takeover::take_over,
    task::Task,
};
pub(crate) use self::{
    export::{DeviceRows, Exported, export},
    lost::{forget_copies, forget_lost},
    server::{ensure_address, remove_addresses},
    takeover::{has_edgecore_run_since, note_exported},
};
use crate::{
    edgehub::{EdgeHub, Inbound},
    outbox,
    rt::Queue,
};

/// What the room needs.
#[derive(Debug)]
pub struct Config {
    /// This node's name.
    pub node_name: String,
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// The way to the cloud.
    pub hub: EdgeHub,
    /// The cloud's messages.
    pub inbound: Inbound,
    /// How long the cloud may take, and how often it is told.
    pub timing: Timing,
    /// The Kubernetes API for what runs on this node; `None` where there is none.
    pub server: Option<MetaServerConfig>,
}

/// How long the cloud may take, and how often it is told.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The longest wait for the answer to what this node asks of the cloud.
    pub query_timeout: Duration,
    /// Time between two reports of a pod's status that has not changed; `None`: only what has changed is reported.
    pub pod_status_interval: Option<Duration>,
}

impl Default for Timing {
    /// EdgeCore's defaults.
    fn default() -> Self {
        Self { query_timeout: Duration::from_secs(60), pod_status_interval: None }
    }
}

/// The handle.
#[derive(Clone)]
pub struct MetaManager {
    client: Client,
    pods_complete: PodsComplete,
    devices: DeviceObjects,
    online: Online,
    queues: Arc<dyn Fn() -> Vec<Queue> + Send + Sync>,
}

impl MetaManager {
    /// A client over the objects of this node. Reads of ConfigMaps and Secrets, leases and tokens reach through to the cloud
    /// where that is needed, and answer 503 while it is not connected.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Whether the stored pods are all that the cloud has for this node.
    pub fn pods_complete(&self) -> PodsComplete {
        self.pods_complete.clone()
    }

    /// The objects of devices and their models.
    pub fn devices(&self) -> DeviceObjects {
        self.devices.clone()
    }

    /// How full its queues are.
    pub(crate) fn queues(&self) -> Vec<Queue> {
        (self.queues)()
    }

    /// Word that the cloud is connected again.
    pub fn online(&self) -> Online {
        self.online.clone()
    }
}

/// What the room is made of, to be run or handed on.
#[derive(Debug)]
pub struct Endpoints {
    /// Reads the cloud's messages and reports.
    pub task: Task,
    /// Serves the Kubernetes API, where that is wanted.
    pub server: Option<MetaServer>,
    /// What the cloud says of devices beside their objects.
    pub device_messages: CloudMessages,
    /// What the cloud says of topics of MQTT.
    pub topic_messages: RouterMessages,
    /// What the cloud says of HTTP services.
    pub service_messages: RouterMessages,
}

/// Builds the room.
pub fn new(config: Config) -> (MetaManager, Endpoints) {
    let Config { node_name, store, hub, inbound, timing, server } = config;
    let api = Api::builder(Arc::clone(&store)).rules(Rules::Relay).build();
    let desired = Desired::new(store, node_name.clone());
    let (judge, pods_complete) = Judge::new(desired.clone(), hub.link());
    let (events, items) = mpsc::channel(remote::events::MAX_QUEUED_EVENTS);
    let outbox = outbox::Config {
        what: "events",
        limits: remote::events::EVENT_OUTBOX_LIMITS,
        store: desired.store(),
        hub: hub.clone(),
        deliver: outbox::Deliver::written(hub.clone()),
        // a later one takes the place of one that waits
        at_once: 1,
        dropped: Arc::default(),
    };
    let outbox = outbox::new(outbox, items);
    let length = outbox.length();
    let waits = remote::Waits { events, timeout: timing.query_timeout };
    let remote = Remote::new(api.service(), desired.clone(), hub.clone(), pods_complete.clone(), waits);
    let client = client_of(remote.clone(), "default");
    let service = server.as_ref().and_then(MetaServerConfig::service);
    let (server, watched) =
        server.map(|config| server::new(config, &node_name, desired.clone(), hub.clone())).unzip();
    let online = Online::new(hub.link());
    let reporter = Reporter::new(desired.clone(), hub.clone(), node_name, timing.pod_status_interval);
    let devices = DeviceObjects::new(desired.clone());
    let (others, readers) = Others::new();
    let Readers { devices: device_messages, topics: topic_messages, services: service_messages } = readers;
    let queues = others.queues();
    let queues = Arc::new(move || queues().into_iter().chain([length.queue()]).collect::<Vec<_>>());
    let task = Task {
        inbound,
        hub,
        desired,
        reporter,
        judge,
        outbox,
        remote,
        watched,
        others,
        unhandled: Unhandled::default(),
        service,
    };
    (
        MetaManager { client, pods_complete, devices, online, queues },
        Endpoints { task, server, device_messages, topic_messages, service_messages },
    )
}

/// The collections that hold what nobody else may read: Secrets, and tokens of service accounts.
pub(crate) fn confidential() -> Vec<Resource> {
    vec![Resource::new("", "secrets"), remote::token_resource()]
}
