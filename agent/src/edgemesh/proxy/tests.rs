//! The proxy on a machine of its own: a network namespace.

use std::net::SocketAddr;

use testkit::{eventually, in_network_namespace, ip};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::edgemesh::snapshot::{Endpoint, Port, Protocol, Service};

/// Runs this in a new network namespace, on a thread that ends with it.
fn apart(run: impl AsyncFnOnce() + Send + 'static) {
    in_network_namespace(|| {
        ip(&["link", "set", "lo", "up"]);
        // where pods are
        ip(&["address", "add", "10.88.0.2/32", "dev", "lo"]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(run());
    });
}

/// NodePorts at the loopback address alone.
fn at_loopback() -> EdgeMesh {
    let node_port_addresses = vec![Network::parse("127.0.0.0/8").unwrap()];
    EdgeMesh {
        node_port_addresses,
        ..EdgeMesh::default()
    }
}

fn snapshot(cluster_ip: &str, endpoints: &[SocketAddr]) -> Snapshot {
    let endpoint = |at: &SocketAddr| Endpoint {
        address: at.ip(),
        hostname: None,
        node: None,
        ready: true,
        serving: true,
        terminating: false,
        for_zones: Vec::new(),
        for_nodes: Vec::new(),
        ports: [((String::new(), Protocol::Tcp), at.port())].into(),
    };
    let service = Service {
        cluster_ips: vec![cluster_ip.parse().unwrap()],
        ports: vec![Port {
            name: String::new(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: Some(30080),
        }],
        endpoints: endpoints.iter().map(endpoint).collect(),
        ..Service::default()
    };
    Snapshot {
        services: [(("shop".into(), "web".into()), service)].into(),
        synced: true,
    }
}

/// Sends back what it is told.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("10.88.0.2:0").await.unwrap();
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

async fn answers(stream: &mut TcpStream) -> bool {
    stream.write_all(b"x").await.is_ok() && stream.read_u8().await.is_ok()
}

async fn refuses(address: &str) -> bool {
    let error = TcpStream::connect(address).await.err();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

#[test]
fn addresses_come_and_go_with_their_services() {
    apart(async || {
        let (here, settings) = (NodeTopology::default(), at_loopback());
        let place = LocalNode {
            topology: &here,
            pod_networks: &[],
            pods: &BTreeSet::new(),
            settings: &settings,
        };
        // what an agent that was killed has left
        Routes::open().unwrap().add([10, 96, 0, 99].into()).unwrap();
        let mut proxy = Proxy::new(
            Arc::default(),
            Dialer::default(),
            None,
            CancellationToken::new(),
        );
        let endpoint = echo().await;
        proxy
            .apply(&snapshot("10.96.0.10", &[endpoint]), &place)
            .await;
        let routes = Routes::open().unwrap();
        assert_eq!(routes.list().unwrap(), [[10, 96, 0, 10].into()].into());
        for address in ["10.96.0.10:80", "127.0.0.1:30080"] {
            assert!(
                answers(&mut TcpStream::connect(address).await.unwrap()).await,
                "{address}"
            );
        }
        let mut held = TcpStream::connect("10.96.0.10:80").await.unwrap();
        assert!(answers(&mut held).await);

        proxy.apply(&snapshot("10.96.0.10", &[]), &place).await;
        assert!(
            refuses("10.96.0.10:80").await,
            "row 2: no endpoint, refused at once"
        );
        assert!(refuses("127.0.0.1:30080").await, "row 2");
        assert!(
            answers(&mut held).await,
            "row 45: what is established goes on"
        );

        proxy
            .apply(&snapshot("10.96.0.11", &[endpoint]), &place)
            .await;
        assert!(answers(&mut TcpStream::connect("10.96.0.11:80").await.unwrap()).await);
        assert!(answers(&mut held).await, "also where its Service has gone");
        drop(held);
        // the proxy hears a moment later that the connection has ended
        eventually("one route", async || {
            proxy
                .apply(&snapshot("10.96.0.11", &[endpoint]), &place)
                .await;
            let left = routes.list().unwrap();
            if left.len() > 1 { Err(left) } else { Ok(()) }
        })
        .await;
        assert_eq!(routes.list().unwrap(), [[10, 96, 0, 11].into()].into());

        routes.remove([10, 96, 0, 11].into()).unwrap();
        proxy
            .apply(&snapshot("10.96.0.11", &[endpoint]), &place)
            .await;
        assert!(
            answers(&mut TcpStream::connect("10.96.0.11:80").await.unwrap()).await,
            "healed"
        );
        proxy.shut_down().await;
        assert!(routes.list().unwrap().is_empty());
    });
}

#[test]
fn a_port_that_is_taken_is_told_by_name_and_had_later() {
    apart(async || {
        let (here, settings) = (NodeTopology::default(), at_loopback());
        let place = LocalNode {
            topology: &here,
            pod_networks: &[],
            pods: &BTreeSet::new(),
            settings: &settings,
        };
        let mut proxy = Proxy::new(
            Arc::default(),
            Dialer::default(),
            None,
            CancellationToken::new(),
        );
        let endpoint = echo().await;
        let taken = TcpListener::bind("127.0.0.1:30080").await.unwrap();
        proxy
            .apply(&snapshot("10.96.0.10", &[endpoint]), &place)
            .await;
        let said: Vec<_> = proxy.unserved.iter().cloned().collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with(
                "Service shop/web cannot listen on TCP 127.0.0.1:30080: Address already in use"
            ),
            "{said:?}"
        );
        assert!(
            answers(&mut TcpStream::connect("10.96.0.10:80").await.unwrap()).await,
            "all else goes on"
        );
        drop(taken);
        proxy
            .apply(&snapshot("10.96.0.10", &[endpoint]), &place)
            .await;
        assert!(proxy.unserved.is_empty());
        assert!(answers(&mut TcpStream::connect("127.0.0.1:30080").await.unwrap()).await);
    });
}

#[test]
fn two_thousand_services_change_at_once() {
    apart(async || {
        let (here, settings) = (NodeTopology::default(), at_loopback());
        let place = LocalNode {
            topology: &here,
            pod_networks: &[],
            pods: &BTreeSet::new(),
            settings: &settings,
        };
        let mut proxy = Proxy::new(
            Arc::default(),
            Dialer::default(),
            None,
            CancellationToken::new(),
        );
        let (first, second) = (echo().await, echo().await);
        let all = |network: u8, endpoint: SocketAddr| {
            let services = (0..2000u16).map(|number| {
                let [high, low] = number.to_be_bytes();
                let one = snapshot(&format!("10.{network}.{high}.{low}"), &[endpoint]);
                let mut service = one.services.into_values().next().unwrap();
                service.ports[0].node_port = None;
                (("shop".to_owned(), format!("web-{number}")), service)
            });
            Snapshot {
                services: services.collect(),
                synced: true,
            }
        };
        proxy.apply(&all(97, first), &place).await;
        assert!(answers(&mut TcpStream::connect("10.97.7.207:80").await.unwrap()).await);
        // each has another address and another endpoint
        proxy.apply(&all(98, second), &place).await;
        assert!(proxy.unserved.is_empty(), "{:?}", proxy.unserved);
        let routes = Routes::open().unwrap().list().unwrap();
        assert_eq!(routes.len(), 2000);
        for number in 0..2000u16 {
            let [high, low] = number.to_be_bytes();
            assert!(routes.contains(&[10, 98, high, low].into()));
            let address = format!("10.98.{high}.{low}:80");
            assert!(
                answers(&mut TcpStream::connect(&address).await.unwrap()).await,
                "{address}"
            );
        }
        assert!(
            TcpStream::connect("10.97.0.0:80").await.is_err(),
            "what it had before leads nowhere"
        );
        proxy.shut_down().await;
        assert!(Routes::open().unwrap().list().unwrap().is_empty());
    });
}
