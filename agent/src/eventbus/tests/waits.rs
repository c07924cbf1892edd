//! Each broker's side alone, while nothing takes what it brings.

use std::{collections::BTreeSet, net::Ipv4Addr, sync::Arc};

use componentbase::Heartbeat;
use testkit::{eventually, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::yield_now,
};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        Bus, External, Internal, Received, Sinks, external, internal as inside, upload::Upload,
    },
    node::internal,
    topic,
};
use crate::config::HostPort;

/// The number of publications: many more than can wait on their way.
const MANY: usize = 4000;
/// The topic of a rule of the cloud.
const RULE: &str = "default/up";

/// Returns the receivers of messages, with space for this many requests.
fn sinks(room: usize) -> (Sinks, mpsc::Receiver<Received>, mpsc::Receiver<Upload>) {
    let (requests, asked) = mpsc::channel(room);
    let (uploads, uploaded) = mpsc::channel(1);
    let connections = Arc::new(watch::Sender::new(0));
    (
        Sinks {
            requests,
            uploads,
            connections,
            has_devices: true,
            dropped: Arc::default(),
            promises: Default::default(),
        },
        asked,
        uploaded,
    )
}

/// DeviceTwin takes no requests while it waits for space to publish. Its publications come back behind requests if a rule
/// matches them, and are held back with them.
#[tokio::test]
async fn publications_do_not_deadlock_with_waiting_requests() {
    let (broker_queue, mut broker) = inside::Broker::new(Internal {
        qos: 1,
        ..internal(None)
    });
    let bus = Bus::new(vec![broker_queue], Some(broker.listening()));
    let (sinks, mut asked, _uploaded) = sinks(1);
    let connections = sinks.connections.subscribe();
    let (_rules, topics) = watch::channel(BTreeSet::from([RULE.to_owned()]));
    tokio::spawn(async move {
        broker
            .run(
                sinks,
                topics,
                CancellationToken::new(),
                Heartbeat::unmonitored(),
            )
            .await
    });
    bus.internal_address().await.unwrap();
    for _ in 0..4 {
        bus.publish(topic("d", "twin/get"), "{}").await;
    }
    let all = async {
        for _ in 0..MANY {
            bus.publish(RULE.to_owned(), "x").await;
        }
    };
    within("room to publish", all).await;
    assert!(bus.dropped_count() > 0);
    for _ in 0..4 {
        let received = within("the requests", asked.recv()).await;
        assert!(
            matches!(received, Some(Received::Message { .. })),
            "{received:?}"
        );
    }
    eventually("a hint that something was dropped", async || {
        let hints = *connections.borrow();
        (hints > 0 && bus.is_up()).then_some(()).ok_or(hints)
    })
    .await;
}

/// Accepts a connection, and reads its first packet.
async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = within("a connection", listener.accept()).await.unwrap();
    let first = within("CONNECT", stream.read_u8()).await.unwrap();
    assert_eq!(first, 0x10, "no CONNECT");
    stream
}

#[tokio::test]
async fn changed_rules_do_not_restart_the_connection_to_a_slow_broker() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (broker_queue, mut broker) = external::Broker::new(External {
        server: HostPort {
            host: address.ip().to_string(),
            port: address.port(),
        },
        tls: None,
        client_id: "agent".into(),
        username: None,
        password: None,
        qos: 1,
    })
    .unwrap();
    let bus = Bus::new(vec![broker_queue], None);
    let (sinks, _asked, _uploaded) = sinks(1);
    let (rules, topics) = watch::channel(BTreeSet::new());
    tokio::spawn(async move { broker.run(sinks, topics).await });
    let mut stream = accept(&listener).await;
    for number in 0..100 {
        rules.send_replace(BTreeSet::from([format!("rule/{number}")]));
        yield_now().await;
    }
    stream.write_all(b"\x20\x02\0\0").await.unwrap();
    eventually("the broker", async || {
        bus.is_up().then_some(()).ok_or(bus.failures())
    })
    .await;
    // SUBSCRIBE, with the newest of the rules
    let mut received = Vec::new();
    let all = async {
        while !received.windows(7).any(|bytes| bytes == b"rule/99") {
            assert!(
                stream.read_buf(&mut received).await.unwrap() > 0,
                "the connection has ended"
            );
        }
    };
    within("the newest rule", all).await;
    assert_eq!(bus.failures(), 0);
}
