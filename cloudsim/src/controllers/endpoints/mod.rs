//! Endpoint slices of services with a selector, from the addresses of the selected pods. Slices of services without one are copies of
//! Endpoints ([`mirror`]). Endpoints of services with a selector are written by a controller of their own ([`core_v1`]), as in Kubernetes:
//! a damaged object of one kind does not hold up the other.

use std::sync::Arc;

use crate::controllers::reconciler::Action;
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod core_v1;
mod desired;
mod hints;
mod leftover;
mod mirror;

pub(super) use self::{core_v1::run as run_core_v1, mirror::run as run_mirroring};

use super::{
    informers::{Change, Failure, Informer, Triggers, work},
    workloads::{Shared, cluster},
};

cluster!(Cluster {
    services: Service,
    pods: Pod,
    slices: EndpointSlice,
    nodes: Node
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    // somebody else may have changed or deleted them
    let of_slices = |change: &Change<EndpointSlice>| {
        let service = change.object.labels().get(desired::SERVICE_NAME).cloned();
        service.map(|name| {
            ObjectRef::new(&name).within(&change.object.namespace().unwrap_or_default())
        })
    };
    let triggers = Triggers::none()
        .and(&cluster.pods, selecting(&cluster.services))
        .and(&cluster.nodes, placing(&cluster.services))
        .and(&cluster.slices, of_slices);
    let queue = (
        cluster.queues.queue("endpointslice"),
        cluster.services.clone(),
    );
    work(queue, triggers, cluster, reconcile, stop).await;
}

/// Returns the trigger of the services that select a changed pod.
fn selecting(
    services: &Informer<Service>,
) -> impl Fn(&Change<Pod>) -> Vec<ObjectRef<Service>> + Send + use<> {
    let services = services.clone();
    move |change: &Change<Pod>| {
        if !desired::matters(change) {
            return Vec::new();
        }
        let services = services.in_namespace(&change.object.namespace().unwrap_or_default());
        let selects =
            |service: &&Arc<Service>| change.states().any(|pod| desired::selects(service, pod));
        services
            .iter()
            .filter(selects)
            .map(|service| ObjectRef::from_obj(&**service))
            .collect()
    }
}

/// Returns the trigger of the services whose endpoints may have other zones or hints after a change of a node.
fn placing(
    services: &Informer<Service>,
) -> impl Fn(&Change<Node>) -> Vec<ObjectRef<Service>> + Send + use<> {
    let services = services.clone();
    move |change: &Change<Node>| {
        let now = Some(&change.object).filter(|_| !change.gone);
        let before = change.before.as_ref();
        let zone =
            |node: Option<&Arc<Node>>| node.and_then(|node| hints::zone(node)).map(str::to_owned);
        let cpu = |node: Option<&Arc<Node>>| node.and_then(|node| hints::processors(node));
        let moves = zone(before) != zone(now);
        if !moves && cpu(before) == cpu(now) {
            return Vec::new();
        }
        services
            .all()
            .iter()
            .filter(|service| moves || hints::is_automatic(service))
            .map(|service| ObjectRef::from_obj(&**service))
            .collect()
    }
}

/// Returns the pods that a service selects, sorted by name; `None` if its addresses are not those of pods.
fn selected_pods(service: &Service, pods: &Informer<Pod>) -> Option<Vec<Arc<Pod>>> {
    let spec = service.spec.as_ref()?;
    let selects = spec
        .selector
        .as_ref()
        .is_some_and(|selector| !selector.is_empty());
    let is_external = spec.type_.as_deref() == Some("ExternalName");
    if !selects || is_external || service.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut pods = pods.in_namespace(&service.namespace().unwrap_or_default());
    pods.retain(|pod| desired::selects(service, pod));
    pods.sort_by_key(|pod| pod.name_any());
    Some(pods)
}

/// Reports whether the Endpoints and slices of a service are made of pods.
pub(crate) fn selects_pods(service: &Value) -> bool {
    let selector = service.pointer("/spec/selector").and_then(Value::as_object);
    selector.is_some_and(|selector| !selector.is_empty())
        && service.pointer("/spec/type").and_then(Value::as_str) != Some("ExternalName")
}

/// Reports whether a controller has written the slice, according to its label.
pub(crate) fn is_generated_slice(slice: &Value) -> bool {
    let manager = slice
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(desired::MANAGED_BY)?.as_str());
    manager.is_some_and(|manager| [desired::MANAGER, mirror::MANAGER].contains(&manager))
}

async fn reconcile(service: Arc<Service>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
    let Some(pods) = selected_pods(&service, &cluster.pods) else {
        return Ok(Action::await_change());
    };
    let there = cluster
        .slices
        .controlled_by(service.metadata.uid.as_deref().unwrap_or_default());
    write_slices(
        there,
        desired_slices(&service, &pods, &cluster.nodes),
        &cluster.shared,
        &cluster.slices,
    )
    .await?;
    Ok(Action::await_change())
}

/// Returns the slices of a service, with the zones and hints of their endpoints.
fn desired_slices(
    service: &Service,
    pods: &[Arc<Pod>],
    nodes: &Informer<Node>,
) -> Vec<EndpointSlice> {
    let mut slices = desired::slices(service, pods);
    let topology = hints::Topology {
        node: &|name| nodes.get("", name),
        cpu_by_zone: &|| hints::cpu_by_zone(nodes.all().iter().map(|node| &**node)),
    };
    hints::set(service, &mut slices, &topology);
    slices
}

/// Updates a service's slices with as few writes as possible.
async fn write_slices(
    mut there: Vec<Arc<EndpointSlice>>,
    desired: Vec<EndpointSlice>,
    shared: &Shared,
    informer: &Informer<EndpointSlice>,
) -> Result<(), Failure> {
    there.retain(|slice| slice.metadata.deletion_timestamp.is_none());
    there.sort_by_key(|slice| slice.name_any());
    for new in desired {
        let same = |old: &Arc<EndpointSlice>| {
            old.address_type == new.address_type && old.ports == new.ports
        };
        let at = there.iter().position(same);
        match at.map(|at| there.remove(at)) {
            Some(old) if old.endpoints == new.endpoints && desired::has_labels(&old, &new) => {}
            Some(old) => {
                let patch = json!({"metadata": {"labels": new.metadata.labels}, "endpoints": new.endpoints});
                shared.patch(informer, &*old, &patch).await?;
            }
            None => drop(shared.create(informer, &new).await?),
        }
    }
    shared.delete_all(informer, there).await
}
