//! Answers to other rooms; they go out when what they say is on disk.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use wire::{
    topic::DeviceId,
    twin::{Member, Twins},
};

use super::super::handle::{Done, Refused};

/// An answer, and where it goes.
#[derive(Debug)]
pub(in crate::devicetwin) enum Reply {
    Twins(Done<Twins>, Result<Twins, Refused>),
    Nothing(Done<()>, Result<(), Refused>),
    Desired(Done<BTreeMap<String, String>>, Result<BTreeMap<String, String>, Refused>),
    AllDesired(
        oneshot::Sender<BTreeMap<DeviceId, BTreeMap<String, String>>>,
        BTreeMap<DeviceId, BTreeMap<String, String>>,
    ),
    Members(oneshot::Sender<Vec<Member>>, Vec<Member>),
}

impl Reply {
    /// Sends it. Whoever asked may have left.
    pub(in crate::devicetwin) fn send(self) {
        match self {
            Self::Twins(to, answer) => drop(to.send(answer)),
            Self::Nothing(to, answer) => drop(to.send(answer)),
            Self::Desired(to, answer) => drop(to.send(answer)),
            Self::AllDesired(to, answer) => drop(to.send(answer)),
            Self::Members(to, answer) => drop(to.send(answer)),
        }
    }

    /// Says instead that it could not be done.
    pub(super) fn fail(self, why: &Refused) {
        match self {
            Self::Twins(to, _) => drop(to.send(Err(why.clone()))),
            Self::Nothing(to, _) => drop(to.send(Err(why.clone()))),
            Self::Desired(to, _) => drop(to.send(Err(why.clone()))),
            // it asked for nothing that can fail
            answer @ (Self::AllDesired(..) | Self::Members(..)) => answer.send(),
        }
    }
}
