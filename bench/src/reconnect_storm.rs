//! Measures how a thousand nodes that are cut off at once come back: hollow nodes in this process, behind a relay that ends all
//! connections and accepts none until the cloud considers all nodes lost.

use std::{
    env,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use cloudsim::{Addresses, Cloud, Options, hub::Limits};
use futures::{StreamExt, TryStreamExt, stream};
use hollow::fleet::{self, HollowNode};
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::{Mutex, watch},
    task::JoinSet,
};

use crate::{
    Figure,
    processes::is_ready,
    wait::{until, when},
};

/// The number of nodes, unless `OUTRIGGER_HERD` sets another.
const NODES: usize = 1_000;
/// Short, so that the cloud soon considers nodes lost, but long enough for a thousand of them to renew it on a small machine.
const LEASE: Duration = Duration::from_secs(20);
/// How many nodes start at a time.
const AT_ONCE: usize = 32;
/// The length of the slots among which the busiest one is reported.
const SLOT: Duration = Duration::from_millis(250);

/// Measures how the nodes come back.
pub(crate) async fn reconnect_storm() -> anyhow::Result<Vec<Figure>> {
    let count = env::var("OUTRIGGER_HERD").map_or(Ok(NODES), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    let limits = Limits {
        nodes: 2 * count,
        ..Limits::default()
    };
    let options = Options {
        limits,
        lease_grace: LEASE,
        ..Options::default().any_ports()
    };
    let cloud = Cloud::start(options).await?;
    let relay = TcpRelay::to(cloud.addresses().websocket).await?;
    let addresses = Addresses {
        websocket: relay.address,
        ..cloud.addresses()
    };
    let options = fleet::Options {
        qps: 0,
        lease: LEASE,
        ..fleet::Options::new(0, directory.path())
    };
    let nodes = start(count, addresses, cloud.token(), &options).await?;
    let api = Api::<Node>::all(cloud.client());
    until(api.clone(), count, is_ready).await?;
    relay.cut_connections().await;
    until(api.clone(), count, |node| !is_ready(node)).await?;
    let begun = Instant::now();
    relay.open.send_replace(true);
    let ready = when(api.clone(), [count * 99 / 100, count], is_ready).await?;
    let [most, all] = ready.map(|at| at.duration_since(begun).as_secs_f64());
    let slots = relay.slots(begun).await;
    ensure!(
        slots.iter().sum::<usize>() >= count,
        "not all came through the relay: {slots:?}"
    );
    histogram(&slots);
    futures::future::join_all(
        nodes
            .into_iter()
            .map(|mut node| async move { node.stop().await }),
    )
    .await;
    cloud.stop().await?;
    let busiest = slots.iter().max().copied().unwrap_or_default();
    Ok(vec![
        Figure {
            name: "reconnect-storm.busiest-quarter-second".into(),
            value: 100.0 * busiest as f64 / count as f64,
            unit: "% of the nodes",
        },
        Figure {
            name: "reconnect-storm.ready-99-percent".into(),
            value: most,
            unit: "s",
        },
        Figure {
            name: "reconnect-storm.ready-all".into(),
            value: all,
            unit: "s",
        },
    ])
}

async fn start(
    count: usize,
    addresses: Addresses,
    token: &str,
    options: &fleet::Options,
) -> anyhow::Result<Vec<HollowNode>> {
    let started = stream::iter(1..=count).map(|number| async move {
        let mut node =
            HollowNode::prepare(&format!("edge-{number}"), addresses, token, options).await?;
        node.start().await?;
        anyhow::Ok(node)
    });
    started.buffer_unordered(AT_ONCE).try_collect().await
}

#[allow(clippy::print_stderr)]
fn histogram(slots: &[usize]) {
    for (number, count) in slots.iter().enumerate() {
        eprintln!(
            "{:>5} ms {count:>5} {}",
            number as u128 * SLOT.as_millis(),
            "#".repeat(count / 10)
        );
    }
}

/// The relay in front of the cloud.
struct TcpRelay {
    address: SocketAddr,
    open: watch::Sender<bool>,
    /// When connections were let through.
    came: Arc<Mutex<Vec<Instant>>>,
    _accepting: JoinSet<()>,
}

impl TcpRelay {
    async fn to(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, came) = (
            listener.local_addr()?,
            Arc::<Mutex<Vec<Instant>>>::default(),
        );
        let (open, is_open) = watch::channel(true);
        let mut accepting = JoinSet::new();
        let count = Arc::clone(&came);
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                if *is_open.borrow() {
                    count.lock().await.push(Instant::now());
                    connections.spawn(pass(client, server, is_open.clone()));
                }
            }
        });
        Ok(Self {
            address,
            open,
            came,
            _accepting: accepting,
        })
    }

    /// Ends all connections and accepts none.
    async fn cut_connections(&self) {
        self.open.send_replace(false);
        self.came.lock().await.clear();
    }

    /// Returns how many connections came in each slot from `begun` on.
    async fn slots(&self, begun: Instant) -> Vec<usize> {
        let mut slots = Vec::new();
        for came in self.came.lock().await.iter() {
            let slot = (came.duration_since(begun).as_millis() / SLOT.as_millis()) as usize;
            slots.resize(slots.len().max(slot + 1), 0);
            slots[slot] += 1;
        }
        slots
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr, mut open: watch::Receiver<bool>) {
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    tokio::select! {
        // cancel-safe: the connection is over either way.
        _ = open.wait_for(|open| !open) => {}
        _ = copy_bidirectional(&mut client, &mut server) => {}
    }
}
