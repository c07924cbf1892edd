//! Two nodes over a relay that sees, and may say, everything.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use parking_lot::Mutex;
use quinn::{Endpoint, ServerConfig, crypto::rustls::QuicServerConfig};
use rustls::{RootCertStore, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer};
use testkit::{WAIT_TIMEOUT, eventually, until, within};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional, join},
    net::{TcpListener, TcpStream, UdpSocket},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use wire::{
    enroll::{Ca, Csr, Usage, pem_certificate, pem_ec_private_key},
    relay::{ALPN, Answer, ConnectRequest, Open, Path, Protocol},
};

use super::*;
use crate::edgemesh::{
    dialer::{Destination, DialError, Dialer, EndpointStream},
    snapshot::{self, Endpoint as OfService, Service, Snapshot},
};

/// Who connects.
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 88, 0, 9));
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What goes through the relay, and what it lies.
#[derive(Debug, Default)]
struct Inner {
    nodes: Mutex<HashMap<String, Connection>>,
    seen: Mutex<Vec<u8>>,
    /// Another node than the one that was asked for.
    instead: Mutex<Option<String>>,
    /// Another name than that of the node that asks.
    says: Mutex<Option<String>>,
}

struct Cloud {
    ca: Ca,
    address: SocketAddr,
    inner: Arc<Inner>,
    endpoint: Endpoint,
}

impl Cloud {
    fn start() -> Self {
        let ca = Ca::generate(clock::system_now()).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from(ca.cert_der().to_vec()))
            .unwrap();
        let (cert, key) = ca.sign_server(["127.0.0.1"], clock::system_now()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .unwrap();
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![CertificateDer::from(cert)],
                PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key)),
            )
            .unwrap();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        let endpoint = Endpoint::server(config, ([127, 0, 0, 1], 0).into()).unwrap();
        let (address, inner) = (endpoint.local_addr().unwrap(), Arc::<Inner>::default());
        let (accepting, cloud) = (endpoint.clone(), inner.clone());
        tokio::spawn(async move {
            while let Some(incoming) = accepting.accept().await {
                tokio::spawn(serve_connection(incoming.await.unwrap(), cloud.clone()));
            }
        });
        Self {
            ca,
            address,
            inner,
            endpoint,
        }
    }

    fn sees(&self, bytes: &[u8]) -> bool {
        self.inner
            .seen
            .lock()
            .windows(bytes.len())
            .any(|part| part == bytes)
    }
}

async fn serve_connection(connection: Connection, cloud: Arc<Inner>) {
    let shown = connection
        .peer_identity()
        .unwrap()
        .downcast::<Vec<CertificateDer<'static>>>()
        .unwrap();
    let from = certificates::node_of(Some(&shown)).unwrap();
    cloud.nodes.lock().insert(from.clone(), connection.clone());
    while let Ok((send, receive)) = connection.accept_bi().await {
        let (cloud, from) = (cloud.clone(), from.clone());
        tokio::spawn(async move {
            let stopped = send.stopped();
            let mut ours = join(receive, send);
            let Open { node } = message::read(&mut ours).await.unwrap();
            let node = cloud.instead.lock().clone().unwrap_or(node);
            let Some(peer) = cloud.nodes.lock().get(&node).cloned() else {
                return message::write(&mut ours, &Answer::refused("it is not there"))
                    .await
                    .unwrap();
            };
            let (send, receive) = peer.open_bi().await.unwrap();
            let mut theirs = join(receive, send);
            let from = cloud.says.lock().clone().unwrap_or(from);
            message::write(&mut theirs, &Open { node: from })
                .await
                .unwrap();
            let (mut ours, mut theirs) = (Seen(ours, cloud.clone()), Seen(theirs, cloud.clone()));
            let given_up = async {
                if let Ok(None) = stopped.await {
                    std::future::pending::<()>().await;
                }
            };
            clock::select! {
                _ = copy_bidirectional(&mut ours, &mut theirs) => {}
                () = given_up => {}
            }
        });
    }
}

/// A stream whose bytes the relay keeps.
struct Seen<S>(S, Arc<Inner>);

impl<S: AsyncRead + Unpin> AsyncRead for Seen<S> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = std::pin::Pin::new(&mut self.0).poll_read(cx, buffer);
        self.1
            .seen
            .lock()
            .extend_from_slice(&buffer.filled()[before..]);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Seen<S> {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        std::pin::Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A node.
struct Node {
    relay: Relay,
    dialer: Dialer,
    paths: PathTable,
    metrics: Arc<MeshMetrics>,
    stop: CancellationToken,
    _snapshots: watch::Sender<Arc<Snapshot>>,
    _directory: tempfile::TempDir,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A node of this name at the relay, with a certificate of `ca`, which has this snapshot.
async fn node(cloud: &Cloud, ca: &Ca, name: &str, snapshot: Snapshot) -> Node {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let csr = Csr::for_node(name).unwrap();
    let cert = ca
        .sign_edge(csr.der(), &[Usage::ClientAuth], DAY, clock::system_now())
        .unwrap();
    std::fs::write(file("ca.crt"), pem_certificate(ca.cert_der())).unwrap();
    std::fs::write(file("node.crt"), pem_certificate(&cert)).unwrap();
    std::fs::write(file("node.key"), pem_ec_private_key(&csr.key_sec1_der())).unwrap();
    let config = Config {
        node: name.to_owned(),
        server: HostPort {
            host: "127.0.0.1".into(),
            port: cloud.address.port(),
        },
        tls: TlsFiles {
            ca: file("ca.crt"),
            cert: file("node.crt"),
            key: file("node.key"),
        },
    };
    let metrics = Arc::<MeshMetrics>::default();
    let (publish, snapshots) = watch::channel(Arc::new(snapshot));
    let paths = PathTable::default();
    let (relay, task) = new(config, &metrics, snapshots, paths.clone());
    let (dialer, stop) = (
        Dialer::new(Some(relay.clone()), paths.clone()),
        CancellationToken::new(),
    );
    let shutdown = stop.clone();
    tokio::spawn(async move { task.run(&shutdown).await });
    let node = Node {
        relay,
        dialer,
        paths,
        metrics,
        stop,
        _snapshots: publish,
        _directory: directory,
    };
    within(
        "a connection to the relay",
        node.relay.link.clone().wait_for(Option::is_some),
    )
    .await
    .unwrap();
    // the relay knows it a moment later
    until("the relay knows the node", || {
        cloud.inner.nodes.lock().contains_key(name)
    })
    .await;
    node
}

/// An address of this machine that pods could have.
fn own() -> IpAddr {
    let own = componentbase::addresses::own()
        .unwrap()
        .into_iter()
        .find(|own| own.is_ipv4() && !own.is_loopback());
    own.expect("this machine has an address beside those of its loopback interface")
}

/// A Service with one endpoint, on `edge-2`.
fn with_endpoint(at: SocketAddr) -> Snapshot {
    let ports = [snapshot::Protocol::Tcp, snapshot::Protocol::Udp];
    let endpoint = OfService {
        address: at.ip(),
        hostname: None,
        node: Some("edge-2".into()),
        ready: true,
        serving: true,
        terminating: false,
        for_zones: Vec::new(),
        for_nodes: Vec::new(),
        ports: ports
            .map(|protocol| ((String::new(), protocol), at.port()))
            .into(),
    };
    let web = Service {
        endpoints: vec![endpoint],
        ..Service::default()
    };
    Snapshot {
        services: [(("shop".to_owned(), "web".to_owned()), web)].into(),
        synced: true,
    }
}

fn request(at: SocketAddr, protocol: Protocol) -> ConnectRequest {
    ConnectRequest {
        namespace: "shop".into(),
        service: "web".into(),
        port: String::new(),
        protocol,
        endpoint: at,
    }
}

/// Gives back what it is told.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind((own(), 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

async fn ends(answer: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    within("the end of the answer", answer.read_to_end(&mut read))
        .await
        .map(|_| read)
}

#[tokio::test]
async fn bytes_go_to_another_nodes_endpoint_and_the_relay_cannot_read_them() {
    let (cloud, at) = (Cloud::start(), echo().await);
    let one = node(&cloud, &cloud.ca, "edge-1", Snapshot::default()).await;
    let two = node(&cloud, &cloud.ca, "edge-2", with_endpoint(at)).await;
    let secret = b"nobody between the two nodes reads this".repeat(10_000);
    let stream = one
        .relay
        .dial(CLIENT, "edge-2", &request(at, Protocol::Tcp))
        .await
        .unwrap();
    let (mut read, mut write) = tokio::io::split(stream);
    let forth = async {
        write.write_all(&secret).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let ((), answer) = tokio::join!(forth, ends(&mut read));
    assert!(
        answer.unwrap() == secret,
        "an end is handed on, and what comes after it as well"
    );
    assert!(cloud.inner.seen.lock().len() > 2 * secret.len());
    for hidden in [
        &secret[..39],
        b"shop",
        &at.to_string().into_bytes(),
        b"edge-2",
    ] {
        assert!(!cloud.sees(hidden), "{}", String::from_utf8_lossy(hidden));
    }
    assert!(one.metrics.relay_sent.load(Relaxed) > secret.len() as u64);
    assert_eq!(
        (
            one.metrics.relay_dialled.load(Relaxed),
            two.metrics.relay_served.load(Relaxed)
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn datagrams_go_the_same_way() {
    let (cloud, socket) = (Cloud::start(), UdpSocket::bind((own(), 0)).await.unwrap());
    let at = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut datagram = vec![0; datagrams::MAX_DATAGRAM];
        while let Ok((size, from)) = socket.recv_from(&mut datagram).await {
            socket.send_to(&datagram[..size], from).await.unwrap();
        }
    });
    let one = node(&cloud, &cloud.ca, "edge-1", Snapshot::default()).await;
    let _two = node(&cloud, &cloud.ca, "edge-2", with_endpoint(at)).await;
    let mut stream = one
        .relay
        .dial(CLIENT, "edge-2", &request(at, Protocol::Udp))
        .await
        .unwrap();
    let mut answer = vec![0; datagrams::MAX_DATAGRAM];
    for size in [0, 1, 1400, 30_000] {
        let sent = vec![b'x'; size];
        datagrams::send(&mut stream, &sent).await.unwrap();
        let read = within("a datagram", datagrams::receive(&mut stream, &mut answer))
            .await
            .unwrap();
        assert!(answer[..read] == sent, "{size}: {read}");
    }
    assert!(!cloud.sees(&[b'x'; 100]));
}

#[tokio::test]
async fn endpoints_that_the_other_node_does_not_know_for_its_own_are_refused() {
    let (cloud, at) = (Cloud::start(), echo().await);
    let other = TcpListener::bind((own(), 0)).await.unwrap();
    let one = node(&cloud, &cloud.ca, "edge-1", with_endpoint(at)).await;
    let _two = node(&cloud, &cloud.ca, "edge-2", with_endpoint(at)).await;
    for (endpoint, service) in [
        (other.local_addr().unwrap(), "web"),
        (at, "db"),
        (([127, 0, 0, 1], 10350).into(), "web"),
        (([169, 254, 169, 254], 80).into(), "web"),
    ] {
        let asked = ConnectRequest {
            service: service.into(),
            ..request(endpoint, Protocol::Tcp)
        };
        let refused = one.relay.dial(CLIENT, "edge-2", &asked).await.unwrap_err();
        assert!(
            matches!(refused, RelayDialError::Endpoint(_)),
            "{asked:?}: {refused}"
        );
    }
    let none = timeout(Duration::from_millis(100), other.accept()).await;
    assert!(none.is_err(), "nobody was dialled");
    let refused = one
        .relay
        .dial(CLIENT, "edge-9", &request(at, Protocol::Tcp))
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, RelayDialError::Refused(why) if why == "it is not there"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_node_in_the_place_of_another_is_found_out_by_both() {
    let (cloud, at) = (Cloud::start(), echo().await);
    let one = node(&cloud, &cloud.ca, "edge-1", Snapshot::default()).await;
    let _two = node(&cloud, &cloud.ca, "edge-2", with_endpoint(at)).await;
    let _three = node(&cloud, &cloud.ca, "edge-3", with_endpoint(at)).await;
    *cloud.inner.instead.lock() = Some("edge-3".into());
    let refused = one
        .relay
        .dial(CLIENT, "edge-2", &request(at, Protocol::Tcp))
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, RelayDialError::Tls(why) if why.to_string().contains("NotValidForName")),
        "{refused}"
    );
    *cloud.inner.instead.lock() = None;
    *cloud.inner.says.lock() = Some("edge-9".into());
    let refused = one
        .relay
        .dial(CLIENT, "edge-2", &request(at, Protocol::Tcp))
        .await;
    assert!(refused.is_err(), "it is not who the relay says");
    *cloud.inner.says.lock() = None;
    assert!(
        one.relay
            .dial(CLIENT, "edge-2", &request(at, Protocol::Tcp))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn the_direct_way_comes_first_and_the_relay_where_it_is_closed() {
    let (cloud, at) = (Cloud::start(), echo().await);
    // here nobody listens, and there is somebody
    let one = node(&cloud, &cloud.ca, "edge-1", Snapshot::default()).await;
    let _two = node(&cloud, &cloud.ca, "edge-2", with_endpoint(at)).await;
    let destination = |address, is_direct| Destination {
        address,
        node: Some("edge-2".into()),
        is_direct,
    };
    let over = async |destination: &Destination| {
        let dialled = within(
            "a dial",
            one.dialer
                .dial(destination, CLIENT, || request(at, Protocol::Tcp)),
        )
        .await;
        dialled.map(|server| matches!(server, EndpointStream::Relayed(_)))
    };
    let path = || one.paths.report().get("edge-2").copied();
    assert!(!over(&destination(at, true)).await.unwrap());
    assert_eq!(path(), Some(Path::Direct));
    // documentation's own network (RFC 5737): nobody answers
    let closed = SocketAddr::from(([192, 0, 2, 1], 9));
    let begun = clock::Instant::now();
    assert!(over(&destination(closed, true)).await.unwrap());
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(path(), Some(Path::Relayed));
    let begun = clock::Instant::now();
    assert!(
        over(&destination(closed, true)).await.unwrap(),
        "remembered"
    );
    assert!(
        begun.elapsed() < Duration::from_millis(300),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        !over(&destination(at, true)).await.unwrap(),
        "another address of the node is still reached directly"
    );
    assert!(
        one.dialer.relay_for(&destination(closed, true)).is_some(),
        "which says nothing of the first one"
    );
    assert!(
        over(&destination(at, false)).await.unwrap(),
        "an address of an own pod is not dialled"
    );
    eventually("the direct way is open again", async || {
        if path() == Some(Path::Direct) {
            return Ok(());
        }
        over(&destination(at, true)).await.unwrap();
        Err(path())
    })
    .await;
    assert!(!over(&destination(at, true)).await.unwrap());
    cloud.endpoint.close(quinn::VarInt::from_u32(0), b"");
    until("the end of the connection to the relay", || {
        !one.relay.is_connected()
    })
    .await;
    assert!(
        !over(&destination(at, true)).await.unwrap(),
        "without the cloud the direct way stays"
    );
    assert!(matches!(
        over(&destination(at, false)).await,
        Err(DialError::OwnPodNetwork)
    ));
    assert!(matches!(
        one.dialer
            .dial(
                &Destination {
                    address: at,
                    node: None,
                    is_direct: true
                },
                CLIENT,
                || { request(at, Protocol::Tcp) }
            )
            .await,
        Ok(EndpointStream::Direct(_))
    ));
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_no_end() {
    let cloud = Cloud::start();
    let listener = TcpListener::bind((own(), 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let one = node(&cloud, &cloud.ca, "edge-1", Snapshot::default()).await;
    let _two = node(&cloud, &cloud.ca, "edge-2", with_endpoint(at)).await;
    let mut stream = one
        .relay
        .dial(CLIENT, "edge-2", &request(at, Protocol::Tcp))
        .await
        .unwrap();
    let (mut server, _): (TcpStream, _) = listener.accept().await.unwrap();
    server.write_all(b"half").await.unwrap();
    let mut read = [0; 4];
    within("the bytes of the endpoint", stream.read_exact(&mut read))
        .await
        .unwrap();
    server.set_zero_linger().unwrap();
    drop(server);
    assert!(ends(&mut stream).await.is_err());
}

mod attacks;
