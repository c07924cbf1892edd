//! A relay in front of a server, on which links fail in every way in which links fail.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
    sync::watch,
    task::JoinSet,
};

/// What happens to connections and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Everything passes.
    Through,
    /// Connections are accepted and stay open; bytes are read and discarded.
    Swallow,
    /// Connections end, and new ones end at once.
    Cut,
}

/// The relay; it ends when dropped.
#[derive(Debug)]
pub struct TcpRelay {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    /// The number of connections that were let through.
    passed: watch::Receiver<u64>,
    _tasks: JoinSet<()>,
}

impl TcpRelay {
    /// Starts a relay on the loopback interface that connects to `server`.
    pub async fn to(server: SocketAddr) -> Self {
        Self::to_first_of(&[server]).await
    }

    /// Starts a relay that connects to the first of these servers that is reachable, for each connection again.
    pub async fn to_first_of(servers: &[SocketAddr]) -> Self {
        let servers = servers.to_vec();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (mode, modes) = watch::channel(Mode::Through);
        let (count, passed) = watch::channel(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(relay(client, servers.clone(), modes.clone(), count.clone()));
            }
        });
        Self {
            address,
            mode,
            passed,
            _tasks: tasks,
        }
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns how many connections were made to the server.
    pub fn connection_count(&self) -> u64 {
        *self.passed.borrow()
    }

    /// Lets everything pass from now on. What was swallowed is lost, and its connections end.
    pub fn through(&self) {
        self.mode.send_replace(Mode::Through);
    }

    /// Makes links half-open from now on: they stay open, and nothing comes through.
    pub fn swallow(&self) {
        self.mode.send_replace(Mode::Swallow);
    }

    /// Ends all connections, and new ones at once.
    pub fn cut_connections(&self) {
        self.mode.send_replace(Mode::Cut);
    }
}

async fn relay(
    client: TcpStream,
    servers: Vec<SocketAddr>,
    mut modes: watch::Receiver<Mode>,
    count: watch::Sender<u64>,
) {
    if *modes.borrow_and_update() == Mode::Through
        && let Some(server) = connect(&servers).await
    {
        count.send_modify(|count| *count += 1);
        let ((from_client, to_client), (from_server, to_server)) =
            (client.into_split(), server.into_split());
        let mut other = modes.clone();
        tokio::select! {
            () = pass(from_client, to_server, modes) => {}
            () = pass(from_server, to_client, other.clone()) => {}
            _ = other.wait_for(|mode| *mode == Mode::Cut) => {}
        }
    } else {
        // The connection stays open until links work again.
        let _ = modes.wait_for(|mode| *mode != Mode::Swallow).await;
    }
}

async fn connect(servers: &[SocketAddr]) -> Option<TcpStream> {
    for server in servers {
        if let Ok(connected) = TcpStream::connect(server).await {
            return Some(connected);
        }
    }
    None
}

/// Copies bytes until one end closes, or something was swallowed and links work again: bytes are missing then.
async fn pass(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    modes: watch::Receiver<Mode>,
) {
    let mut bytes = vec![0; 16 * 1024];
    let mut swallowed = false;
    loop {
        let mut modes = modes.clone();
        let size = tokio::select! {
            // What arrives while nothing passes is swallowed, whatever comes next.
            biased;
            _ = modes.wait_for(|mode| *mode == Mode::Through), if swallowed => return,
            size = from.read(&mut bytes) => size,
        };
        match size {
            Ok(size) if size > 0 && *modes.borrow() == Mode::Through => {
                if to.write_all(&bytes[..size]).await.is_err() {
                    return;
                }
            }
            Ok(size) if size > 0 => swallowed = true,
            _ if *modes.borrow() == Mode::Swallow => {
                let _ = modes.wait_for(|mode| *mode != Mode::Swallow).await;
                return;
            }
            _ => return,
        }
    }
}
