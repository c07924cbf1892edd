//! Tunnels with a node that the test plays: correctly and hostile.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::BodyExt;
use kubeapi::{Body, NodeAnswer, NodeError, NodeIo, NodeRequest, NodeStreams};
use testkit::{WAIT_TIMEOUT, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use wire::{
    tunnel::{Connect, Frame, Kind, MAX_FRAME},
    websocket::{Decoder, Message, Role, encode},
};

use super::{
    Tunnels,
    table::DialHeaders,
    tunnel::{self, Timing, TunnelEnd},
};
use crate::faults::Faults;

mod answers;
mod crowd;
mod ends;
mod hostile;
mod windows;

const NODE: &str = "edge-1";

/// What all nodes share.
#[derive(Clone)]
struct World {
    tunnels: Tunnels,
    faults: Faults,
    shutdown: CancellationToken,
    timing: Timing,
}

impl World {
    fn new() -> Self {
        let timing = Timing {
            ping: WAIT_TIMEOUT,
            read: 2 * WAIT_TIMEOUT,
            write: WAIT_TIMEOUT,
        };
        Self {
            tunnels: Tunnels::default(),
            faults: Faults::new(1),
            shutdown: CancellationToken::new(),
            timing,
        }
    }

    /// Opens a tunnel of the node.
    fn dial(&self) -> Node {
        self.dial_with(None)
    }

    /// Opens a tunnel of a node with this window.
    fn dial_with(&self, window: Option<usize>) -> Node {
        let dial_headers = DialHeaders {
            address: "192.0.2.1".to_owned(),
            window,
        };
        let (io, theirs) = duplex(64 * 1024);
        let entry = self
            .tunnels
            .begin(NODE, dial_headers, 1, &self.shutdown)
            .unwrap();
        let (faults, timing) = (self.faults.clone(), self.timing);
        let run =
            tokio::spawn(async move { tunnel::run(theirs, NODE, entry, &faults, timing).await });
        Node {
            io,
            decoder: Decoder::new(Role::Client, MAX_FRAME),
            input: BytesMut::new(),
            run,
        }
    }

    /// Makes a request, in a task.
    fn ask(&self, method: Method, path: &str, headers: HeaderMap) -> Asked {
        let request = NodeRequest {
            method,
            path_and_query: path.to_owned(),
            headers,
        };
        let tunnels = self.tunnels.clone();
        tokio::spawn(async move { tunnels.ask(NODE, request).await })
    }

    fn get(&self, path: &str) -> Asked {
        self.ask(Method::GET, path, HeaderMap::new())
    }

    /// Returns a body whose head the node has sent.
    async fn body(&self, node: &mut Node, head: &str) -> (u64, Body) {
        let asked = self.get("/containerLogs/ns/p/c?follow=true");
        let id = node.connect().await.id;
        node.data(id, head).await;
        let response = answer(asked).await;
        assert_eq!(response.status(), StatusCode::OK);
        (id, response.into_body())
    }

    /// Returns the connection behind a 101.
    async fn upgrade(&self, node: &mut Node, head_and_more: &str) -> (u64, Box<dyn NodeIo>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, "Upgrade".parse().unwrap());
        headers.insert(header::UPGRADE, "SPDY/3.1".parse().unwrap());
        let asked = self.ask(Method::POST, "/exec/ns/p/c?command=sh", headers);
        let connect = node.connect().await;
        assert_eq!(connect.header["Upgrade"], ["SPDY/3.1"]);
        node.data(connect.id, head_and_more).await;
        match within("the answer", asked).await.unwrap().unwrap() {
            NodeAnswer::Upgraded(head, io) => {
                assert_eq!(head.status, StatusCode::SWITCHING_PROTOCOLS);
                (connect.id, io)
            }
            NodeAnswer::Response(response) => panic!("{response:?}"),
        }
    }
}

type Asked = JoinHandle<Result<NodeAnswer, NodeError>>;

const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

/// The node's end of a tunnel.
struct Node {
    io: DuplexStream,
    decoder: Decoder,
    input: BytesMut,
    run: JoinHandle<TunnelEnd>,
}

impl Node {
    async fn message(&mut self, message: &Message) {
        let mut out = BytesMut::new();
        encode(&mut out, message, Some([1, 2, 3, 4]));
        self.io.write_all(&out).await.unwrap();
    }

    async fn frame(&mut self, id: u64, kind: Kind, data: &[u8]) {
        let frame = Frame::new(id, kind, Bytes::copy_from_slice(data));
        self.message(&Message::Text(frame.encode().into())).await;
    }

    async fn data(&mut self, id: u64, data: impl AsRef<[u8]>) {
        self.frame(id, Kind::Data, data.as_ref()).await;
    }

    /// Returns the cloud's next message except pings; `None` if it has closed the connection.
    async fn next(&mut self) -> Option<Message> {
        let reading = async {
            loop {
                match self.decoder.next(&mut self.input).unwrap() {
                    Some(Message::Ping(_)) => continue,
                    Some(message) => return Some(message),
                    None => {}
                }
                if self.io.read_buf(&mut self.input).await.ok()? == 0 {
                    return None;
                }
            }
        };
        within("the next message", reading).await
    }

    async fn next_frame(&mut self) -> Frame {
        let Some(Message::Text(payload)) = self.next().await else {
            panic!("no frame")
        };
        Frame::decode(payload).unwrap()
    }

    /// Returns the request of the next stream.
    async fn connect(&mut self) -> Connect {
        let frame = self.next_frame().await;
        assert_eq!(frame.kind, Kind::Exec);
        let connect = Connect::decode(&frame.data).unwrap();
        assert_eq!(connect.id, frame.id);
        connect
    }

    async fn remove_stream(&mut self, id: u64) {
        let frame = self.next_frame().await;
        assert_eq!((frame.id, frame.kind), (id, Kind::RemoveConnect));
    }

    /// Checks that the tunnel works: a pong comes, and nothing before it.
    async fn is_alive(&mut self) {
        self.message(&Message::Ping(Bytes::from_static(b"ping you")))
            .await;
        assert_eq!(
            self.next().await,
            Some(Message::Pong(Bytes::from_static(b"ping you")))
        );
    }

    async fn wait_ended(self) -> TunnelEnd {
        drop(self.io);
        within("the end of the tunnel", self.run).await.unwrap()
    }
}

/// An ordinary answer.
async fn answer(asked: Asked) -> http::Response<Body> {
    match within("the answer", asked).await.unwrap().unwrap() {
        NodeAnswer::Response(response) => response,
        NodeAnswer::Upgraded(head, _) => panic!("{head:?}"),
    }
}

/// Reads a whole body, or why it is incomplete.
async fn whole(body: Body) -> Result<String, String> {
    let collected = within("the end of the body", body.collect())
        .await
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8(collected.to_bytes().to_vec()).unwrap())
}

/// Reads the next piece of a body.
async fn piece(body: &mut Body) -> String {
    let frame = within("a piece of the body", body.frame())
        .await
        .unwrap()
        .unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}
