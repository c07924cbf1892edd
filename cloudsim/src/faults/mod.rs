//! Fault injection: links of nodes, acknowledgements, versions, certificates, and messages that no cloud should send.
//!
//! Several faults act at a time, each until it is removed or its time is over.
//!
//! In: the wanted faults, through the methods of [`Faults`] (in tests), the API (`POST /cloudsim/v1/faults`) or `cloudsim faults`. Out:
//! for each session of a node its [`session_link()`], which decides what becomes of its messages; for the servers, the certificate that
//! they show. Decisions are pure ([`Conditions`], [`link_queue`], [`stale`]): they take the time as an argument and draw chance from a
//! seed, so that a run can be repeated. The adapter is in the hub's transport.

mod answers;
mod certificate;
mod conditions;
mod corruption;
mod fault;
pub mod hostile;
mod injected;
mod link_queue;
mod link_wait;
mod period;
mod profile;
mod session_link;
mod skew;
mod stale;

use std::{collections::VecDeque, error::Error, sync::Arc, time::Duration};

use clock::Instant;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use self::hostile::{Shape, UnknownShape};
pub(crate) use self::{
    answers::body as false_body,
    corruption::{Arrival, corrupt},
    fault::{LinkFaults, LinkState},
    link_wait::{LinkDown, sleep_until_opt, wait_for_link},
    session_link::{Downlink, Uplink, session_link},
};
pub use self::{
    answers::{Answers, UnknownAnswers},
    certificate::{Certificate, UnknownCertificate},
    conditions::{Conditions, Direction, InvalidConditions, Link, Schedule, UnknownDirection},
    fault::{Fault, FaultTarget},
    period::{ParsePeriodError, Period},
    profile::{Profile, UnknownProfile},
    skew::Skew,
};
use self::{fault::ActiveFault, injected::InjectedFaults};

/// How long a session may take to write a hostile message.
const HOSTILE_WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many hostile messages may wait for one session.
const MAX_PENDING_HOSTILE: usize = 256;

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
    /// The faults that are injected now, in the order in which they were.
    pub faults: Vec<Fault>,
    /// The latest faults that have ended.
    pub past: Vec<Fault>,
}

/// Injects faults; cheap to clone.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    seed: u64,
    state: Mutex<InjectedFaults>,
    /// Counts changes of link conditions.
    changes: watch::Sender<u64>,
    certificate: watch::Sender<Certificate>,
    answers: watch::Sender<Answers>,
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

    /// Sets the conditions of links, in the place of all others that this target has.
    ///
    /// # Errors
    /// Returns an error if the conditions are invalid; nothing has changed then.
    pub fn set(
        &self,
        target: &FaultTarget,
        conditions: Conditions,
    ) -> Result<(), InvalidConditions> {
        self.inject(target, conditions, true).map(drop)
    }

    /// Adds a fault to those that the target has, and returns its number. Where two set the same condition, the later one counts.
    ///
    /// # Errors
    /// Returns an error if the conditions are invalid, or there are too many faults.
    pub fn add(
        &self,
        target: &FaultTarget,
        conditions: Conditions,
    ) -> Result<u64, InvalidConditions> {
        self.inject(target, conditions, false)
    }

    fn inject(
        &self,
        target: &FaultTarget,
        mut conditions: Conditions,
        replaces: bool,
    ) -> Result<u64, InvalidConditions> {
        // all readers of the faults get the kinds
        conditions.kinds.sort_unstable();
        conditions.kinds.dedup();
        conditions.check()?;
        conditions.lowered().check()?;
        if let (FaultTarget::Node(_), Some(field)) = (target, conditions.of_servers()) {
            return Err(InvalidConditions::OneNode { field });
        }
        let id = {
            let mut state = self.0.state.lock();
            if replaces {
                state.end(Some(target), |one| !one.is_of_servers());
            }
            if state.is_full(target) {
                return Err(InvalidConditions::TooMany);
            }
            state.next_id += 1;
            let id = state.next_id;
            let fault = ActiveFault::new(id, target.clone(), conditions, Instant::now());
            state.faults.entry(target.clone()).or_default().push(fault);
            id
        };
        self.notify();
        Ok(id)
    }

    /// Removes the conditions of these links; a single node then has those of all nodes.
    pub fn clear(&self, target: &FaultTarget) {
        self.end(Some(target), |one| !one.is_of_servers());
    }

    /// Removes a fault of this target by its number. Returns false if there is none.
    pub fn remove(&self, target: &FaultTarget, id: u64) -> bool {
        self.end(Some(target), |one| one.fault.id == id)
    }

    /// Removes all faults: of links, certificates and answers.
    pub fn clear_everything(&self) {
        // the sessions stay, without what waits for them
        let mut state = self.0.state.lock();
        state.hostile.values_mut().for_each(VecDeque::clear);
        drop(state);
        self.end(None, |_| true);
    }

    fn end(&self, target: Option<&FaultTarget>, is_meant: impl Fn(&ActiveFault) -> bool) -> bool {
        let has_any = self.0.state.lock().end(target, is_meant);
        self.notify();
        has_any
    }

    /// Ends faults at their time, until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let next = self.end_expired(Instant::now());
            clock::select! {
                // cancel-safe: none of them holds data; the sender lives in the faults
                () = stop.cancelled() => return,
                _ = changes.changed() => {}
                () = sleep_until_opt(next) => {}
            }
        }
    }

    /// Ends faults whose time is over, and returns when the next one ends.
    fn end_expired(&self, now: Instant) -> Option<Instant> {
        let has_any = self.0.state.lock().end(None, |one| one.is_over(now));
        if has_any {
            self.notify();
        }
        let state = self.0.state.lock();
        let all = state.faults.values().flatten();
        all.filter_map(|one| one.effect.until).min()
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
        let target = FaultTarget::Node(node.to_owned());
        if let Err(error) = self.set(&target, Conditions::link(link)) {
            warn!(node, error = &error as &dyn Error, "failed to inject fault");
        }
    }

    /// Sets the certificate that the servers for nodes show; older connections are closed.
    pub fn set_certificate(&self, certificate: Certificate) {
        self.set_of_servers(Conditions {
            certificate: Some(certificate),
            ..Conditions::default()
        });
    }

    /// Replaces the faults of the servers for nodes which set the same condition.
    fn set_of_servers(&self, conditions: Conditions) {
        let field = conditions.of_servers();
        let genuine = [
            conditions.certificate == Some(Certificate::Genuine),
            conditions.answers == Some(Answers::Genuine),
        ];
        self.end(Some(&FaultTarget::All), |one| {
            one.is_of_servers() && one.fault.conditions.of_servers() == field
        });
        if !genuine.contains(&true)
            && let Err(error) = self.add(&FaultTarget::All, conditions)
        {
            warn!(
                error = &error as &dyn Error,
                "failed to inject fault of the servers for nodes"
            );
        }
    }

    /// Returns the certificate that the servers for nodes show, as a watch.
    pub(crate) fn certificate(&self) -> watch::Receiver<Certificate> {
        self.0.certificate.subscribe()
    }

    /// Sets how the enrolment server responds; unfinished responses are aborted.
    pub fn set_answers(&self, answers: Answers) {
        self.set_of_servers(Conditions {
            answers: Some(answers),
            ..Conditions::default()
        });
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
        let all = state.faults.values().flatten();
        let mut faults: Vec<_> = all.map(|one| one.fault.clone()).collect();
        faults.sort_by_key(|one| one.id);
        ActiveFaults {
            seed: self.0.seed,
            certificate: *self.0.certificate.borrow(),
            answers: *self.0.answers.borrow(),
            faults,
            past: state.past.iter().cloned().collect(),
        }
    }

    /// Returns the faults of this node's link; `None` if it has none. Those of the node itself replace those of all nodes.
    pub(crate) fn on(&self, node: &str) -> Option<LinkFaults> {
        let (state, now) = (self.0.state.lock(), Instant::now());
        let of = |target: &FaultTarget| -> Vec<_> {
            let all = state.faults.get(target).into_iter().flatten();
            let meant = all.filter(|one| !one.is_over(now) && !one.is_of_servers());
            meant.map(|one| one.effect.clone()).collect()
        };
        let mut found = of(&FaultTarget::Node(node.to_owned()));
        if found.is_empty() {
            found = of(&FaultTarget::All);
        }
        let faults = LinkFaults(found);
        faults.has_any().then_some(faults)
    }

    /// Returns how long each write of this node takes longer; a simulated node asks for it.
    pub fn disk_delay(&self, node: &str) -> Duration {
        let delay = self
            .on(node)
            .and_then(|faults| faults.conditions().disk_delay);
        delay.unwrap_or_default().get()
    }

    /// Reports whether the disk of this node is full; a simulated node asks for it.
    pub fn is_disk_full(&self, node: &str) -> bool {
        self.on(node)
            .is_some_and(|faults| faults.conditions().disk_full == Some(true))
    }

    /// Returns a watch that changes with the conditions of links.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Makes the state of faults known to all that wait for it.
    fn notify(&self) {
        let (certificate, answers) = {
            let state = self.0.state.lock();
            let of_all = state.faults.get(&FaultTarget::All).into_iter().flatten();
            let of_all = of_all.rev().map(|one| &one.fault.conditions);
            let certificate = of_all.clone().find_map(|one| one.certificate);
            let answers = of_all.clone().find_map(|one| one.answers);
            (certificate.unwrap_or_default(), answers.unwrap_or_default())
        };
        let (shown, given) = (&self.0.certificate, &self.0.answers);
        shown.send_if_modified(|now| std::mem::replace(now, certificate) != certificate);
        given.send_if_modified(|now| std::mem::replace(now, answers) != answers);
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
    fn end_session(&self, node: &str, number: u64) {
        let mut state = self.0.state.lock();
        if state.session_numbers.get(node) == Some(&number) {
            state.hostile.remove(node);
        }
    }
}

#[cfg(test)]
mod tests;
