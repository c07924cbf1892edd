//! What a real link carries: somebody between a node and its cloud, with certificates of both, counts the frames.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::SystemTime};

use cloudsim::Addresses;
use futures::{SinkExt, StreamExt};
use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer},
};
use serde_json::json;
use tests::{
    Setup, World,
    manifests::{config_map, pod},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::{
    Message,
    handshake::server::{ErrorResponse, Request, Response},
    http::HeaderValue,
};
use wire::compression::{FORM, HEADER};

use super::raw::{Caller, authority};

/// Bytes of the ConfigMap that goes down.
const LARGE: usize = 100_000;

/// What went one way.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    text: usize,
    binary: usize,
    bytes: usize,
}

impl Frames {
    fn add(&mut self, frame: &Message) {
        match frame {
            Message::Text(text) => {
                (self.text, self.bytes) = (self.text + 1, self.bytes + text.len())
            }
            Message::Binary(bytes) => {
                (self.binary, self.bytes) = (self.binary + 1, self.bytes + bytes.len())
            }
            _ => {}
        }
    }
}

/// What was seen of a link.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// What the node offered.
    offered: Option<String>,
    /// What the cloud took.
    taken: Option<String>,
    up: Frames,
    down: Frames,
}

/// Somebody between.
struct Between {
    cloud: SocketAddr,
    /// The cloud's authority.
    ca: Vec<u8>,
    /// The node's directory, with the certificate that is shown to the cloud.
    directory: PathBuf,
    /// Shows the node the cloud's.
    tls: TlsAcceptor,
    /// Whether the two ends hear of each other's offers.
    tells: bool,
    seen: Mutex<Seen>,
}

impl Between {
    async fn new(world: &World, directory: PathBuf, tells: bool) -> Arc<Self> {
        let now = SystemTime::now();
        let authority = authority(world).await;
        let (certificate, key) = authority.sign_server(["127.0.0.1"], now).unwrap();
        let key = PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key));
        let builder = ServerConfig::builder().with_no_client_auth();
        let tls = builder
            .with_single_cert(vec![CertificateDer::from(certificate)], key)
            .unwrap();
        Arc::new(Self {
            cloud: world.cloud().addresses().websocket,
            ca: authority.cert_der().to_vec(),
            directory,
            tls: TlsAcceptor::from(Arc::new(tls)),
            tells,
            seen: Mutex::default(),
        })
    }

    async fn relay(self: Arc<Self>, stream: TcpStream) -> Option<()> {
        let stream = self.tls.accept(stream).await.ok()?;
        let mut offered = None;
        // the type is the library's
        #[allow(clippy::result_large_err)]
        let check =
            |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
                offered = request.headers().get(HEADER).map(text);
                if self.tells && offered.is_some() {
                    response
                        .headers_mut()
                        .insert(HEADER, HeaderValue::from_static(FORM));
                }
                Ok(response)
            };
        let mut node = tokio_tungstenite::accept_hdr_async(stream, check)
            .await
            .ok()?;
        let mut headers = vec![("node_id", "edge-1"), ("connectionuse", "msg")];
        headers.extend(
            offered
                .as_deref()
                .filter(|_| self.tells)
                .map(|form| (HEADER, form)),
        );
        let caller = Caller::with_files(&self.ca, &self.directory);
        let (mut cloud, answer) = caller.upgrade(self.cloud, &headers).await.ok()?;
        let taken = answer.headers().get(HEADER).map(text);
        *self.seen.lock() = Seen {
            offered,
            taken,
            ..Seen::default()
        };
        loop {
            tokio::select! {
                // cancel-safe: frames stay in their sockets until they are whole
                frame = node.next() => {
                    let frame = frame?.ok()?;
                    self.seen.lock().up.add(&frame);
                    cloud.send(frame).await.ok()?;
                }
                frame = cloud.next() => {
                    let frame = frame?.ok()?;
                    self.seen.lock().down.add(&frame);
                    node.send(frame).await.ok()?;
                }
            }
        }
    }
}

fn text(value: &HeaderValue) -> String {
    value.to_str().unwrap().to_owned()
}

/// What is seen of the link of a node that gets a ConfigMap and runs a pod.
async fn observe(tells: bool) -> Seen {
    let setup = Setup::default();
    let mut world = World::with(Setup {
        nodes: 0,
        ..setup.clone()
    })
    .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = Addresses {
        websocket: listener.local_addr().unwrap(),
        ..world.cloud().addresses()
    };
    let mut node = world.prepare_at(addresses, "edge-1", &setup).await;
    let between = Between::new(&world, node.directory().to_owned(), tells).await;
    let mut relaying = JoinSet::new();
    let relay = between.clone();
    relaying.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(relay.clone().relay(stream));
        }
    });
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    let large = "large ".repeat(LARGE / 6);
    world
        .apply(&config_map("large", json!({"key": large})))
        .await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "large"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let web = world.run(&manifest).await;
    world.until_file(0, &web, "/v/key", &large).await;
    between.seen.lock().clone()
}

#[tokio::test]
async fn messages_are_compressed_where_both_ends_agree_on_it() {
    let Seen {
        offered,
        taken,
        up,
        down,
    } = observe(true).await;
    assert_eq!(
        (offered.as_deref(), taken.as_deref()),
        (Some(FORM), Some(FORM))
    );
    assert!(
        down.bytes < LARGE / 2,
        "the ConfigMap alone would be more: {down:?}"
    );
    // a short message that nothing like it came before may go as it is
    assert!(
        up.binary > up.text && down.binary > down.text,
        "{up:?} {down:?}"
    );
}

#[tokio::test]
async fn nothing_changes_with_an_end_that_does_not_know_compression() {
    let Seen {
        offered,
        taken,
        up,
        down,
    } = observe(false).await;
    assert_eq!((offered.as_deref(), taken), (Some(FORM), None));
    assert!(down.bytes > LARGE, "{down:?}");
    assert_eq!((up.binary, down.binary), (0, 0));
    assert!(up.text > 0 && down.text > 0);
}
