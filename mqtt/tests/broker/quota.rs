//! What a client has the broker keep counts in its quota: wills of connected clients and of those that have left, subscriptions, topic
//! aliases, and retained messages.

use mqtt::{Access, Config, Limits};
use testkit::until;

use crate::{
    bytes::{connect5, publish, subscribe, text},
    support::{Broker, Raw, plain},
};

const ACCEPTED: u8 = 0;
const QUOTA_EXCEEDED: u8 = 0x97;

fn users(limits: Limits) -> Config {
    let access = Access::default()
        .with_user("ann", b"p")
        .with_user("eve", b"p");
    Config {
        access,
        limits,
        ..plain()
    }
}

/// Returns a CONNECT of `user`, whose session lasts for an hour.
fn lasting(client: &str, user: &str) -> Vec<u8> {
    connect5(
        0xC2,
        &[0x11, 0, 0, 14, 16],
        &[&text(client), &text(user), &text("p")],
    )
}

/// Returns the same with a will that waits for an hour.
fn with_will(client: &str, user: &str, payload: usize) -> Vec<u8> {
    let will = [
        &[5, 0x18, 0, 0, 14, 16][..],
        &text("will"),
        &text(&"x".repeat(payload)),
    ]
    .concat();
    connect5(
        0xC6,
        &[0x11, 0, 0, 14, 16],
        &[&text(client), &will, &text(user), &text("p")],
    )
}

/// Connects; returns the code of the CONNACK.
async fn code(broker: &Broker, connect: &[u8]) -> (u8, Raw) {
    let mut raw = Raw::open(broker.address).await;
    raw.send(connect).await;
    let answer = raw.packet().await.unwrap();
    assert_eq!(answer[0], 0x20, "{answer:02x?}");
    (answer[3], raw)
}

#[tokio::test]
async fn wills_count_until_they_are_published_or_dropped() {
    let broker = Broker::start(users(Limits {
        kept_bytes_per_client: 10_000,
        ..Limits::default()
    }))
    .await;
    let (first, a) = code(&broker, &with_will("a", "eve", 4000)).await;
    let (second, mut b) = code(&broker, &with_will("b", "eve", 4000)).await;
    assert_eq!((first, second), (ACCEPTED, ACCEPTED));
    let refused = async || code(&broker, &with_will("c", "eve", 4000)).await.0;
    assert_eq!(refused().await, QUOTA_EXCEEDED);
    // the same session may replace its own will, and another user has a quota of its own
    let (again, a_again) = code(&broker, &with_will("a", "eve", 4000)).await;
    let (other, ann) = code(&broker, &with_will("d", "ann", 4000)).await;
    assert_eq!((again, other), (ACCEPTED, ACCEPTED));
    drop((a, a_again));
    until("the lost client to be gone", || {
        broker.handle.counts().connections == 2
    })
    .await;
    assert_eq!(
        refused().await,
        QUOTA_EXCEEDED,
        "the lost client's will waits"
    );
    b.send(&[0xE0, 0]).await;
    b.closed().await;
    assert_eq!(
        refused().await,
        ACCEPTED,
        "the will of a client that has said goodbye is dropped"
    );
    drop(ann);
    broker.stop().await;
}

#[tokio::test]
async fn subscriptions_and_topic_aliases_count_in_the_same_quota() {
    let broker = Broker::start(users(Limits {
        kept_bytes_per_client: 10_000,
        ..Limits::default()
    }))
    .await;
    let mut client = Raw::connect(broker.address, &with_will("a", "eve", 4000)).await;
    let mut codes = Vec::new();
    for (id, share) in (1..=6).zip(["", "$share/a/", "$share/b/", "", "", ""]) {
        let filter = format!("{share}{id}/{}", "x".repeat(1200));
        client.send(&subscribe(id, Some(&[]), &filter, 0)).await;
        let answer = client.packet().await.unwrap();
        codes.push(*answer.last().unwrap());
    }
    assert_eq!(codes, [0, 0, 0, 0, QUOTA_EXCEEDED, QUOTA_EXCEEDED]);
    // a filter that is replaced takes no more
    client
        .send(&subscribe(
            7,
            Some(&[]),
            &format!("1/{}", "x".repeat(1200)),
            1,
        ))
        .await;
    assert_eq!(*client.packet().await.unwrap().last().unwrap(), 1);
    client
        .send(&publish(0, &"t".repeat(1000), 0, Some(&[0x23, 0, 1]), b""))
        .await;
    let last = client.packet().await.unwrap();
    assert_eq!((last[0], last[2]), (0xE0, QUOTA_EXCEEDED));
    client.closed().await;
    broker.stop().await;
}

#[tokio::test]
async fn one_client_cannot_take_all_room_for_retained_messages() {
    let broker = Broker::start(users(Limits {
        retained_messages: 8,
        ..Limits::default()
    }))
    .await;
    let handle = &broker.handle;
    let mut eve = Raw::connect(broker.address, &lasting("a", "eve")).await;
    for number in 0..8_u16 {
        eve.send(&publish(
            3,
            &format!("t/{number}"),
            number + 1,
            Some(&[]),
            b"x",
        ))
        .await;
        eve.packet().await.unwrap();
    }
    assert_eq!(handle.counts().retained, 6);
    let mut ann = Raw::connect(broker.address, &lasting("b", "ann")).await;
    ann.send(&publish(3, "ann", 1, Some(&[]), b"x")).await;
    ann.packet().await.unwrap();
    assert_eq!(handle.counts().retained, 7);
    broker.stop().await;
}
