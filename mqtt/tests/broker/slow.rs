//! Tests of slow clients, and of limits that are reached.

use mqtt::{Config, Limits, QoS};
use testkit::{until, within};

use crate::{
    bytes::{ack, clean311, connect5, connect311, lasting311, packet, publish, subscribe, text},
    support::{Broker, Raw, plain},
};

fn limited_config(limits: Limits) -> Config {
    Config { limits, ..plain() }
}

#[tokio::test]
async fn at_qos_0_a_client_that_does_not_read_loses_and_others_do_not() {
    let broker = Broker::start(limited_config(Limits {
        buffered_bytes: 64 * 1024,
        ..Limits::default()
    }))
    .await;
    let mut slow = Raw::connect(broker.address, &clean311("slow")).await;
    slow.send(&subscribe(1, None, "t", 0)).await;
    slow.expect(&[0x90, 3, 0, 1, 0]).await;
    let mut quick = broker.handle.subscribe("t", 64).await.unwrap();
    // The kernel's buffers hold some megabytes first.
    let mut sent = 0;
    within("a drop", async {
        while broker.handle.counts().dropped == 0 {
            broker
                .handle
                .publish("t", vec![0; 60_000], QoS::AtMostOnce, false)
                .await
                .unwrap();
            assert_eq!(quick.recv().await.unwrap().payload.len(), 60_000);
            sent += 1;
        }
    })
    .await;
    assert!(
        sent < 2000,
        "{sent} messages of 60 kB were buffered somewhere"
    );
    assert_eq!(
        broker.handle.counts().connections,
        1,
        "it may come back to its senses"
    );
    drop(slow);
    broker.stop().await;
}

#[tokio::test]
async fn above_qos_0_a_client_that_acknowledges_nothing_is_cut_off() {
    let patience = std::time::Duration::from_millis(500);
    let broker = Broker::start(limited_config(Limits {
        queued_messages: 10,
        patience,
        ..Limits::default()
    }))
    .await;
    let mut slow = Raw::connect(
        broker.address,
        &connect5(2, &[17, 0, 0, 0, 60], &[&text("slow")]),
    )
    .await;
    slow.send(&subscribe(1, Some(&[]), "t", 1)).await;
    slow.expect(&[0x90, 4, 0, 1, 0, 1]).await;
    let mut publisher = Raw::connect(broker.address, &clean311("p")).await;
    for id in 1..=11 {
        publisher.send(&publish(2, "t", id, None, b"x")).await;
    }
    for id in 1..=10 {
        publisher.expect(&ack(0x40, id)).await;
        slow.expect(&publish(2, "t", id, Some(&[]), b"x")).await;
    }
    // The eleventh message waits for room, as long as it may.
    let last = slow.packet().await.unwrap();
    assert_eq!((last[0], last[2]), (0xE0, 0x97));
    slow.closed().await;
    publisher.expect(&ack(0x40, 11)).await;
    let counts = broker.handle.counts();
    assert_eq!((counts.slow, counts.dropped), (1, 1));
    drop(publisher);
    broker.stop().await;
}

#[tokio::test]
async fn a_publisher_waits_for_a_subscriber_that_is_behind() {
    waits_for("t").await;
}

#[tokio::test]
async fn a_publisher_waits_for_a_share_whose_members_are_behind() {
    waits_for("$share/g/t").await;
}

async fn waits_for(filter: &str) {
    let broker = Broker::start(limited_config(Limits {
        queued_messages: 10,
        inflight: 4,
        ..Limits::default()
    }))
    .await;
    let mut subscriber = Raw::connect(broker.address, &clean311("s")).await;
    subscriber.send(&subscribe(1, None, filter, 1)).await;
    subscriber.expect(&[0x90, 3, 0, 1, 1]).await;
    let mut publisher = Raw::connect(broker.address, &clean311("p")).await;
    let all: Vec<u8> = (1..=1000_u16)
        .flat_map(|id| publish(2, "t", id, None, &id.to_be_bytes()))
        .collect();
    publisher.send(&all).await;
    for expected in 1..=1000_u16 {
        let message = subscriber.packet().await.unwrap();
        assert_eq!(message[7..], expected.to_be_bytes(), "in order, none lost");
        subscriber
            .send(&ack(0x40, u16::from_be_bytes([message[5], message[6]])))
            .await;
    }
    for id in 1..=1000 {
        publisher.expect(&ack(0x40, id)).await;
    }
    assert_eq!(broker.handle.counts().dropped, 0);
    drop((subscriber, publisher));
    broker.stop().await;
}

#[tokio::test]
async fn a_session_without_its_client_keeps_to_its_bound() {
    let broker = Broker::start(limited_config(Limits {
        queued_messages: 10,
        ..Limits::default()
    }))
    .await;
    let mut client = Raw::connect(broker.address, &lasting311("a")).await;
    client.send(&subscribe(1, None, "t", 1)).await;
    client.expect(&[0x90, 3, 0, 1, 1]).await;
    drop(client);
    let handle = &broker.handle;
    until("the client to be gone", || handle.counts().connections == 0).await;
    for _ in 0..15 {
        handle
            .publish("t", "x", QoS::AtLeastOnce, false)
            .await
            .unwrap();
    }
    assert_eq!(handle.counts().dropped, 5);
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_says_nothing_is_given_up() {
    let broker = Broker::start(plain()).await;
    let mut client = Raw::connect(broker.address, &connect311(2, 1, &[&text("a")])).await;
    client.closed().await;
    let five = packet(0x10, &[b"\0\x04MQTT\x05\x02\0\x01\0", &text("a")]);
    let mut client = Raw::connect(broker.address, &five).await;
    let last = client.packet().await.unwrap();
    assert_eq!((last[0], last[2]), (0xE0, 0x8D));
    client.closed().await;
    broker.stop().await;
}

#[tokio::test]
async fn a_connection_without_connect_is_given_up() {
    let limits = Limits {
        connect_timeout: std::time::Duration::from_millis(50),
        ..Limits::default()
    };
    let broker = Broker::start(limited_config(limits)).await;
    let mut client = Raw::open(broker.address).await;
    client.send(&[0x10, 0x20, 0, 4, b'M']).await;
    client.closed().await;
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_asks_and_does_not_read_is_cut_off() {
    let limits = Limits {
        buffered_bytes: 16 * 1024,
        retained_bytes: 1024,
        ..Limits::default()
    };
    let broker = Broker::start(limited_config(limits)).await;
    let mut client = Raw::connect(broker.address, &clean311("a")).await;
    let pings = vec![[0xC0, 0]; 32 * 1024].concat();
    let handle = &broker.handle;
    within("the cut", async {
        while handle.counts().slow == 0 {
            client.send_or_broken(&pings).await;
        }
    })
    .await;
    broker.stop().await;
}
