//! A node's connection with its injected faults: the adapter between the transport and `faults`. It makes no decisions.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use clock::Instant;
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use wire::Message;

use super::{
    end_reason::EndReason,
    muted_peers::MutedPeers,
    transport::{Incoming, Outgoing},
};
use crate::{
    faults::{self, Downlink, Faults, Link, Uplink, hostile::RawMessage, sleep_until_opt},
    sessions::Traffic,
};

/// A new connection.
pub(super) struct Connected {
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// For transports with keepalives below messages: the set of muted peers, and this peer's address.
    pub(super) mute: Option<(MutedPeers, SocketAddr)>,
}

/// Reads the node's messages, as far as its link lets them through.
pub(super) struct Reader {
    incoming: Incoming,
    uplink: Uplink,
    changes: watch::Receiver<u64>,
    quiet: MuteGuard,
    /// A message that was read already, and its size.
    first: Option<(Message, usize)>,
    traffic: Arc<Traffic>,
}

/// Writes messages to the node, as far as its link lets them through.
pub(super) struct Writer {
    outgoing: Outgoing,
    downlink: Downlink,
    limit: Duration,
    traffic: Arc<Traffic>,
}

impl Connected {
    /// Adds the faults of this node's link. `first` is a message that was read already; `limit` is the time in which a message must be
    /// written.
    pub(super) fn with(
        self,
        faults: &Faults,
        node: &str,
        first: Option<(Message, usize)>,
        limit: Duration,
        traffic: &Arc<Traffic>,
    ) -> (Reader, Writer) {
        let Self {
            incoming,
            outgoing,
            mute,
        } = self;
        let (uplink, downlink) = faults::session_link(faults, node);
        let (changes, quiet) = (faults.changes(), MuteGuard { mute, on: false });
        let reader = Reader {
            incoming,
            uplink,
            changes,
            quiet,
            first,
            traffic: traffic.clone(),
        };
        (
            reader,
            Writer {
                outgoing,
                downlink,
                limit,
                traffic: traffic.clone(),
            },
        )
    }
}

impl Reader {
    /// Returns the next message; `None` for a keepalive. Cancel-safe: partial and queued messages are kept.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, EndReason> {
        if let Some((first, size)) = self.first.take() {
            self.traffic.count_received(&first, size);
            return Ok(Some(first));
        }
        loop {
            self.changes.borrow_and_update();
            let at = clock::Instant::now();
            let link_state = self.uplink.link_state(at);
            match link_state.link {
                Link::Cut => return Err(EndReason::Cut),
                // what a half-open link has swallowed does not come back
                Link::Up if self.quiet.on => return Err(EndReason::Cut),
                Link::Up => {}
                Link::HalfOpen => {
                    self.quiet.begin();
                    self.uplink.lose();
                }
            }
            if let Some(message) = self.uplink.next_arrived(at) {
                return message.read().map(Some).map_err(EndReason::Malformed);
            }
            let wake = earlier(link_state.until, self.uplink.due());
            clock::select! {
                // biased: the order only makes runs repeatable
                biased;
                // cancel-safe: both hold no data; the sender lives in the faults
                _ = self.changes.changed() => {}
                () = sleep_until_opt(wake) => {}
                // cancel-safe: what is not whole stays
                read = self.incoming.next(), if !self.quiet.on => match read? {
                    None => return Ok(None),
                    Some((message, size)) => {
                        self.traffic.count_received(&message, size);
                        if let Some(message) = self.uplink.offer(message, size, clock::Instant::now()) {
                            return Ok(Some(message));
                        }
                    }
                }
            }
        }
    }
}

impl Writer {
    /// Writes a message, or queues it on a faulty link. Returns the size of a message of more than `most` bytes, which is not sent.
    pub(super) async fn send(
        &mut self,
        message: &Message,
        most: usize,
    ) -> Result<Option<usize>, EndReason> {
        let encoded = self.outgoing.encode(message);
        if encoded.size() > most {
            return Ok(Some(encoded.size()));
        }
        if self
            .downlink
            .passes(message, encoded.size(), clock::Instant::now())
        {
            self.traffic.count_sent(message, encoded.size());
            self.outgoing.send(encoded, self.limit).await?;
        }
        Ok(None)
    }

    /// Writes messages that have arrived over a faulty link, and hostile messages. Returns when to call it again.
    pub(super) async fn flush(&mut self) -> Result<Option<Instant>, EndReason> {
        while let Some(injection) = self.downlink.hostile() {
            for raw in injection.messages() {
                self.outgoing.send_raw(raw, self.limit).await?;
            }
            injection.finish();
        }
        while let Some(message) = self.downlink.next_arrived(clock::Instant::now()) {
            let encoded = self.outgoing.encode(&message.message);
            self.traffic.count_sent(&message.message, encoded.size());
            match message.corruption {
                None => self.outgoing.send(encoded, self.limit).await?,
                Some(place) => {
                    let bytes = RawMessage::Bytes(encoded.into_corrupted(place));
                    self.outgoing.send_raw(bytes, self.limit).await?;
                }
            }
        }
        Ok(self.downlink.due())
    }

    /// Sends the reason for which the connection ends, if the node still reads.
    pub(super) async fn send_close(&mut self, code: CloseCode, reason: &str) {
        self.outgoing.send_close(code, reason, self.limit).await;
    }
}

/// Mutes the peer while the link is half-open; dropping it unmutes the peer.
struct MuteGuard {
    mute: Option<(MutedPeers, SocketAddr)>,
    on: bool,
}

impl MuteGuard {
    fn begin(&mut self) {
        if !self.on
            && let Some((mute, peer)) = &self.mute
        {
            mute.set(*peer, true);
        }
        self.on = true;
    }
}

impl Drop for MuteGuard {
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
