//! Pressure: when memory, disk or process ids of the node run short, the node says so, refuses pods, and evicts others.
//!
//! In: the node's signals every ten seconds, the pods, what they use. Out: the node's conditions, pods that are marked for termination.
//!
//! | part | what |
//! |---|---|
//! | `signals`, `state`, `rank`, `limits`, `messages` | decisions, pure |
//! | `machine`, `measure` | what there is, and who uses it |
//! | `evict` | the loop |
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>.

mod evict;
mod limits;
mod machine;
mod measure;
mod messages;
mod rank;
mod signals;
mod state;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

pub(crate) use self::{
    evict::{Evictor, run},
    machine::{Machine, disk, image_root},
    messages::EVICTED,
    signals::Condition,
};
pub use self::{
    machine::Signals,
    signals::{Observation, Reading},
};

/// What the node is short of, as everybody may know it; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pressure(watch::Sender<BTreeSet<Condition>>);

impl Pressure {
    /// A node that is short of nothing.
    pub(crate) fn none() -> Self {
        Self(watch::Sender::new(BTreeSet::new()))
    }

    /// What the node is short of now.
    pub(crate) fn conditions(&self) -> BTreeSet<Condition> {
        self.0.borrow().clone()
    }

    /// Told of each change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<BTreeSet<Condition>> {
        self.0.subscribe()
    }

    /// Why a pod that is new may not start; `None` when it may.
    pub(crate) fn refuses(&self, pod: &Pod) -> Option<String> {
        messages::refused(pod, &self.0.borrow())
    }

    /// Says what the node is short of; the conditions that changed.
    fn set(&self, conditions: &BTreeSet<Condition>) -> Vec<(Condition, bool)> {
        let changed =
            self.0.borrow().symmetric_difference(conditions).map(|c| (*c, conditions.contains(c))).collect();
        self.0.send_if_modified(|known| {
            let differs = known != conditions;
            if differs {
                known.clone_from(conditions);
            }
            differs
        });
        changed
    }
}
