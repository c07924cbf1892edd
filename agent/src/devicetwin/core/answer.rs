//! Answers to other modules; they are sent when the changes that they confirm are on disk.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use wire::{
    topic::DeviceId,
    twin::{Member, Twins},
};

use super::super::handle::{RequestError, Responder};

/// An answer with its receiver.
#[derive(Debug)]
pub(in crate::devicetwin) enum Reply {
    Twins(Responder<Twins>, Result<Twins, RequestError>),
    Nothing(Responder<()>, Result<(), RequestError>),
    Desired(
        Responder<BTreeMap<String, String>>,
        Result<BTreeMap<String, String>, RequestError>,
    ),
    AllDesired(
        oneshot::Sender<BTreeMap<DeviceId, BTreeMap<String, String>>>,
        BTreeMap<DeviceId, BTreeMap<String, String>>,
    ),
    Members(oneshot::Sender<Vec<Member>>, Vec<Member>),
}

impl Reply {
    /// Sends the answer. The receiver may be gone.
    pub(in crate::devicetwin) fn send(self) {
        match self {
            Self::Twins(to, answer) => drop(to.send(answer)),
            Self::Nothing(to, answer) => drop(to.send(answer)),
            Self::Desired(to, answer) => drop(to.send(answer)),
            Self::AllDesired(to, answer) => drop(to.send(answer)),
            Self::Members(to, answer) => drop(to.send(answer)),
        }
    }

    /// Sends an error instead.
    pub(super) fn fail(self, why: &RequestError) {
        match self {
            Self::Twins(to, _) => drop(to.send(Err(why.clone()))),
            Self::Nothing(to, _) => drop(to.send(Err(why.clone()))),
            Self::Desired(to, _) => drop(to.send(Err(why.clone()))),
            // this request cannot fail
            answer @ (Self::AllDesired(..) | Self::Members(..)) => answer.send(),
        }
    }
}
