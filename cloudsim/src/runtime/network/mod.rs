//! The network of simulated pods, as the agent's probes and hooks reach it: connections within this process to servers that answer
//! as the pod's annotations say.

use std::{fmt, io, sync::Arc, time::Duration};

use agent::edged::{Connection, PodNetwork};
use futures::future::BoxFuture;
use tokio::net::TcpStream;

use super::{Core, SimRuntime, state::Found};

mod answer;
mod serve;
#[cfg(test)]
mod tests;

/// Enough for a request's head and its answer without waiting for each other.
const PIPE_BYTES: usize = 16 * 1024;
/// A connection that lasts longer is of nobody any more: probes take seconds.
const LONGEST: Duration = Duration::from_secs(600);

/// Reaches the pods of one runtime; other addresses over the machine's network.
struct SimNetwork(Arc<Core>);

impl fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimNetwork")
    }
}

impl SimRuntime {
    /// How its pods are reached.
    pub fn pod_network(&self) -> Arc<dyn PodNetwork> {
        Arc::new(SimNetwork(Arc::clone(&self.core)))
    }
}

impl PodNetwork for SimNetwork {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Connection>>> {
        Box::pin(async move {
            match self.0.look(|state, now| state.listener(host, port, now)) {
                Found::Server(behaviour, age) => {
                    let (client, server) = tokio::io::duplex(PIPE_BYTES);
                    // ends with the connection
                    tokio::spawn(tokio::time::timeout(LONGEST, serve::serve(server, behaviour, age)));
                    Ok(Box::new(client) as Box<dyn Connection>)
                }
                Found::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
                Found::Elsewhere => {
                    let stream = TcpStream::connect((host, port)).await?;
                    Ok(Box::new(stream) as Box<dyn Connection>)
                }
            }
        })
    }
}
