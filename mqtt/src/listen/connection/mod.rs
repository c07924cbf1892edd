//! Serves one connection: decodes packets for the broker, and writes the bytes of the outbox.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use bytes::BytesMut;
use limits::{ConnectionSlot, timeout_unless_stalled};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::Semaphore,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{ConnectionContext, From};
use crate::{
    codec::{Connect, Packet, Version, decode, encode},
    core::{BATCHES, Batch, Command, effective_keep_alive},
    counters::Counters,
    outbox::Outbox,
    reason::{Fault, Reason},
};

/// The buffer limit before the client is known: a CONNECT holds at most five fields of 64 KiB.
const CONNECT_BYTES: usize = 256 * 1024;

/// The bytes to read at once: few for a connection that sends little, more for one that fills its buffer.
const READ: std::ops::RangeInclusive<usize> = 2 * 1024..=64 * 1024;

/// The most packets that are handed to the broker at once.
const PACKETS: usize = 256;

/// How long a closed connection may take to write its last bytes, and its client to close it.
const LINGER: Duration = Duration::from_secs(1);

/// Serves a connection until it ends. `certificate` is the name in a verified client certificate.
pub(super) async fn run(
    context: &ConnectionContext,
    id: u64,
    from: From,
    certificate: Option<Arc<str>>,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
) {
    let outbox = Arc::new(Outbox::default());
    let From { peer, slot } = from;
    let mut incoming = Incoming {
        context,
        id,
        slot: &slot,
        reader,
        buffer: BytesMut::new(),
        ask: *READ.start(),
    };
    let first = clock::select! {
        // cancel-safe: a client that has not identified itself loses nothing.
        () = slot.wait_evicted() => return,
        first = incoming.first(&outbox) => first,
    };
    let Some(first) = first else {
        let mut writer = writer;
        return last_bytes(&outbox, &mut writer).await;
    };
    let (version, keep_alive) = (first.version, keep_alive(context, &first));
    // A client is idle since its last packet.
    if let Err(full) = slot.begin(false).map(drop) {
        Counters::count(&context.counters.refused);
        return context.warn(&format!("{peer}: {full}"));
    }
    let command = Command::Connect {
        connection: id,
        connect: first,
        certificate,
        peer,
        outbox: Arc::clone(&outbox),
    };
    if context.commands.send(command).await.is_err() {
        return;
    }
    let mut writing = std::pin::pin!(write(context, id, &outbox, writer));
    let (ended, writes) = {
        let mut reading = std::pin::pin!(incoming.packets(version, keep_alive));
        // The writer ends when the outbox is closed; then nothing that could be read matters. Reading may be dropped at an await: packets
        // that were decoded and not handed over are not acknowledged.
        clock::select! {
            written = &mut writing => {
                // A socket that accepts no more bytes may still hold the client's last packets, above all its DISCONNECT.
                let reads_on = written.is_err() && !outbox.is_closed();
                (if reads_on { timeout(LINGER, &mut reading).await.ok() } else { None }, false)
            }
            ended = &mut reading => (Some(ended), true),
            () = slot.wait_evicted() => {
                let said = "limit of connections reached; this one was idle longest";
                (Some(Err(Fault::new(Reason::QuotaExceeded, said))), true)
            }
        }
    };
    let fault = ended.and_then(Result::err);
    let sent = context
        .commands
        .send(Command::Closed {
            connection: id,
            fault,
        })
        .await;
    if writes && sent.is_ok() {
        // The broker may hold packets of this connection before its end, and the DISCONNECT for a fault waits behind them.
        let _ = timeout(LINGER, &mut writing).await;
    }
    if fault.is_some() || outbox.is_closed() {
        incoming.discard().await;
    }
}

fn keep_alive(context: &ConnectionContext, connect: &Connect) -> Option<Duration> {
    let seconds = effective_keep_alive(connect.keep_alive, context.limits.keep_alive);
    (seconds > 0).then(|| Duration::from_millis(u64::from(seconds) * 1500))
}

/// The reading half.
struct Incoming<'a, R> {
    context: &'a ConnectionContext,
    id: u64,
    slot: &'a ConnectionSlot,
    reader: R,
    buffer: BytesMut,
    ask: usize,
}

impl<R: AsyncRead + Unpin> Incoming<'_, R> {
    /// Reads the CONNECT within its time limit; leaves a refusal in `outbox`.
    async fn first(&mut self, outbox: &Outbox) -> Option<Box<Connect>> {
        let deadline = Instant::now() + self.context.limits.connect_timeout;
        let limit = self.context.limits.packet_bytes.min(CONNECT_BYTES);
        loop {
            match decode(&mut self.buffer, limit, None) {
                Ok(Some(Packet::Connect(connect))) => return Some(connect),
                Ok(Some(_)) => return None,
                Ok(None) => {}
                Err(fault) => {
                    Counters::count(&self.context.counters.faults);
                    tracing::debug!(%fault, "first packet is not CONNECT; connection closed");
                    let mut refusal = BytesMut::new();
                    let version = refusing_version(&self.buffer);
                    encode::connack_refused(
                        &mut refusal,
                        version,
                        fault.reason,
                        fault.said,
                        usize::MAX,
                    );
                    outbox.push(&mut refusal);
                    return None;
                }
            }
            match timeout_at(deadline, self.read()).await {
                Ok(Ok(count)) if count > 0 => {}
                _ => return None,
            }
        }
    }

    /// Reads the packets after CONNECT, until the end (`Ok`) or a fault.
    async fn packets(
        &mut self,
        version: Version,
        keep_alive: Option<Duration>,
    ) -> Result<(), Fault> {
        let batches = Arc::new(Semaphore::new(BATCHES));
        let limit = self.context.limits.packet_bytes;
        loop {
            let mut packets = VecDeque::new();
            let fault = loop {
                match decode(&mut self.buffer, limit, Some(version)) {
                    Ok(Some(packet)) => packets.push_back(packet),
                    Ok(None) => break None,
                    Err(fault) => break Some(fault),
                }
                if packets.len() >= PACKETS {
                    break None;
                }
            };
            let full = packets.len() >= PACKETS;
            if !packets.is_empty() {
                let permit = Arc::clone(&batches).acquire_owned().await.ok();
                let batch = Batch {
                    connection: self.id,
                    packets,
                    permit,
                };
                if self
                    .context
                    .commands
                    .send(Command::Packets(batch))
                    .await
                    .is_err()
                {
                    return Ok(());
                }
            }
            if let Some(fault) = fault {
                return Err(fault);
            }
            if full {
                continue;
            }
            let read = match keep_alive {
                Some(limit) => timeout_unless_stalled(limit, self.read())
                    .await
                    .map_err(|_| {
                        Fault::new(
                            Reason::KeepAliveTimeout,
                            "nothing was heard for one and a half times the keep-alive",
                        )
                    })?,
                None => self.read().await,
            };
            if !matches!(read, Ok(count) if count > 0) {
                return Ok(());
            }
        }
    }

    /// Reads more bytes. Memory is reserved for bytes that have arrived, never for lengths that a header announces.
    async fn read(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() && self.buffer.capacity() > *READ.end() {
            // A large packet has been processed; its memory is released.
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(self.ask);
        let count = self.reader.read_buf(&mut self.buffer).await?;
        self.slot.touch();
        if count >= self.ask {
            self.ask = (self.ask * 2).min(*READ.end());
        } else if self.buffer.len() < *READ.start() && count * 4 < self.ask {
            self.ask = (self.ask / 2).max(*READ.start());
        }
        Ok(count)
    }

    /// Reads and discards bytes for a moment, because closing a socket with unread bytes would lose the last bytes sent to the client.
    async fn discard(&mut self) {
        let deadline = Instant::now() + LINGER;
        loop {
            self.buffer.clear();
            match timeout_at(deadline, self.read()).await {
                Ok(Ok(count)) if count > 0 => {}
                _ => return,
            }
        }
    }
}

/// Returns the version in whose form an unreadable CONNECT is refused: 5 if the packet says, after a fixed header of any length, that it is
/// of that version or a later one.
fn refusing_version(start: &[u8]) -> Version {
    let name = b"\0\x04MQTT";
    let level = (2..=5).find_map(|header| start.get(header..)?.strip_prefix(name)?.first());
    if level.is_some_and(|level| *level >= 5) {
        Version::V5
    } else {
        Version::V311
    }
}

/// Writes the bytes of the outbox until it is closed or the socket fails.
async fn write(
    context: &ConnectionContext,
    id: u64,
    outbox: &Outbox,
    mut writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(bytes) = outbox.next().await {
        clock::select! {
            sent = send(&mut writer, &bytes) => sent?,
            // Without this, a client that is cut off because it does not read could keep its connection by not reading.
            () = wait_lingered(outbox) => return Err(io::ErrorKind::TimedOut.into()),
        }
        if outbox.record_written(bytes.len())
            && context
                .commands
                .send(Command::Drained { connection: id })
                .await
                .is_err()
        {
            break;
        }
    }
    writer.shutdown().await
}

/// Waits until the connection has been closing for longer than the limit.
async fn wait_lingered(outbox: &Outbox) {
    outbox.closed().await;
    sleep(LINGER).await;
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await
}

/// Writes the refusal of a connection that never reached the broker.
async fn last_bytes(outbox: &Outbox, writer: &mut (impl AsyncWrite + Unpin)) {
    outbox.close();
    if let Some(bytes) = outbox.next().await {
        // A client that has gone does not need it.
        let _ = timeout(LINGER, send(writer, &bytes)).await;
    }
    let _ = writer.shutdown().await;
}

#[cfg(test)]
mod tests;
