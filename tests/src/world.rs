//! A cloud and its nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use cloudsim::{Addresses, Cloud, Options, hub::Limits, streams::KubeletOptions};
use componentbase::Link;
use e2e::Ports;
use hollow::fleet::{self, HollowNode};
use kube::{Api, Client, api::ListParams};
use serde_json::Value;
use tempfile::TempDir;
use wire::cri::{ContainerState, ExecSyncRequest, runtime_service_client::RuntimeServiceClient};

use crate::{Cluster, Object, Readings, eventually, within};

/// The settings of a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of nodes, called `edge-1`, `edge-2`, …
    pub nodes: usize,
    /// Whether the cloud keeps its state on disk, so that it can be started again.
    pub durable: bool,
    /// How long a node's lease lasts.
    pub lease: Duration,
    /// How old a lease may get before its node is `NotReady`.
    pub lease_grace: Duration,
    /// The limits of the hub.
    pub limits: Limits,
    /// The address of the node's health and metrics server; only one node at a time can have one.
    pub server: Option<SocketAddr>,
    /// Whether nodes have a `MetaServer`, open to every program of this machine as EdgeCore's is.
    pub meta_server: bool,
    /// Whether the cloud serves QUIC, too.
    pub quic: bool,
    /// Whether the cloud has a relay between nodes.
    pub relay: bool,
    /// The options with which an API server elsewhere reaches kubelets.
    pub kubelets: Option<KubeletOptions>,
    /// The number of replicas of the cloud's hub.
    pub hubs: usize,
    /// How long after its end a node's certificate may still be renewed.
    pub renewal_grace: Duration,
    /// The nodes' join token; `None` means the cloud's own.
    pub token: Option<String>,
    /// Settings that override those of the nodes' `modules.edged`.
    pub edged: Value,
    /// The resources of the node's machine; `None` means those of this machine.
    pub readings: Option<Readings>,
    /// Settings that override those of the nodes' `modules.eventBus`, which has no MQTT by default.
    pub event_bus: Value,
    /// Whether the cloud uses a cluster, or has its own API.
    pub backed: bool,
}

/// Reports whether this test program is `tests/backed`, whose worlds have a cloud with a cluster; it has the scenarios of `tests/world`
/// that make sense there.
fn is_backed() -> bool {
    let program = std::env::current_exe().ok();
    let name = program.as_ref().and_then(|program| program.file_name());
    name.is_some_and(|name| name.to_string_lossy().starts_with("backed-"))
}

impl Default for Setup {
    /// Returns one node and a cloud in memory.
    fn default() -> Self {
        let lease = Duration::from_secs(40);
        Self {
            nodes: 1,
            durable: false,
            lease,
            lease_grace: lease,
            limits: Limits::default(),
            server: None,
            meta_server: false,
            quic: false,
            relay: false,
            kubelets: None,
            hubs: 1,
            renewal_grace: Duration::ZERO,
            token: None,
            edged: Value::Null,
            readings: None,
            event_bus: Value::Null,
            backed: is_backed(),
        }
    }
}

/// A cloud and its nodes.
pub struct World {
    /// The nodes, whose agents run.
    pub nodes: Vec<HollowNode>,
    cloud: Option<Cloud>,
    cluster: Option<Cluster>,
    options: Options,
    addresses: Addresses,
    directory: TempDir,
}

impl World {
    /// Creates a cloud in memory and this many nodes, which start to join it.
    pub async fn new(nodes: usize) -> Self {
        Box::pin(Self::with(Setup {
            nodes,
            ..Setup::default()
        }))
        .await
    }

    /// Creates a world with these settings.
    pub async fn with(setup: Setup) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut options = Options {
            data_dir: setup.durable.then(|| directory.path().join("cloud")),
            lease_grace: setup.lease_grace,
            limits: setup.limits.clone(),
            quic_port: setup.quic.then_some(0),
            relay_port: setup.relay.then_some(0),
            kubelets: setup.kubelets.clone(),
            hubs: setup.hubs,
            renewal_grace: setup.renewal_grace,
            ..Options::default().any_ports()
        };
        let mut cluster = None;
        if setup.backed {
            let started = Cluster::start(setup.lease_grace).await;
            options.cluster = Some(started.options("replica-1").await);
            // Everything is stored in the cluster.
            options.data_dir = None;
            cluster = Some(started);
        }
        if setup.durable {
            // A cloud that is restarted needs ports that nobody else gets meanwhile.
            let ports = Ports::free().expect("free ports");
            (options.api_port, options.https_port, options.ws_port) =
                (ports.api, ports.https, ports.ws);
            options.tunnel_port = Some(ports.tunnel);
            options.quic_port = setup.quic.then_some(ports.node);
        }
        let cloud = Cloud::start(options.clone())
            .await
            .expect("the cloud starts");
        let addresses = cloud.addresses();
        // A restarted cloud has the same ports.
        options.api_port = addresses.api.map_or(0, |address| address.port());
        options.https_port = addresses.https.port();
        options.ws_port = addresses.websocket.port();
        options.quic_port = addresses.quic.map(|address| address.port());
        options.tunnel_port = addresses.tunnel.map(|address| address.port());
        let mut world = Self {
            nodes: Vec::new(),
            cloud: Some(cloud),
            cluster,
            options,
            addresses,
            directory,
        };
        for number in 1..=setup.nodes {
            let mut node = world.prepare(&format!("edge-{number}"), &setup).await;
            node.start().await.expect("the agent starts");
            world.nodes.push(node);
        }
        world
    }

    /// Prepares a node of this cloud, whose agent does not run yet.
    pub async fn prepare(&self, name: &str, setup: &Setup) -> HollowNode {
        self.prepare_at(self.addresses, name, setup).await
    }

    /// Prepares a node that reaches the cloud at other addresses.
    pub async fn prepare_at(&self, addresses: Addresses, name: &str, setup: &Setup) -> HollowNode {
        let directory = self.directory.path().join("nodes");
        // Tests are not about the rate limit.
        let (lease, server) = (setup.lease, setup.server);
        let (edged, signals) = (setup.edged.clone(), setup.readings.clone());
        let signals = signals.map(|readings| Arc::new(readings) as _);
        let meta_server = setup
            .meta_server
            .then(|| (std::net::Ipv4Addr::LOCALHOST, 0).into());
        let base = fleet::Options::new(0, directory);
        let event_bus = setup.event_bus.clone();
        let options = fleet::Options {
            lease,
            server,
            edged,
            signals,
            meta_server,
            event_bus,
            faults: self.cloud.as_ref().map(|cloud| cloud.faults().clone()),
            qps: 0,
            ..base
        };
        let token = setup
            .token
            .as_deref()
            .unwrap_or_else(|| self.cloud().token());
        let mut node = HollowNode::prepare(name, addresses, token, &options)
            .await
            .expect("a node's directory");
        node.configure(|config| {
            if let Some(server) = &mut config.meta_manager.meta_server {
                server.anonymous_auth = true;
            }
        });
        node
    }

    /// Returns the cloud.
    pub fn cloud(&self) -> &Cloud {
        self.cloud.as_ref().expect("the cloud runs")
    }

    /// Reports whether the cloud uses a cluster.
    pub fn is_backed(&self) -> bool {
        self.cluster.is_some()
    }

    /// Returns the cluster that the cloud uses.
    pub fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("a world with a cluster")
    }

    /// Returns the options with which the cloud was started, with its ports.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the options for the next start of the cloud.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Returns a client with all rights. After a restart of the cloud it is another one.
    pub fn client(&self) -> Client {
        self.cluster
            .as_ref()
            .map_or_else(|| self.cloud().client(), Cluster::client)
    }

    /// Returns a directory for whatever a test needs.
    pub fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Stops the cloud.
    pub async fn stop_cloud(&mut self) {
        let cloud = self.cloud.take().expect("the cloud runs");
        within("the cloud's end", cloud.stop())
            .await
            .expect("no part of it panicked");
    }

    /// Starts the cloud again with its data and ports.
    pub async fn start_cloud(&mut self) {
        self.cloud = Some(
            Cloud::start(self.options.clone())
                .await
                .expect("the cloud starts again"),
        );
    }

    /// Applies a manifest.
    pub async fn apply(&self, manifest: &Value) -> Object {
        let object = Object::of(&self.client(), manifest);
        object.apply(manifest).await;
        object
    }

    /// Returns the pod of this name in namespace `default`.
    pub fn pod(&self, name: &str) -> Object {
        self.object("v1", "Pod", name)
    }

    /// Returns the object of this kind and name in namespace `default`.
    pub fn object(&self, api_version: &str, kind: &str, name: &str) -> Object {
        Object::new(&self.client(), api_version, kind, Some("default"), name)
    }

    /// Returns the object of this kind and name, which is in no namespace.
    pub fn object_of_cluster(&self, api_version: &str, kind: &str, name: &str) -> Object {
        Object::new(&self.client(), api_version, kind, None, name)
    }

    /// Returns the node of this name.
    pub fn node(&self, name: &str) -> Object {
        self.object_of_cluster("v1", "Node", name)
    }

    /// Applies a pod and waits until it runs.
    pub async fn run(&self, manifest: &Value) -> Value {
        self.apply(manifest).await.until("running", runs).await
    }

    /// Waits until all nodes are Ready.
    pub async fn until_ready(&self) {
        for node in &self.nodes {
            self.node(&node.name)
                .until("Ready", |node| condition(node, "Ready") == Some("True"))
                .await;
        }
    }

    /// Waits until the agent of this node is connected or, if `connected` is false, is not.
    pub async fn until_connected(&self, node: usize, connected: bool) {
        let mut link = self.nodes[node].link().expect("the agent runs");
        let wanted = link.wait_for(|link| (*link != Link::Down) == connected);
        within("the connection's state", wanted)
            .await
            .expect("the agent runs");
    }

    /// Returns the output of a command in the first running container of a pod.
    pub async fn exec(&self, node: usize, pod: &Value, command: &[&str]) -> Result<String, String> {
        let runtime = &self.nodes[node].runtime;
        let of_pod = |(place, id): ((String, String), String)| (place.0 == uid(pod)).then_some(id);
        let container = self
            .running(node)
            .into_iter()
            .find_map(of_pod)
            .ok_or("no container of the pod runs")?;
        let request = ExecSyncRequest {
            container_id: container,
            cmd: command.iter().map(|&word| word.to_owned()).collect(),
            timeout: 60,
        };
        let answer = RuntimeServiceClient::new(runtime.channel())
            .exec_sync(request)
            .await;
        let answer = answer
            .map_err(|status| status.message().to_owned())?
            .into_inner();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if answer.exit_code == 0 {
            Ok(text(&answer.stdout))
        } else {
            Err(text(&answer.stderr))
        }
    }

    /// Waits until a file in the container has this content.
    pub async fn until_file(&self, node: usize, pod: &Value, path: &str, content: &str) {
        eventually(&format!("{path} holds {content:?}"), async || {
            match self.exec(node, pod, &["cat", path]).await {
                Ok(text) if text == content => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }

    /// Returns the running containers of a node: pod UID and container name → id.
    pub fn running(&self, node: usize) -> BTreeMap<(String, String), String> {
        let label = |container: &wire::cri::Container, key: &str| {
            container.labels.get(key).cloned().unwrap_or_default()
        };
        let containers = self.nodes[node].runtime.containers().into_iter();
        containers
            .filter(|container| container.state() == ContainerState::ContainerRunning)
            .map(|container| {
                let place = (
                    label(&container, "io.kubernetes.pod.uid"),
                    label(&container, "io.kubernetes.container.name"),
                );
                (place, container.id)
            })
            .collect()
    }

    /// Waits until nothing of the pod is left on the node: sandbox, containers, volumes, logs.
    pub async fn until_nothing_is_left(&self, node: usize, pod: &Value) {
        let (hollow, uid) = (&self.nodes[node], uid(pod));
        let volumes = hollow.directory().join("kubelet/pods").join(uid);
        let logs = hollow.directory().join("logs");
        eventually("nothing of the pod is left", async || {
            let containers = hollow.runtime.container_ids_of(uid);
            let sandboxes = RuntimeServiceClient::new(hollow.runtime.channel())
                .list_pod_sandbox(wire::cri::ListPodSandboxRequest::default())
                .await
                .map_err(|status| status.to_string())?
                .into_inner();
            let of_pod = |sandbox: &&wire::cri::PodSandbox| {
                sandbox.metadata.as_ref().is_some_and(|it| it.uid == uid)
            };
            let sandboxes = sandboxes.items.iter().filter(of_pod).count();
            let logged = fs::read_dir(&logs).into_iter().flatten().flatten();
            let logged = logged
                .filter(|entry| entry.file_name().to_string_lossy().contains(uid))
                .count();
            if containers.is_empty() && sandboxes == 0 && !volumes.exists() && logged == 0 {
                return Ok(());
            }
            Err(format!(
                "{containers:?}, {sandboxes} sandboxes, volumes: {}, {logged} logs",
                volumes.exists()
            ))
        })
        .await;
    }

    /// Returns the names of the node's `ObjectSync` objects with an acknowledged revision; those without one only record what was sent.
    pub async fn object_syncs(&self, node: &str) -> BTreeSet<String> {
        let resource = kube::api::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "reliablesyncs.kubeedge.io",
            "v1alpha1",
            "ObjectSync",
        ));
        let all = Api::<kube::api::DynamicObject>::all_with(self.client(), &resource);
        let listed = all
            .list(&ListParams::default())
            .await
            .expect("ObjectSyncs are listed");
        let acknowledged = |sync: &kube::api::DynamicObject| {
            sync.data
                .pointer("/status/objectResourceVersion")
                .is_some_and(Value::is_string)
        };
        let names = listed
            .items
            .into_iter()
            .filter(acknowledged)
            .filter_map(|sync| sync.metadata.name);
        names
            .filter(|name| name.starts_with(&format!("{node}.")))
            .collect()
    }
}

/// Returns the status of a condition.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)?["status"]
        .as_str()
}

/// Reports whether a pod runs with all its containers ready.
pub fn runs(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array();
    pod["status"]["phase"] == "Running"
        && statuses.is_some_and(|all| all.iter().all(|one| one["ready"] == true))
}

/// Returns the UID of an object.
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"]
        .as_str()
        .expect("an object has a UID")
}
