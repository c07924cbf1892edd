//! The controllers of KubeEdge's ControllerManager in a cluster: node jobs, node groups and edge applications. They stop while a pod of
//! ControllerManager itself is active, since both would write the same objects.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::ControllerName;
use crate::{
    controllers::{
        edge_applications,
        informers::Informer,
        node_groups, node_jobs,
        workloads::{Reflectors, cluster, pods::is_active},
    },
    tasks::Tasks,
};

/// The end of the image's repository, as in KubeEdge's chart.
const IMAGE: &str = "kubeedge/controller-manager";

cluster!(Pods { pods: Pod });

/// Runs until `stop`.
pub(super) async fn run(
    cluster: Pods,
    reflectors: Reflectors,
    node_groups: bool,
    tasks: Tasks,
    stop: CancellationToken,
) {
    let mut changes = cluster.pods.listen();
    let mut other = active_pod(&cluster.pods);
    loop {
        let (own_tasks, own_stop) = (tasks.nested(), stop.child_token());
        if let Some(pod) = &other {
            warn!(
                pod,
                "KubeEdge's ControllerManager detected; own controllers of node jobs, node groups and edge applications disabled"
            );
        } else {
            start(
                &reflectors.for_controllers(&own_tasks, &own_stop),
                node_groups,
            );
        }
        let before = other.clone();
        while before.is_some() == other.is_some() {
            // cancel-safe: a change that is not taken is taken the next time
            let change = clock::select! {
                () = stop.cancelled() => None,
                change = changes.recv() => change,
            };
            let Some(change) = change else {
                own_tasks.close();
                let _ = own_tasks.wait().await;
                return;
            };
            if change.states().any(|pod| is_controller_manager(pod)) {
                other = active_pod(&cluster.pods);
            }
        }
        own_stop.cancel();
        own_tasks.close();
        // a panic is one of all tasks, too
        let _ = own_tasks.wait().await;
        if let Some(pod) = before {
            info!(
                pod,
                "controllers of node jobs, node groups and edge applications started: KubeEdge's ControllerManager has ended"
            );
        }
    }
}

fn start(reflectors: &Reflectors, node_groups: bool) {
    reflectors.start(ControllerName::TaskManager.as_str(), node_jobs::run);
    if node_groups {
        reflectors.start(ControllerName::NodeGroup.as_str(), node_groups::run);
        reflectors.start(
            ControllerName::EdgeApplication.as_str(),
            edge_applications::run,
        );
    }
}

/// Returns namespace and name of an active pod of ControllerManager.
fn active_pod(pods: &Informer<Pod>) -> Option<String> {
    let all = pods.all();
    let found = all
        .iter()
        .find(|pod| is_controller_manager(pod) && is_active(pod))?;
    Some(format!(
        "{}/{}",
        found.namespace().unwrap_or_default(),
        found.name_any()
    ))
}

fn is_controller_manager(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut images = containers.filter_map(|container| container.image.as_deref());
    images.any(|image| {
        let image = image.split_once('@').map_or(image, |(name, _)| name);
        let (start, last) = image.rsplit_once('/').unwrap_or(("", image));
        let last = last.split_once(':').map_or(last, |(name, _)| name);
        format!("{start}/{last}").ends_with(IMAGE)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn controller_manager_is_found_by_its_image() {
        let rows = [
            ("kubeedge/controller-manager:v1.23.1", true),
            ("docker.io/kubeedge/controller-manager", true),
            (
                "registry.example:5000/mirror/kubeedge/controller-manager:v1@sha256:ab",
                true,
            ),
            ("registry.k8s.io/kube-controller-manager:v1.36.2", false),
            ("kubeedge/cloudcore:v1.23.1", false),
            ("controller-manager", false),
        ];
        for (image, expected) in rows {
            let pod = json!({"spec": {"containers": [{"name": "a", "image": "b"}, {"name": "c", "image": image}]}});
            let pod = serde_json::from_value(pod).unwrap();
            assert_eq!(is_controller_manager(&pod), expected, "{image}");
        }
    }
}
