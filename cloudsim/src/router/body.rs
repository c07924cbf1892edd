//! Bodies of calls, read within limits for each client and for all: memory is reserved as bytes arrive, and released soon if they do not.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use clock::HashMap;
use http::StatusCode;
use http_body::Body;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};
use wire::bus::MAX_BODY;

use crate::controllers::rules::CallError;

/// The bytes of a body that must arrive within one step; memory is reserved in this unit.
const READ_CHUNK: usize = 64 * 1024;
/// Bytes of a refused body that are read and discarded, so that its sender reads the answer.
const MAX_DISCARDED: usize = 64 * 1024 * 1024;
/// How long discarding may take.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may wait for the next bytes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The limits of bodies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of all calls together.
    pub(super) all: usize,
    /// Bytes of one client's calls, by its address.
    pub(super) of_client: usize,
    /// How long a call waits for memory of others.
    pub(super) room: Duration,
    /// How long the next [`READ_CHUNK`] of a body may take.
    pub(super) step: Duration,
    /// How long the whole body may take.
    pub(super) arrival: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            all: 256 * MIB,
            of_client: 64 * MIB,
            room: Duration::from_secs(10),
            step: Duration::from_secs(5),
            arrival: Duration::from_secs(60),
        }
    }
}

/// For each client, the number of its calls and its memory.
type Clients = HashMap<IpAddr, (usize, Arc<Semaphore>)>;

/// The memory for bodies of calls, of all clients together and of each; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct BodyMemory {
    limits: Limits,
    all: Arc<Semaphore>,
    clients: Arc<Mutex<Clients>>,
}

/// The memory of one body, held until its call has ended.
#[derive(Debug)]
pub(super) struct BodyPermit {
    memory: BodyMemory,
    client: IpAddr,
    share: Arc<Semaphore>,
    bytes: usize,
    held: Vec<OwnedSemaphorePermit>,
}

impl BodyMemory {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            all: Arc::new(Semaphore::new(limits.all / 1024)),
            clients: Arc::default(),
        }
    }

    /// Reads a whole body, whose announced length may be known.
    pub(super) async fn read<B>(
        &self,
        client: IpAddr,
        mut body: B,
        announced: Option<usize>,
    ) -> Result<(Bytes, BodyPermit), CallError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::fmt::Display + Send,
    {
        let mut room = self.enter(client);
        let read = match room.grow(announced.unwrap_or(READ_CHUNK)).await {
            Ok(()) => room.fill(&mut body).await,
            Err(refused) => Err(refused),
        };
        match read {
            Ok(bytes) => Ok((bytes, room)),
            Err(refused) => {
                discard(body);
                Err(refused)
            }
        }
    }

    /// Returns the reserved kilobytes.
    #[cfg(test)]
    pub(super) fn reserved_size(&self) -> usize {
        self.limits.all / 1024 - self.all.available_permits()
    }

    fn enter(&self, client: IpAddr) -> BodyPermit {
        let mut clients = self.clients.lock();
        let own = || (0, Arc::new(Semaphore::new(self.limits.of_client / 1024)));
        let (calls, share) = clients.entry(client).or_insert_with(own);
        *calls += 1;
        BodyPermit {
            memory: self.clone(),
            client,
            share: share.clone(),
            bytes: 0,
            held: Vec::new(),
        }
    }
}

impl BodyPermit {
    /// Reads a body within its limits.
    async fn fill<B>(&mut self, body: &mut B) -> Result<Bytes, CallError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let Limits {
            step: patience,
            arrival,
            ..
        } = self.memory.limits;
        let (mut bytes, mut next) = (BytesMut::new(), READ_CHUNK);
        let (late, mut due) = (Instant::now() + arrival, Instant::now() + patience);
        loop {
            let Ok(frame) = timeout_at(due.min(late), body.frame()).await else {
                let why = format!(
                    "the body comes too slowly: {READ_CHUNK} bytes of it have to come within {patience:?}, and all of it within {arrival:?}"
                );
                return Err(unread(StatusCode::REQUEST_TIMEOUT, why));
            };
            let Some(frame) = frame else {
                return Ok(bytes.freeze());
            };
            let broken = |error: B::Error| {
                unread(
                    StatusCode::BAD_REQUEST,
                    format!("the body broke off: {error}"),
                )
            };
            let Ok(data) = frame.map_err(broken)?.into_data() else {
                continue;
            };
            let length = bytes.len() + data.len();
            if length > MAX_BODY {
                return Err(too_large());
            }
            if length > self.bytes {
                self.grow(length.next_multiple_of(READ_CHUNK)).await?;
                due = Instant::now() + patience;
            }
            bytes.extend_from_slice(&data);
            if length >= next {
                next = length + READ_CHUNK;
                due = Instant::now() + patience;
            }
        }
    }

    /// Reserves memory until there is room for `bytes` in all.
    async fn grow(&mut self, bytes: usize) -> Result<(), CallError> {
        let more = u32::try_from(bytes.saturating_sub(self.bytes) / 1024 + 1).unwrap_or(u32::MAX);
        for room in [self.share.clone(), self.memory.all.clone()] {
            match timeout(self.memory.limits.room, room.acquire_many_owned(more)).await {
                Ok(Ok(room)) => self.held.push(room),
                Ok(Err(_)) | Err(_) => {
                    let why =
                        "the calls that are under way take all the room there is; try again later";
                    return Err(CallError::new(
                        StatusCode::TOO_MANY_REQUESTS,
                        "TooManyCalls",
                        why,
                    ));
                }
            }
        }
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        let mut clients = self.memory.clients.lock();
        if let Some((calls, _)) = clients.get_mut(&self.client) {
            *calls -= 1;
            if *calls == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

/// Discards the rest of a refused body while the answer is sent. An unread HTTP/2 stream is reset, and many programs read no answer
/// before they have sent everything.
pub(super) fn discard<B>(mut body: B)
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Send,
{
    tokio::spawn(timeout(DISCARD_TIMEOUT, async move {
        let mut read = 0;
        while read < MAX_DISCARDED {
            let Ok(Some(Ok(frame))) = timeout(IDLE_TIMEOUT, body.frame()).await else {
                return;
            };
            read += frame.data_ref().map_or(0, Bytes::len);
        }
    }));
}

/// The refusal of a body that is too large.
pub(super) fn too_large() -> CallError {
    unread(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {MAX_BODY} bytes"),
    )
}

fn unread(status: StatusCode, why: String) -> CallError {
    let reason = if status == StatusCode::PAYLOAD_TOO_LARGE {
        "BodyTooLarge"
    } else {
        "BodyUnread"
    };
    CallError::new(status, reason, why)
}
