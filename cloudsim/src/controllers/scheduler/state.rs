//! The state of the scheduler, and which pods are queued again when it changes. Pure.

use std::sync::Arc;

use clock::HashSet;
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::ResourceExt;

use super::{
    node_state::is_ready,
    nodes::{Nodes, node_of},
    queue::Queue,
    storage::{Storage, claims_of},
};
use crate::controllers::{informers::Change, workloads::pods::is_finished};

/// The scheduler's name of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Nodes, volumes, and waiting pods.
#[derive(Debug, Default)]
pub(super) struct SchedulerState {
    pub(super) nodes: Nodes,
    pub(super) storage: Storage,
    pub(super) queue: Queue,
    /// Uids of bound pods whose binding the watch has not reported yet.
    assumed: HashSet<String>,
}

/// Reports whether a pod waits for this scheduler.
pub(super) fn wants_a_node(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.node_name.as_deref().unwrap_or_default().is_empty()
        && pod.metadata.deletion_timestamp.is_none()
        && !is_finished(pod)
        && spec.scheduler_name.as_deref().unwrap_or(DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
        && spec
            .scheduling_gates
            .as_deref()
            .unwrap_or_default()
            .is_empty()
}

/// Reports whether the pod's placement depends on other pods.
fn has_neighbours(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| {
        spec.affinity.as_ref().is_some_and(|affinity| {
            affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some()
        }) || spec
            .topology_spread_constraints
            .as_ref()
            .is_some_and(|all| !all.is_empty())
    })
}

fn has_volumes(pod: &Pod) -> bool {
    !claims_of(pod).is_empty()
}

impl SchedulerState {
    /// Handles a change of a pod.
    pub(super) fn pod(&mut self, change: &Change<Pod>) {
        let pod = &change.object;
        let uid = pod.uid().unwrap_or_default();
        if change.gone {
            self.assumed.remove(&uid);
            self.queue.remove(&uid);
            self.take(&uid);
            return;
        }
        if wants_a_node(pod) {
            // the change is older than the binding
            if !self.assumed.contains(&uid) {
                self.queue.add(Arc::clone(pod));
            }
            return;
        }
        self.queue.remove(&uid);
        self.assumed.remove(&uid);
        if is_finished(pod) || node_of(pod).is_none() {
            self.take(&uid);
            return;
        }
        let is_new = !self.nodes.has_pod(&uid);
        let moves = |pod: &Pod| {
            (
                pod.metadata.labels.clone(),
                pod.metadata.deletion_timestamp.is_some(),
            )
        };
        let matters = change
            .before
            .as_ref()
            .is_none_or(|before| moves(before) != moves(pod));
        let resized = change
            .before
            .as_ref()
            .is_some_and(|before| before.spec != pod.spec && node_of(before).is_some());
        self.place_pod(pod);
        if resized {
            self.queue.wake(|_| true);
        } else if is_new || matters {
            self.queue.wake(has_neighbours);
        }
    }

    /// Releases what a pod uses.
    fn take(&mut self, uid: &str) {
        self.storage.users.remove(uid);
        if self.nodes.has_pod(uid) {
            self.nodes.remove_pod(uid);
            self.queue.wake(|_| true);
        }
    }

    fn place_pod(&mut self, pod: &Arc<Pod>) {
        let claims = claims_of(pod);
        if !claims.is_empty() {
            self.storage.users.insert(
                pod.uid().unwrap_or_default(),
                (pod.namespace().unwrap_or_default(), claims),
            );
        }
        self.nodes.set_pod(pod);
    }

    /// Handles a change of a node.
    pub(super) fn node(&mut self, change: &Change<Node>) {
        if change.gone {
            self.nodes.remove_node(&change.object.name_any());
            // spreads and affinities may be met now
            self.queue.wake(has_neighbours);
            return;
        }
        let facts = |node: &Node| {
            let spec = node.spec.clone().unwrap_or_default();
            let allocatable = node
                .status
                .as_ref()
                .and_then(|status| status.allocatable.clone());
            (
                node.metadata.labels.clone(),
                spec.taints,
                spec.unschedulable,
                allocatable,
                is_ready(node),
            )
        };
        self.nodes.set_node(Arc::clone(&change.object));
        // heartbeats make no room
        if change
            .before
            .as_ref()
            .is_none_or(|before| facts(before) != facts(&change.object))
        {
            self.queue.wake(|_| true);
        }
    }

    /// Handles a change of a claim.
    pub(super) fn claim(&mut self, change: &Change<PersistentVolumeClaim>) {
        let key = (
            change.object.namespace().unwrap_or_default(),
            change.object.name_any(),
        );
        if change.gone {
            self.storage.claims.remove(&key);
        } else {
            self.storage.claims.insert(key, Arc::clone(&change.object));
        }
        self.queue.wake(has_volumes);
    }

    /// Handles a change of a volume.
    pub(super) fn volume(&mut self, change: &Change<PersistentVolume>) {
        if change.gone {
            self.storage.volumes.remove(&change.object.name_any());
        } else {
            self.storage
                .volumes
                .insert(change.object.name_any(), Arc::clone(&change.object));
        }
        self.queue.wake(has_volumes);
    }

    /// Handles a change of a storage class.
    pub(super) fn class(&mut self, change: &Change<StorageClass>) {
        if change.gone {
            self.storage.classes.remove(&change.object.name_any());
        } else {
            self.storage
                .classes
                .insert(change.object.name_any(), Arc::clone(&change.object));
        }
        self.queue.wake(has_volumes);
    }

    /// Treats the pod as bound to the node; kube-scheduler's assume.
    pub(super) fn assume(&mut self, pod: &Pod, node: &str) {
        let uid = pod.uid().unwrap_or_default();
        let mut bound = pod.clone();
        bound.spec.get_or_insert_default().node_name = Some(node.to_owned());
        self.queue.remove(&uid);
        self.assumed.insert(uid);
        self.place_pod(&Arc::new(bound));
        self.queue.wake(has_neighbours);
    }

    /// Reverts [`Self::assume`] after a failed binding: the pod waits again. If it is gone or has another node, the watch reports that.
    pub(super) fn forget(&mut self, pod: &Pod) {
        let uid = pod.uid().unwrap_or_default();
        self.assumed.remove(&uid);
        self.take(&uid);
        self.queue.add(Arc::new(pod.clone()));
        self.queue
            .mark_unschedulable(&uid, tokio::time::Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_pods_that_wait_for_this_scheduler_want_a_node() {
        for (spec, wants) in [
            (json!({"containers": []}), true),
            (json!({"containers": [], "nodeName": ""}), true),
            (json!({"containers": [], "nodeName": "a"}), false),
            (json!({"containers": [], "schedulerName": "mine"}), false),
            (
                json!({"containers": [], "schedulingGates": [{"name": "x"}]}),
                false,
            ),
        ] {
            let pod: Value =
                json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec});
            assert_eq!(
                wants_a_node(&serde_json::from_value(pod).unwrap()),
                wants,
                "{spec}"
            );
        }
    }
}
