//! How an endpoint is reached: directly, or over the relay where it is on another node.
//!
//! An endpoint of this node, or of no node, is dialled directly and in no other way. One of another node is dialled directly first; if that
//! has not answered after [`RELAY_DELAY`], the relay is tried at the same time, and the first of both wins. The path that was found is
//! remembered for the node. An address in a network of this node's own pods is never dialled for another node: it would lead to a pod of
//! this one.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

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
    #[error("not directly ({0}), and not over the relay: {1}")]
    Both(io::Error, RelayDialError),
    #[error("its address is in a network of this node's own pods, and there is no relay")]
    OwnPodNetwork,
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

/// Dials endpoints, and remembers the path to each node. Cheap to clone.
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

    /// Connects to an endpoint.
    pub(super) async fn dial(
        &self,
        destination: &Destination,
        request: impl FnOnce() -> ConnectRequest,
    ) -> Result<EndpointStream, DialError> {
        let Some(node) = &destination.node else {
            return Ok(EndpointStream::Direct(connect_tcp(destination.address).await?));
        };
        match (self.connected_relay(), destination.is_direct) {
            (None, false) => Err(DialError::OwnPodNetwork),
            (None, true) => {
                let dialled = connect_tcp(destination.address).await;
                self.paths.record(node, if dialled.is_ok() { Path::Direct } else { Path::Unreached });
                Ok(EndpointStream::Direct(dialled?))
            }
            (Some(relay), false) => {
                let dialled = relay.dial(node, &request()).await.inspect_err(|error| {
                    if !error.is_about_endpoint() {
                        self.paths.record(node, Path::Unreached);
                    }
                });
                Ok(self.relayed(node, dialled?))
            }
            (Some(relay), true) => self.dial_both(node, destination.address, relay, &request()).await,
        }
    }

    /// Dials directly, over the relay, or both, in the order that the known path suggests.
    async fn dial_both(
        &self,
        node: &Arc<str>,
        address: SocketAddr,
        relay: &Relay,
        request: &ConnectRequest,
    ) -> Result<EndpointStream, DialError> {
        let first = self.paths.first(node);
        let relay_delay = match first {
            First::Direct => RELAY_DELAY,
            First::Both => Duration::ZERO,
            First::Relay => {
                return match relay.dial(node, request).await {
                    Ok(stream) => Ok(self.relayed(node, stream)),
                    Err(error) if error.is_about_endpoint() => Err(error.into()),
                    Err(error) => self.settle(node, connect_tcp(address).await, error),
                };
            }
        };
        // boxed: it may go on after this has returned
        let mut direct = Box::pin(connect_tcp(address));
        let early = timeout(relay_delay, &mut direct).await;
        let relayed = relay.dial(node, request);
        tokio::pin!(relayed);
        let failed = match early {
            Ok(Ok(stream)) => return Ok(self.direct(node, stream)),
            Ok(Err(failed)) => failed,
            Err(_) => tokio::select! {
                biased;
                // cancel-safe, both: the one that is not ready is awaited below, or goes on by itself
                dialled = &mut direct => match dialled {
                    Ok(stream) => return Ok(self.direct(node, stream)),
                    Err(failed) => failed,
                },
                dialled = &mut relayed => return match dialled {
                    Ok(stream) => {
                        self.probe_to_end(node, direct);
                        Ok(self.relayed(node, stream))
                    }
                    Err(error) => self.settle(node, direct.await, error),
                },
            },
        };
        match relayed.await {
            Ok(stream) => Ok(self.relayed(node, stream)),
            Err(error) => self.settle(node, Err(failed), error),
        }
    }

    /// Decides by the outcome of the direct path after the relay has failed.
    fn settle(
        &self,
        node: &str,
        direct: io::Result<TcpStream>,
        error: RelayDialError,
    ) -> Result<EndpointStream, DialError> {
        match direct {
            Ok(stream) => Ok(self.direct(node, stream)),
            Err(failed) => {
                // a node that answers that it does not reach its endpoint was itself reached
                if !error.is_about_endpoint() {
                    self.paths.record(node, Path::Unreached);
                }
                Err(DialError::Both(failed, error))
            }
        }
    }

    /// Waits in the background for a direct attempt that was slower than the relay, to learn whether the path works at all.
    fn probe_to_end(
        &self,
        node: &Arc<str>,
        direct: impl Future<Output = io::Result<TcpStream>> + Send + 'static,
    ) {
        let (paths, node) = (self.paths.clone(), Arc::clone(node));
        tokio::spawn(async move {
            if let Ok(Ok(_)) = timeout(PROBE_TIMEOUT, direct).await {
                paths.record(&node, Path::Direct);
            }
        });
    }

    /// Probes in the background whether a node is reached directly, unless that was done within `age`. The address may be that of a pod
    /// that listens for datagrams only, so a refused connection counts as an answer.
    pub(super) fn probe_direct(&self, destination: &Destination, age: Duration) {
        let Some(node) = destination.node.clone().filter(|_| destination.is_direct && self.relay.is_some())
        else {
            return;
        };
        if !self.paths.begin_probe(&node, age) {
            return;
        }
        let (dialer, address) = (self.clone(), destination.address);
        tokio::spawn(async move {
            let is_direct = tokio::select! {
                // cancel-safe, both
                dialled = connect_tcp(address) => match dialled {
                    Ok(_) => true,
                    Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
                },
                () = sleep(PROBE_TIMEOUT / 2) => false,
            };
            if is_direct {
                dialer.paths.record(&node, Path::Direct);
            } else if dialer.connected_relay().is_some() {
                dialer.paths.record(&node, Path::Relayed);
            }
        });
    }

    /// Returns the relay and the node, where datagrams to this endpoint go over the relay.
    pub(super) fn relay_for(&self, destination: &Destination) -> Option<(&Relay, Arc<str>)> {
        let (relay, node) = (self.connected_relay()?, destination.node.as_ref()?);
        let is_relayed = !destination.is_direct || self.paths.get(node) == Some(Path::Relayed);
        is_relayed.then(|| (relay, Arc::clone(node)))
    }

    fn direct(&self, node: &str, stream: TcpStream) -> EndpointStream {
        self.paths.record(node, Path::Direct);
        EndpointStream::Direct(stream)
    }

    fn relayed(&self, node: &str, stream: RelayStream) -> EndpointStream {
        self.paths.record(node, Path::Relayed);
        EndpointStream::Relayed(Box::new(stream))
    }
}
