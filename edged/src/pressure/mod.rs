//! Resource pressure: the decisions when memory, disk space or process ids of the node run short. New pods are refused, and the
//! loop in [`crate::eviction`] evicts others.
//!
//! | part | what |
//! |---|---|
//! | `signals`, `state`, `rank`, `limits`, `messages` | decisions without input or output |
//! | `machine`, `measure` | the signals of the machine, and the usage of pods |
//! | `shortage` | thresholds that are met before an agent runs |
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>.

pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod messages;
pub(crate) mod rank;
mod shortage;
pub(crate) mod signals;
pub(crate) mod state;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;

pub(crate) use self::{
    machine::{MachineSignals, image_root},
    messages::EVICTED,
    signals::Condition,
};
pub use self::{
    machine::{Signals, disk, machine_signals},
    shortage::{Shortage, low_signals},
    signals::{Observation, Reading},
};

/// The node's pressure conditions, shared between parts. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pressure(watch::Sender<BTreeSet<Condition>>);

impl Pressure {
    /// Returns a node without pressure.
    pub(crate) fn none() -> Self {
        Self(watch::Sender::new(BTreeSet::new()))
    }

    /// Returns the current conditions.
    pub(crate) fn conditions(&self) -> BTreeSet<Condition> {
        self.0.borrow().clone()
    }

    /// Subscribes to changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<BTreeSet<Condition>> {
        self.0.subscribe()
    }

    /// Returns why a new pod may not start, `None` if it may.
    pub(crate) fn refusal(&self, pod: &Pod) -> Option<String> {
        messages::refusal(pod, &self.0.borrow())
    }

    /// Sets the conditions and returns those that changed, each with its new value.
    pub(crate) fn set(&self, conditions: &BTreeSet<Condition>) -> Vec<(Condition, bool)> {
        let changed = self
            .0
            .borrow()
            .symmetric_difference(conditions)
            .map(|c| (*c, conditions.contains(c)))
            .collect();
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
