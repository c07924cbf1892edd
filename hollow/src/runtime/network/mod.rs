//! The network of simulated pods, as the agent's probes, hooks and port-forward reach it: connections within this process to
//! servers that answer as the pod's annotations say.

use std::{fmt, io, net::IpAddr, sync::Arc, time::Duration};

use edged::{Connection, PodNetwork};
use futures::future::BoxFuture;
use tokio::{io::DuplexStream, net::TcpStream};

use super::{Core, SimRuntime, behaviour::Behaviour, state::Found};

mod answer;
mod serve;
pub(super) mod socket;
#[cfg(test)]
mod tests;

/// The capacity of a connection: a request's head and its answer fit without waiting for each other.
const PIPE_BYTES: usize = 16 * 1024;
/// How long a connection may last. Probes take seconds, and a port-forward connects again, so an older one is abandoned.
const LONGEST: Duration = Duration::from_secs(3600);

/// Connects to the pods of one runtime, and to other addresses over the machine's network.
struct SimNetwork(Arc<Core>);

impl fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimNetwork")
    }
}

impl SimRuntime {
    /// Returns the network over which its pods are reached.
    pub fn pod_network(&self) -> Arc<dyn PodNetwork> {
        Arc::new(SimNetwork(Arc::clone(&self.core)))
    }
}

/// Opens a connection to a simulated server that has run for `age`. It ends when the returned end is dropped.
pub(super) fn open(behaviour: Arc<Behaviour>, age: Duration) -> DuplexStream {
    let (client, server) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(tokio::time::timeout(
        LONGEST,
        serve::serve(server, behaviour, age),
    ));
    client
}

/// Reports whether nothing listens at an address of this machine.
fn is_refused_here(error: &io::Error, host: &str) -> bool {
    let is_here = |address: IpAddr| {
        address.is_loopback() || componentbase::addresses::reachable().contains(&address)
    };
    error.kind() == io::ErrorKind::ConnectionRefused && host.parse().is_ok_and(is_here)
}

impl PodNetwork for SimNetwork {
    fn connect<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Box<dyn Connection>>> {
        Box::pin(async move {
            match self
                .0
                .with_state(|state, now| state.listener(host, port, now))
            {
                Found::Server(behaviour, age) => {
                    Ok(Box::new(open(behaviour, age)) as Box<dyn Connection>)
                }
                Found::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
                Found::Elsewhere(on_host) => {
                    match (TcpStream::connect((host, port)).await, on_host) {
                        (Ok(stream), _) => Ok(Box::new(stream) as Box<dyn Connection>),
                        (Err(error), Some((behaviour, age))) if is_refused_here(&error, host) => {
                            Ok(Box::new(open(behaviour, age)) as Box<dyn Connection>)
                        }
                        (Err(error), _) => Err(error),
                    }
                }
            }
        })
    }
}
