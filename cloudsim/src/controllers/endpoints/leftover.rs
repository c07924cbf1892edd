//! Deletes Endpoints with their Service, even if a user created them.
//!
//! Source: Kubernetes' endpoints controller. Endpoints of a name without a service are kept if no service ever had the name; at the
//! start, ones managed by the controller are left over from a service that was deleted meanwhile.

use std::sync::Arc;

use clock::HashSet;

use crate::controllers::reconciler::Action;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::desired::is_managed;
use crate::controllers::{
    informers::{Change, Failure, Triggers, work},
    workloads::cluster,
};

cluster!(Cluster {
    services: Service,
    endpoints: Endpoints
});

/// The annotation of Endpoints that older programs use for leader election.
pub(super) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

type Key = (String, String);

struct Context {
    cluster: Cluster,
    /// Deleted services whose Endpoints may exist.
    ended: Arc<Mutex<HashSet<Key>>>,
}

/// Runs until `stop`.
pub(super) async fn run(cluster: Cluster, stop: CancellationToken) {
    let ended: Arc<Mutex<HashSet<Key>>> = Arc::default();
    let (noted, endpoints) = (Arc::clone(&ended), cluster.endpoints.clone());
    let of_service = move |change: &Change<Service>| {
        let (namespace, name) = (
            change.object.namespace().unwrap_or_default(),
            change.object.name_any(),
        );
        let left = endpoints.get(&namespace, &name).filter(|_| change.gone)?;
        noted.lock().insert((namespace, name));
        Some(ObjectRef::from_obj(&*left))
    };
    let triggers = Triggers::none().and(&cluster.services, of_service);
    for left in cluster.endpoints.all().iter().filter(|one| is_managed(one)) {
        let (namespace, name) = (left.namespace().unwrap_or_default(), left.name_any());
        if cluster.services.get(&namespace, &name).is_none() {
            ended.lock().insert((namespace, name));
        }
    }
    let queue = (cluster.queues.queue("endpoints"), cluster.endpoints.clone());
    work(queue, triggers, Context { cluster, ended }, reconcile, stop).await;
}

async fn reconcile(endpoints: Arc<Endpoints>, context: Arc<Context>) -> Result<Action, Failure> {
    let cluster = &context.cluster;
    let key = (
        endpoints.namespace().unwrap_or_default(),
        endpoints.name_any(),
    );
    if !context.ended.lock().contains(&key) {
        return Ok(Action::await_change());
    }
    let has_service = cluster.services.get(&key.0, &key.1).is_some();
    if !has_service && !endpoints.annotations().contains_key(LEADER) {
        cluster.delete(&cluster.endpoints, &*endpoints).await?;
    }
    context.ended.lock().remove(&key);
    Ok(Action::await_change())
}
