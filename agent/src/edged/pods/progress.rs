//! What came of the steps of a plan.

use jiff::Timestamp;

use crate::edged::{moment, observed::Made, status::Waiting};

/// What came of the steps of a plan.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What the pod has got.
    made: Vec<Made>,
    /// What it had has changed.
    changed: bool,
    /// When something that failed may be tried again.
    pub(super) retry_at: Option<Timestamp>,
}

impl Progress {
    /// What the pod had has changed.
    pub(super) fn changed() -> Self {
        Self { changed: true, ..Self::default() }
    }

    /// The pod has got this.
    pub(super) fn made(one: Made) -> Self {
        Self { made: vec![one], ..Self::default() }
    }

    /// A step failed, and may be tried again then.
    pub(super) fn retry_at(at: Timestamp) -> Self {
        Self { retry_at: Some(at), ..Self::default() }
    }

    /// Whether the runtime has something else than before, so that another plan may have more steps.
    pub(super) fn is_any(&self) -> bool {
        self.changed || !self.made.is_empty()
    }

    /// What was made, if that is all that has happened: what failed may have left something, too.
    pub(super) fn only_made(self) -> Option<Vec<Made>> {
        (!self.changed && self.retry_at.is_none()).then_some(self.made)
    }

    /// What came of two steps.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.made.extend(other.made);
        Self {
            changed: self.changed || other.changed,
            retry_at: moment::earlier(self.retry_at, other.retry_at),
            ..self
        }
    }
}

/// Why a container does not start.
pub(super) enum StartError {
    /// Something has to end first, and will trigger the pod.
    Pending,
    /// It is tried again later, each time a little later.
    Failed(Waiting),
    /// It is tried again then.
    RetryAt(Waiting, Timestamp),
}

impl StartError {
    /// What the pod asks for cannot be made.
    pub(super) fn config(message: impl std::fmt::Display) -> Self {
        Self::Failed(Waiting::new("CreateContainerConfigError", message.to_string()))
    }
}
