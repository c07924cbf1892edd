//! The server: datagrams and connections, each with its limits.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket as StdUdpSocket},
    sync::Arc,
    time::Duration,
};

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
    forward::Upstreams,
    listen::Listening,
    message::{self, Asked, MAX_QUESTION, Transport},
    records::{self, Answer, End},
};
use crate::{
    edgemesh::Snapshots,
    rt::{Heartbeat, Part, PartError},
};
/// A connection waits for so long for the next question, and its client for so long for an answer to go out.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections: all, those that have asked nothing yet, and those of one client.
const CONNECTIONS: ConnectionLimits =
    ConnectionLimits { established: 128, reserved: 0, pending: 64, per_address: 16 };
/// Questions that are with the node's resolvers; of one client a quarter, so that three of them leave room.
const FORWARDING: ShareLimits = ShareLimits { all: 512, each: 128 };
/// Between tries to accept or receive where the kernel has no room.
const PAUSE: Duration = Duration::from_millis(50);

/// The server; cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

struct Shared {
    config: Config,
    snapshots: Snapshots,
    upstreams: Upstreams,
    /// Questions that are with the node's resolvers, of each client.
    forwarding: Shares<IpAddr>,
    udp: UdpSocket,
    /// The same socket for answers, without waiting.
    answers: StdUdpSocket,
    tcp: TcpListener,
    connections: ConnectionLimiter,
}

/// What a packet leads to.
enum Step {
    /// Nothing.
    Ignore,
    /// This is sent back.
    Reply(Vec<u8>),
    /// The node's resolvers are asked for the name, and what they say follows what is known here.
    Forward(Box<Forward>),
}

struct Forward {
    asked: Asked,
    known: Vec<Record>,
    name: Name,
}

impl Server {
    /// Of sockets that are bound; within a runtime.
    ///
    /// # Errors
    /// The runtime cannot wait for them.
    pub fn new(config: Config, listening: Listening, snapshots: Snapshots) -> io::Result<Self> {
        let own = vec![listening.udp.local_addr()?];
        Ok(Self(Arc::new(Shared {
            upstreams: Upstreams::new(config.clone(), own),
            config,
            snapshots,
            forwarding: Shares::new(FORWARDING),
            answers: listening.udp.try_clone()?,
            udp: UdpSocket::from_std(listening.udp)?,
            tcp: TcpListener::from_std(listening.tcp)?,
            connections: ConnectionLimiter::new(CONNECTIONS),
        })))
    }

    /// Serves until `shutdown`.
    pub async fn serve(&self, shutdown: &CancellationToken) {
        tokio::select! {
            // cancel-safe, all: what is not answered now is asked again
            () = shutdown.cancelled() => {}
            () = self.datagrams() => {}
            () = self.connections() => {}
            () = self.0.upstreams.look_for_circles() => {}
        }
    }

    /// Answers datagrams: what is known here at once, the rest in tasks.
    async fn datagrams(&self) {
        // they end with this
        let mut tasks = JoinSet::new();
        let mut packet = vec![0; MAX_QUESTION + 1];
        loop {
            while tasks.try_join_next().is_some() {}
            let (length, client) = match self.0.udp.recv_from(&mut packet).await {
                Ok(received) => received,
                Err(error) => {
                    // of an answer to a client that is gone, too
                    debug!(%error, "a question was not received");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            match self.step(packet.get(..length).unwrap_or_default(), Transport::Udp) {
                Step::Ignore => {}
                Step::Reply(reply) => self.send(&reply, client),
                Step::Forward(forward) => match self.0.forwarding.admit(client.ip()) {
                    Ok(share) => {
                        let server = self.clone();
                        tasks.spawn(async move {
                            let reply = server.forward(*forward).await;
                            server.send(&reply, client);
                            drop(share);
                        });
                    }
                    Err(_) => self.send(&forward.asked.failed(), client),
                },
            }
        }
    }

    /// Sends an answer, or drops it where the kernel has no room for it: those for a neighbour that nobody is wait there for seconds, and
    /// who forges the source of a question chooses whom its answer is for. A client whose answer is lost asks again.
    fn send(&self, reply: &[u8], client: SocketAddr) {
        if let Err(error) = self.0.answers.send_to(reply, client) {
            debug!(%error, %client, "an answer was not sent");
        }
    }

    async fn connections(&self) {
        let mut tasks = JoinSet::new();
        loop {
            while tasks.try_join_next().is_some() {}
            match self.0.tcp.accept().await {
                Ok((stream, client)) => {
                    // beyond the limits it is closed
                    let Ok(slot) = self.0.connections.accept(Some(client)) else { continue };
                    let server = self.clone();
                    tasks.spawn(async move {
                        tokio::select! {
                            // cancel-safe: a connection that is cut off in the middle is closed
                            () = slot.evicted() => {}
                            ended = server.connection(stream, client, &slot) => {
                                if let Err(error) = ended {
                                    debug!(%error, %client, "a connection ended");
                                }
                            }
                        }
                    });
                }
                Err(error) => {
                    debug!(%error, "a connection was not accepted");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Questions of one connection, one after the other, each after its length.
    async fn connection(
        &self,
        mut stream: TcpStream,
        client: SocketAddr,
        slot: &ConnectionSlot,
    ) -> io::Result<()> {
        loop {
            let Ok(packet) = timeout(IDLE_TIMEOUT, receive(&mut stream)).await else { return Ok(()) };
            let Some(packet) = packet? else { return Ok(()) };
            let _request = slot.begin(false).map_err(io::Error::other)?;
            let reply = match self.step(&packet, Transport::Tcp) {
                Step::Ignore => return Ok(()),
                Step::Reply(reply) => reply,
                Step::Forward(forward) => match self.0.forwarding.admit(client.ip()) {
                    Ok(_share) => self.forward(*forward).await,
                    Err(_) => forward.asked.failed(),
                },
            };
            let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
            let whole = [&length.to_be_bytes()[..], &reply].concat();
            timeout(IDLE_TIMEOUT, stream.write_all(&whole)).await??;
        }
    }

    fn step(&self, packet: &[u8], transport: Transport) -> Step {
        let asked = match message::read(packet, transport) {
            Ok(asked) => asked,
            Err(refusal) => return refusal.map_or(Step::Ignore, Step::Reply),
        };
        let snapshot = self.0.snapshots.borrow().clone();
        let zone = &self.0.config.domain;
        match records::answer(&snapshot, zone, asked.name(), asked.kind()) {
            Answer::Unready => Step::Reply(asked.failed()),
            Answer::Own(mut found) => match std::mem::take(&mut found.end) {
                End::Alias(name) => Step::Forward(Box::new(Forward { asked, known: found.answers, name })),
                end => {
                    found.end = end;
                    Step::Reply(asked.reply(found, zone))
                }
            },
            Answer::Elsewhere if self.0.upstreams.is_probe(asked.name()) => Step::Reply(asked.failed()),
            Answer::Elsewhere => {
                let name = asked.name().clone();
                Step::Forward(Box::new(Forward { asked, known: Vec::new(), name }))
            }
        }
    }

    async fn forward(&self, forward: Forward) -> Vec<u8> {
        let looked = self.0.upstreams.lookup(forward.name, forward.asked.kind()).await;
        forward.asked.forwarded(forward.known, looked)
    }
}

/// The next packet; `None` at the end. Longer ones than questions are end the connection.
async fn receive(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 2];
    match stream.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = usize::from(u16::from_be_bytes(length));
    if length > MAX_QUESTION {
        return Ok(None);
    }
    let mut packet = vec![0; length];
    stream.read_exact(&mut packet).await?;
    Ok(Some(packet))
}

impl Part for Server {
    async fn run(&mut self, heart: Heartbeat, shutdown: CancellationToken) -> Result<(), PartError> {
        let _rest = heart.idle();
        self.serve(&shutdown).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
