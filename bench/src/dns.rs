//! Measures EdgeMesh's DNS with 500 Services of four endpoints: the latency for one client, and the throughput of one core for many.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use agent::edgemesh::{
    dns::{Config, Listening, Server, Zone},
    snapshot::{Endpoint, Port, Protocol, Service, Snapshot},
};
use anyhow::{Context, anyhow, ensure};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Figure;

const SERVICES: u8 = 250;
/// How many namespaces have 250 Services each.
const NAMESPACES: u8 = 2;
/// How many queries the single client sends.
const ALONE: usize = 20_000;
/// How many queries are in flight together, and for how long.
const TOGETHER: u16 = 64;
const TIME: Duration = Duration::from_secs(3);

pub(crate) async fn questions() -> anyhow::Result<Vec<Figure>> {
    let (told, address) = std::sync::mpsc::sync_channel(1);
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let server = thread::spawn(move || serve(&told, &stop));
    let address = address.recv().context("the server does not start")?;
    let measured = tokio::task::spawn_blocking(move || measure(address)).await?;
    shutdown.cancel();
    server
        .join()
        .map_err(|_| anyhow!("the server panicked"))??;
    measured
}

/// Serves DNS on a runtime with one thread.
fn serve(
    told: &std::sync::mpsc::SyncSender<SocketAddr>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listening =
            Listening::bind((Ipv4Addr::LOCALHOST, 0).into(), |_| Ok::<_, Infallible>(()))?;
        told.send(listening.address()?)?;
        let config = Config {
            domain: Zone::new("cluster.local")?,
            // Nothing listens there, and nothing is forwarded.
            upstreams: vec![(Ipv4Addr::LOCALHOST, 9).into()],
            resolv_conf: "/dev/null".into(),
        };
        let (_publish, snapshots) = watch::channel(Arc::new(snapshot()));
        Server::new(config, listening, snapshots)?.serve(stop).await;
        Ok(())
    })
}

fn measure(server: SocketAddr) -> anyhow::Result<Vec<Figure>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reply = [0; 1500];
    let mut waits = Vec::with_capacity(ALONE);
    for number in 0..ALONE {
        let begun = Instant::now();
        socket.send(&question(u16::try_from(number % 65_536)?))?;
        let length = socket.recv(&mut reply)?;
        waits.push(begun.elapsed());
        ensure!(
            length > 12 && reply[3] & 15 == 0 && reply[7] == 1,
            "no answer: {:?}",
            &reply[..12]
        );
    }
    waits.sort();
    let mut answers = 0.0;
    let begun = Instant::now();
    for number in 0..TOGETHER {
        socket.send(&question(number))?;
    }
    while begun.elapsed() < TIME {
        socket.recv(&mut reply)?;
        answers += 1.0;
        // The next query has the same id.
        socket.send(&question(u16::from_be_bytes([reply[0], reply[1]])))?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let at = |part: usize| waits[waits.len() * part / 100].as_secs_f64() * 1e6;
    Ok(vec![
        Figure {
            name: "dns.answer.p50".into(),
            value: at(50),
            unit: "µs",
        },
        Figure {
            name: "dns.answer.p99".into(),
            value: at(99),
            unit: "µs",
        },
        Figure {
            name: "dns.answers-of-one-core".into(),
            value: answers / seconds,
            unit: "1/s",
        },
    ])
}

fn question(number: u16) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    packet.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let service = format!("service-{}", number % u16::from(SERVICES));
    let labels = [
        service.as_bytes(),
        b"namespace-1",
        b"svc",
        b"cluster",
        b"local",
    ];
    for label in labels {
        // All labels are short.
        packet.push(label.len().to_be_bytes()[7]);
        packet.extend(label);
    }
    packet.extend([0, 0, 1, 0, 1]);
    packet
}

fn snapshot() -> Snapshot {
    let mut services = std::collections::BTreeMap::new();
    for namespace in 0..NAMESPACES {
        for number in 0..SERVICES {
            let endpoint = |of: u8| Endpoint {
                address: [10, namespace, number, of].into(),
                hostname: None,
                node: Some("edge-1".into()),
                ready: true,
                serving: true,
                terminating: false,
                for_zones: Vec::new(),
                for_nodes: Vec::new(),
                ports: [(("http".to_owned(), Protocol::Tcp), 8080)].into(),
            };
            let service = Service {
                cluster_ips: vec![[10, 96, namespace, number].into()],
                ports: vec![Port {
                    name: "http".into(),
                    protocol: Protocol::Tcp,
                    port: 80,
                    node_port: None,
                }],
                endpoints: (0..4).map(endpoint).collect(),
                ..Service::default()
            };
            services.insert(
                (
                    format!("namespace-{namespace}"),
                    format!("service-{number}"),
                ),
                service,
            );
        }
    }
    Snapshot {
        services,
        synced: true,
    }
}
