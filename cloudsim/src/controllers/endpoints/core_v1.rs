//! Endpoints of services with a selector, from the addresses of the selected pods. They are deleted with their service ([`leftover`]).

use std::sync::Arc;

use crate::controllers::reconciler::Action;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{desired, leftover, selected_pods, selecting};
use crate::controllers::{
    informers::{Change, Failure, Triggers, work},
    workloads::cluster,
};

cluster!(Cluster {
    services: Service,
    pods: Pod,
    endpoints: Endpoints
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let triggers = Triggers::none().and(&cluster.pods, selecting(&cluster.services));
    let triggers = triggers.and(&cluster.endpoints, |change: &Change<Endpoints>| {
        let namespace = change.object.namespace().unwrap_or_default();
        change
            .gone
            .then(|| ObjectRef::new(&change.object.name_any()).within(&namespace))
    });
    let queue = (cluster.queues.queue("endpoint"), cluster.services.clone());
    let of_leftover = leftover::Cluster {
        shared: cluster.shared.clone(),
        services: cluster.services.clone(),
        endpoints: cluster.endpoints.clone(),
    };
    let leftover = leftover::run(of_leftover, stop.clone());
    tokio::join!(work(queue, triggers, cluster, reconcile, stop), leftover);
}

async fn reconcile(service: Arc<Service>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
    if let Some(pods) = selected_pods(&service, &cluster.pods) {
        write_endpoints(&desired::endpoints(&service, &pods), &cluster).await?;
    }
    Ok(Action::await_change())
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
