//! Forwards ports of a pod over SPDY (each connection has two streams) and over WebSocket (each port has one connection and two channels).

use std::{collections::HashMap, io, sync::Weak, time::Duration};

use bytes::{Buf, Bytes};
use clock::Instant;
use futures::{StreamExt, stream::FuturesUnordered};
use spdy::{
    Role, Status,
    session::{self, Incoming, Request, Stream},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, copy, split},
    sync::mpsc,
    time::timeout,
};
use wire::{cri::PortForwardRequest, websocket::Message};

use super::websocket::{self, message};
use crate::runtime::{core::Core, network, state::Found};

/// How long a client may take to open the second stream of a connection.
const CREATION: Duration = Duration::from_secs(30);
/// How long one direction may go on after the other has ended: containerd's value.
const HALF_CLOSED: Duration = Duration::from_secs(1);
/// How many bytes are read at a time.
const CHUNK: usize = 16 * 1024;
/// The most ports over one WebSocket: their channels are numbered by one byte.
const MAX_PORTS: usize = 128;
/// How many messages may wait for one connection, and for the client.
const QUEUE_LENGTH: usize = 4;

/// Connects to a port at which a container of the sandbox listens.
fn connect(core: &Weak<Core>, sandbox: &str, port: u16) -> Result<DuplexStream, String> {
    let found = core
        .upgrade()
        .map(|core| core.with_state(|state, now| state.listener_in(sandbox, port, now)));
    match found {
        Some(Ok(Found::Server(behaviour, age))) => Ok(network::open(behaviour, age)),
        Some(Err(why)) => Err(format!(
            "error forwarding port {port} to pod {sandbox}, uid : {why}"
        )),
        Some(Ok(Found::Refused | Found::Elsewhere(_))) | None => Err(format!(
            "error forwarding port {port} to pod {sandbox}, uid : failed to execute portforward in network namespace \
             \"/var/run/netns/{sandbox}\": failed to connect to localhost:{port} inside namespace {sandbox:?}, \
             IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused \
             IPv6 dial tcp6 [::1]:{port}: connect: connection refused "
        )),
    }
}

/// A connection whose second stream is still missing.
struct Half {
    since: Instant,
    is_data: bool,
    stream: Stream,
}

/// Serves connections until the client leaves.
pub(super) async fn over_spdy(
    io: impl AsyncRead + AsyncWrite + Send,
    core: Weak<Core>,
    ask: PortForwardRequest,
) {
    let (session, mut incoming, driver) = session::new(io, Role::Server);
    let driver = driver.run();
    tokio::pin!(driver);
    let work = async {
        let (paired, pairs) = mpsc::channel(1);
        // Both make progress all the time: while one of them waited for the other, the places in the driver's queue that the streams of the
        // other have reserved would stay unused.
        tokio::join!(
            accept_all(&mut incoming, paired),
            forward_all(&core, &ask.pod_sandbox_id, pairs)
        );
    };
    clock::select! {
        _ = &mut driver => {}
        () = work => {}
    }
    drop(session);
}

/// The streams of a connection, data and error, and its port.
type Pair = (u16, Stream, Stream);

/// Accepts streams until the client leaves.
async fn accept_all(incoming: &mut Incoming, paired: mpsc::Sender<Pair>) {
    let mut halves: HashMap<String, Half> = HashMap::new();
    while let Some(request) = incoming.next().await {
        halves.retain(|_, half| half.since.elapsed() < CREATION);
        if let Some(pair) = pair(request, &mut halves).await
            && paired.send(pair).await.is_err()
        {
            return;
        }
    }
}

/// Forwards connections until there are no more.
async fn forward_all(core: &Weak<Core>, sandbox: &str, mut pairs: mpsc::Receiver<Pair>) {
    let mut connections = FuturesUnordered::new();
    loop {
        clock::select! {
            // cancel-safe: a pair that is not received waits, and connections stay where they are.
            pair = pairs.recv() => match pair {
                Some((port, data, error)) => connections.push(forward(core, sandbox, port, data, error)),
                None => break,
            },
            Some(()) = connections.next() => {}
        }
    }
    while connections.next().await.is_some() {}
}

/// Accepts a stream; once both streams of a connection exist, returns them with its port.
async fn pair(request: Request, halves: &mut HashMap<String, Half>) -> Option<Pair> {
    let header = |name: &str| request.headers.get(name).unwrap_or_default().to_owned();
    let (kind, id) = (header("streamtype"), header("requestid"));
    let port = header("port").parse::<u16>().ok().filter(|port| *port > 0);
    let (Some(port), true) = (port, matches!(kind.as_str(), "data" | "error")) else {
        request.refuse(Status::ProtocolError).await;
        return None;
    };
    let is_data = kind == "data";
    let stream = request.accept().await.ok()?;
    // An older client numbers only its streams: the data stream has the next number.
    let id = if id.is_empty() {
        stream
            .id()
            .saturating_sub(if is_data { 2 } else { 0 })
            .to_string()
    } else {
        id
    };
    match halves.remove(&id) {
        Some(other) if other.is_data != is_data => {
            let (data, error) = if is_data {
                (stream, other.stream)
            } else {
                (other.stream, stream)
            };
            Some((port, data, error))
        }
        _ => {
            halves.insert(
                id,
                Half {
                    since: Instant::now(),
                    is_data,
                    stream,
                },
            );
            None
        }
    }
}

async fn forward(core: &Weak<Core>, sandbox: &str, port: u16, data: Stream, mut error: Stream) {
    match connect(core, sandbox, port) {
        Ok(server) => {
            join(data, server).await;
            let _ = error.shutdown().await;
        }
        Err(why) => {
            // A client that has left does not need the error.
            let _ = error.write_all(why.as_bytes()).await;
            let _ = error.shutdown().await;
            data.reset(Status::Cancel).await;
        }
    }
}

/// Copies both ways until one direction has ended, and then what is still on its way.
async fn join(data: Stream, server: DuplexStream) {
    let (mut from_client, mut to_client) = split(data);
    let (mut from_server, mut to_server) = split(server);
    let up = async {
        let copied = copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
        copied
    };
    let down = async {
        let copied = copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
        copied
    };
    both(up, down).await;
}

/// Runs both directions; when one has ended, the other has a moment to finish.
async fn both(
    up: impl Future<Output = io::Result<u64>>,
    down: impl Future<Output = io::Result<u64>>,
) {
    tokio::pin!(up, down);
    clock::select! {
        _ = &mut up => drop(timeout(HALF_CLOSED, down).await),
        _ = &mut down => drop(timeout(HALF_CLOSED, up).await),
    }
}

/// Serves the requested ports, each by one connection, until all have ended.
pub(super) async fn over_websocket<T: AsyncRead + AsyncWrite + Send>(
    io: T,
    core: Weak<Core>,
    ask: PortForwardRequest,
) {
    let ports: Vec<u16> = ask
        .port
        .iter()
        .filter_map(|port| u16::try_from(*port).ok())
        .take(MAX_PORTS)
        .collect();
    let (mut reader, mut writer) = websocket::ends(io);
    let (to_client, messages) = mpsc::channel(QUEUE_LENGTH);
    let mut inputs = Vec::new();
    let mut connections = FuturesUnordered::new();
    for (data, port) in (0..=u8::MAX).step_by(2).zip(&ports) {
        let (input, received) = mpsc::channel(QUEUE_LENGTH);
        inputs.push(input);
        connections.push(channel(
            &core,
            &ask.pod_sandbox_id,
            data,
            *port,
            received,
            to_client.clone(),
        ));
    }
    let pongs = to_client;
    let read = async move {
        while let Some(next) = reader.next().await {
            match next {
                Message::Ping(payload) => drop(pongs.send(Message::Pong(payload)).await),
                Message::Binary(mut payload) | Message::Text(mut payload)
                    if !payload.is_empty() =>
                {
                    let channel = payload.get_u8();
                    let input = inputs
                        .get(usize::from(channel / 2))
                        .filter(|_| channel % 2 == 0);
                    if let Some(input) = input {
                        // A connection that has ended takes no input.
                        let _ = input.send(payload).await;
                    }
                }
                _ => {}
            }
        }
    };
    let all = async move { while connections.next().await.is_some() {} };
    let both = async {
        clock::select! {
            () = read => false,
            () = all => true,
        }
    };
    let (is_done, ()) = tokio::join!(both, writer.run(messages));
    if is_done {
        writer.close().await;
    }
}

/// Copies one port's connection to its channels, which each begin with the port's number.
async fn channel(
    core: &Weak<Core>,
    sandbox: &str,
    data: u8,
    port: u16,
    mut input: mpsc::Receiver<Bytes>,
    to_client: mpsc::Sender<Message>,
) {
    let error = data + 1;
    for channel in [data, error] {
        let _ = to_client.send(message(channel, &port.to_le_bytes())).await;
    }
    let server = match connect(core, sandbox, port) {
        Ok(server) => server,
        Err(why) => return drop(to_client.send(message(error, why.as_bytes())).await),
    };
    let (mut from_server, mut to_server) = split(server);
    let up = async {
        while let Some(bytes) = input.recv().await {
            to_server.write_all(&bytes).await?;
        }
        io::Result::Ok(0)
    };
    let down = async {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0
                || to_client
                    .send(message(data, &buffer[..read]))
                    .await
                    .is_err()
            {
                return io::Result::Ok(0);
            }
        }
    };
    both(up, down).await;
}
