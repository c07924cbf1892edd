//! Clients that publish and subscribe: their acknowledgements make room for their publications, however many are under way.

use std::{collections::VecDeque, process::Stdio, sync::Arc, time::Duration};

use mqtt::{Config, Limits, QoS};
use rumqttc::{AsyncClient, Event, Incoming, MqttOptions};
use testkit::within;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
    sync::Mutex,
};

use crate::{
    bytes::{ack, clean5, clean311, publish, subscribe},
    support::{Broker, Raw, plain},
};

/// The number of messages of a burst.
const MANY: u16 = 2000;

/// Returns a configuration with a queue limit for each session, as in `EdgeCore`'s configuration.
fn queue_of(queued_messages: usize) -> Config {
    Config {
        limits: Limits {
            queued_messages,
            ..Limits::default()
        },
        ..plain()
    }
}

/// Returns the identifier of a PUBLISH on the topic `t`, and the number in its payload's first two bytes.
fn packet_number(packet: &[u8]) -> (u16, u16) {
    let start = packet.len() - packet_length(packet);
    let id = u16::from_be_bytes([packet[start + 3], packet[start + 4]]);
    (
        id,
        u16::from_be_bytes([packet[start + 5], packet[start + 6]]),
    )
}

/// Returns the number of bytes after the fixed header.
fn packet_length(packet: &[u8]) -> usize {
    packet.len()
        - 1
        - packet[1..]
            .iter()
            .take_while(|byte| **byte & 0x80 != 0)
            .count()
        - 1
}

/// Reads until all publications have come back and are acknowledged on both sides, each in order.
async fn hears_all(client: &mut Raw, count: u16) {
    let (mut heard, mut acknowledged) = (0, 0);
    while heard < count || acknowledged < count {
        let packet = client
            .packet()
            .await
            .unwrap_or_else(|| panic!("cut off after {heard}, {acknowledged}"));
        if packet[0] == 0x40 {
            acknowledged += 1;
            assert_eq!(packet, ack(0x40, acknowledged));
            continue;
        }
        let (id, number) = packet_number(&packet);
        heard += 1;
        assert_eq!((packet[0], number), (0x32, heard), "in order, none lost");
        client.send(&ack(0x40, id)).await;
    }
}

#[tokio::test]
async fn a_client_that_hears_itself_hears_all() {
    let broker = Broker::start(queue_of(100)).await;
    let mut client = Raw::connect(broker.address, &clean311("a")).await;
    client.send(&subscribe(1, None, "t", 1)).await;
    client.expect(&[0x90, 3, 0, 1, 1]).await;
    let all: Vec<u8> = (1..=MANY)
        .flat_map(|id| publish(2, "t", id, None, &id.to_be_bytes()))
        .collect();
    // the client's acknowledgements come behind all of them
    client.send(&all).await;
    hears_all(&mut client, MANY).await;
    let counts = broker.handle.counts();
    assert_eq!((counts.slow, counts.dropped), (0, 0));
    drop(client);
    broker.stop().await;
}

#[tokio::test]
async fn two_that_publish_to_each_other_hear_all() {
    let broker = Broker::start(queue_of(10)).await;
    let mut clients = Vec::new();
    for name in ["a", "b"] {
        let mut client = Raw::connect(broker.address, &clean311(name)).await;
        client.send(&subscribe(1, None, name, 1)).await;
        client.expect(&[0x90, 3, 0, 1, 1]).await;
        clients.push(client);
    }
    for (client, other) in clients.iter_mut().zip(["b", "a"]) {
        let all: Vec<u8> = (1..=MANY)
            .flat_map(|id| publish(2, other, id, None, &id.to_be_bytes()))
            .collect();
        client.send(&all).await;
    }
    let [one, two] = &mut clients[..] else {
        unreachable!()
    };
    tokio::join!(hears_all(one, MANY), hears_all(two, MANY));
    assert_eq!(broker.handle.counts().slow, 0);
    drop(clients);
    broker.stop().await;
}

/// More messages than the queue and the sockets' buffers hold; one task writes while another reads and acknowledges.
#[tokio::test]
async fn a_client_that_hears_itself_hears_large_messages() {
    const SIZE: usize = 6_000;
    let broker = Broker::start(queue_of(100)).await;
    let mut client = Raw::connect(broker.address, &clean311("a")).await;
    client.send(&subscribe(1, None, "t", 1)).await;
    client.expect(&[0x90, 3, 0, 1, 1]).await;
    let (mut reads, writes) = client.split();
    let writes = Arc::new(Mutex::new(writes));
    let publisher = Arc::clone(&writes);
    let publishing = tokio::spawn(async move {
        for id in 1..=MANY {
            let payload = [&id.to_be_bytes()[..], &[0; SIZE - 2]].concat();
            publisher
                .lock()
                .await
                .write_all(&publish(2, "t", id, None, &payload))
                .await
                .unwrap();
        }
    });
    let (mut heard, mut acknowledged) = (0, 0);
    while heard < MANY || acknowledged < MANY {
        let packet = reads.packet().await.expect("it is not cut off");
        if packet[0] == 0x40 {
            acknowledged += 1;
            continue;
        }
        let (id, number) = packet_number(&packet);
        heard += 1;
        assert_eq!(number, heard);
        writes.lock().await.write_all(&ack(0x40, id)).await.unwrap();
    }
    within("the last publication", publishing).await.unwrap();
    drop((reads, writes));
    broker.stop().await;
}

#[tokio::test]
async fn rumqttc_hears_itself() {
    // together they exceed the read-ahead limit many times: a client that limits its messages under way is only delayed
    for qos in [rumqttc::QoS::AtLeastOnce, rumqttc::QoS::ExactlyOnce] {
        let broker = Broker::start(queue_of(50)).await;
        let mut options =
            MqttOptions::new("a", broker.address.ip().to_string(), broker.address.port());
        options.set_inflight(200);
        options.set_max_packet_size(1 << 20, 1 << 20);
        let (client, mut events) = AsyncClient::new(options, 64);
        client.subscribe("t", qos).await.unwrap();
        let publisher = client.clone();
        let publishing = tokio::spawn(async move {
            for number in 1..=MANY {
                let payload = [&number.to_be_bytes()[..], &[0; 16_000]].concat();
                publisher.publish("t", qos, false, payload).await.unwrap();
            }
        });
        let mut heard = Vec::new();
        within("all messages", async {
            while heard.len() < usize::from(MANY) {
                if let Event::Incoming(Incoming::Publish(message)) = events.poll().await.unwrap() {
                    heard.push(u16::from_be_bytes(message.payload[..2].try_into().unwrap()));
                }
            }
        })
        .await;
        publishing.await.unwrap();
        assert_eq!(heard, (1..=MANY).collect::<Vec<_>>());
        drop((client, events));
        broker.stop().await;
    }
}

/// Uses `mosquitto_pub` with one message per line, and `mosquitto_sub` with a queue for a twentieth of them.
#[tokio::test]
async fn mosquittos_programs_lose_nothing() {
    let broker = Broker::start(queue_of(100)).await;
    let port = broker.address.port().to_string();
    let at = ["-h", "127.0.0.1", "-p", &port, "-q", "1", "-t", "t"];
    // `mosquitto_sub` does not flush its log by itself
    let mut hears = Command::new("stdbuf");
    hears
        .args([
            "-oL",
            "mosquitto_sub",
            "-d",
            "-F",
            "message %p",
            "-C",
            &MANY.to_string(),
        ])
        .args(at);
    let mut hears = hears
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("mosquitto_sub: make needs");
    let mut lines = BufReader::new(hears.stdout.take().unwrap()).lines();
    let mut next = async || within("mosquitto_sub", lines.next_line()).await.unwrap();
    while !next()
        .await
        .expect("a subscription")
        .starts_with("Subscribed")
    {}
    let mut says = Command::new("mosquitto_pub");
    let mut says = says
        .arg("-l")
        .args(at)
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let all: String = (1..=MANY).map(|number| format!("{number}\n")).collect();
    let mut input = says.stdin.take().unwrap();
    let saying = tokio::spawn(async move { input.write_all(all.as_bytes()).await });
    let mut expected: VecDeque<String> = (1..=MANY)
        .map(|number| format!("message {number}"))
        .collect();
    while let Some(first) = expected.front() {
        let line = next().await.expect("all messages");
        if line.starts_with("message ") {
            assert_eq!(line, *first);
            expected.pop_front();
        }
    }
    saying.await.unwrap().unwrap();
    assert!(
        within("mosquitto_pub", says.wait())
            .await
            .unwrap()
            .success()
    );
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_hears_itself_and_acknowledges_nothing_is_cut_off_at_its_bound() {
    let limits = Limits {
        queued_messages: 100,
        patience: Duration::from_millis(500),
        ..Limits::default()
    };
    let broker = Broker::start(Config { limits, ..plain() }).await;
    let mut client = Raw::connect(broker.address, &clean5("a")).await;
    client.send(&subscribe(1, Some(&[]), "t", 1)).await;
    client.expect(&[0x90, 4, 0, 1, 0, 1]).await;
    let all: Vec<u8> = (1..=200_u16)
        .flat_map(|id| publish(2, "t", id, Some(&[]), b"x"))
        .collect();
    client.send(&all).await;
    let (mut heard, mut acknowledged) = (0, 0);
    let last = loop {
        let packet = client.packet().await.expect("the reason");
        match packet[0] {
            0x32 => heard += 1,
            0x40 => acknowledged += 1,
            _ => break packet,
        }
    };
    assert_eq!((last[0], last[2]), (0xE0, 0x97));
    client.closed().await;
    assert_eq!(heard, 100, "as many as its queue holds");
    assert!((100..=200).contains(&acknowledged), "{acknowledged}");
    assert_eq!(broker.handle.counts().slow, 1);
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_hears_itself_and_does_not_read_is_read_up_to_a_bound_and_cut_off() {
    let limits = Limits {
        queued_messages: 10,
        read_ahead_bytes: 256 * 1024,
        patience: Duration::from_millis(500),
        ..Limits::default()
    };
    let broker = Broker::start(Config { limits, ..plain() }).await;
    let mut client = Raw::connect(broker.address, &clean311("a")).await;
    client.send(&subscribe(1, None, "t", 1)).await;
    client.expect(&[0x90, 3, 0, 1, 1]).await;
    let some: Vec<u8> = (1..=100_u16)
        .flat_map(|id| publish(2, "t", id, None, &[0; 1000]))
        .collect();
    let (_reads, mut writes) = client.split();
    // after a client is cut off, its bytes are discarded for a moment
    within("the cut", async {
        while writes.write_all(&some).await.is_ok() {}
    })
    .await;
    let counts = broker.handle.counts();
    // the messages in its queue, 256 KiB behind them, and three reads of the socket
    assert!(counts.received < 1000, "{counts:?}");
    assert_eq!(counts.slow, 1);
    broker.stop().await;
}

/// A client of 3.1.1 is not told how many QoS 2 messages it may have open.
#[tokio::test]
async fn more_open_messages_than_allowed_wait_for_their_release() {
    const OPEN: u16 = 256;
    let broker = Broker::start(plain()).await;
    let mut client = Raw::connect(broker.address, &clean311("a")).await;
    let all: Vec<u8> = (1..=2 * OPEN)
        .flat_map(|id| publish(4, "t", id, None, b"x"))
        .collect();
    client.send(&all).await;
    for id in 1..=OPEN {
        client.expect(&ack(0x50, id)).await;
    }
    for id in 1..=OPEN {
        client.send(&ack(0x62, id)).await;
        let mut answers = [
            client.packet().await.unwrap(),
            client.packet().await.unwrap(),
        ];
        answers.sort();
        assert_eq!(answers, [ack(0x50, OPEN + id), ack(0x70, id)]);
    }
    drop(client);
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_releases_nothing_is_cut_off() {
    let limits = Limits {
        receive_maximum: 2,
        patience: Duration::from_millis(200),
        ..Limits::default()
    };
    let broker = Broker::start(Config { limits, ..plain() }).await;
    let mut client = Raw::connect(broker.address, &clean311("a")).await;
    client
        .send(
            &(1..=3)
                .flat_map(|id| publish(4, "t", id, None, b"x"))
                .collect::<Vec<u8>>(),
        )
        .await;
    client.expect(&ack(0x50, 1)).await;
    client.expect(&ack(0x50, 2)).await;
    client.closed().await;
    broker.stop().await;
}

/// A small message would fit while there is no room for a larger one that was published before it.
#[tokio::test]
async fn a_message_of_this_process_does_not_overtake_an_earlier_one_on_its_topic() {
    let broker = Broker::start(Config {
        limits: Limits {
            queued_bytes: 1000,
            ..Limits::default()
        },
        ..plain()
    })
    .await;
    let mut client = Raw::connect(broker.address, &clean311("a")).await;
    client.send(&subscribe(1, None, "#", 1)).await;
    client.expect(&[0x90, 3, 0, 1, 1]).await;
    let handle = &broker.handle;
    let mut under_way = Vec::new();
    for (topic, payload) in [
        ("t", vec![1; 590]),
        ("t", vec![2; 590]),
        ("t", vec![3; 6]),
        ("u", vec![4; 6]),
    ] {
        under_way.push(
            handle
                .begin_publish(topic, payload, QoS::AtLeastOnce, true)
                .await
                .unwrap(),
        );
    }
    client.expect(&publish(2, "t", 1, None, &[1; 590])).await;
    client.expect(&publish(2, "u", 2, None, &[4; 6])).await;
    client.send(&ack(0x40, 1)).await;
    client.expect(&publish(2, "t", 3, None, &[2; 590])).await;
    client.expect(&publish(2, "t", 4, None, &[3; 6])).await;
    for publishing in under_way {
        within("the publication", publishing.wait_published())
            .await
            .unwrap();
    }
    let mut kept = handle.subscribe("t", 1).await.unwrap();
    assert_eq!(
        within("what is kept", kept.recv()).await.unwrap().payload[..],
        [3; 6]
    );
    drop(client);
    broker.stop().await;
}

/// A client that makes no room delays this process as long as any other publisher, and no longer.
#[tokio::test]
async fn a_client_that_acknowledges_nothing_does_not_keep_this_process_from_publishing() {
    let limits = Limits {
        queued_messages: 1,
        patience: Duration::from_millis(200),
        ..Limits::default()
    };
    let broker = Broker::start(Config { limits, ..plain() }).await;
    let mut slow = Raw::connect(broker.address, &clean311("slow")).await;
    slow.send(&subscribe(1, None, "t", 1)).await;
    slow.expect(&[0x90, 3, 0, 1, 1]).await;
    let handle = &broker.handle;
    handle
        .publish("t", "1", QoS::AtLeastOnce, true)
        .await
        .unwrap();
    within("room", handle.publish("t", "2", QoS::AtLeastOnce, true))
        .await
        .unwrap();
    slow.expect(&publish(2, "t", 1, None, b"1")).await;
    slow.closed().await;
    let mut kept = handle.subscribe("t", 1).await.unwrap();
    assert_eq!(
        within("what is kept", kept.recv()).await.unwrap().payload[..],
        *b"2"
    );
    broker.stop().await;
}
