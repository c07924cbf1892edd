//! How an endpoint is reached: directly, or over the relay where it is another node's.
//!
//! An endpoint of this node, or of none, is dialled and nothing else. One of another node is dialled first; when it has not answered soon, the
//! relay is tried beside it, and the first of both counts. What was found is remembered for the node. An address that is in a network of this
//! node's own pods is never dialled for another node: it would lead to a pod of this one.

use std::{collections::BTreeMap, io, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};
use tracing::info;
use wire::relay::{Path, Wanted};

use super::{
    paths::{First, Paths},
    proxy::connect,
    relay::{NoRelay, Relay, Relayed},
};
use crate::rt::now;

/// So long the direct way has before the relay is tried beside it.
const HEAD_START: Duration = Duration::from_millis(300);
/// So long the direct way may take to answer once the relay has.
const PROBE: Duration = Duration::from_secs(2);

/// What an endpoint is reached over.
#[derive(Debug)]
pub(super) enum Server {
    /// Its own address.
    Direct(TcpStream),
    /// Its node.
    Relayed(Box<Relayed>),
}

/// Why an endpoint is not reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("{0}")]
    Direct(#[from] io::Error),
    #[error("{0}")]
    Relay(#[from] NoRelay),
    #[error("not directly ({0}), and not over the relay: {1}")]
    Both(io::Error, NoRelay),
    #[error("its address is in a network of this node's own pods, and there is no relay")]
    Ours,
}

/// What is dialled.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) address: SocketAddr,
    /// The node that the endpoint is on, where that is another one.
    pub(super) node: Option<Arc<str>>,
    /// Whether the address leads there, and not to a pod of this node.
    pub(super) is_direct: bool,
}

/// Dials endpoints, and remembers the way to each node. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Dialer {
    relay: Option<Relay>,
    paths: Arc<Mutex<Paths>>,
    changes: Arc<watch::Sender<u64>>,
}

impl Dialer {
    /// With this relay, where there is one.
    pub(super) fn new(relay: Option<Relay>) -> Self {
        Self { relay, ..Self::default() }
    }

    /// The nodes whose way is known.
    pub(super) fn known(&self) -> BTreeMap<String, Path> {
        self.paths.lock().all()
    }

    /// Tells of every change of what is known.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether the relay is there.
    pub(super) fn is_relayed(&self) -> bool {
        self.relay.as_ref().is_some_and(Relay::is_up)
    }

    /// Connects to an endpoint.
    pub(super) async fn dial(
        &self,
        destination: &Destination,
        wanted: impl FnOnce() -> Wanted,
    ) -> Result<Server, DialError> {
        let Some(node) = &destination.node else {
            return Ok(Server::Direct(connect(destination.address).await?));
        };
        match (self.relay.as_ref().filter(|relay| relay.is_up()), destination.is_direct) {
            (None, false) => Err(DialError::Ours),
            (None, true) => {
                let dialled = connect(destination.address).await;
                self.found(node, if dialled.is_ok() { Path::Direct } else { Path::Unreached });
                Ok(Server::Direct(dialled?))
            }
            (Some(relay), false) => {
                let dialled = relay.dial(node, &wanted()).await.inspect_err(|error| {
                    if !error.is_of_the_endpoint() {
                        self.found(node, Path::Unreached);
                    }
                });
                Ok(self.is_relayed_to(node, dialled?))
            }
            (Some(relay), true) => self.dial_both(node, destination.address, relay, &wanted()).await,
        }
    }

    /// The direct way and the relay, as it suits what is known.
    async fn dial_both(
        &self,
        node: &Arc<str>,
        address: SocketAddr,
        relay: &Relay,
        wanted: &Wanted,
    ) -> Result<Server, DialError> {
        let first = self.paths.lock().first(node, now());
        let head_start = match first {
            First::Direct => HEAD_START,
            First::Both => Duration::ZERO,
            First::Relay => {
                return match relay.dial(node, wanted).await {
                    Ok(stream) => Ok(self.is_relayed_to(node, stream)),
                    Err(error) if error.is_of_the_endpoint() => Err(error.into()),
                    Err(error) => self.settle(node, connect(address).await, error),
                };
            }
        };
        // boxed: it may go on after this has returned
        let mut direct = Box::pin(connect(address));
        let early = timeout(head_start, &mut direct).await;
        let relayed = relay.dial(node, wanted);
        tokio::pin!(relayed);
        let failed = match early {
            Ok(Ok(stream)) => return Ok(self.is_direct(node, stream)),
            Ok(Err(failed)) => failed,
            Err(_) => tokio::select! {
                biased;
                // cancel-safe, both: the one that is not ready is awaited below, or goes on by itself
                dialled = &mut direct => match dialled {
                    Ok(stream) => return Ok(self.is_direct(node, stream)),
                    Err(failed) => failed,
                },
                dialled = &mut relayed => return match dialled {
                    Ok(stream) => {
                        self.watch(node, direct);
                        Ok(self.is_relayed_to(node, stream))
                    }
                    Err(error) => self.settle(node, direct.await, error),
                },
            },
        };
        match relayed.await {
            Ok(stream) => Ok(self.is_relayed_to(node, stream)),
            Err(error) => self.settle(node, Err(failed), error),
        }
    }

    /// The relay has failed: what the direct way came to counts.
    fn settle(&self, node: &str, direct: io::Result<TcpStream>, error: NoRelay) -> Result<Server, DialError> {
        match direct {
            Ok(stream) => Ok(self.is_direct(node, stream)),
            Err(failed) => {
                // a node that has not reached its endpoint was reached itself
                if !error.is_of_the_endpoint() {
                    self.found(node, Path::Unreached);
                }
                Err(DialError::Both(failed, error))
            }
        }
    }

    /// The direct way has not answered as soon as the relay: whether it answers at all.
    fn watch(&self, node: &Arc<str>, direct: impl Future<Output = io::Result<TcpStream>> + Send + 'static) {
        let (dialer, node) = (self.clone(), Arc::clone(node));
        tokio::spawn(async move {
            if let Ok(Ok(_)) = timeout(PROBE, direct).await {
                dialer.found(&node, Path::Direct);
            }
        });
    }

    /// Finds out whether a node is reached directly, where that has not been done for so long: by an address of a pod that may listen for nothing
    /// but datagrams, so that a refusal is an answer too.
    pub(super) fn probe_direct(&self, destination: &Destination, age: Duration) {
        let Some(node) = destination.node.clone().filter(|_| destination.is_direct && self.relay.is_some())
        else {
            return;
        };
        {
            let mut paths = self.paths.lock();
            if !paths.is_old(&node, age, now()) {
                return;
            }
            paths.tried(&node, now());
        }
        let (dialer, address) = (self.clone(), destination.address);
        tokio::spawn(async move {
            let is_direct = tokio::select! {
                // cancel-safe, both
                dialled = connect(address) => match dialled {
                    Ok(_) => true,
                    Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
                },
                () = sleep(PROBE / 2) => false,
            };
            if is_direct {
                dialer.found(&node, Path::Direct);
            } else if dialer.is_relayed() {
                dialer.found(&node, Path::Relayed);
            }
        });
    }

    /// The relay and the node, where datagrams to this endpoint go over the relay.
    pub(super) fn relay_for(&self, destination: &Destination) -> Option<(&Relay, Arc<str>)> {
        let (relay, node) = (self.relay.as_ref().filter(|relay| relay.is_up())?, destination.node.as_ref()?);
        let is_relayed = !destination.is_direct || self.paths.lock().of(node) == Some(Path::Relayed);
        is_relayed.then(|| (relay, Arc::clone(node)))
    }

    fn is_direct(&self, node: &str, stream: TcpStream) -> Server {
        self.found(node, Path::Direct);
        Server::Direct(stream)
    }

    fn is_relayed_to(&self, node: &str, stream: Relayed) -> Server {
        self.found(node, Path::Relayed);
        Server::Relayed(Box::new(stream))
    }

    fn found(&self, node: &str, path: Path) {
        if self.paths.lock().found(node, path, now()) {
            info!(node, ?path, "the way to another node's pods");
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}
