//! A node's connection with what is wrong with it: the adapter between the transport and the faults. It decides nothing.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use wire::Message;

use super::{
    ended::Ended,
    gate::until_then,
    mute::Mute,
    transport::{Incoming, Outgoing},
};
use crate::{
    faults::{self, Downward, Faults, Link, Upward, now},
    sessions::Traffic,
};

/// A connection as it was made.
pub(super) struct Connected {
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// Where signs of life go below messages: who to mute, and how.
    pub(super) mute: Option<(Mute, SocketAddr)>,
}

/// What a node says, as far as its link lets it through.
pub(super) struct Reader {
    incoming: Incoming,
    upward: Upward,
    changes: watch::Receiver<u64>,
    quiet: Quiet,
    /// A message that was read already.
    first: Option<Message>,
    traffic: Arc<Traffic>,
}

/// What goes to a node, as far as its link lets it through.
pub(super) struct Writer {
    outgoing: Outgoing,
    downward: Downward,
    limit: Duration,
    traffic: Arc<Traffic>,
}

impl Connected {
    /// With the faults of this node's link. `first`: what was read already; `limit`: the time in which a message must be written.
    pub(super) fn with(
        self,
        faults: &Faults,
        node: &str,
        first: Option<Message>,
        limit: Duration,
        traffic: &Arc<Traffic>,
    ) -> (Reader, Writer) {
        let Self { incoming, outgoing, mute } = self;
        let (upward, downward) = faults::line(faults, node);
        let (changes, quiet) = (faults.changes(), Quiet { mute, on: false });
        let reader = Reader { incoming, upward, changes, quiet, first, traffic: traffic.clone() };
        (reader, Writer { outgoing, downward, limit, traffic: traffic.clone() })
    }
}

impl Reader {
    /// The next message; `None` for a sign of life that says nothing. Cancel-safe: what is not whole stays, and so does what is
    /// on its way.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, Ended> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        loop {
            self.changes.borrow_and_update();
            let at = now();
            let standing = self.upward.standing(at);
            match standing.link {
                Link::Cut => return Err(Ended::Cut),
                // what was swallowed does not come back
                Link::Up if self.quiet.on => return Err(Ended::Cut),
                Link::Up => {}
                Link::HalfOpen => {
                    self.quiet.begin();
                    self.upward.lose();
                }
            }
            if let Some(message) = self.upward.arrived(at) {
                return Ok(Some(message));
            }
            let wake = earlier(standing.until, self.upward.due());
            tokio::select! {
                // the order decides nothing but repeats itself
                biased;
                // cancel-safe: both hold no data; the sender lives in the faults
                _ = self.changes.changed() => {}
                () = until_then(wake) => {}
                // cancel-safe: what is not whole stays
                read = self.incoming.next(), if !self.quiet.on => match read? {
                    None => return Ok(None),
                    Some((message, size)) => {
                        self.traffic.received(size);
                        if let Some(message) = self.upward.offer(message, size, now()) {
                            return Ok(Some(message));
                        }
                    }
                }
            }
        }
    }
}

impl Writer {
    /// Writes a message, or sends it on its way over a bad link.
    pub(super) async fn send(&mut self, message: &Message) -> Result<(), Ended> {
        let encoded = self.outgoing.encode(message);
        if self.downward.passes(message, encoded.size(), now()) {
            self.traffic.sent(encoded.size());
            return self.outgoing.send(encoded, self.limit).await;
        }
        Ok(())
    }

    /// Writes what has arrived over a bad link, and what should never be written; when to look again.
    pub(super) async fn flush(&mut self) -> Result<Option<Instant>, Ended> {
        while let Some(injection) = self.downward.hostile() {
            for raw in injection.messages() {
                self.outgoing.send_raw(raw, self.limit).await?;
            }
            injection.done();
        }
        while let Some(message) = self.downward.arrived(now()) {
            let encoded = self.outgoing.encode(&message);
            self.traffic.sent(encoded.size());
            self.outgoing.send(encoded, self.limit).await?;
        }
        Ok(self.downward.due())
    }

    /// Says why the connection ends, where the node still listens.
    pub(super) async fn send_close(&mut self, code: CloseCode, reason: &str) {
        self.outgoing.send_close(code, reason, self.limit).await;
    }
}

/// Whether a half-open link swallows everything; it speaks again at the latest when this is dropped.
struct Quiet {
    mute: Option<(Mute, SocketAddr)>,
    on: bool,
}

impl Quiet {
    fn begin(&mut self) {
        if !self.on
            && let Some((mute, peer)) = &self.mute
        {
            mute.set(*peer, true);
        }
        self.on = true;
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if self.on
            && let Some((mute, peer)) = &self.mute
        {
            mute.set(*peer, false);
        }
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}
