//! Services, EndpointSlices and this node's Node as they are now: read through MetaServer, which keeps them on disk.

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
        reflector::{Store, store::Writer},
        watcher::{self, Event},
    },
};
use tracing::debug;

use super::{destination_rules, objects::snapshot, proxy::Here, snapshot::Snapshot};
use crate::{
    config::{EdgeMesh, Network},
    netlink::own_addresses,
};

/// The label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Between two tries, while the cloud has not been connected yet.
const RETRY: Duration = Duration::from_secs(2);
/// The same of DestinationRules, which few clusters have and few nodes may read.
const RETRY_RULES: Duration = Duration::from_secs(60);

/// What is read.
pub(super) struct Source {
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    nodes: Store<Node>,
    pods: Store<Pod>,
    rules: Store<DynamicObject>,
    node: String,
    settings: EdgeMesh,
    changes: BoxStream<'static, Read>,
    read: [bool; 2],
}

/// What there is news of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// Services, or slices, were read once.
    Whole(usize),
    Change,
}

impl Source {
    /// Reads with these clients from now on.
    pub(super) fn new(services: &Client, own: &Client, node: &str, settings: EdgeMesh) -> Self {
        let all = watcher::Config::default();
        let mine = watcher::Config::default().fields(&format!("metadata.name={node}"));
        let (service_store, service_changes) =
            follow(Api::<Service>::all(services.clone()), (), (all.clone(), RETRY));
        let (slice_store, slice_changes) =
            follow(Api::<EndpointSlice>::all(services.clone()), (), (all.clone(), RETRY));
        let (node_store, node_changes) = follow(Api::<Node>::all(own.clone()), (), (mine, RETRY));
        let kind = destination_rules::kind();
        let rules = Api::<DynamicObject>::all_with(services.clone(), &kind);
        let (rule_store, rule_changes) = follow(rules, kind, (all, RETRY_RULES));
        let (pod_store, pod_changes) =
            follow(Api::<Pod>::all(own.clone()), (), (watcher::Config::default(), RETRY));
        let news =
            |number: usize| move |is_whole: bool| if is_whole { Read::Whole(number) } else { Read::Change };
        let changes = futures::stream::select_all([
            service_changes.map(news(0)).boxed(),
            slice_changes.map(news(1)).boxed(),
            node_changes.map(|_| Read::Change).boxed(),
            pod_changes.map(|_| Read::Change).boxed(),
            rule_changes.map(|_| Read::Change).boxed(),
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
            read: [false; 2],
        }
    }

    /// Waits for news; cancel-safe.
    pub(super) async fn changed(&mut self) {
        match self.changes.next().await {
            Some(Read::Whole(number)) => self.read[number] = true,
            Some(Read::Change) => {}
            // the streams begin anew by themselves
            None => std::future::pending().await,
        }
    }

    /// All Services as they are now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let (services, slices) = (self.services.state(), self.slices.state());
        let (services, slices) = (services.iter().map(Arc::as_ref), slices.iter().map(Arc::as_ref));
        let mut snapshot =
            Snapshot { synced: self.read == [true; 2], ..snapshot(services, slices, &self.settings) };
        destination_rules::follow(&mut snapshot, self.rules.state().iter().map(Arc::as_ref));
        snapshot
    }

    /// Where this node is, and the networks of its pods.
    pub(super) fn here(&self) -> (Here, Vec<Network>) {
        let nodes = self.nodes.state();
        let node = nodes.iter().find(|node| node.name_any() == self.node);
        let zone = node.and_then(|node| node.labels().get(ZONE).cloned());
        let spec = node.and_then(|node| node.spec.as_ref());
        let networks = spec.and_then(|spec| spec.pod_cidrs.as_deref()).unwrap_or_default();
        let networks = networks.iter().filter_map(|network| Network::parse(network)).collect();
        (Here { node: self.node.clone(), zone }, networks)
    }

    /// The addresses of this node's pods, as it and the EndpointSlices say, but for the machine's own.
    pub(super) fn own_pods(&self, snapshot: &Snapshot) -> BTreeSet<IpAddr> {
        let pods = self.pods.state();
        let mut all: BTreeSet<_> = pods.iter().flat_map(|pod| addresses(pod)).collect();
        let endpoints = snapshot.services.values().flat_map(|service| &service.endpoints);
        let here = endpoints.filter(|endpoint| endpoint.node.as_deref() == Some(&self.node));
        all.extend(here.map(|endpoint| endpoint.address));
        for own in own_addresses().unwrap_or_default() {
            all.remove(&own);
        }
        all
    }
}

/// The address of each pod that has one of its own.
fn addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> {
    let is_own = !pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default();
    let addresses = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
    addresses.filter(move |_| is_own).filter_map(|address| address.ip.parse().ok())
}

/// Whether the cloud has to be connected first.
fn is_away(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 503)
}

/// The objects of a kind, and for each change whether all have been read with it.
fn follow<K>(
    api: Api<K>,
    kind: K::DynamicType,
    (which, retry): (watcher::Config, Duration),
) -> (Store<K>, impl Stream<Item = bool> + Send + 'static)
where
    K: Resource + Clone + std::fmt::Debug + Send + Sync + serde::de::DeserializeOwned + 'static,
    K::DynamicType: Clone + Eq + std::hash::Hash + Send + Sync + Unpin + 'static,
{
    let writer = Writer::new(kind);
    let store = writer.as_reader();
    let changes = watcher::watcher(api, which)
        .modify(|object| {
            // what people and programs write there can be larger than all else
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
                        "Services, or what is said of them, are not read; this is tried again"
                    );
                    tokio::time::sleep(if is_away(&error) { RETRY } else { retry }).await;
                    None
                }
            }
        });
    (store, changes)
}
