//! Bursts of publications above QoS 0: their publisher keeps each message until it is stored, and none is lost on the way to the cloud.

use std::{net::SocketAddr, process::Stdio, sync::Arc};

use objectstore::{Page, Resource, Scope, Store};
use testkit::{eventually, within};
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};

use super::{
    brokers::RestartableBroker,
    cloud::upload,
    mosquitto::Mosquitto,
    node::{FailingStore, Node, internal, store},
};
use crate::{edgehub::fake_cloud::FakeCloud, outbox};

/// The number of messages: more than all queues on their way hold.
const BURST: usize = 1500;
/// A topic that the cloud gets without a rule.
const TOPIC: &str = "$hw/events/upload/burst";

/// Returns the payload of a message.
fn payload(number: usize) -> String {
    format!("message {number:04} {}", "x".repeat(number % 100))
}

/// Starts a `mosquitto_pub` that publishes the burst, and ends when all of it was acknowledged.
async fn publisher(address: SocketAddr, qos: u8) -> Child {
    let (port, qos) = (address.port().to_string(), qos.to_string());
    let mut command = Command::new("mosquitto_pub");
    command.args([
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-q",
        &qos,
        "-t",
        TOPIC,
        "-l",
    ]);
    let mut child = command
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = (0..BURST).map(|number| payload(number) + "\n").collect();
    tokio::spawn(async move { input.write_all(lines.as_bytes()).await });
    child
}

/// Returns the number of messages on disk.
async fn on_disk(store: &Arc<dyn Store>) -> usize {
    let scope = Scope {
        resource: Resource::new(outbox::GROUP, "uploads"),
        namespace: None,
    };
    let chunks = store.list(&scope, &Page::default()).await.unwrap().items;
    chunks
        .iter()
        .map(|chunk| chunk.value().unwrap()["messages"].as_array().unwrap().len())
        .sum()
}

/// Receives the burst at the cloud: each message, its bytes, and in order.
async fn receive(line: &FakeCloud) {
    for number in 0..BURST {
        let (topic, found) = upload(line).await;
        assert_eq!(
            (topic.as_str(), found.as_str()),
            (TOPIC, Some(&*payload(number)))
        );
    }
}

#[tokio::test]
async fn a_burst_at_the_internal_broker_is_stored_when_its_publisher_ends_and_survives_a_kill() {
    for qos in [1, 2] {
        let store: Arc<dyn Store> = store();
        let (node, _line) = Node::before(Some(internal(None)), None, store.clone()).await;
        let mut publisher = publisher(node.bus.internal_address().await.unwrap(), qos).await;
        assert!(
            within("mosquitto_pub", publisher.wait())
                .await
                .unwrap()
                .success()
        );
        assert_eq!(on_disk(&store).await, BURST, "QoS {qos}");
        node.kill().await;
        let (node, mut line) = Node::before(Some(internal(None)), None, store).await;
        line.up();
        receive(&line).await;
        assert_eq!(node.bus.dropped_uploads(), 0);
    }
}

#[tokio::test]
async fn a_burst_at_an_external_broker_reaches_the_cloud() {
    for (qos, is_connected) in [(1, true), (1, false), (2, true)] {
        let beside = Mosquitto::start().await;
        let kept: Arc<dyn Store> = store();
        let (node, mut line) = Node::before(None, Some(beside.external()), kept.clone()).await;
        node.until_up().await;
        if is_connected {
            line.up();
        }
        let mut publisher = publisher(beside.address, qos).await;
        assert!(
            within("mosquitto_pub", publisher.wait())
                .await
                .unwrap()
                .success()
        );
        if !is_connected {
            eventually("the burst on disk", async || {
                let stored = on_disk(&kept).await;
                (stored == BURST).then_some(()).ok_or(stored)
            })
            .await;
            line.up();
        }
        receive(&line).await;
        assert_eq!(node.bus.dropped_uploads(), 0);
    }
}

#[tokio::test]
async fn publishers_wait_while_the_disk_fails_and_nothing_is_lost() {
    let failing = FailingStore::new();
    let kept: Arc<dyn Store> = failing.clone();
    let (node, mut line) = Node::before(Some(internal(None)), None, kept.clone()).await;
    let address = node.bus.internal_address().await.unwrap();
    failing.fail(true);
    let mut publisher = publisher(address, 1).await;
    failing.until_failed(2).await;
    assert_eq!(publisher.try_wait().unwrap(), None, "nothing is stored");
    failing.fail(false);
    assert!(
        within("mosquitto_pub", publisher.wait())
            .await
            .unwrap()
            .success()
    );
    assert_eq!(on_disk(&kept).await, BURST);
    line.up();
    receive(&line).await;
    assert_eq!(node.bus.dropped_uploads(), 0);
}
