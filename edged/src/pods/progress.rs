//! The result of a plan's actions.

use jiff::Timestamp;

use crate::{observed::CreatedItem, status::Waiting, timestamps};

/// The result of one or more actions.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Sandboxes and containers that were created.
    created: Vec<CreatedItem>,
    /// Whether existing ones have changed.
    changed: bool,
    /// When a failed action may be tried again.
    pub(super) retry_at: Option<Timestamp>,
}

impl Progress {
    /// Returns the result of an action that changed existing sandboxes or containers.
    pub(super) fn changed() -> Self {
        Self {
            changed: true,
            ..Self::default()
        }
    }

    /// Returns the result of an action that created `one`.
    pub(super) fn created(one: CreatedItem) -> Self {
        Self {
            created: vec![one],
            ..Self::default()
        }
    }

    /// Returns the result of a failed action that may be tried again at `at`.
    pub(super) fn retry_at(at: Timestamp) -> Self {
        Self {
            retry_at: Some(at),
            ..Self::default()
        }
    }

    /// Reports whether anything changed, so that another plan may have more actions.
    pub(super) fn has_changes(&self) -> bool {
        self.changed || !self.created.is_empty()
    }

    /// Returns the created items if nothing else happened. A failed action may have left something that has to be observed.
    pub(super) fn into_created_only(self) -> Option<Vec<CreatedItem>> {
        (!self.changed && self.retry_at.is_none()).then_some(self.created)
    }

    /// Combines the results of two actions.
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.created.extend(other.created);
        Self {
            changed: self.changed || other.changed,
            retry_at: timestamps::earlier(self.retry_at, other.retry_at),
            ..self
        }
    }
}

/// Why a container does not start now.
pub(super) enum StartError {
    /// Something has to end first, which will trigger the pod.
    Pending,
    /// It failed, and is tried again with a growing delay.
    Failed(Waiting),
    /// It is tried again at this time.
    RetryAt(Waiting, Timestamp),
}

impl StartError {
    /// Returns the error of a container whose configuration cannot be created.
    pub(super) fn config(message: impl std::fmt::Display) -> Self {
        Self::Failed(Waiting::new(
            "CreateContainerConfigError",
            message.to_string(),
        ))
    }
}
