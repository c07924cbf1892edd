//! What comes to DeviceTwin.

use wire::{Downstream, topic::DeviceId};

use super::{core::Due, handle::Command, objects::Seen};
use crate::eventbus::Received;

/// Something that has come and is to be carried out.
pub(super) enum Work {
    Commands(Vec<Command>),
    Requests(Vec<Received>),
    Message(Downstream),
    Seen(Seen),
    Confirmed(DeviceId, Due),
    /// Some time has passed.
    Remind,
}

impl Work {
    /// How much of a turn it fills.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Commands(commands) => commands.len(),
            Self::Requests(requests) => requests.len(),
            Self::Message(_) | Self::Seen(_) | Self::Confirmed(..) | Self::Remind => 1,
        }
    }
}
