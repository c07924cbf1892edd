//! Nodes that come by QUIC.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use agent::config::{HostPort, Transport};
use tests::{
    Setup, World, in_time,
    manifests::{config_map, pod},
};
use tokio::{net::UdpSocket, sync::watch, task::JoinHandle};

/// A world whose one node comes by QUIC, at `server` if not at the cloud itself.
async fn by_quic(server: impl AsyncFnOnce(SocketAddr) -> SocketAddr) -> World {
    let setup = Setup {
        nodes: 0,
        quic: true,
        durable: true,
        ..Setup::default()
    };
    let mut world = World::with(setup.clone()).await;
    let server = server(world.cloud().addresses().quic.unwrap()).await;
    let mut node = world.prepare("edge-1", &setup).await;
    node.configure(|config| {
        config.edge_hub.transport = Transport::Quic;
        config.edge_hub.servers = vec![HostPort {
            host: server.ip().to_string(),
            port: server.port(),
        }];
    });
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    world
}

#[tokio::test]
async fn pods_run_and_a_cloud_that_comes_back_is_found() {
    let mut world = by_quic(async |cloud| cloud).await;
    world
        .apply(&config_map("settings", serde_json::json!({"k": "v"})))
        .await;
    world.run(&pod("web", Some("edge-1"))).await;
    world.stop_cloud().await;
    world.until_connected(0, false).await;
    world.start_cloud().await;
    world.until_connected(0, true).await;
    world.run(&pod("later", Some("edge-1"))).await;
    let mut large = pod("large", Some("edge-1"));
    large["metadata"]["annotations"] = serde_json::json!({"large": "x".repeat(200_000)});
    world.run(&large).await;
}

/// A relay of datagrams for one node, which can go silent.
async fn relay(server: SocketAddr, passes: watch::Receiver<bool>) -> (SocketAddr, JoinHandle<()>) {
    let (near, far) = (
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
    );
    far.connect(server).await.unwrap();
    let address = near.local_addr().unwrap();
    let relaying = tokio::spawn(async move {
        let (mut from_near, mut from_far) = (vec![0; 65_536], vec![0; 65_536]);
        let mut node = None;
        loop {
            tokio::select! {
                Ok((size, from)) = near.recv_from(&mut from_near) => {
                    node = Some(from);
                    if *passes.borrow() {
                        let _ = far.send(&from_near[..size]).await;
                    }
                }
                Ok(size) = far.recv(&mut from_far) => {
                    if let Some(node) = node.filter(|_| *passes.borrow()) {
                        let _ = near.send_to(&from_far[..size], node).await;
                    }
                }
                else => {}
            }
        }
    });
    (address, relaying)
}

#[tokio::test]
async fn a_dead_path_is_noticed_within_three_seconds() {
    in_time("noticed", async || {
        let (passes, passing) = watch::channel(true);
        let world = by_quic(async |cloud| relay(cloud, passing).await.0).await;
        let begun = Instant::now();
        passes.send_replace(false);
        world.until_connected(0, false).await;
        let noticed = begun.elapsed();
        passes.send_replace(true);
        world.until_connected(0, true).await;
        world.run(&pod("web", Some("edge-1"))).await;
        // the rest is what a loaded machine takes to say so
        if noticed <= Duration::from_millis(3500) {
            Ok(())
        } else {
            Err(noticed)
        }
    })
    .await;
}
