//! EdgeHub: the door to the cloud.
//!
//! In: messages of the cloud, in the order in which they were sent ([`Inbound`]). Out: messages of this node
//! ([`EdgeHub::send`], [`EdgeHub::request`]). It enrols the node, keeps one connection, notices when it is dead and dials again.
//! It decides nothing about what messages mean, and has no way to reach a pod.

mod dial;
mod enroll;
mod liveness;
mod rate;
mod session;
mod task;
mod waiters;

use std::{path::PathBuf, time::Duration};

use tokio::sync::{mpsc, watch};
use wire::Message;

use self::waiters::Waiters;
pub use self::{dial::DialError, enroll::EnrollError, task::Task};
use crate::config::Secret;

/// Messages of this node that wait for the socket. A full queue makes senders wait: nothing is dropped while connected.
const OUTBOX: usize = 64;
/// Events that wait for a moment when nothing else does. More are lost: they are told, not promised.
const BACKGROUND: usize = 64;
/// Messages of the cloud that wait for MetaManager. A full queue stops reading from the socket (TCP pushes back).
const INBOX: usize = 64;

/// Everything the room needs, already checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name: certificate subject and `Node_id` header.
    pub node_name: String,
    /// `host:port` of CloudHub's WebSocket server.
    pub websocket: String,
    /// Base URL of the HTTPS bootstrap server.
    pub http_server: String,
    /// The join token, needed until there is a certificate.
    pub token: Option<Secret>,
    /// First element of the URL path and the `Project_id` header.
    pub project_id: String,
    /// CA certificate, PEM.
    pub ca_file: PathBuf,
    /// Client certificate, PEM.
    pub cert_file: PathBuf,
    /// Private key, PEM, readable by its owner only.
    pub key_file: PathBuf,
    /// Time between keepalive messages.
    pub heartbeat: Duration,
    /// Limit of dialling and handshakes.
    pub handshake_timeout: Duration,
    /// Limit of writing one message.
    pub write_deadline: Duration,
    /// Upward messages a second, 0 for no limit; keepalives and answers to the cloud's messages are exempt.
    pub qps: u32,
    /// Upward messages that may go out at once.
    pub burst: u32,
    /// Largest message accepted, bytes.
    pub max_message: usize,
}

/// Why the room could not be built or had to give up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Enrolment was refused, or its files are unusable.
    #[error("this node could not be enrolled with the cloud")]
    Enroll(#[from] EnrollError),
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// No connection.
    Down,
    /// Connected; the number counts connections since start.
    Up(u64),
}

/// There is no connection, or it broke before the answer came. Nothing is lost by it: state stays in the store and is
/// reported when the link is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// Not connected.
    #[error("the cloud is not connected")]
    Offline,
    /// Too much is on its way already.
    #[error("too many messages wait for the connection to the cloud")]
    Busy,
    /// No answer in time.
    #[error("the cloud did not answer within {0:?}")]
    Timeout(Duration),
}

/// The messages of the cloud, for their one reader.
#[derive(Debug)]
pub struct Inbound(mpsc::Receiver<Message>);

impl Inbound {
    /// The next message; `None` when the hub has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Message> {
        self.0.recv().await
    }
}

/// The handle: sends to the cloud.
#[derive(Clone, Debug)]
pub struct EdgeHub {
    answers: mpsc::Sender<Message>,
    outbox: mpsc::Sender<Message>,
    background: mpsc::Sender<Message>,
    waiters: Waiters,
    link: watch::Receiver<Link>,
}

impl EdgeHub {
    /// The state of the connection, to read or to await.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    /// Whether there is a connection now.
    pub fn is_up(&self) -> bool {
        *self.link.borrow() != Link::Down
    }

    /// Sends without waiting for an answer.
    pub async fn send(&self, message: Message) -> Result<(), Unreachable> {
        if !self.is_up() {
            return Err(Unreachable::Offline);
        }
        let answers = !message.header.parent_msg_id.is_empty();
        let queue = if answers { &self.answers } else { &self.outbox };
        queue.send(message).await.map_err(|_| Unreachable::Offline)
    }

    /// Sends when nothing else waits to be sent. With many of these under way, this one is lost, and said to be.
    pub fn send_in_background(&self, message: Message) -> Result<(), Unreachable> {
        if !self.is_up() {
            return Err(Unreachable::Offline);
        }
        self.background.try_send(message).map_err(|_| Unreachable::Busy)
    }

    /// Sends and waits for the message that answers it.
    pub async fn request(&self, message: Message, timeout: Duration) -> Result<Message, Unreachable> {
        let waiting = self.waiters.register(&message.header.msg_id);
        self.send(message).await?;
        match tokio::time::timeout(timeout, waiting).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Unreachable::Offline),
            Err(_) => Err(Unreachable::Timeout(timeout)),
        }
    }
}

/// Builds the room. Files are read and the connection is made by [`Task::run`].
pub fn new(config: Config) -> (EdgeHub, Inbound, Task) {
    let (answers, to_answer) = mpsc::channel(OUTBOX);
    let (outbox, outgoing) = mpsc::channel(OUTBOX);
    let (background, in_background) = mpsc::channel(BACKGROUND);
    let (inbox, inbound) = mpsc::channel(INBOX);
    let (state, link) = watch::channel(Link::Down);
    let waiters = Waiters::default();
    let ends = session::Ends { answers: to_answer, outgoing, in_background, inbox, waiters: waiters.clone() };
    let task = Task::new(config, ends, state);
    (EdgeHub { answers, outbox, background, waiters, link }, Inbound(inbound), task)
}
