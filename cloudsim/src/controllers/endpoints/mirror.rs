//! Mirrors the Endpoints of services without a selector to slices.
//!
//! Source: Kubernetes' EndpointSliceMirroring controller.

use std::{collections::BTreeMap, sync::Arc};

use crate::controllers::reconciler::Action;
use k8s_openapi::api::{
    core::v1::{EndpointAddress, EndpointPort as CorePort, Endpoints, Service},
    discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};
use kube::{ResourceExt, api::ObjectMeta, runtime::reflector::ObjectRef};
use kubeapi::endpoint_address;
use tokio_util::sync::CancellationToken;

use super::{
    desired::{MANAGED_BY, SERVICE_NAME, family_of},
    leftover::LEADER,
    write_slices,
};
use crate::controllers::{
    informers::{Change, Failure, Triggers, work},
    workloads::{cluster, pods::controller_reference},
};

/// The manager of the slices.
pub(super) const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// The label of Endpoints that are not mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The most addresses of one subset that are mirrored, ready ones first.
const IN_A_SUBSET: usize = 1000;
/// Annotations that are not copied.
const OWN: [&str; 2] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "endpoints.kubernetes.io/last-change-trigger-time",
];

cluster!(Cluster {
    services: Service,
    slices: EndpointSlice,
    endpoints: Endpoints
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let of_endpoints = |change: &Change<Endpoints>| {
        let namespace = change.object.namespace().unwrap_or_default();
        [ObjectRef::<Service>::new(&change.object.name_any()).within(&namespace)]
    };
    let of_slices = |change: &Change<EndpointSlice>| {
        let service = change
            .object
            .labels()
            .get(SERVICE_NAME)
            .filter(|_| is_mirrored(&change.object));
        let namespace = change.object.namespace().unwrap_or_default();
        service.map(|name| ObjectRef::<Service>::new(name).within(&namespace))
    };
    let triggers = Triggers::none()
        .and(&cluster.endpoints, of_endpoints)
        .and(&cluster.slices, of_slices);
    let queue = (
        cluster.queues.queue("endpointslicemirroring"),
        cluster.services.clone(),
    );
    work(queue, triggers, cluster, reconcile, stop).await;
}

fn is_mirrored(slice: &EndpointSlice) -> bool {
    slice
        .labels()
        .get(MANAGED_BY)
        .is_some_and(|manager| manager == MANAGER)
}

async fn reconcile(service: Arc<Service>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
    if service.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let selects = service
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.as_ref())
        .is_some_and(|all| !all.is_empty());
    let endpoints = cluster
        .endpoints
        .get(&namespace, &name)
        .filter(|one| !selects && is_wanted(one));
    let mut there = cluster.slices.in_namespace(&namespace);
    there.retain(|slice| is_mirrored(slice) && slice.labels().get(SERVICE_NAME) == Some(&name));
    let wanted = endpoints
        .map(|endpoints| slices(&endpoints))
        .unwrap_or_default();
    write_slices(there, wanted, &cluster.shared, &cluster.slices).await?;
    Ok(Action::await_change())
}

fn is_wanted(endpoints: &Endpoints) -> bool {
    let skips = endpoints
        .labels()
        .get(SKIP)
        .is_some_and(|value| value == "true");
    let is_leaving = endpoints.metadata.deletion_timestamp.is_some();
    !skips && !is_leaving && !endpoints.annotations().contains_key(LEADER)
}

/// Returns the slices of Endpoints: one for each subset and address family.
pub(super) fn slices(endpoints: &Endpoints) -> Vec<EndpointSlice> {
    let mut slices = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ready = subset
            .addresses
            .iter()
            .flatten()
            .map(|address| endpoint(address, true));
        let rest = subset
            .not_ready_addresses
            .iter()
            .flatten()
            .map(|address| endpoint(address, false));
        let mut families: BTreeMap<&str, Vec<Endpoint>> = BTreeMap::new();
        // stored before the API validated addresses
        let all = ready.chain(rest).filter(|endpoint| {
            endpoint
                .addresses
                .iter()
                .all(|address| endpoint_address(address).is_some())
        });
        for endpoint in all.take(IN_A_SUBSET) {
            let family = endpoint
                .addresses
                .first()
                .map_or("IPv4", |address| family_of(address));
            families.entry(family).or_default().push(endpoint);
        }
        let ports: Vec<_> = subset.ports.iter().flatten().map(port).collect();
        slices.extend(
            families
                .into_iter()
                .map(|(family, all)| slice(endpoints, family, &ports, all)),
        );
    }
    slices
}

fn slice(
    endpoints: &Endpoints,
    family: &str,
    ports: &[EndpointPort],
    all: Vec<Endpoint>,
) -> EndpointSlice {
    let mut labels = endpoints.labels().clone();
    labels.insert(SERVICE_NAME.into(), endpoints.name_any());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let mut annotations = endpoints.annotations().clone();
    annotations.retain(|name, _| !OWN.contains(&name.as_str()));
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", endpoints.name_any())),
            namespace: endpoints.namespace(),
            labels: Some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            owner_references: Some(vec![controller_reference(endpoints)]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: all,
        ports: (!ports.is_empty()).then(|| ports.to_vec()),
    }
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn port(port: &CorePort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".into())),
        app_protocol: port.app_protocol.clone(),
    }
}
