//! The cloud's end of the stream tunnel, as CloudCore has it on port 10004: accepts nodes' tunnels over TLS, identifies each by its
//! certificate, and opens streams in them.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use testkit::{PROCESS_TIMEOUT, WAIT_TIMEOUT};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split},
    net::TcpStream,
    runtime::Runtime,
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use wire::{
    tunnel::{ADDRESS_HEADER, Connect, Frame, Kind, MAX_FRAME, NODE_HEADER, PATH},
    websocket::{Decoder, Message, Role, accept_key, encode},
};

use crate::tls_listener::TlsListener;

/// The largest head of an upgrade, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// How many frames may wait for the node, or for a stream.
const WAITING: usize = 64;
/// How many bytes may wait for the reader of a stream.
const BUFFER: usize = 64 * 1024;
/// The most data of a frame to the node, in bytes.
const CHUNK: usize = 16 * 1024;

/// A stream server.
#[derive(Debug)]
pub struct TunnelServer {
    /// The port on which it listens, on 127.0.0.1.
    pub port: u16,
    /// The certificate of the CA that has issued its own, in PEM.
    pub ca: String,
    /// The runtime of everything asynchronous.
    pub runtime: Runtime,
    newest: watch::Receiver<Option<Session>>,
}

/// The tunnel of a node.
#[derive(Clone, Debug)]
pub struct Session {
    /// The headers of the upgrade, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    frames: mpsc::Sender<Frame>,
    streams: Streams,
    next: Arc<AtomicU64>,
}

/// The senders for what the node sends, by stream.
type Streams = Arc<Mutex<HashMap<u64, mpsc::Sender<Bytes>>>>;

impl TunnelServer {
    /// Starts a server that accepts nodes whose certificates are issued by the CA in this file.
    pub fn start(node_ca: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let clients = fs::read(node_ca)?;
        let bound = TlsListener::bind(&["127.0.0.1"], Some(&clients));
        let TlsListener {
            listener,
            acceptor,
            port,
            ca,
        } = runtime.block_on(bound)?;
        let (sessions, newest) = watch::channel(None);
        let next = Arc::new(AtomicU64::new(1));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(
                    stream,
                    acceptor.clone(),
                    sessions.clone(),
                    next.clone(),
                ));
            }
        });
        Ok(Self {
            port,
            ca,
            runtime,
            newest,
        })
    }

    /// Returns the newest tunnel, once there is one.
    pub fn session(&self) -> anyhow::Result<Session> {
        let mut newest = self.newest.clone();
        let found = self.runtime.block_on(async move {
            let found = timeout(PROCESS_TIMEOUT, newest.wait_for(Option::is_some)).await;
            found
                .context("no node dials the tunnel")?
                .context("the server has ended")
                .map(|found| found.clone())
        })?;
        found.context("there is a tunnel")
    }
}

/// Serves one connection as long as it lasts.
async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    sessions: watch::Sender<Option<Session>>,
    next: Arc<AtomicU64>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = acceptor.accept(stream).await?;
    let headers = upgrade(&mut stream).await?;
    let (mut reader, mut writer) = split(stream);
    let (frames, mut outbound) = mpsc::channel(WAITING);
    let (pongs, mut asked) = mpsc::channel(WAITING);
    let streams = Streams::default();
    sessions.send_replace(Some(Session {
        headers,
        frames,
        streams: streams.clone(),
        next,
    }));
    let writing = async {
        loop {
            let message = tokio::select! {
                // cancel-safe: what is not taken stays there.
                Some(frame) = outbound.recv() => Message::Text(Frame::encode(&frame).into()),
                Some(payload) = asked.recv() => Message::Pong(payload),
                else => return io::Result::Ok(()),
            };
            let mut out = BytesMut::new();
            encode(&mut out, &message, None);
            writer.write_all(&out).await?;
            writer.flush().await?;
        }
    };
    tokio::select! {
        written = writing => written,
        read = read(&mut reader, &streams, &pongs) => read,
    }
}

async fn read(
    reader: &mut (impl AsyncRead + Unpin),
    streams: &Streams,
    pongs: &mpsc::Sender<Bytes>,
) -> io::Result<()> {
    let mut decoder = Decoder::new(Role::Server, MAX_FRAME);
    let mut input = BytesMut::new();
    loop {
        while let Some(message) = decoder.next(&mut input).map_err(io::Error::other)? {
            match message {
                Message::Text(payload) => {
                    let frame = Frame::decode(payload).map_err(io::Error::other)?;
                    deliver(streams, frame).await;
                }
                Message::Ping(payload) => drop(pongs.send(payload).await),
                Message::Close(_) => return Ok(()),
                Message::Binary(_) | Message::Pong(_) => {}
            }
        }
        if reader.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    }
}

async fn deliver(streams: &Streams, frame: Frame) {
    let known = || streams.lock().ok();
    match frame.kind {
        Kind::Data => {
            let stream = known().and_then(|all| all.get(&frame.id).cloned());
            if let Some(stream) = stream {
                // Its reader may have gone.
                let _ = stream.send(frame.data).await;
            }
        }
        Kind::RemoveConnect => drop(known().and_then(|mut all| all.remove(&frame.id))),
        _ => {}
    }
}

/// Reads the request, answers it and returns its headers.
async fn upgrade(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<BTreeMap<String, String>> {
    let head = read_head(stream).await?;
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    if !head.starts_with(&format!("GET {PATH} HTTP/1.1\r\n")) {
        return Err(bad(&head));
    }
    let pairs = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    let headers: BTreeMap<_, _> = pairs
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let key = headers
        .get("sec-websocket-key")
        .ok_or_else(|| bad("no key"))?;
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
        accept_key(key)
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.flush().await?;
    Ok(headers)
}

/// Reads the head of a request or a response, and nothing of what follows it.
pub async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > MAX_HEAD {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the head is too long",
            ));
        }
        head.push(stream.read_u8().await?);
    }
    String::from_utf8(head).map_err(io::Error::other)
}

impl Session {
    /// Returns the node's name and address, as it reports them.
    pub fn node(&self) -> (&str, &str) {
        let header = |name: &str| {
            self.headers
                .get(&name.to_ascii_lowercase())
                .map_or("", String::as_str)
        };
        (header(NODE_HEADER), header(ADDRESS_HEADER))
    }

    /// Opens a stream for a request. What is written goes to the node, and what the node sends is read; when dropped, it is ended.
    pub async fn connect(&self, kind: Kind, request: Connect) -> anyhow::Result<DuplexStream> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = duplex(BUFFER);
        let (data, received) = mpsc::channel(WAITING);
        self.streams
            .lock()
            .ok()
            .context("the streams")?
            .insert(id, data);
        let frame = Connect { id, ..request }.frame(kind)?;
        self.frames
            .send(frame)
            .await
            .context("the tunnel has ended")?;
        tokio::spawn(pump(
            id,
            theirs,
            received,
            self.frames.clone(),
            self.streams.clone(),
        ));
        Ok(ours)
    }

    /// Returns everything that a request for a log or a page yields.
    pub async fn get(&self, kind: Kind, path: &str, query: &str) -> anyhow::Result<Vec<u8>> {
        let mut stream = self.connect(kind, Connect::new(0, path, query)).await?;
        let mut body = Vec::new();
        timeout(WAIT_TIMEOUT, stream.read_to_end(&mut body))
            .await
            .context("the answer has no end")??;
        Ok(body)
    }

    /// Requests a connection to the runtime over SPDY; returns the connection after the response's head.
    pub async fn upgrade(
        &self,
        kind: Kind,
        path: &str,
        query: &str,
        protocol: &str,
    ) -> anyhow::Result<DuplexStream> {
        let request = Connect::new(0, path, query)
            .method("POST")
            .header("Connection", "Upgrade")
            .header("Upgrade", "SPDY/3.1")
            .header("X-Stream-Protocol-Version", protocol)
            .header("Content-Length", "0");
        let mut stream = self.connect(kind, request).await?;
        let head = timeout(WAIT_TIMEOUT, read_head(&mut stream))
            .await
            .context("no answer")??;
        ensure!(head.starts_with("HTTP/1.1 101 "), "{head}");
        Ok(stream)
    }
}

/// Moves bytes between a stream and the tunnel.
async fn pump(
    id: u64,
    stream: DuplexStream,
    mut received: mpsc::Receiver<Bytes>,
    frames: mpsc::Sender<Frame>,
    streams: Streams,
) {
    let (mut reader, mut writer) = split(stream);
    let down = async {
        loop {
            let mut bytes = BytesMut::with_capacity(CHUNK);
            match reader.read_buf(&mut bytes).await {
                Ok(1..) => {}
                _ => return,
            }
            let part = Frame::new(id, Kind::Data, bytes.freeze());
            if frames.send(part).await.is_err() {
                return;
            }
        }
    };
    let up = async {
        while let Some(bytes) = received.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = down => {}
        () = up => {}
    }
    if let Ok(mut all) = streams.lock() {
        all.remove(&id);
    }
    // A tunnel that has ended need not be told.
    let _ = frames
        .send(Frame::new(id, Kind::RemoveConnect, Bytes::new()))
        .await;
}
