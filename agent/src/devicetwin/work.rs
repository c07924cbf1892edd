//! The work that DeviceTwin receives.

use wire::{Downstream, topic::DeviceId};

use super::{core::PendingReport, handle::Command, objects::ObservedObjects};
use crate::eventbus::Received;

/// Work to be applied.
pub(super) enum Work {
    Commands(Vec<Command>),
    Requests(Vec<Received>),
    Message(Downstream),
    Objects(ObservedObjects),
    Confirmed(DeviceId, PendingReport),
    /// The time for reminders has come.
    Remind,
}

impl Work {
    /// Returns how much of a batch it fills.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Commands(commands) => commands.len(),
            Self::Requests(requests) => requests.len(),
            Self::Message(_) | Self::Objects(_) | Self::Confirmed(..) | Self::Remind => 1,
        }
    }
}
