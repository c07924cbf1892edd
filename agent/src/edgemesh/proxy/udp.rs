//! UDP: a socket, and for each of its clients a flow to one endpoint, with a socket of its own.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::AsRawFd,
    sync::Arc,
    time::Duration,
};

use limits::{NoShare, Share};
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrStorage,
    sockopt::{IpFreebind, Ipv6V6Only},
};
use parking_lot::Mutex;
use tokio::{
    io::split,
    net::UdpSocket,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use tracing::debug;
use wire::relay::{Protocol, Wanted};

use super::{backend::Backend, endpoint_address::EndpointAddress, plan::Target};
use crate::edgemesh::{
    dialer::Dialer,
    figures::Figures,
    relay::{
        Relay,
        datagrams::{self, DATAGRAM},
    },
};

/// A flow that nothing goes through ends after so long.
const IDLE: Duration = Duration::from_secs(60);
/// How often it is looked for those.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Flows of one socket; beyond them the one that is idle longest makes room.
const FLOWS: usize = 1024;
/// How long it is remembered whether a node is reached directly, before a new client has it looked at again.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// Datagrams of a client that wait for their way over the relay.
const WAITING: usize = 16;
/// One that was used within this time makes no room.
const MIN_IDLE: Duration = Duration::from_secs(1);
/// After the socket could not be read.
const RETRY: Duration = Duration::from_millis(100);

/// Where answers are read into: one for all flows of a socket, since none of them waits while it holds it.
type Buffer = Arc<Mutex<Vec<u8>>>;

/// A client's way to its endpoint.
#[derive(Debug)]
struct Flow {
    endpoint: EndpointAddress,
    server: FlowPath,
    last: Arc<Mutex<Instant>>,
    answers: JoinHandle<()>,
    _share: Share<IpAddr>,
}

/// Over what it goes.
#[derive(Debug)]
enum FlowPath {
    Direct(Arc<UdpSocket>),
    /// Datagrams for another node; they wait until its connection is made.
    Relayed(mpsc::Sender<Vec<u8>>),
}

impl Flow {
    /// Sends a datagram; an error says that nobody listens there.
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match &self.server {
            FlowPath::Direct(server) => match server.try_send(datagram) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                // one that cannot be sent is lost, as datagrams are
                _ => Ok(()),
            },
            FlowPath::Relayed(waiting) => match waiting.try_send(datagram.to_vec()) {
                Err(mpsc::error::TrySendError::Closed(_)) => Err(io::ErrorKind::ConnectionReset.into()),
                _ => Ok(()),
            },
        }
    }

    /// Whether it goes the way that new ones go.
    fn is_on_its_path(&self, target: &Target, dialer: &Dialer) -> bool {
        let is_relayed = matches!(self.server, FlowPath::Relayed(_));
        dialer.relay_for(&target.destination(&self.endpoint)).is_some() == is_relayed
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

/// A socket at this address.
pub(super) fn listen(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(family, SockType::Datagram, flags, None)?;
    if address.is_ipv6() {
        // see [`super::tcp::listen`]
        socket::setsockopt(&socket, IpFreebind, &true)?;
        socket::setsockopt(&socket, Ipv6V6Only, &true)?;
    }
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    UdpSocket::from_std(socket.into())
}

/// Forwards datagrams; never ends.
pub(super) async fn serve(socket: UdpSocket, backend: Backend) {
    let (socket, buffer) = (Arc::new(socket), Buffer::new(Mutex::new(vec![0; DATAGRAM])));
    let mut flows: HashMap<SocketAddr, Flow> = HashMap::new();
    let mut datagram = vec![0; DATAGRAM];
    let mut target = backend.target.clone();
    let mut path_changes = backend.dialer.changes();
    let mut checks = interval(CHECK_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let received = tokio::select! {
            // cancel-safe, all: a datagram is taken only by the arm that wins
            received = socket.recv_from(&mut datagram) => received,
            changed = target.changed() => {
                let serving = target.borrow_and_update().serving.clone();
                // who has an endpoint that serves no more gets another one with the next datagram
                flows.retain(|_, flow| serving.contains(&flow.endpoint));
                if changed.is_err() {
                    return;
                }
                continue;
            }
            _ = path_changes.changed() => {
                // who went the way that is closed, or a longer one, begins anew with the next datagram
                let target = backend.target.borrow().clone();
                flows.retain(|_, flow| flow.is_on_its_path(&target, &backend.dialer));
                continue;
            }
            now = checks.tick() => {
                flows.retain(|_, flow| is_alive(flow, now));
                let target = backend.target.borrow().clone();
                // datagrams do not tell whether they arrive
                flows.values().for_each(|flow| backend.dialer.probe_direct(&target.destination(&flow.endpoint), PROBE_INTERVAL));
                continue;
            }
        };
        let (size, client) = match received {
            Ok(received) => received,
            Err(error) => {
                debug!(%error, "no datagram to a Service can be taken");
                sleep(RETRY).await;
                continue;
            }
        };
        if flows.get(&client).is_some_and(|flow| flow.answers.is_finished()) {
            flows.remove(&client);
        }
        if !flows.contains_key(&client) {
            match share(client, &mut flows, &backend) {
                Some(share) => {
                    if let Some(flow) = begin(client, &backend, (&socket, &buffer), share).await {
                        flows.insert(client, flow);
                    }
                }
                None => Figures::add(&backend.budget.figures.refused),
            }
        }
        if let Some(flow) = flows.get(&client) {
            *flow.last.lock() = Instant::now();
            if let Err(error) = flow.send(&datagram[..size]) {
                debug!(%error, endpoint = %flow.endpoint, "a datagram to an endpoint is lost");
                // nobody listens there: the kernel says so of the next datagram
                backend.missed(flow.endpoint.clone());
                flows.remove(&client);
            }
        }
    }
}

fn is_alive(flow: &Flow, now: Instant) -> bool {
    !flow.answers.is_finished() && now.saturating_duration_since(*flow.last.lock()) < IDLE
}

/// A place for a new flow. Where there is none, the one of this socket that is idle longest makes room: of the same client's flows, if
/// it is the client that has its share.
fn share(
    client: SocketAddr,
    flows: &mut HashMap<SocketAddr, Flow>,
    backend: &Backend,
) -> Option<Share<IpAddr>> {
    let full = if flows.len() >= FLOWS {
        NoShare::All
    } else {
        match backend.budget.flow(client.ip()) {
            Ok(share) => return Some(share),
            Err(full) => full,
        }
    };
    let makes_room = |other: &SocketAddr| match full {
        NoShare::All => true,
        NoShare::Each => other.ip() == client.ip(),
    };
    let of = flows.iter().filter(|(other, _)| makes_room(other));
    let (last, oldest) = of.map(|(other, flow)| (*flow.last.lock(), *other)).min()?;
    // datagrams that come back to their own socket, each from a new one, cost no more than that
    if last.elapsed() < MIN_IDLE {
        return None;
    }
    flows.remove(&oldest);
    backend.budget.flow(client.ip()).ok()
}

async fn begin(
    client: SocketAddr,
    backend: &Backend,
    answers: (&Arc<UdpSocket>, &Buffer),
    share: Share<IpAddr>,
) -> Option<Flow> {
    let (endpoints, policy) = backend.choose(client.ip());
    let target = backend.target.borrow().clone();
    let last = Arc::new(Mutex::new(Instant::now()));
    for endpoint in endpoints {
        let destination = target.destination(&endpoint);
        let begun = match backend.dialer.relay_for(&destination) {
            Some((relay, node)) => {
                let wanted = target.wanted(&endpoint, Protocol::Udp);
                let (waiting, datagrams) = mpsc::channel(WAITING);
                let back = (answers.0.clone(), client, last.clone());
                let relayed = over_relay(relay.clone(), (node, wanted), datagrams, back);
                Ok((FlowPath::Relayed(waiting), tokio::spawn(relayed)))
            }
            None if !destination.is_direct => {
                Err(io::Error::other("its address is in a network of this node's own pods"))
            }
            None => {
                backend.dialer.probe_direct(&destination, PROBE_INTERVAL);
                connect(destination.address).await.map(|server| {
                    let (server, to) = (Arc::new(server), (answers.0.clone(), answers.1.clone()));
                    let back = give_back(client, server.clone(), to, last.clone());
                    (FlowPath::Direct(server), tokio::spawn(back))
                })
            }
        };
        match begun {
            Ok((server, answers)) => {
                backend.reached(policy, client.ip(), endpoint.clone());
                Figures::add(&backend.budget.figures.flows);
                return Some(Flow { endpoint, server, last, answers, _share: share });
            }
            Err(error) => debug!(%error, %endpoint, "an endpoint of a Service cannot be reached"),
        }
    }
    None
}

/// Takes a client's datagrams to another node, and its answers back, until either has ended.
async fn over_relay(
    relay: Relay,
    (node, wanted): (Arc<str>, Wanted),
    mut waiting: mpsc::Receiver<Vec<u8>>,
    (socket, client, last): (Arc<UdpSocket>, SocketAddr, Arc<Mutex<Instant>>),
) {
    let stream = match relay.dial(&node, &wanted).await {
        Ok(stream) => stream,
        Err(error) => {
            return debug!(%error, %node, "an endpoint of a Service cannot be reached over the relay");
        }
    };
    let (mut reader, mut writer) = split(stream);
    let forth = async {
        while let Some(datagram) = waiting.recv().await {
            if datagrams::send(&mut writer, &datagram).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        let mut datagram = vec![0; DATAGRAM];
        while let Ok(size) = datagrams::receive(&mut reader, &mut datagram).await {
            *last.lock() = Instant::now();
            // one that cannot be sent is lost, as datagrams are
            let _ = socket.try_send_to(&datagram[..size], client);
        }
    };
    tokio::select! {
        // cancel-safe, both: the flow ends
        () = forth => {}
        () = back => {}
    }
}

/// A socket of its own to an endpoint.
pub(in crate::edgemesh) async fn connect(endpoint: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr =
        if endpoint.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let server = UdpSocket::bind((any, 0)).await?;
    server.connect(endpoint).await?;
    // it is known at once only of sockets that were asked
    server.writable().await?;
    Ok(server)
}

/// Gives the client what its endpoint answers, until the endpoint says that nobody listens there.
async fn give_back(
    client: SocketAddr,
    server: Arc<UdpSocket>,
    (socket, buffer): (Arc<UdpSocket>, Buffer),
    last: Arc<Mutex<Instant>>,
) {
    loop {
        if server.readable().await.is_err() {
            return;
        }
        let mut buffer = buffer.lock();
        match server.try_recv(&mut buffer) {
            Ok(size) => {
                *last.lock() = Instant::now();
                // one that cannot be sent is lost, as datagrams are
                if let Err(error) = socket.try_send_to(&buffer[..size], client) {
                    debug!(%error, %client, "an answer of an endpoint is lost");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                debug!(%error, "an endpoint of a Service does not answer");
                return;
            }
        }
    }
}

#[cfg(test)]
#[path = "udp/tests.rs"]
mod tests;
