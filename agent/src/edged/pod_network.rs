//! How the node connects to its pods, for probes and hooks: over the machine's network, or through an implementation given by
//! whoever runs the agent on a runtime without a network.

use std::{fmt, io};

use futures::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// A connection to a server in a pod.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Connects to addresses of pods.
pub trait PodNetwork: fmt::Debug + Send + Sync {
    /// Connects to a TCP port of a host, an address or a name.
    ///
    /// # Errors
    /// As those of [`TcpStream::connect`]: `ConnectionRefused` where nobody listens.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Connection>>>;
}

/// The network of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineNetwork;

impl PodNetwork for MachineNetwork {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Box<dyn Connection>>> {
        Box::pin(async move {
            let stream = TcpStream::connect((host, port)).await?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}
