//! How an endpoint is reached: directly, or over the relay where it is on another node.
//!
//! An endpoint of this node, or of no node, is dialled directly and in no other way. One of another node is dialled directly first; if
//! that has not answered after [`RELAY_DELAY`], the relay is tried at the same time, and the first of both wins. The path that was found
//! is remembered for the address on that node. An address in a network of this node's own pods is never dialled for another node: it
//! would lead to a pod of this one.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use wire::relay::{ConnectRequest, Path};

use super::{
    path_table::PathTable,
    paths::First,
    relay::{Relay, RelayDialError, RelayStream},
    sockets::connect_tcp,
};

/// How long the direct path is tried alone before the relay is tried as well.
const RELAY_DELAY: Duration = Duration::from_millis(300);
/// How long the direct path may still take to answer after the relay has.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to an endpoint.
#[derive(Debug)]
pub(super) enum EndpointStream {
    /// To its own address.
    Direct(TcpStream),
    /// To its node, over the relay.
    Relayed(Box<RelayStream>),
}

/// Why an endpoint is not reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("{0}")]
    Direct(#[from] io::Error),
    #[error("{0}")]
    Relay(#[from] RelayDialError),
    #[error("cannot connect directly ({0}) or over the relay: {1}")]
    Both(io::Error, RelayDialError),
    #[error("the address is in this node's own pod network, and there is no relay")]
    OwnPodNetwork,
}

impl DialError {
    /// Reports whether the client, or this node, has too many connections, which says nothing of the endpoint.
    pub(super) fn is_full(&self) -> bool {
        matches!(
            self,
            Self::Relay(RelayDialError::Full) | Self::Both(_, RelayDialError::Full)
        )
    }
}

/// The endpoint that is dialled.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) address: SocketAddr,
    /// The node that the endpoint is on; `None`: this one, or none.
    pub(super) node: Option<Arc<str>>,
    /// Whether the address can be dialled from here; if not, it would lead to a pod of this node.
    pub(super) is_direct: bool,
}

/// An endpoint on another node.
#[derive(Clone, Copy, Debug)]
struct Remote<'a> {
    node: &'a Arc<str>,
    address: SocketAddr,
}

/// Dials endpoints, and remembers the path to each. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Dialer {
    relay: Option<Relay>,
    paths: PathTable,
}

impl Dialer {
    /// Creates a dialer that uses this relay, if there is one.
    pub(super) fn new(relay: Option<Relay>, paths: PathTable) -> Self {
        Self { relay, paths }
    }

    /// Returns a receiver that is notified of every change of a path.
    pub(super) fn path_changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.paths.changes()
    }

    /// Returns the relay, if it is connected.
    fn connected_relay(&self) -> Option<&Relay> {
        self.relay.as_ref().filter(|relay| relay.is_connected())
    }

    /// Connects to an endpoint, for a client.
    pub(super) async fn dial(
        &self,
        destination: &Destination,
        client: IpAddr,
        request: impl FnOnce() -> ConnectRequest,
    ) -> Result<EndpointStream, DialError> {
        let address = destination.address;
        let Some(node) = &destination.node else {
            return Ok(EndpointStream::Direct(connect_tcp(address).await?));
        };
        let to = Remote { node, address };
        match (self.connected_relay(), destination.is_direct) {
            (None, false) => Err(DialError::OwnPodNetwork),
            (None, true) => {
                let dialled = connect_tcp(address).await;
                self.record(
                    to,
                    if dialled.is_ok() {
                        Path::Direct
                    } else {
                        Path::Unreached
                    },
                );
                Ok(EndpointStream::Direct(dialled?))
            }
            (Some(relay), false) => {
                let dialled = relay
                    .dial(client, node, &request())
                    .await
                    .inspect_err(|error| {
                        if !error.is_about_endpoint() {
                            self.record(to, Path::Unreached);
                        }
                    });
                Ok(self.relayed_stream(to, dialled?))
            }
            (Some(relay), true) => self.dial_both(to, relay, client, &request()).await,
        }
    }

    /// Dials directly, over the relay, or both, in the order that the known path suggests.
    async fn dial_both(
        &self,
        to: Remote<'_>,
        relay: &Relay,
        client: IpAddr,
        request: &ConnectRequest,
    ) -> Result<EndpointStream, DialError> {
        let Remote { node, address } = to;
        let first = self.paths.first(node, address.ip());
        let relay_delay = match first {
            First::Direct => RELAY_DELAY,
            First::Both => Duration::ZERO,
            First::Relay => {
                return match relay.dial(client, node, request).await {
                    Ok(stream) => Ok(self.relayed_stream(to, stream)),
                    Err(error) if error.is_about_endpoint() => Err(error.into()),
                    Err(error) => self.settle(to, connect_tcp(address).await, error),
                };
            }
        };
        // boxed: it may go on after this has returned
        let mut direct = Box::pin(connect_tcp(address));
        let early = timeout(relay_delay, &mut direct).await;
        let relayed = relay.dial(client, node, request);
        tokio::pin!(relayed);
        let failed = match early {
            Ok(Ok(stream)) => return Ok(self.direct(to, stream)),
            Ok(Err(failed)) => failed,
            Err(_) => clock::select! {
                biased;
                // cancel-safe: the one that is not ready is awaited below, or goes on by itself
                dialled = &mut direct => match dialled {
                    Ok(stream) => return Ok(self.direct(to, stream)),
                    Err(failed) => failed,
                },
                dialled = &mut relayed => return match dialled {
                    Ok(stream) => {
                        self.probe_to_end(to, direct);
                        Ok(self.relayed_stream(to, stream))
                    }
                    Err(error) => self.settle(to, direct.await, error),
                },
            },
        };
        match relayed.await {
            Ok(stream) => Ok(self.relayed_stream(to, stream)),
            Err(error) => self.settle(to, Err(failed), error),
        }
    }

    /// Decides by the outcome of the direct path after the relay has failed.
    fn settle(
        &self,
        to: Remote<'_>,
        direct: io::Result<TcpStream>,
        error: RelayDialError,
    ) -> Result<EndpointStream, DialError> {
        match direct {
            Ok(stream) => Ok(self.direct(to, stream)),
            Err(failed) => {
                // a node that answers that it does not reach its endpoint was itself reached
                if !error.is_about_endpoint() {
                    self.record(to, Path::Unreached);
                }
                Err(DialError::Both(failed, error))
            }
        }
    }

    /// Waits in the background for a direct attempt that was slower than the relay, to learn whether the path works at all.
    fn probe_to_end(
        &self,
        to: Remote<'_>,
        direct: impl Future<Output = io::Result<TcpStream>> + Send + 'static,
    ) {
        let (paths, node, address) = (self.paths.clone(), Arc::clone(to.node), to.address.ip());
        componentbase::spawn(async move {
            if let Ok(Ok(_)) = timeout(PROBE_TIMEOUT, direct).await {
                paths.record(&node, address, Path::Direct);
            }
        });
    }

    /// Probes in the background whether an endpoint is reached directly, unless that was done within `age`. The address may be that of a
    /// pod that listens for datagrams only, so a refused connection counts as an answer.
    pub(super) fn probe_direct(&self, destination: &Destination, age: Duration) {
        let Some(node) = destination
            .node
            .clone()
            .filter(|_| destination.is_direct && self.relay.is_some())
        else {
            return;
        };
        if !self.paths.begin_probe(&node, destination.address.ip(), age) {
            return;
        }
        let (dialer, address) = (self.clone(), destination.address);
        componentbase::spawn(async move {
            let is_direct = clock::select! {
                // cancel-safe: a connection that is not made in time is not needed
                dialled = connect_tcp(address) => match dialled {
                    Ok(_) => true,
                    Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
                },
                () = sleep(PROBE_TIMEOUT / 2) => false,
            };
            if is_direct {
                dialer.paths.record(&node, address.ip(), Path::Direct);
            } else if dialer.connected_relay().is_some() {
                dialer.paths.record(&node, address.ip(), Path::Relayed);
            }
        });
    }

    /// Returns the relay and the node, where datagrams to this endpoint go over the relay.
    pub(super) fn relay_for(&self, destination: &Destination) -> Option<(&Relay, Arc<str>)> {
        let (relay, node) = (self.connected_relay()?, destination.node.as_ref()?);
        let is_relayed = !destination.is_direct
            || self.paths.get(node, destination.address.ip()) == Some(Path::Relayed);
        is_relayed.then(|| (relay, Arc::clone(node)))
    }

    fn record(&self, to: Remote<'_>, path: Path) {
        self.paths.record(to.node, to.address.ip(), path);
    }

    fn direct(&self, to: Remote<'_>, stream: TcpStream) -> EndpointStream {
        self.record(to, Path::Direct);
        EndpointStream::Direct(stream)
    }

    fn relayed_stream(&self, to: Remote<'_>, stream: RelayStream) -> EndpointStream {
        self.record(to, Path::Relayed);
        EndpointStream::Relayed(Box::new(stream))
    }
}
