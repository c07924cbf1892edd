//! Rolling updates with `maxSurge`: a node's new pod is available before the old one is deleted. Pure.
//!
//! Source: <https://kubernetes.io/docs/tasks/manage-daemon/update-daemon-set/>.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};

use super::placement::Placement;
use crate::controllers::workloads::{deployment::amount, hash, pods::is_available};

/// An update during which nodes may have two pods.
#[derive(Debug)]
pub(super) struct Surge<'a> {
    revision: &'a str,
    min_ready: i32,
    now: Timestamp,
    /// How many more nodes may get a second pod.
    room: usize,
    /// The nodes with an available old pod and without a new one.
    waiting: Vec<String>,
}

impl<'a> Surge<'a> {
    /// Returns the state of the update, if the set has `maxSurge`.
    pub(super) fn of(
        set: &DaemonSet,
        revision: &'a str,
        nodes: &[Arc<Node>],
        placement: &Placement<'_>,
        now: Timestamp,
    ) -> Option<Self> {
        let spec = set.spec.as_ref()?;
        let strategy = spec.update_strategy.as_ref()?;
        let most = strategy.rolling_update.as_ref()?.max_surge.as_ref()?;
        let wanted = nodes
            .iter()
            .filter(|node| placement.should_run(node))
            .count();
        let room = amount(Some(most), i32::try_from(wanted).unwrap_or(i32::MAX), true);
        let room = usize::try_from(room).ok().filter(|room| *room > 0)?;
        if strategy.type_.as_deref() == Some("OnDelete") {
            return None;
        }
        let min_ready = spec.min_ready_seconds.unwrap_or_default();
        Some(Self {
            revision,
            min_ready,
            now,
            room,
            waiting: Vec::new(),
        })
    }

    /// Plans for a node with the pods `kept`, the oldest first; `free` names the node if no other pod there is being deleted. Adds pods
    /// to delete, and the node if it gets a pod.
    pub(super) fn plan_node(
        &mut self,
        kept: &[&Arc<Pod>],
        free: Option<String>,
        delete: &mut Vec<Arc<Pod>>,
        create: &mut Vec<String>,
    ) {
        let is_new = |pod: &Pod| {
            pod.metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(hash::REVISION))
                .is_some_and(|own| own == self.revision)
        };
        let works = |pod: &Pod| is_available(pod, self.min_ready, self.now);
        let (new, old): (Vec<_>, Vec<_>) = kept.iter().copied().partition(|pod| is_new(pod));
        // at most one of each
        delete.extend(
            new.iter()
                .skip(1)
                .chain(old.iter().skip(1))
                .map(|pod| Arc::clone(pod)),
        );
        match (old.first(), new.first()) {
            (Some(old), Some(new)) if works(new) => delete.push(Arc::clone(old)),
            (Some(_), Some(_)) => self.room = self.room.saturating_sub(1),
            // a second pod can be created at once if the first is not available
            (Some(old), None) if !works(old) => create.extend(free),
            (Some(_), None) => self.waiting.extend(free),
            (None, _) => {}
        }
    }

    /// Returns the nodes that get their new pod now.
    pub(super) fn next(self) -> impl Iterator<Item = String> {
        self.waiting.into_iter().take(self.room)
    }
}
