//! Very many silent connections, idle clients or abandoned sessions do not keep a new client out.

use mqtt::{Config, Limits};
use testkit::{closed, silent_tcp, until};

use crate::{
    bytes::{clean5, clean311, lasting311, subscribe},
    support::{Broker, Raw, plain},
};

/// More connections than a broker allows in total.
const CROWD: usize = 4_200;

fn limited_config(limits: Limits) -> Config {
    Config { limits, ..plain() }
}

#[tokio::test]
async fn a_silent_crowd_keeps_nobody_out() {
    let broker = Broker::start(plain()).await;
    let crowd = silent_tcp(broker.address, CROWD).await;
    let client = Raw::connect(broker.address, &clean311("a")).await;
    drop((crowd, client));
    broker.stop().await;
}

#[tokio::test]
async fn of_connections_without_connect_the_oldest_goes() {
    let broker = Broker::start(limited_config(Limits {
        pending_connections: 2,
        ..Limits::default()
    }))
    .await;
    let mut crowd = silent_tcp(broker.address, 3).await;
    closed(&mut crowd[0]).await;
    let client = Raw::connect(broker.address, &clean311("a")).await;
    drop((crowd, client));
    broker.stop().await;
}

#[tokio::test]
async fn of_clients_the_one_that_said_nothing_for_longest_goes_and_is_told() {
    let broker = Broker::start(limited_config(Limits {
        connections: 2,
        ..Limits::default()
    }))
    .await;
    let mut first = Raw::connect(broker.address, &clean5("a")).await;
    let mut second = Raw::connect(broker.address, &clean5("b")).await;
    first.send(&[0xC0, 0]).await;
    first.expect(&[0xD0, 0]).await;
    let third = Raw::connect(broker.address, &clean5("c")).await;
    let last = second.packet().await.unwrap();
    assert_eq!((last[0], last[2]), (0xE0, 0x97));
    second.closed().await;
    first.send(&[0xC0, 0]).await;
    first.expect(&[0xD0, 0]).await;
    drop(third);
    broker.stop().await;
}

#[tokio::test]
async fn sessions_that_nobody_comes_back_for_make_room() {
    let broker = Broker::start(limited_config(Limits {
        sessions: 3,
        ..Limits::default()
    }))
    .await;
    let handle = &broker.handle;
    // a session with a subscription is worth more than those without, however long its client is away
    let mut hears = Raw::connect(broker.address, &lasting311("hears")).await;
    hears.send(&subscribe(1, None, "t", 1)).await;
    hears.expect(&[0x90, 3, 0, 1, 1]).await;
    drop(hears);
    until("the client to be gone", || handle.counts().connections == 0).await;
    for number in 0..20 {
        drop(Raw::connect(broker.address, &lasting311(&format!("crowd-{number}"))).await);
        until("the client to be gone", || handle.counts().connections == 0).await;
    }
    assert_eq!((handle.counts().sessions, handle.counts().evicted), (3, 18));
    let present = |connect: Vec<u8>| {
        let address = broker.address;
        async move {
            let mut raw = Raw::open(address).await;
            raw.send(&connect).await;
            let answer = raw.packet().await.unwrap();
            assert_eq!((answer[0], answer[3]), (0x20, 0));
            (answer[2] == 1, raw)
        }
    };
    let (hears_is, first) = present(lasting311("hears")).await;
    let (oldest_is, second) = present(lasting311("crowd-0")).await;
    let (newest_is, third) = present(lasting311("crowd-19")).await;
    assert_eq!((hears_is, oldest_is, newest_is), (true, false, true));
    // all sessions are in use
    let mut fourth = Raw::open(broker.address).await;
    fourth.send(&clean311("d")).await;
    fourth.expect(&[0x20, 2, 0, 3]).await;
    drop((first, second, third));
    broker.stop().await;
}
