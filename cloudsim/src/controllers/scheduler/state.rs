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
    nodes::{Nodes, has_pod_affinity, node_of},
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
pub(super) fn has_neighbours(pod: &Pod) -> bool {
    let spread = pod.spec.as_ref();
    let spread = spread.and_then(|spec| spec.topology_spread_constraints.as_ref());
    has_pod_affinity(pod) || spread.is_some_and(|all| !all.is_empty())
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

    /// Reverts [`Self::assume`] after a failed binding: the pod waits again, as it is now. Does nothing if a watch has reported meanwhile
    /// that it is gone or has a node.
    pub(super) fn forget(&mut self, uid: &str, now: Option<Arc<Pod>>) {
        if !self.assumed.remove(uid) {
            return;
        }
        self.take(uid);
        if let Some(pod) = now.filter(|pod| wants_a_node(pod)) {
            self.queue.add(pod);
            self.queue
                .mark_unschedulable(uid, tokio::time::Instant::now());
        }
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

    #[test]
    fn affinities_to_pods_and_spreads_depend_on_other_pods() {
        for (spec, expected) in [
            (json!({}), false),
            (json!({"affinity": {}}), false),
            (json!({"affinity": {"nodeAffinity": {}}}), false),
            (json!({"affinity": {"podAffinity": {}}}), true),
            (json!({"affinity": {"podAntiAffinity": {}}}), true),
            (json!({"topologySpreadConstraints": []}), false),
            (
                json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}),
                true,
            ),
        ] {
            let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
            pod["spec"]["containers"] = json!([]);
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(has_neighbours(&pod), expected, "{spec}");
        }
    }

    #[test]
    fn a_pod_whose_binding_failed_waits_as_it_is_now() {
        let pod = |label: &str, node: Option<&str>| {
            let metadata =
                json!({"name": "p", "namespace": "default", "uid": "1", "labels": {"a": label}});
            let pod = json!({"metadata": metadata, "spec": {"containers": [], "nodeName": node}});
            Arc::<Pod>::new(serde_json::from_value(pod).unwrap())
        };
        let reported = |object: Arc<Pod>, gone| Change {
            before: None,
            object,
            gone,
        };
        let (old, new, bound) = (pod("old", None), pod("new", None), pod("old", Some("b")));
        for (meanwhile, now, waits) in [
            (vec![], Some(&old), Some(&old)),
            (vec![reported(new.clone(), false)], Some(&new), Some(&new)),
            // the watch is behind what the API has answered
            (vec![], None, None),
            (vec![reported(old.clone(), true)], None, None),
            (vec![reported(bound.clone(), false)], Some(&bound), None),
            // the informer of pods is behind the watch
            (vec![reported(old.clone(), true)], Some(&old), None),
        ] {
            let mut state = SchedulerState::default();
            state.pod(&reported(old.clone(), false));
            state.assume(&old, "a");
            assert_eq!(state.queue.lengths(), [0; 3]);
            for change in &meanwhile {
                state.pod(change);
            }
            state.forget("1", now.cloned());
            assert_eq!(state.queue.lengths()[2], usize::from(waits.is_some()));
            state.queue.wake(|_| true);
            let next = state.queue.pop(tokio::time::Instant::now());
            assert_eq!(next.as_ref(), waits);
            assert_eq!(
                state.nodes.has_pod("1"),
                meanwhile
                    .iter()
                    .any(|change| node_of(&change.object).is_some())
            );
        }
    }
}
