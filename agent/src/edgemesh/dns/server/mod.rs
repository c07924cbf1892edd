//! The server: datagrams and connections, each with its limits.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket as StdUdpSocket},
    sync::Arc,
    time::Duration,
};

use componentbase::{Heartbeat, Part, PartError};
use hickory_resolver::proto::rr::{Name, Record};
use limits::{ConnectionLimiter, ConnectionLimits, ConnectionSlot, ShareLimits, Shares};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    Config,
    clients::Clients,
    forward::Upstreams,
    listen::Listening,
    message::{self, MAX_QUERY, Question, Transport},
    records::{self, Answer, Outcome},
};
use crate::edgemesh::snapshot::Snapshots;
/// How long a connection may wait for the next query, and how long sending an answer may take.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections: all, those that have question nothing yet, and those of one client.
const CONNECTIONS: ConnectionLimits = ConnectionLimits {
    established: 128,
    reserved: 0,
    pending: 64,
    per_address: 16,
};
/// Questions that are with the node's resolvers; of one client a quarter, so that three of them leave room.
const FORWARDING: ShareLimits = ShareLimits {
    all: 512,
    each: 128,
};
/// Between tries to accept or receive where the kernel has no room.
const PAUSE: Duration = Duration::from_millis(50);

/// The server; cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

struct Shared {
    config: Config,
    snapshots: Snapshots,
    clients: Clients,
    upstreams: Upstreams,
    /// Limits the queries of each client that are being forwarded.
    forwarding: Shares<IpAddr>,
    udp: UdpSocket,
    /// The same socket, for answers that are sent without waiting.
    answers: StdUdpSocket,
    tcp: TcpListener,
    connections: ConnectionLimiter,
}

/// What is done with a packet.
enum Step {
    /// It gets no answer.
    Ignore,
    /// This answer is sent.
    Reply(Vec<u8>),
    /// It is forwarded; the resolvers' answer follows the records that are known here.
    Forward(Box<Forward>),
}

struct Forward {
    question: Question,
    known: Vec<Record>,
    name: Name,
}

impl Server {
    /// Creates the server on bound sockets, within a tokio runtime.
    ///
    /// # Errors
    /// The sockets cannot be registered with the runtime.
    pub fn new(config: Config, listening: Listening, snapshots: Snapshots) -> io::Result<Self> {
        let own = vec![listening.udp.local_addr()?];
        Ok(Self(Arc::new(Shared {
            upstreams: Upstreams::new(config.clone(), own),
            config,
            snapshots,
            clients: Clients::default(),
            forwarding: Shares::new(FORWARDING),
            answers: listening.udp.try_clone()?,
            udp: UdpSocket::from_std(listening.udp)?,
            tcp: TcpListener::from_std(listening.tcp)?,
            connections: ConnectionLimiter::new(CONNECTIONS),
        })))
    }

    /// Serves until `shutdown`.
    pub async fn serve(&self, shutdown: &CancellationToken) {
        clock::select! {
            // cancel-safe: clients repeat queries that get no answer
            () = shutdown.cancelled() => {}
            () = self.datagrams() => {}
            () = self.connections() => {}
            () = self.0.upstreams.detect_loops() => {}
        }
    }

    /// Answers datagrams: authoritative answers at once, forwarded queries in tasks.
    async fn datagrams(&self) {
        // they are aborted when this is dropped
        let mut tasks = JoinSet::new();
        let mut packet = vec![0; MAX_QUERY + 1];
        loop {
            while tasks.try_join_next().is_some() {}
            let (length, client) = match self.0.udp.recv_from(&mut packet).await {
                Ok(received) => received,
                Err(error) => {
                    // also reports that the client of an earlier answer is gone
                    debug!(%error, "failed to receive a DNS query");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            match self.step(
                packet.get(..length).unwrap_or_default(),
                client,
                Transport::Udp,
            ) {
                Step::Ignore => {}
                Step::Reply(reply) => self.send(&reply, client),
                Step::Forward(forward) => match self.0.forwarding.admit(client.ip()) {
                    Ok(share) => {
                        let server = self.clone();
                        tasks.spawn(componentbase::in_span(async move {
                            let reply = server.forward(*forward).await;
                            server.send(&reply, client);
                            drop(share);
                        }));
                    }
                    Err(_) => self.send(&forward.question.into_servfail(), client),
                },
            }
        }
    }

    /// Sends an answer, or drops it if the kernel's buffer is full: answers to a neighbour that does not resolve stay there for seconds,
    /// and the source of a query can be forged. A client whose answer is lost asks again.
    fn send(&self, reply: &[u8], client: SocketAddr) {
        if let Err(error) = self.0.answers.send_to(reply, client) {
            debug!(%error, %client, "failed to send a DNS answer");
        }
    }

    /// Accepts connections.
    async fn connections(&self) {
        let mut tasks = JoinSet::new();
        loop {
            while tasks.try_join_next().is_some() {}
            match self.0.tcp.accept().await {
                Ok((stream, client)) => {
                    // a connection beyond the limits is closed
                    let Ok(slot) = self.0.connections.accept(Some(client)) else {
                        continue;
                    };
                    let server = self.clone();
                    tasks.spawn(componentbase::in_span(async move {
                        clock::select! {
                            // cancel-safe: a connection that is cut off in the middle is closed
                            () = slot.wait_evicted() => {}
                            ended = server.connection(stream, client, &slot) => {
                                if let Err(error) = ended {
                                    debug!(%error, %client, "DNS connection ended");
                                }
                            }
                        }
                    }));
                }
                Err(error) => {
                    debug!(%error, "failed to accept a DNS connection");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Answers the queries of one connection, one after the other; each follows its length.
    async fn connection(
        &self,
        mut stream: TcpStream,
        client: SocketAddr,
        slot: &ConnectionSlot,
    ) -> io::Result<()> {
        loop {
            let Ok(packet) = timeout(IDLE_TIMEOUT, receive(&mut stream)).await else {
                return Ok(());
            };
            let Some(packet) = packet? else { return Ok(()) };
            let _request = slot.begin(false).map_err(io::Error::other)?;
            let reply = match self.step(&packet, client, Transport::Tcp) {
                Step::Ignore => return Ok(()),
                Step::Reply(reply) => reply,
                Step::Forward(forward) => match self.0.forwarding.admit(client.ip()) {
                    Ok(_share) => self.forward(*forward).await,
                    Err(_) => forward.question.into_servfail(),
                },
            };
            let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
            let whole = [&length.to_be_bytes()[..], &reply].concat();
            timeout(IDLE_TIMEOUT, stream.write_all(&whole)).await??;
        }
    }

    /// Decides what is done with a packet of this client.
    fn step(&self, packet: &[u8], client: SocketAddr, transport: Transport) -> Step {
        let question = match message::read(packet, transport) {
            Ok(question) => question,
            Err(refusal) => return refusal.map_or(Step::Ignore, Step::Reply),
        };
        if !self.0.clients.allow(client.ip()) {
            return Step::Reply(question.into_refusal());
        }
        let snapshot = self.0.snapshots.borrow().clone();
        let zone = &self.0.config.domain;
        match records::answer(&snapshot, zone, question.name(), question.kind()) {
            Answer::NotSynced => Step::Reply(question.into_servfail()),
            Answer::Authoritative(mut records) => match std::mem::take(&mut records.outcome) {
                Outcome::Alias(name) => Step::Forward(Box::new(Forward {
                    question,
                    known: records.answers,
                    name,
                })),
                outcome => {
                    records.outcome = outcome;
                    Step::Reply(question.reply(records, zone))
                }
            },
            Answer::Forward if self.0.upstreams.is_probe(question.name()) => {
                Step::Reply(question.into_servfail())
            }
            Answer::Forward => {
                let name = question.name().clone();
                Step::Forward(Box::new(Forward {
                    question,
                    known: Vec::new(),
                    name,
                }))
            }
        }
    }

    async fn forward(&self, forward: Forward) -> Vec<u8> {
        let result = self
            .0
            .upstreams
            .lookup(forward.name, forward.question.kind())
            .await;
        forward.question.into_forwarded(forward.known, result)
    }
}

/// Receives the next packet; `None` at the end of the stream, or if the packet is longer than a query may be.
async fn receive(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 2];
    match stream.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = usize::from(u16::from_be_bytes(length));
    if length > MAX_QUERY {
        return Ok(None);
    }
    let mut packet = vec![0; length];
    stream.read_exact(&mut packet).await?;
    Ok(Some(packet))
}

impl Part for Server {
    async fn run(
        &mut self,
        heart: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        let _rest = heart.idle();
        self.serve(&shutdown).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
