//! A session of either end, over any transport: a task owns the socket, and its user reads and writes messages.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, timeout, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::{Message, Upstream, session::HEARTBEAT};

use crate::{
    Failure, fail, now_ms,
    transport::{Outgoing, Socket},
};

/// Messages that wait for the user; a full queue stops reading from the socket.
const INBOX: usize = 256;
/// Messages that the user has looked at and not taken. The oldest are dropped.
const MAX_UNREAD: usize = 4096;
/// How long an answer may take.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// What the task of a session does by itself.
#[derive(Clone, Copy, Debug)]
pub struct Automatic {
    /// Send keepalive messages, as an edge does.
    pub keepalive: bool,
    /// Acknowledge messages that need it.
    pub acknowledge: bool,
}

impl Automatic {
    /// What an edge does.
    pub const EDGE: Self = Self {
        keepalive: true,
        acknowledge: true,
    };
}

/// The resource whose messages are not acknowledged.
type Held = Arc<Mutex<Option<String>>>;

/// A session.
pub struct Session {
    outgoing: mpsc::Sender<Outgoing>,
    incoming: mpsc::Receiver<Message>,
    unread: VecDeque<Message>,
    held: Held,
    ended: CancellationToken,
    end: Arc<Mutex<String>>,
    stop: Option<DropGuard>,
}

impl Session {
    /// Runs a session over an open socket.
    pub fn start(socket: impl Socket, automatic: Automatic) -> Self {
        let (outgoing, outbox) = mpsc::channel(INBOX);
        let (inbox, incoming) = mpsc::channel(INBOX);
        let held = Held::default();
        let (ended, stop) = (CancellationToken::new(), CancellationToken::new());
        let end = Arc::new(Mutex::new(String::new()));
        let task = Task {
            socket,
            outbox,
            inbox,
            acknowledge: automatic.acknowledge,
            held: held.clone(),
        };
        let (done, reason, cancelled) = (ended.clone(), end.clone(), stop.clone());
        tokio::spawn(async move {
            let why = clock::select! {
                biased;
                () = cancelled.cancelled() => String::new(),
                why = task.run(automatic.keepalive) => why,
            };
            *reason.lock() = why;
            done.cancel();
        });
        Self {
            outgoing,
            incoming,
            unread: VecDeque::new(),
            held,
            ended,
            end,
            stop: Some(stop.drop_guard()),
        }
    }

    /// Returns a sender to the peer.
    pub fn sender(&self) -> mpsc::Sender<Outgoing> {
        self.outgoing.clone()
    }

    /// Returns the next message, or why there is none.
    ///
    /// # Errors
    /// The session has ended; the error is the reason.
    pub async fn next(&mut self) -> Result<Message, String> {
        match self.incoming.recv().await {
            Some(message) => Ok(message),
            None => Err(self.end.lock().clone()),
        }
    }

    /// Does not acknowledge messages of this resource from now on. All others are: a cloud waits for one before it sends the next.
    pub fn hold(&self, resource: &str) {
        *self.held.lock() = Some(resource.to_owned());
    }

    /// Sends anything. A session that has ended drops it; the next read returns the reason.
    pub async fn put(&self, outgoing: Outgoing) {
        self.outgoing.send(outgoing).await.ok();
    }

    /// Sends a message.
    pub async fn send(&self, message: &Message) {
        self.put(message.clone().into()).await;
    }

    /// Waits for a message that `wanted` accepts; others are kept for later.
    ///
    /// # Errors
    /// None arrives in time, or the session ends.
    pub async fn expect(
        &mut self,
        what: &str,
        within: Duration,
        wanted: impl Fn(&Message) -> bool,
    ) -> Result<Message, Failure> {
        let place = self.unread.iter().position(&wanted);
        if let Some(message) = place.and_then(|place| self.unread.remove(place)) {
            return Ok(message);
        }
        let deadline = Instant::now() + within;
        loop {
            match timeout_at(deadline, self.incoming.recv()).await {
                Err(_) => fail!("timed out after {within:?} waiting for {what}"),
                Ok(None) => fail!("the session ended before {what}: {}", self.end.lock()),
                Ok(Some(message)) if wanted(&message) => return Ok(message),
                Ok(Some(message)) => {
                    if self.unread.len() == MAX_UNREAD {
                        self.unread.pop_front();
                    }
                    self.unread.push_back(message);
                }
            }
        }
    }

    /// Waits for `during`, in which no message that `unwanted` accepts may arrive.
    ///
    /// # Errors
    /// Such a message arrives, or the session ends.
    pub async fn expect_none(
        &mut self,
        what: &str,
        during: Duration,
        unwanted: impl Fn(&Message) -> bool,
    ) -> Result<(), Failure> {
        match self.expect(what, during, unwanted).await {
            Ok(message) => fail!("unexpected {what}: {}", message.route.summary()),
            Err(_) if !self.ended.is_cancelled() => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.stop.take();
    }

    /// Closes the connection after everything was sent, and waits until the peer has closed it, too, or for `within`.
    pub async fn finish(&mut self, within: Duration) {
        self.put(Outgoing::Close).await;
        self.wait_ended(within).await.ok();
        self.close();
    }

    /// Drops the messages that nobody has taken yet.
    pub fn forget(&mut self) {
        self.unread.clear();
        while self.incoming.try_recv().is_ok() {}
    }

    /// Sends a request of an edge and waits for the answer.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn ask(&mut self, request: Upstream) -> Result<Message, Failure> {
        let request = request.into_message(now_ms());
        let what = format!("the answer to {}", request.route.summary());
        self.send(&request).await;
        self.expect_answer(&what, &request.header.msg_id).await
    }

    /// Waits for the answer to the message with this id.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn expect_answer(&mut self, what: &str, id: &str) -> Result<Message, Failure> {
        self.expect(what, ANSWER_DEADLINE, |one| one.header.parent_msg_id == id)
            .await
    }

    /// Waits until the peer ends the session.
    ///
    /// # Errors
    /// It does not.
    pub async fn wait_ended(&mut self, within: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + within;
        // the queue must not fill up, or the end would never be read
        while let Ok(Some(_)) = timeout_at(deadline, self.incoming.recv()).await {}
        match timeout(Duration::from_secs(1), self.ended.cancelled()).await {
            Ok(()) => Ok(()),
            Err(_) => fail!("the session has not ended within {within:?}"),
        }
    }
}

struct Task<S> {
    socket: S,
    outbox: mpsc::Receiver<Outgoing>,
    inbox: mpsc::Sender<Message>,
    acknowledge: bool,
    held: Held,
}

impl<S: Socket> Task<S> {
    /// Runs until the connection ends: why.
    async fn run(mut self, keepalive: bool) -> String {
        let mut tick = interval(HEARTBEAT);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let done = clock::select! {
                outgoing = self.outbox.recv() => match outgoing {
                    Some(outgoing) => self.socket.send(outgoing).await,
                    None => return String::new(),
                },
                _ = tick.tick(), if keepalive => {
                    let message = Upstream::keepalive().into_message(now_ms());
                    self.socket.send(message.into()).await
                }
                message = self.socket.next() => match message {
                    Ok(message) => self.receive(message).await,
                    Err(why) => Err(why),
                },
            };
            if let Err(why) = done {
                return why;
            }
        }
    }

    /// Acknowledges a message, and passes it on.
    async fn receive(&mut self, message: Message) -> Result<(), String> {
        let is_held = self.held.lock().as_deref() == Some(message.route.resource.as_str());
        if self.acknowledge && !is_held && wire::lane::needs_ack(&message) {
            let acknowledgement = message.acknowledgement(now_ms());
            self.socket.send(acknowledgement.into()).await?;
        }
        let passed = self.inbox.send(message).await;
        passed.map_err(|_| "the session is no longer used".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};

    use super::*;

    #[tokio::test]
    async fn everything_is_sent_before_a_session_is_finished() {
        let (near, far) = duplex(64);
        let silent = Automatic {
            keepalive: false,
            acknowledge: false,
        };
        let near = WebSocketStream::from_raw_socket(near, Role::Client, None).await;
        let far = WebSocketStream::from_raw_socket(far, Role::Server, None).await;
        let (mut near, mut far) = (Session::start(near, silent), Session::start(far, silent));
        let reading = async {
            let mut read = 0;
            while far.next().await.is_ok() {
                read += 1;
            }
            read
        };
        let writing = async {
            for _ in 0..200 {
                near.send(&Upstream::keepalive().into_message(1)).await;
            }
            near.finish(ANSWER_DEADLINE).await;
        };
        assert_eq!(tokio::join!(reading, writing).0, 200);
    }
}
