//! How the node connects to its pods, for probes and hooks: over the machine's network, or through the runtime if its pods have no
//! network.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

/// The answer of a runtime to a connection that is established, and to one that is refused. Any other line is an error's text.
pub const CONNECTED: &str = "ok";
/// See [`CONNECTED`].
pub const REFUSED: &str = "refused";
/// The longest line of a request or an answer, bytes.
const MAX_LINE: usize = 512;

/// A connection to a server in a pod.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Connects to addresses of pods.
pub trait PodNetwork: fmt::Debug + Send + Sync {
    /// Connects to a TCP port of a host, an address or a name.
    ///
    /// # Errors
    /// As those of [`TcpStream::connect`]: `ConnectionRefused` if the port is closed.
    fn connect<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Box<dyn Connection>>>;
}

/// The network of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineNetwork;

impl PodNetwork for MachineNetwork {
    fn connect<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Box<dyn Connection>>> {
        Box::pin(async move {
            let stream = TcpStream::connect((host, port)).await?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}

/// Returns the socket at which a simulated runtime with this CRI socket connects to its pods.
///
/// A client sends a line `HOST PORT`, and reads a line: [`CONNECTED`] before the bytes of the connection, or why there is none.
pub fn pod_socket(cri: &Path) -> PathBuf {
    let mut socket = cri.as_os_str().to_owned();
    socket.push(".pods");
    socket.into()
}

/// Reads one line, without its end.
///
/// # Errors
/// The stream ends before, or the line is longer than 512 bytes or no text.
pub async fn read_line(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            _ if line.len() == MAX_LINE => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
    String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The network of pods on the runtime at a CRI socket: through the runtime if it has a socket for this, as the simulated one, or else
/// that of this machine.
#[derive(Debug)]
pub struct RuntimeNetwork {
    socket: PathBuf,
    /// Whether the runtime has had the socket: without it, pods must not be confused with other servers of this machine.
    has_socket: AtomicBool,
}

impl RuntimeNetwork {
    /// Returns the network for an endpoint such as `unix:///run/containerd/containerd.sock`.
    pub fn of(endpoint: &str) -> Self {
        let cri = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        Self {
            socket: pod_socket(Path::new(cri)),
            has_socket: AtomicBool::new(false),
        }
    }

    async fn ask(mut stream: UnixStream, host: &str, port: u16) -> io::Result<Box<dyn Connection>> {
        stream
            .write_all(format!("{host} {port}\n").as_bytes())
            .await?;
        match read_line(&mut stream).await?.as_str() {
            CONNECTED => Ok(Box::new(stream)),
            REFUSED => Err(io::ErrorKind::ConnectionRefused.into()),
            why => Err(io::Error::other(why.to_owned())),
        }
    }
}

impl PodNetwork for RuntimeNetwork {
    fn connect<'a>(
        &'a self,
        host: &'a str,
        port: u16,
    ) -> BoxFuture<'a, io::Result<Box<dyn Connection>>> {
        Box::pin(async move {
            match UnixStream::connect(&self.socket).await {
                Ok(stream) => {
                    self.has_socket.store(true, Ordering::Relaxed);
                    Self::ask(stream, host, port).await
                }
                Err(_) if !self.has_socket.load(Ordering::Relaxed) => {
                    MachineNetwork.connect(host, port).await
                }
                Err(error) => Err(error),
            }
        })
    }
}
