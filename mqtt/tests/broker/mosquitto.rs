//! Tests with Mosquitto's own programs, as used at a terminal.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, Stdio},
};

use mqtt::QoS;
use testkit::until;

use crate::{
    restart::Process,
    support::{Broker, plain},
};

/// A running `mosquitto_sub` that has subscribed.
struct Subscriber {
    child: Child,
    lines: BufReader<ChildStdout>,
}

fn subscriber(address: SocketAddr, arguments: &[&str]) -> Subscriber {
    let port = address.port().to_string();
    // `mosquitto_sub` does not flush its log by itself.
    let mut child = Command::new("stdbuf")
        .args([
            "-oL",
            "mosquitto_sub",
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-W",
            "60",
            "-d",
            "-F",
            "message %t %p %r",
        ])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("mosquitto_sub: install mosquitto-clients (make needs)");
    let lines = BufReader::new(child.stdout.take().unwrap());
    let mut subscriber = Subscriber { child, lines };
    subscriber.line("Subscribed (mid");
    subscriber
}

impl Subscriber {
    /// Returns the next line that begins with `start`.
    fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.lines.read_line(&mut line).unwrap() > 0,
                "mosquitto_sub ended, waiting for {start}"
            );
            if line.starts_with(start) {
                return line.trim_end().to_owned();
            }
        }
    }

    fn message(&mut self) -> String {
        self.line("message ").split_off("message ".len())
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn publish(address: SocketAddr, arguments: &[&str]) {
    let port = address.port().to_string();
    let done = Command::new("mosquitto_pub")
        .args(["-h", "127.0.0.1", "-p", &port])
        .args(arguments)
        .status();
    assert!(done.unwrap().success(), "{arguments:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_quality_of_service_in_both_versions() {
    let broker = Broker::start(plain()).await;
    for (from, to) in [("311", "311"), ("311", "5"), ("5", "311"), ("5", "5")] {
        for qos in ["0", "1", "2"] {
            let topic = format!("q/{from}/{to}/{qos}");
            let mut subscriber = subscriber(broker.address, &["-V", to, "-q", qos, "-t", &topic]);
            publish(
                broker.address,
                &["-V", from, "-q", qos, "-t", &topic, "-m", "hello"],
            );
            assert_eq!(subscriber.message(), format!("{topic} hello 0"));
        }
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retained_messages_are_kept_and_deleted() {
    let broker = Broker::start(plain()).await;
    publish(
        broker.address,
        &["-t", "r/1", "-m", "kept", "-r", "-q", "1"],
    );
    publish(
        broker.address,
        &["-t", "r/2", "-m", "gone", "-r", "-q", "1"],
    );
    publish(broker.address, &["-t", "r/2", "-n", "-r", "-q", "1"]);
    for version in ["311", "5"] {
        let mut subscriber = subscriber(broker.address, &["-V", version, "-t", "r/#"]);
        assert_eq!(subscriber.message(), "r/1 kept 1");
        publish(broker.address, &["-t", "r/3", "-m", "live"]);
        assert_eq!(subscriber.message(), "r/3 live 0");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_clients_will_is_published() {
    let broker = Broker::start(plain()).await;
    let mut watcher = subscriber(broker.address, &["-t", "wills/#"]);
    for version in ["311", "5"] {
        let topic = format!("wills/{version}");
        let arguments = [
            "-V",
            version,
            "-t",
            "x",
            "--will-topic",
            &topic,
            "--will-payload",
            "lost",
            "--will-qos",
            "1",
        ];
        drop(subscriber(broker.address, &arguments));
        assert_eq!(watcher.message(), format!("{topic} lost 0"));
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_kept_while_its_client_is_away() {
    let broker = Broker::start(plain()).await;
    let cases: [(&str, &[&str]); 2] = [
        ("one", &["-V", "311", "-c"]),
        ("two", &["-V", "5", "-c", "-x", "60"]),
    ];
    for (client, more) in cases {
        let arguments = [&["-i", client, "-q", "2", "-t", "s"], more].concat();
        drop(subscriber(broker.address, &arguments));
        let handle = broker.handle.clone();
        until("the client to be gone", || handle.counts().connections == 0).await;
        broker
            .handle
            .publish("s", "while away", QoS::ExactlyOnce, false)
            .await
            .unwrap();
        let mut back = subscriber_again(broker.address, &arguments);
        assert_eq!(back.message(), "s while away 0");
        drop(back);
        until("the client to be gone", || handle.counts().connections == 0).await;
    }
    broker.stop().await;
}

#[test]
fn a_session_and_a_retained_message_outlive_a_killed_broker() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("mqtt.db");
    let cases: [(&str, &[&str]); 2] = [
        ("one", &["-V", "311", "-c"]),
        ("two", &["-V", "5", "-c", "-x", "60"]),
    ];
    for (client, more) in cases {
        let arguments = [&["-i", client, "-q", "2", "-t", client], more].concat();
        let broker = Process::start(&database);
        drop(subscriber(broker.address, &arguments));
        publish(broker.address, &["-q", "2", "-t", client, "-m", "queued"]);
        publish(
            broker.address,
            &["-q", "1", "-t", "kept", "-m", client, "-r"],
        );
        broker.kill();
        let broker = Process::start(&database);
        assert_eq!(
            subscriber_again(broker.address, &arguments).message(),
            format!("{client} queued 0")
        );
        assert_eq!(
            subscriber(broker.address, &["-t", "kept"]).message(),
            format!("kept {client} 1")
        );
        broker.kill();
    }
}

/// Starts a subscriber whose messages may arrive before its SUBACK.
fn subscriber_again(address: SocketAddr, arguments: &[&str]) -> Subscriber {
    let port = address.port().to_string();
    let mut child = Command::new("mosquitto_sub")
        .args([
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-W",
            "60",
            "-F",
            "message %t %p %r",
        ])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Subscriber { child, lines }
}
