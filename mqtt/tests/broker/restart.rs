//! Kills the broker's process and checks that nothing which it acknowledged is lost.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use mqtt::{Config, QoS};
use testkit::within;

use crate::{
    bytes::{ack, clean311, connect5, lasting311, publish, subscribe, text},
    support::{Broker, Raw, plain},
};

/// The broker's process, which is listening.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    pub(crate) fn start(database: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mqtt-broker"))
            .args(["--listen", "127.0.0.1:0", "--database"])
            .arg(database)
            .env("NO_COLOR", "1")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("a log line").unwrap();
            if let Some((_, address)) = line.split_once("listening address=") {
                break address.parse().unwrap();
            }
        };
        // The log must be read, so that it does not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// Kills it like `kill -9`, by dropping it.
    pub(crate) fn kill(self) {}
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failed test must not leave the process behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_killed_broker_has_what_it_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("mqtt.db");
    let broker = Process::start(&database);
    let mut subscriber = Raw::connect(broker.address, &lasting311("s")).await;
    subscriber.send(&subscribe(1, None, "t/+", 2)).await;
    subscriber.expect(&[0x90, 3, 0, 1, 2]).await;
    drop(subscriber);
    let mut publisher = Raw::connect(broker.address, &lasting311("p")).await;
    for id in 1..=100_u16 {
        publisher
            .send(&publish(2, "t/one", id, None, &id.to_be_bytes()))
            .await;
        publisher.expect(&ack(0x40, id)).await;
    }
    publisher
        .send(&publish(4, "t/two", 500, None, b"once"))
        .await;
    publisher.expect(&ack(0x50, 500)).await;
    publisher
        .send(&publish(3, "kept", 501, None, b"kept"))
        .await;
    publisher.expect(&ack(0x40, 501)).await;
    broker.kill();

    let broker = Process::start(&database);
    let mut publisher = Raw::open(broker.address).await;
    publisher.send(&lasting311("p")).await;
    publisher.expect(&[0x20, 2, 1, 0]).await;
    publisher
        .send(&publish(12, "t/two", 500, None, b"once"))
        .await;
    publisher.expect(&ack(0x50, 500)).await;
    publisher.send(&ack(0x62, 500)).await;
    publisher.expect(&ack(0x70, 500)).await;
    let mut subscriber = Raw::open(broker.address).await;
    subscriber.send(&lasting311("s")).await;
    subscriber.expect(&[0x20, 2, 1, 0]).await;
    for id in 1..=100_u16 {
        subscriber
            .expect(&publish(2, "t/one", id, None, &id.to_be_bytes()))
            .await;
        subscriber.send(&ack(0x40, id)).await;
    }
    subscriber
        .expect(&publish(4, "t/two", 101, None, b"once"))
        .await;
    subscriber.send(&ack(0x50, 101)).await;
    subscriber.expect(&ack(0x62, 101)).await;
    broker.kill();

    let broker = Process::start(&database);
    let mut subscriber = Raw::open(broker.address).await;
    subscriber.send(&lasting311("s")).await;
    subscriber.expect(&[0x20, 2, 1, 0]).await;
    // A QoS 1 message whose acknowledgement was not committed yet may arrive again; PUBREL must.
    loop {
        let packet = subscriber.packet().await.unwrap();
        if packet == ack(0x62, 101) {
            break;
        }
        assert_eq!(packet[0], 0x3A, "{packet:02x?}");
    }
    subscriber.send(&ack(0x70, 101)).await;
    subscriber.send(&subscribe(7, None, "kept", 0)).await;
    subscriber.expect(&[0x90, 3, 0, 7, 0]).await;
    subscriber
        .expect(&publish(1, "kept", 0, None, b"kept"))
        .await;
    broker.kill();
}

#[tokio::test]
async fn a_stopped_broker_tells_its_clients_and_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let config = || Config {
        database: Some(directory.path().join("mqtt.db")),
        ..plain()
    };
    let broker = Broker::start(config()).await;
    let five = connect5(0, &[17, 0, 0, 0, 60], &[&text("five")]);
    let mut client = Raw::connect(broker.address, &five).await;
    client.send(&subscribe(1, Some(&[11, 9]), "t", 1)).await;
    client.expect(&[0x90, 4, 0, 1, 0, 1]).await;
    broker.stop().await;
    let last = client.packet().await.unwrap();
    assert_eq!((last[0], last[2]), (0xE0, 0x8B));
    client.closed().await;

    let broker = Broker::start(config()).await;
    broker
        .handle
        .publish("t", "x", QoS::AtLeastOnce, false)
        .await
        .unwrap();
    broker.stop().await;

    let broker = Broker::start(config()).await;
    let mut client = Raw::connect(broker.address, &five).await;
    client
        .expect(&publish(2, "t", 1, Some(&[11, 9]), b"x"))
        .await;
    drop(client);
    broker.stop().await;
}

#[tokio::test]
async fn a_session_that_ends_leaves_nothing_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let config = || Config {
        database: Some(directory.path().join("mqtt.db")),
        ..plain()
    };
    let broker = Broker::start(config()).await;
    let mut client = Raw::connect(broker.address, &lasting311("a")).await;
    client.send(&subscribe(1, None, "t", 1)).await;
    client.expect(&[0x90, 3, 0, 1, 1]).await;
    drop(client);
    broker
        .handle
        .publish("t", "x", QoS::AtLeastOnce, false)
        .await
        .unwrap();
    drop(Raw::connect(broker.address, &clean311("a")).await);
    broker.stop().await;
    let broker = Broker::start(config()).await;
    assert_eq!(broker.handle.counts().sessions, 0);
    let mut again = Raw::open(broker.address).await;
    again.send(&lasting311("a")).await;
    within("CONNACK", again.expect(&[0x20, 2, 0, 0])).await;
    assert_eq!(broker.handle.counts().queued_bytes, 0);
    drop(again);
    broker.stop().await;
}
