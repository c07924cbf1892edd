//! Services, EndpointSlices, Pods and this node's Node as they are now, watched through MetaServer, which keeps them on disk.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream::BoxStream};
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::DynamicObject,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store, store::Writer},
        watcher::{self, Event},
    },
};
use tracing::debug;

use super::{
    destination_rules, objects::snapshot, permitted, proxy::NodeTopology, snapshot::Snapshot,
};
use crate::config::{EdgeMesh, Network};

/// The label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// The pause after a failed watch.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// The pause after a failed watch of DestinationRules, which few clusters have.
const RULES_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The stores of the watched objects.
pub(super) struct Source {
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    nodes: Store<Node>,
    pods: Store<Pod>,
    rules: Store<DynamicObject>,
    node: String,
    settings: EdgeMesh,
    changes: BoxStream<'static, Change>,
    /// Whether Services, and EndpointSlices, have been listed.
    listed: [bool; 2],
}

/// A change of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Services (0) or EndpointSlices (1) have been listed.
    Listed(usize),
    /// An object has changed.
    Object,
}

impl Source {
    /// Begins to watch with these clients.
    pub(super) fn new(services: &Client, own: &Client, node: &str, settings: EdgeMesh) -> Self {
        let all = watcher::Config::default();
        let own_node = watcher::Config::default().fields(&format!("metadata.name={node}"));
        let (service_store, service_changes) = watch::<Service>(services.clone(), all.clone());
        let (slice_store, slice_changes) = watch::<EndpointSlice>(services.clone(), all.clone());
        let (node_store, node_changes) = watch::<Node>(own.clone(), own_node);
        let kind = destination_rules::kind();
        let rules = Api::<DynamicObject>::all_with(services.clone(), &kind);
        let (rule_store, rule_changes) = reflect(
            permitted::watch(rules, all),
            Writer::new(kind),
            RULES_RETRY_INTERVAL,
        );
        let (pod_store, pod_changes) = watch::<Pod>(own.clone(), watcher::Config::default());
        let change = |number: usize| {
            move |is_listed: bool| {
                if is_listed {
                    Change::Listed(number)
                } else {
                    Change::Object
                }
            }
        };
        let changes = futures::stream::select_all([
            service_changes.map(change(0)).boxed(),
            slice_changes.map(change(1)).boxed(),
            node_changes.map(|_| Change::Object).boxed(),
            pod_changes.map(|_| Change::Object).boxed(),
            rule_changes.map(|_| Change::Object).boxed(),
        ]);
        Self {
            services: service_store,
            slices: slice_store,
            nodes: node_store,
            pods: pod_store,
            rules: rule_store,
            node: node.to_owned(),
            settings,
            changes: changes.boxed(),
            listed: [false; 2],
        }
    }

    /// Waits for a change; cancel-safe.
    pub(super) async fn changed(&mut self) {
        match self.changes.next().await {
            Some(Change::Listed(number)) => self.listed[number] = true,
            Some(Change::Object) => {}
            // the streams never end: they watch anew by themselves
            None => std::future::pending().await,
        }
    }

    /// Builds the snapshot of all Services as they are now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let (services, slices) = (self.services.state(), self.slices.state());
        let (services, slices) = (
            services.iter().map(Arc::as_ref),
            slices.iter().map(Arc::as_ref),
        );
        let mut snapshot = Snapshot {
            synced: self.listed == [true; 2],
            ..snapshot(services, slices, &self.settings)
        };
        destination_rules::apply(&mut snapshot, self.rules.state().iter().map(Arc::as_ref));
        snapshot
    }

    /// Returns this node's topology, and the networks of its pods.
    pub(super) fn node(&self) -> (NodeTopology, Vec<Network>) {
        let nodes = self.nodes.state();
        let node = nodes.iter().find(|node| node.name_any() == self.node);
        let zone = node.and_then(|node| node.labels().get(ZONE).cloned());
        let spec = node.and_then(|node| node.spec.as_ref());
        let networks = spec
            .and_then(|spec| spec.pod_cidrs.as_deref())
            .unwrap_or_default();
        let networks = networks
            .iter()
            .filter_map(|network| Network::parse(network))
            .collect();
        (
            NodeTopology {
                name: self.node.clone(),
                zone,
            },
            networks,
        )
    }

    /// Returns the addresses of this node's pods, by its Pods and by the EndpointSlices, without those of the node itself.
    pub(super) fn own_pods(&self, snapshot: &Snapshot) -> BTreeSet<IpAddr> {
        let pods = self.pods.state();
        let mut all: BTreeSet<_> = pods.iter().flat_map(|pod| addresses(pod)).collect();
        let endpoints = snapshot
            .services
            .values()
            .flat_map(|service| &service.endpoints);
        let here = endpoints.filter(|endpoint| endpoint.node.as_deref() == Some(&self.node));
        all.extend(here.map(|endpoint| endpoint.address));
        for own in componentbase::addresses::own().unwrap_or_default() {
            all.remove(&own);
        }
        all
    }
}

/// Returns the addresses of a pod that has its own network.
fn addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> {
    let is_own = !pod
        .spec
        .as_ref()
        .and_then(|spec| spec.host_network)
        .unwrap_or_default();
    let addresses = pod
        .status
        .iter()
        .flat_map(|status| status.pod_ips.iter().flatten());
    addresses
        .filter(move |_| is_own)
        .filter_map(|address| address.ip.parse().ok())
}

/// Reports whether MetaServer is not connected to the cloud yet.
fn is_unavailable(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 503)
}

/// Watches the objects of a kind: returns their store, and a stream with an item for each change, which says whether all have now been
/// listed.
fn watch<K>(
    client: Client,
    config: watcher::Config,
) -> (Store<K>, impl Stream<Item = bool> + Send + 'static)
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Send
        + Sync
        + serde::de::DeserializeOwned
        + 'static,
{
    let writer = Writer::<K>::new(());
    let store = writer.as_reader();
    let events =
        kubeapi::watch_objects(client, config).with_last_version(move |namespace, name| {
            let at = ObjectRef::new(name);
            let at = if namespace.is_empty() {
                at
            } else {
                at.within(namespace)
            };
            store.get(&at).map(Arc::unwrap_or_clone)
        });
    reflect(events, writer, RETRY_INTERVAL)
}

/// Brings what a watch of a kind says into a store, as for [`watch`]; `retry` is the pause after an error.
fn reflect<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    writer: Writer<K>,
    retry: Duration,
) -> (Store<K>, impl Stream<Item = bool> + Send + 'static)
where
    K: Resource + Clone + std::fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + std::hash::Hash + Send + Sync + Unpin + 'static,
{
    let store = writer.as_reader();
    let changes = events
        .modify(|object| {
            // nothing here needs them, and they can be larger than all the rest
            object.meta_mut().managed_fields = None;
            object.meta_mut().annotations = None;
        })
        .reflect(writer)
        .filter_map(move |event| async move {
            match event {
                Ok(Event::InitDone) => Some(true),
                Ok(Event::Apply(_) | Event::Delete(_)) => Some(false),
                Ok(Event::Init | Event::InitApply(_)) => None,
                Err(error) => {
                    debug!(
                        error = &error as &dyn std::error::Error,
                        "failed to watch Services or their objects; retrying"
                    );
                    tokio::time::sleep(if is_unavailable(&error) {
                        RETRY_INTERVAL
                    } else {
                        retry
                    })
                    .await;
                    None
                }
            }
        });
    (store, changes)
}
