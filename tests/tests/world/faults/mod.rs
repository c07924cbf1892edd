//! Agents against a cloud that breaks things on purpose.

mod admin;
mod answers;
mod certificates;
mod effects;
mod hostile;
mod links;
mod messages;
mod sessions;

use std::time::Duration;

use agent::config::{HostPort, Transport};
use cloudsim::faults::{Conditions, FaultTarget, Faults};
use componentbase::Link;
use tests::{Setup, World, within};

/// A cloud with two nodes that are Ready: `edge-1` by WebSocket, `edge-2` by QUIC.
async fn both() -> World {
    with(Setup::default()).await
}

async fn with(setup: Setup) -> World {
    let setup = Setup {
        nodes: 1,
        quic: true,
        ..setup
    };
    let mut world = World::with(setup.clone()).await;
    let mut node = world.prepare("edge-2", &setup).await;
    let server = world.cloud().addresses().quic.unwrap();
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

/// Whether both nodes stay without a connection for so long.
async fn stay_away(world: &World, time: Duration) -> bool {
    let mut links = [0, 1].map(|number| world.nodes[number].link().unwrap());
    for link in &mut links {
        assert_eq!(*link.borrow_and_update(), Link::Down);
    }
    let [one, two] = &mut links;
    let anew = async {
        tokio::select! {
            _ = one.changed() => {}
            _ = two.changed() => {}
        }
    };
    tokio::time::timeout(time, anew).await.is_err()
}

/// The names of the nodes of such a world.
const NODES: [&str; 2] = ["edge-1", "edge-2"];

/// Conditions as they stand in files.
fn conditions(value: serde_json::Value) -> Conditions {
    serde_json::from_value(value).unwrap()
}

fn set(faults: &Faults, value: serde_json::Value) {
    faults.set(&FaultTarget::All, conditions(value)).unwrap();
}

/// Waits until the agent has had another connection than `before`.
async fn until_anew(world: &World, node: usize, before: Link) {
    let mut link = world.nodes[node].link().unwrap();
    let anew = link.wait_for(|link| *link != Link::Down && *link != before);
    within("another connection", anew).await.unwrap();
}

/// The agent's connection now.
fn link(world: &World, node: usize) -> Link {
    *world.nodes[node].link().unwrap().borrow()
}
