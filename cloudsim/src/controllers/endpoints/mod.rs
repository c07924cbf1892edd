//! Endpoint slices and Endpoints of services with a selector, from the addresses of the selected pods. Slices of services without one are
//! copies of Endpoints ([`mirror`]). Endpoints are deleted with their service ([`leftover`]).

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{Endpoints, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    ResourceExt,
    runtime::{controller::Action, reflector::ObjectRef},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

mod desired;
mod leftover;
mod mirror;

pub(super) use mirror::run as run_mirroring;

use super::{
    informers::{Change, Failure, Informer, Triggers, work},
    workloads::{Shared, cluster},
};

cluster!(Cluster {
    services: Service,
    pods: Pod,
    slices: EndpointSlice,
    endpoints: Endpoints
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let services = cluster.services.clone();
    let selecting = move |change: &Change<Pod>| {
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
    };
    // somebody else may have changed or deleted them
    let of_slices = |change: &Change<EndpointSlice>| {
        let service = change.object.labels().get(desired::SERVICE_NAME).cloned();
        service.map(|name| {
            ObjectRef::new(&name).within(&change.object.namespace().unwrap_or_default())
        })
    };
    let triggers = Triggers::none()
        .and(&cluster.pods, selecting)
        .and(&cluster.slices, of_slices);
    let triggers = triggers.and(&cluster.endpoints, |change: &Change<Endpoints>| {
        let namespace = change.object.namespace().unwrap_or_default();
        change
            .gone
            .then(|| ObjectRef::new(&change.object.name_any()).within(&namespace))
    });
    let queue = (
        cluster.queues.named("endpointslice"),
        cluster.services.clone(),
    );
    let leftover = leftover::run(cluster.clone(), stop.clone());
    tokio::join!(work(queue, triggers, cluster, reconcile, stop), leftover);
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
    let selector = service
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.clone())
        .unwrap_or_default();
    let is_external =
        service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    if selector.is_empty() || is_external || service.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let mut pods = cluster
        .pods
        .in_namespace(&service.namespace().unwrap_or_default());
    pods.retain(|pod| desired::selects(&service, pod));
    pods.sort_by_key(|pod| pod.name_any());
    let there = cluster
        .slices
        .controlled_by(service.metadata.uid.as_deref().unwrap_or_default());
    write_slices(
        there,
        desired::slices(&service, &pods),
        (&cluster.shared, &cluster.slices),
    )
    .await?;
    write_endpoints(&desired::endpoints(&service, &pods), &cluster).await?;
    Ok(Action::await_change())
}

/// Updates a service's slices with as few writes as possible.
async fn write_slices(
    mut there: Vec<Arc<EndpointSlice>>,
    desired: Vec<EndpointSlice>,
    (shared, informer): (&Shared, &Informer<EndpointSlice>),
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

async fn write_endpoints(desired: &Endpoints, cluster: &Cluster) -> Result<(), Failure> {
    let there = cluster.endpoints.get(
        &desired.namespace().unwrap_or_default(),
        &desired.name_any(),
    );
    match there {
        Some(old)
            if old.subsets.clone().unwrap_or_default()
                == desired.subsets.clone().unwrap_or_default()
                && desired::is_managed(&old) =>
        {
            Ok(())
        }
        Some(old) => {
            let patch = json!({"metadata": {"labels": desired.metadata.labels}, "subsets": desired.subsets});
            cluster.patch(&cluster.endpoints, &*old, &patch).await
        }
        None => match cluster.create(&cluster.endpoints, desired).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            result => Ok(result.map(drop)?),
        },
    }
}
