//! UDP: a socket, and for each of its clients a flow to one endpoint, with a socket of its own.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
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
use wire::relay::{ConnectRequest, Protocol};

use super::{backend::Backend, endpoint_address::EndpointAddress, plan::Target};
use crate::edgemesh::{
    dialer::Dialer,
    metrics::MeshMetrics,
    relay::{
        Relay,
        datagrams::{self, MAX_DATAGRAM},
    },
    sockets::connect_udp,
};

/// How long a flow may be idle before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often idle flows are looked for.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The most flows of one socket; beyond that the one that has been idle longest makes room.
const MAX_FLOWS: usize = 1024;
/// How long a probe of the direct path to a node counts, before a new client begins another one.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// How many datagrams of a client may wait to be sent over the relay.
const MAX_QUEUED: usize = 16;
/// A flow that was used within this time does not make room for another.
const MIN_IDLE: Duration = Duration::from_secs(1);
/// The pause after a failed receive.
const RECEIVE_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The buffer that answers are read into: one for all flows of a socket, since none of them awaits anything while it holds the lock.
type Buffer = Arc<Mutex<Vec<u8>>>;

/// The datagrams of one client, and of its endpoint back.
#[derive(Debug)]
struct Flow {
    endpoint: EndpointAddress,
    server: FlowPath,
    last: Arc<Mutex<Instant>>,
    answers: JoinHandle<()>,
    _share: Share<IpAddr>,
}

/// How a flow reaches its endpoint.
#[derive(Debug)]
enum FlowPath {
    Direct(Arc<UdpSocket>),
    /// A queue of datagrams for another node: they wait until the connection over the relay is established.
    Relayed(mpsc::Sender<Vec<u8>>),
}

impl Flow {
    /// Sends a datagram; an error means that the port is closed.
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match &self.server {
            FlowPath::Direct(server) => match server.try_send(datagram) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                // a datagram that cannot be sent now is lost, as UDP allows
                _ => Ok(()),
            },
            FlowPath::Relayed(waiting) => match waiting.try_send(datagram.to_vec()) {
                Err(mpsc::error::TrySendError::Closed(_)) => {
                    Err(io::ErrorKind::ConnectionReset.into())
                }
                _ => Ok(()),
            },
        }
    }

    /// Reports whether a new flow would take the same path.
    fn is_on_current_path(&self, target: &Target, dialer: &Dialer) -> bool {
        let is_relayed = matches!(self.server, FlowPath::Relayed(_));
        dialer
            .relay_for(&target.destination(&self.endpoint))
            .is_some()
            == is_relayed
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

/// Binds a socket.
pub(super) fn listen(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
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

/// Forwards datagrams; returns only when the listener is gone.
pub(super) async fn serve(socket: UdpSocket, backend: Backend) {
    let (socket, buffer) = (
        Arc::new(socket),
        Buffer::new(Mutex::new(vec![0; MAX_DATAGRAM])),
    );
    let mut flows: HashMap<SocketAddr, Flow> = HashMap::new();
    let mut datagram = vec![0; MAX_DATAGRAM];
    let mut target = backend.target.clone();
    let mut path_changes = backend.dialer.path_changes();
    let mut checks = interval(CHECK_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let received = clock::select! {
            // cancel-safe: a datagram is taken only by the arm that wins
            received = socket.recv_from(&mut datagram) => received,
            changed = target.changed() => {
                let serving = target.borrow_and_update().serving.clone();
                // a client whose endpoint does not serve any more gets another one with its next datagram
                flows.retain(|_, flow| serving.contains(&flow.endpoint));
                if changed.is_err() {
                    return;
                }
                continue;
            }
            _ = path_changes.changed() => {
                // a flow on a path that is not taken any more begins anew with its next datagram
                let target = backend.target.borrow().clone();
                flows.retain(|_, flow| flow.is_on_current_path(&target, &backend.dialer));
                continue;
            }
            now = checks.tick() => {
                flows.retain(|_, flow| is_alive(flow, now));
                let target = backend.target.borrow().clone();
                // datagrams are not acknowledged, so the path is probed
                flows.values().for_each(|flow| backend.dialer.probe_direct(&target.destination(&flow.endpoint), PROBE_INTERVAL));
                continue;
            }
        };
        let (size, client) = match received {
            Ok(received) => received,
            Err(error) => {
                debug!(%error, "failed to receive a datagram to a Service");
                sleep(RECEIVE_RETRY_INTERVAL).await;
                continue;
            }
        };
        if flows
            .get(&client)
            .is_some_and(|flow| flow.answers.is_finished())
        {
            flows.remove(&client);
        }
        if !flows.contains_key(&client) {
            match admit_flow(client, &mut flows, &backend) {
                Some(share) => {
                    if let Some(flow) =
                        begin_flow(client, &backend, (&socket, &buffer), share).await
                    {
                        flows.insert(client, flow);
                    }
                }
                None => MeshMetrics::add(&backend.budget.metrics.refused),
            }
        }
        if let Some(flow) = flows.get(&client) {
            *flow.last.lock() = Instant::now();
            if let Err(error) = flow.send(&datagram[..size]) {
                debug!(%error, endpoint = %flow.endpoint, "failed to send a datagram to an endpoint");
                // nobody listens there, which the kernel reports with the next datagram
                backend.record_unreachable(flow.endpoint.clone());
                flows.remove(&client);
            }
        }
    }
}

fn is_alive(flow: &Flow, now: Instant) -> bool {
    !flow.answers.is_finished() && now.saturating_duration_since(*flow.last.lock()) < IDLE_TIMEOUT
}

/// Admits a new flow. Where a limit is reached, the flow of this socket that has been idle longest makes room: one of the same client, if
/// it is the client's limit.
fn admit_flow(
    client: SocketAddr,
    flows: &mut HashMap<SocketAddr, Flow>,
    backend: &Backend,
) -> Option<Share<IpAddr>> {
    let full = if flows.len() >= MAX_FLOWS {
        NoShare::All
    } else {
        match backend.budget.admit_flow(client.ip()) {
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
    // this bounds the cost of datagrams that circle back to their own socket, each time from a new port
    if last.elapsed() < MIN_IDLE {
        return None;
    }
    flows.remove(&oldest);
    backend.budget.admit_flow(client.ip()).ok()
}

/// Begins a flow to the first endpoint that can be dialled.
async fn begin_flow(
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
                let request = target.connect_request(&endpoint, Protocol::Udp);
                let (waiting, datagrams) = mpsc::channel(MAX_QUEUED);
                let back = (answers.0.clone(), client, last.clone());
                let relayed = forward_over_relay(relay.clone(), (node, request), datagrams, back);
                Ok((FlowPath::Relayed(waiting), componentbase::spawn(relayed)))
            }
            None if !destination.is_direct => Err(io::Error::other(
                "its address is in a network of this node's own pods",
            )),
            None => {
                backend.dialer.probe_direct(&destination, PROBE_INTERVAL);
                connect_udp(destination.address).await.map(|server| {
                    let (server, to) = (Arc::new(server), (answers.0.clone(), answers.1.clone()));
                    let back = forward_answers(client, server.clone(), to, last.clone());
                    (FlowPath::Direct(server), componentbase::spawn(back))
                })
            }
        };
        match begun {
            Ok((server, answers)) => {
                backend.record_reached(policy, client.ip(), endpoint.clone());
                MeshMetrics::add(&backend.budget.metrics.flows);
                return Some(Flow {
                    endpoint,
                    server,
                    last,
                    answers,
                    _share: share,
                });
            }
            Err(error) => debug!(%error, %endpoint, "failed to reach an endpoint of a Service"),
        }
    }
    None
}

/// Forwards a client's datagrams to another node, and the answers back, until one of both ends.
async fn forward_over_relay(
    relay: Relay,
    (node, request): (Arc<str>, ConnectRequest),
    mut waiting: mpsc::Receiver<Vec<u8>>,
    (socket, client, last): (Arc<UdpSocket>, SocketAddr, Arc<Mutex<Instant>>),
) {
    let stream = match relay.dial(client.ip(), &node, &request).await {
        Ok(stream) => stream,
        Err(error) => {
            return debug!(%error, %node, "failed to reach an endpoint of a Service through the relay");
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
        let mut datagram = vec![0; MAX_DATAGRAM];
        while let Ok(size) = datagrams::receive(&mut reader, &mut datagram).await {
            *last.lock() = Instant::now();
            // a datagram that cannot be sent now is lost, as UDP allows
            let _ = socket.try_send_to(&datagram[..size], client);
        }
    };
    clock::select! {
        // cancel-safe: the flow ends
        () = forth => {}
        () = back => {}
    }
}

/// Forwards an endpoint's answers to the client, until the kernel reports that the port is closed.
async fn forward_answers(
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
                // a datagram that cannot be sent now is lost, as UDP allows
                if let Err(error) = socket.try_send_to(&buffer[..size], client) {
                    debug!(%error, %client, "failed to send an endpoint's answer");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                debug!(%error, "endpoint of a Service not responding");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
