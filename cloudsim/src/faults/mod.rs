//! Breaking things on purpose: links of nodes, acknowledgements, versions, certificates, and messages that no cloud should send.
//!
//! In: what is to be wrong, by [`Faults`]' methods (in tests), by the API (`PUT /cloudsim/v1/faults`) or by `cloudsim faults`.
//! Out: for each session of a node its [`line()`], which says what becomes of its messages; for the servers the certificate that they
//! show. Decisions are pure ([`Conditions`], [`way`], [`stale`]): they take the time and chance comes from a seed, so that a
//! run can be had again. Beside it lies the adapter in the hub's transport.

mod answers;
mod certificate;
mod conditions;
pub mod hostile;
mod line;
mod period;
mod profile;
mod stale;
mod way;

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

pub(crate) use self::answers::body as false_body;
pub use self::hostile::{Shape, UnknownShape};
pub(crate) use self::line::{Downward, Standing, Upward, line};
pub use self::{
    answers::{Answers, UnknownAnswers},
    certificate::{Certificate, UnknownCertificate},
    conditions::{Conditions, Impossible, Link, Schedule},
    period::{NoPeriod, Period},
    profile::{Profile, UnknownProfile},
};

/// So long may a session take to write a hostile message.
const WRITTEN: Duration = Duration::from_secs(30);
/// Hostile messages that wait for one session.
const HOSTILE: usize = 256;

/// Whose link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Every node's that has no conditions of its own.
    All,
    /// The link of the node of this name.
    Node(String),
}

impl FromStr for Whom {
    type Err = std::convert::Infallible;

    /// `all`, or the name of a node.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "all" { Self::All } else { Self::Node(text.to_owned()) })
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Node(name) => f.write_str(name),
        }
    }
}

/// Why a hostile message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// There is no session.
    #[error("node {0} is not connected; see `cloudsim nodes`")]
    NotConnected(String),
    /// The session did not get to it.
    #[error("the message was not written: the session of node {0} ended or stalled")]
    NotWritten(String),
    /// Too many are waiting.
    #[error("{HOSTILE} messages wait for node {0} already; wait until they are written")]
    Full(String),
}

/// Everything that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wrong {
    /// What chance is drawn from.
    pub seed: u64,
    /// What the servers for nodes show.
    pub certificate: Certificate,
    /// How the enrolment server answers.
    pub answers: Answers,
    /// The links of all nodes but those below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<Conditions>,
    /// The links of single nodes.
    pub nodes: BTreeMap<String, Conditions>,
}

/// The handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    seed: u64,
    state: Mutex<State>,
    /// Counts changes.
    changes: watch::Sender<u64>,
    certificate: watch::Sender<Certificate>,
    answers: watch::Sender<Answers>,
}

#[derive(Debug, Default)]
struct State {
    all: Option<Set>,
    nodes: BTreeMap<String, Set>,
    hostile: HashMap<String, VecDeque<Injection>>,
    /// Sessions that nodes have had.
    lines: HashMap<String, u64>,
}

/// Now, by the clock that timers go by, which is virtual in a simulation.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Conditions, and since when they hold.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// As they were given, for people.
    given: Conditions,
    /// With what their profile says.
    pub(crate) lowered: Arc<Conditions>,
    pub(crate) since: Instant,
}

/// A hostile message on its way, and who wants to know that it was written.
#[derive(Debug)]
pub(crate) struct Injection {
    node: String,
    shape: Shape,
    written: oneshot::Sender<()>,
}

impl Injection {
    /// What is written for it.
    pub(crate) fn messages(&self) -> Vec<hostile::Raw> {
        self.shape.messages(&self.node)
    }

    /// It was written.
    pub(crate) fn done(self) {
        let _ = self.written.send(());
    }
}

impl Faults {
    /// Nothing is wrong yet.
    pub fn new(seed: u64) -> Self {
        let (changes, certificate) = (watch::Sender::new(0), watch::Sender::new(Certificate::Genuine));
        let answers = watch::Sender::new(Answers::Genuine);
        Self(Arc::new(Inner { seed, state: Mutex::default(), changes, certificate, answers }))
    }

    /// From now on links are like this.
    ///
    /// # Errors
    /// The conditions cannot be; nothing has changed.
    pub fn set(&self, whom: &Whom, conditions: Conditions) -> Result<(), Impossible> {
        conditions.check()?;
        let lowered = conditions.lowered();
        lowered.check()?;
        let set = Set { given: conditions, lowered: Arc::new(lowered), since: now() };
        {
            let mut state = self.0.state.lock();
            match whom {
                Whom::All => state.all = Some(set),
                Whom::Node(node) => drop(state.nodes.insert(node.clone(), set)),
            }
        }
        self.changed();
        Ok(())
    }

    /// From now on links are as without faults; a node's own are again as all.
    pub fn clear(&self, whom: &Whom) {
        {
            let mut state = self.0.state.lock();
            match whom {
                Whom::All => state.all = None,
                Whom::Node(node) => drop(state.nodes.remove(node)),
            }
        }
        self.changed();
    }

    /// Nothing is wrong any more, with links, certificates and answers.
    pub fn clear_everything(&self) {
        {
            let mut state = self.0.state.lock();
            state.all = None;
            state.nodes.clear();
            state.hostile.clear();
        }
        self.set_certificate(Certificate::Genuine);
        self.set_answers(Answers::Genuine);
        self.changed();
    }

    /// Ends the node's connections, and those to come.
    pub fn cut(&self, node: &str) {
        self.put(node, Link::Cut);
    }

    /// The node's link stands, and nothing comes through.
    pub fn half_open(&self, node: &str) {
        self.put(node, Link::HalfOpen);
    }

    /// The node's link is as without faults.
    pub fn restore(&self, node: &str) {
        self.clear(&Whom::Node(node.to_owned()));
    }

    fn put(&self, node: &str, link: Link) {
        // a link that stands or not is possible always
        let _ = self.set(&Whom::Node(node.to_owned()), Conditions::link(link));
    }

    /// From now on the servers for nodes show this certificate; connections made before end.
    pub fn set_certificate(&self, certificate: Certificate) {
        self.0.certificate.send_if_modified(|now| std::mem::replace(now, certificate) != certificate);
    }

    /// Which certificate the servers for nodes show, and when that changes.
    pub(crate) fn certificate(&self) -> watch::Receiver<Certificate> {
        self.0.certificate.subscribe()
    }

    /// From now on the enrolment server answers like this; false answers under way end.
    pub fn set_answers(&self, answers: Answers) {
        self.0.answers.send_replace(answers);
    }

    /// How the enrolment server answers, and when that changes.
    pub(crate) fn answers(&self) -> watch::Receiver<Answers> {
        self.0.answers.subscribe()
    }

    /// Which certificate the servers for nodes show now.
    pub(crate) fn shown(&self) -> Certificate {
        *self.0.certificate.borrow()
    }

    /// Sends a message that no cloud should send, and waits until it is written.
    ///
    /// # Errors
    /// The session ends before, or is not there.
    pub async fn send_hostile(&self, node: &str, shape: Shape) -> Result<(), NotSent> {
        let (written, done) = oneshot::channel();
        {
            let mut state = self.0.state.lock();
            let Some(waiting) = state.hostile.get_mut(node) else {
                return Err(NotSent::NotConnected(node.to_owned()));
            };
            if waiting.len() >= HOSTILE {
                return Err(NotSent::Full(node.to_owned()));
            }
            waiting.push_back(Injection { node: node.to_owned(), shape, written });
        }
        self.changed();
        let written = timeout(WRITTEN, done).await;
        written.ok().and_then(Result::ok).ok_or_else(|| NotSent::NotWritten(node.to_owned()))
    }

    /// Everything that is wrong.
    pub fn wrong(&self) -> Wrong {
        let state = self.0.state.lock();
        Wrong {
            seed: self.0.seed,
            certificate: *self.0.certificate.borrow(),
            answers: *self.0.answers.borrow(),
            all: state.all.as_ref().map(|set| set.given.clone()),
            nodes: state.nodes.iter().map(|(node, set)| (node.clone(), set.given.clone())).collect(),
        }
    }

    /// What holds for this node's link; `None`: nothing is wrong.
    pub(crate) fn on(&self, node: &str) -> Option<Set> {
        let state = self.0.state.lock();
        state.nodes.get(node).or(state.all.as_ref()).filter(|set| !set.lowered.is_perfect()).cloned()
    }

    /// Tells of every change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn changed(&self) {
        self.0.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The next hostile message for this node.
    fn next_hostile(&self, node: &str) -> Option<Injection> {
        self.0.state.lock().hostile.get_mut(node)?.pop_front()
    }

    /// A session of the node begins: its number.
    fn begin(&self, node: &str) -> u64 {
        let mut state = self.0.state.lock();
        // what was meant for an older session is not written to this one
        state.hostile.insert(node.to_owned(), VecDeque::new());
        let number = state.lines.entry(node.to_owned()).or_default();
        *number += 1;
        *number
    }

    /// The session of this number has ended.
    fn end(&self, node: &str, number: u64) {
        let mut state = self.0.state.lock();
        if state.lines.get(node) == Some(&number) {
            state.hostile.remove(node);
        }
    }
}

#[cfg(test)]
mod tests;
