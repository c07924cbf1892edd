//! Fault injection: links of nodes, acknowledgements, versions, certificates, and messages that no cloud should send.
//!
//! In: the wanted faults, through the methods of [`Faults`] (in tests), the API (`PUT /cloudsim/v1/faults`) or `cloudsim faults`. Out:
//! for each session of a node its [`session_link()`], which decides what becomes of its messages; for the servers, the certificate that
//! they show. Decisions are pure ([`Conditions`], [`link_queue`], [`stale`]): they take the time as an argument and draw chance from a
//! seed, so that a run can be repeated. The adapter is in the hub's transport.

mod answers;
mod certificate;
mod conditions;
pub mod hostile;
mod link_queue;
mod link_wait;
mod period;
mod profile;
mod session_link;
mod stale;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

pub use self::hostile::{Shape, UnknownShape};
pub(crate) use self::{
    answers::body as false_body,
    link_wait::{LinkDown, sleep_until_opt, wait_for_link},
    session_link::{Downlink, LinkState, Uplink, session_link},
};
pub use self::{
    answers::{Answers, UnknownAnswers},
    certificate::{Certificate, UnknownCertificate},
    conditions::{Conditions, InvalidConditions, Link, Schedule},
    period::{ParsePeriodError, Period},
    profile::{Profile, UnknownProfile},
};

/// How long a session may take to write a hostile message.
const HOSTILE_WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many hostile messages may wait for one session.
const MAX_PENDING_HOSTILE: usize = 256;

/// The nodes whose links a fault concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultTarget {
    /// Every node without conditions of its own.
    All,
    /// The node of this name.
    Node(String),
}

impl FromStr for FaultTarget {
    type Err = std::convert::Infallible;

    /// Parses `all`, or the name of a node.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "all" {
            Self::All
        } else {
            Self::Node(text.to_owned())
        })
    }
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Node(name) => f.write_str(name),
        }
    }
}

/// Why a hostile message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendHostileError {
    /// The node has no session.
    #[error("node {0} is not connected; see `cloudsim nodes`")]
    NotConnected(String),
    /// The session did not write it in time.
    #[error("the message was not sent: the session of node {0} ended or stalled")]
    NotWritten(String),
    /// Too many messages wait for the session.
    #[error(
        "{MAX_PENDING_HOSTILE} messages already wait for node {0}; try again after they were sent"
    )]
    Full(String),
}

/// All faults that are injected now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveFaults {
    /// The seed of random decisions.
    pub seed: u64,
    /// The certificate that the servers for nodes show.
    pub certificate: Certificate,
    /// How the enrolment server answers.
    pub answers: Answers,
    /// The conditions of all nodes that are not in `nodes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<Conditions>,
    /// The conditions of single nodes.
    pub nodes: BTreeMap<String, Conditions>,
}

/// Injects faults; cheap to clone.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    seed: u64,
    state: Mutex<State>,
    /// Counts changes of link conditions.
    changes: watch::Sender<u64>,
    certificate: watch::Sender<Certificate>,
    answers: watch::Sender<Answers>,
}

#[derive(Debug, Default)]
struct State {
    all: Option<ActiveConditions>,
    nodes: BTreeMap<String, ActiveConditions>,
    hostile: HashMap<String, VecDeque<Injection>>,
    /// The number of sessions that each node has had.
    session_numbers: HashMap<String, u64>,
}

/// Returns the time of tokio's clock, which is virtual in a simulation.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Conditions, with the time at which they were set.
#[derive(Clone, Debug)]
pub(crate) struct ActiveConditions {
    /// As they were given, for display.
    given: Conditions,
    /// With the values of their profile filled in.
    pub(crate) lowered: Arc<Conditions>,
    pub(crate) since: Instant,
}

/// A hostile message to be written, with a channel that reports that it was.
#[derive(Debug)]
pub(crate) struct Injection {
    node: String,
    shape: Shape,
    written: oneshot::Sender<()>,
}

impl Injection {
    /// Returns what is written to the node.
    pub(crate) fn messages(&self) -> Vec<hostile::RawMessage> {
        self.shape.messages(&self.node)
    }

    /// Reports that the message was written.
    pub(crate) fn finish(self) {
        let _ = self.written.send(());
    }
}

impl Faults {
    /// Creates a handle without any faults.
    pub fn new(seed: u64) -> Self {
        let (changes, certificate) = (
            watch::Sender::new(0),
            watch::Sender::new(Certificate::Genuine),
        );
        let answers = watch::Sender::new(Answers::Genuine);
        Self(Arc::new(Inner {
            seed,
            state: Mutex::default(),
            changes,
            certificate,
            answers,
        }))
    }

    /// Sets the conditions of links.
    ///
    /// # Errors
    /// Returns an error if the conditions are invalid; nothing has changed then.
    pub fn set(
        &self,
        target: &FaultTarget,
        conditions: Conditions,
    ) -> Result<(), InvalidConditions> {
        conditions.check()?;
        let lowered = conditions.lowered();
        lowered.check()?;
        let set = ActiveConditions {
            given: conditions,
            lowered: Arc::new(lowered),
            since: now(),
        };
        {
            let mut state = self.0.state.lock();
            match target {
                FaultTarget::All => state.all = Some(set),
                FaultTarget::Node(node) => drop(state.nodes.insert(node.clone(), set)),
            }
        }
        self.notify();
        Ok(())
    }

    /// Removes the conditions of these links; a single node then has those of all nodes.
    pub fn clear(&self, target: &FaultTarget) {
        {
            let mut state = self.0.state.lock();
            match target {
                FaultTarget::All => state.all = None,
                FaultTarget::Node(node) => drop(state.nodes.remove(node)),
            }
        }
        self.notify();
    }

    /// Removes all faults: of links, certificates and answers.
    pub fn clear_everything(&self) {
        {
            let mut state = self.0.state.lock();
            state.all = None;
            state.nodes.clear();
            // the sessions stay, without what waits for them
            state.hostile.values_mut().for_each(VecDeque::clear);
        }
        self.set_certificate(Certificate::Genuine);
        self.set_answers(Answers::Genuine);
        self.notify();
    }

    /// Cuts the node's connections and refuses new ones.
    pub fn cut_link(&self, node: &str) {
        self.put(node, Link::Cut);
    }

    /// Makes the node's link half-open: connections stay, and nothing comes through.
    pub fn half_open(&self, node: &str) {
        self.put(node, Link::HalfOpen);
    }

    /// Removes the faults of the node's link.
    pub fn restore(&self, node: &str) {
        self.clear(&FaultTarget::Node(node.to_owned()));
    }

    fn put(&self, node: &str, link: Link) {
        // conditions with only a link state are always valid
        let _ = self.set(&FaultTarget::Node(node.to_owned()), Conditions::link(link));
    }

    /// Sets the certificate that the servers for nodes show; older connections are closed.
    pub fn set_certificate(&self, certificate: Certificate) {
        self.0
            .certificate
            .send_if_modified(|now| std::mem::replace(now, certificate) != certificate);
    }

    /// Returns the certificate that the servers for nodes show, as a watch.
    pub(crate) fn certificate(&self) -> watch::Receiver<Certificate> {
        self.0.certificate.subscribe()
    }

    /// Sets how the enrolment server responds; unfinished responses are aborted.
    pub fn set_answers(&self, answers: Answers) {
        self.0.answers.send_replace(answers);
    }

    /// Returns how the enrolment server answers, as a watch.
    pub(crate) fn answers(&self) -> watch::Receiver<Answers> {
        self.0.answers.subscribe()
    }

    /// Returns the certificate that the servers for nodes show now.
    pub(crate) fn certificate_fault(&self) -> Certificate {
        *self.0.certificate.borrow()
    }

    /// Sends a message that no cloud should send, and waits until it is written.
    ///
    /// # Errors
    /// Returns an error if the node has no session, or the session ends before.
    pub async fn send_hostile(&self, node: &str, shape: Shape) -> Result<(), SendHostileError> {
        let (written, done) = oneshot::channel();
        {
            let mut state = self.0.state.lock();
            let Some(waiting) = state.hostile.get_mut(node) else {
                return Err(SendHostileError::NotConnected(node.to_owned()));
            };
            if waiting.len() >= MAX_PENDING_HOSTILE {
                return Err(SendHostileError::Full(node.to_owned()));
            }
            waiting.push_back(Injection {
                node: node.to_owned(),
                shape,
                written,
            });
        }
        self.notify();
        let written = timeout(HOSTILE_WRITE_TIMEOUT, done).await;
        written
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| SendHostileError::NotWritten(node.to_owned()))
    }

    /// Returns all faults that are injected now.
    pub fn active(&self) -> ActiveFaults {
        let state = self.0.state.lock();
        ActiveFaults {
            seed: self.0.seed,
            certificate: *self.0.certificate.borrow(),
            answers: *self.0.answers.borrow(),
            all: state.all.as_ref().map(|set| set.given.clone()),
            nodes: state
                .nodes
                .iter()
                .map(|(node, set)| (node.clone(), set.given.clone()))
                .collect(),
        }
    }

    /// Returns the conditions of this node's link; `None` if it has no faults.
    pub(crate) fn on(&self, node: &str) -> Option<ActiveConditions> {
        let state = self.0.state.lock();
        state
            .nodes
            .get(node)
            .or(state.all.as_ref())
            .filter(|set| !set.lowered.is_perfect())
            .cloned()
    }

    /// Returns a watch that changes with the conditions of links.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn notify(&self) {
        self.0
            .changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Takes the next hostile message for this node.
    fn next_hostile(&self, node: &str) -> Option<Injection> {
        self.0.state.lock().hostile.get_mut(node)?.pop_front()
    }

    /// Registers a session of the node and returns its number.
    fn begin(&self, node: &str) -> u64 {
        let mut state = self.0.state.lock();
        // messages for an older session must not be written to this one
        state.hostile.insert(node.to_owned(), VecDeque::new());
        let number = state.session_numbers.entry(node.to_owned()).or_default();
        *number += 1;
        *number
    }

    /// Unregisters the session of this number.
    fn end(&self, node: &str, number: u64) {
        let mut state = self.0.state.lock();
        if state.session_numbers.get(node) == Some(&number) {
            state.hostile.remove(node);
        }
    }
}

#[cfg(test)]
mod tests;
