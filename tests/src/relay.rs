//! A relay before a server, on which links break in every way that links break.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
    sync::watch,
    task::JoinSet,
};

/// What becomes of connections and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Everything passes.
    Through,
    /// Connections are taken and stand; bytes are read, and go nowhere.
    Swallow,
    /// Connections end, and new ones end at once.
    Cut,
}

/// The relay; it ends when dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    /// Connections that were let through.
    passed: watch::Receiver<u64>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// A relay on the loopback interface that leads to `server`.
    pub async fn to(server: SocketAddr) -> Self {
        Self::to_first_of(&[server]).await
    }

    /// The same to the first of these servers that is there, asked anew for each connection.
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
        Self { address, mode, passed, _tasks: tasks }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections have led to the server.
    pub fn passed(&self) -> u64 {
        *self.passed.borrow()
    }

    /// From now on everything passes. What was swallowed stays so, and its connections end.
    pub fn through(&self) {
        self.mode.send_replace(Mode::Through);
    }

    /// From now on links are half-open: they stand, and nothing comes through.
    pub fn swallow(&self) {
        self.mode.send_replace(Mode::Swallow);
    }

    /// Ends all connections, and those to come.
    pub fn cut(&self) {
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
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let mut other = modes.clone();
        tokio::select! {
            () = pass(from_client, to_server, modes) => {}
            () = pass(from_server, to_client, other.clone()) => {}
            _ = other.wait_for(|mode| *mode == Mode::Cut) => {}
        }
    } else {
        // it stands until links work again
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

/// Until one end closes, or something was swallowed and links work again: bytes are missing then.
async fn pass(mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf, modes: watch::Receiver<Mode>) {
    let mut bytes = vec![0; 16 * 1024];
    let mut swallowed = false;
    loop {
        let mut modes = modes.clone();
        let size = tokio::select! {
            // what came in while nothing passes is swallowed, whatever comes next
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
