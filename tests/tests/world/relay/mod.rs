//! The relay between nodes: who is let in, whom it joins, and what it bears.

use std::{net::SocketAddr, time::Duration};

use cloudsim::faults::{Conditions, FaultTarget};
use quinn::{Connection, VarInt};
use tests::{Setup, World, eventually, within};
use tokio::task::JoinSet;
use wire::relay::{Answer, MAX_MESSAGE, MAX_STREAMS, Open, Path, Report, WINDOW, encode};

use self::nodes::{connect, hear, open, open_pair, refusal};
use crate::raw::Caller;

/// A cloud with a relay, and no node.
async fn world() -> World {
    World::with(Setup {
        nodes: 0,
        relay: true,
        ..Setup::default()
    })
    .await
}

/// Whether it is so, as what is waited for.
fn so(is: bool) -> Result<(), &'static str> {
    if is { Ok(()) } else { Err("not yet") }
}

/// A node that is at the relay.
async fn node(world: &World, name: &str) -> Connection {
    let connection = connect(relay_of(world), &Caller::node(world, name).await)
        .await
        .unwrap();
    eventually("the node is at the relay", async || {
        so(world.cloud().relays().has(name))
    })
    .await;
    connection
}

/// The address of the relay.
fn relay_of(world: &World) -> SocketAddr {
    world.cloud().addresses().relay.unwrap()
}

/// The number of connections that the relay joins now.
fn joined_now(world: &World) -> u64 {
    world
        .cloud()
        .relays()
        .state()
        .joined
        .iter()
        .map(|pair| pair.open)
        .sum()
}

async fn nothing_is_joined(world: &World, why: &str) {
    eventually(why, async || so(joined_now(world) == 0)).await;
}

#[tokio::test]
async fn bytes_go_from_node_to_node_and_are_counted() {
    let world = world().await;
    let (one, two) = (node(&world, "edge-1").await, node(&world, "edge-2").await);
    let (mut send, mut receive) = open(&one, "edge-2").await;
    let mut theirs = within("a stream", two.accept_bi()).await.unwrap();
    assert_eq!(
        hear::<Open>(&mut theirs.1).await.node,
        "edge-1",
        "who asks is told by the relay"
    );
    let large = vec![7; 3 * WINDOW as usize];
    let forth = async {
        send.write_all(&large).await.unwrap();
        send.finish().unwrap();
    };
    let back = async {
        let read = theirs.1.read_to_end(usize::MAX).await.unwrap();
        theirs.0.write_all(b"done").await.unwrap();
        theirs.0.finish().unwrap();
        read
    };
    let ((), read) = within("the bytes", async { tokio::join!(forth, back) }).await;
    assert!(read == large);
    assert_eq!(
        within("an answer", receive.read_to_end(10)).await.unwrap(),
        b"done",
        "one end may end before the other"
    );
    eventually("the connection has ended", async || {
        so(world.cloud().relays().state().joined[0].open == 0)
    })
    .await;
    let state = world.cloud().relays().state();
    let names: Vec<_> = state.nodes.iter().map(|node| node.node.as_str()).collect();
    assert_eq!(names, ["edge-1", "edge-2"]);
    let told = &state.joined[0];
    assert_eq!(
        (told.from.as_str(), told.to.as_str(), told.connections),
        ("edge-1", "edge-2", 1)
    );
    assert_eq!((told.sent, told.received), (large.len() as u64, 4));
}

#[tokio::test]
async fn a_node_that_is_not_there_is_refused_at_once_and_with_a_reason() {
    let world = world().await;
    let one = node(&world, "edge-1").await;
    for (to, says) in [
        ("edge-2", "node edge-2 is not connected to the relay"),
        ("edge-1", "no connection to itself"),
        ("", "is not connected"),
        ("a\n\u{1b}[31m", "is not connected"),
    ] {
        let begun = tokio::time::Instant::now();
        let said = refusal(&one, to).await;
        assert!(
            said.contains(says) && !said.contains('\u{1b}'),
            "{to:?}: {said:?}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{to}: {:?}",
            begun.elapsed()
        );
    }
    let two = node(&world, "edge-2").await;
    drop(open_pair(&one, &two, "edge-2").await);
    two.close(VarInt::from_u32(0), b"");
    eventually("the other node has gone", async || {
        so(!world.cloud().relays().has("edge-2"))
    })
    .await;
    assert!(refusal(&one, "edge-2").await.contains("is not connected"));
}

#[tokio::test]
async fn who_is_no_node_of_this_cloud_gets_no_connection() {
    let world = world().await;
    let other = World::new(0).await;
    for (caller, who) in [
        (Caller::anonymous(&world).await, "nobody"),
        (Caller::admin(&world).await, "a person"),
        (
            Caller::node(&other, "edge-1").await.at(&world).await,
            "another cloud's node",
        ),
    ] {
        // TLS lets the client believe for a moment that it is connected
        if let Ok(connection) = connect(relay_of(&world), &caller).await {
            within(who, connection.closed()).await;
        }
        assert!(world.cloud().relays().state().nodes.is_empty(), "{who}");
    }
    let caller = Caller::node(&world, "edge-1").await;
    let one = connect(relay_of(&world), &caller).await.unwrap();
    eventually("the node is at the relay", async || {
        so(world.cloud().relays().has("edge-1"))
    })
    .await;
    world.cloud().reset_node("edge-1").await.unwrap();
    let why = within("the end", one.closed()).await.to_string();
    assert!(why.contains("revoked"), "{why}");
    let why = match connect(relay_of(&world), &caller).await {
        Ok(connection) => within("the end", connection.closed()).await.to_string(),
        Err(why) => why,
    };
    assert!(why.contains("revoked"), "{why}");
}

#[tokio::test]
async fn what_is_no_request_ends_its_stream_and_no_other() {
    let world = world().await;
    let (one, two) = (node(&world, "edge-1").await, node(&world, "edge-2").await);
    let [mut ours, mut theirs] = open_pair(&one, &two, "edge-2").await;
    let long = u16::try_from(MAX_MESSAGE + 1).unwrap().to_be_bytes();
    for bytes in [
        &b""[..],
        b"\x00",
        b"\x00\x02{}",
        b"\x00\x04nope",
        b"\x00\x09{\"node\":1",
        &long,
        b"\xff\xff",
    ] {
        let (mut send, mut receive) = one.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
        let refused = hear::<Answer>(&mut receive).await.error;
        assert!(
            refused.is_some_and(|why| why.contains("no other node was named")),
            "{bytes:?}"
        );
    }
    ours.0.write_all(b"still").await.unwrap();
    let mut read = [0; 5];
    within("what was sent", theirs.1.read_exact(&mut read))
        .await
        .unwrap();
    assert_eq!(&read, b"still");
    assert!(world.cloud().relays().has("edge-1"));
}

#[tokio::test]
async fn a_peer_that_never_reads_holds_up_its_own_stream_alone() {
    let world = world().await;
    let (one, two) = (node(&world, "edge-1").await, node(&world, "edge-2").await);
    let [mut stuck, _unread] = open_pair(&one, &two, "edge-2").await;
    let written = async {
        let (mut written, portion) = (0, vec![0; 64 * 1024]);
        loop {
            match tokio::time::timeout(Duration::from_secs(1), stuck.0.write(&portion)).await {
                Ok(bytes) => written += bytes.unwrap(),
                Err(_) => return written,
            }
        }
    };
    let written = within("the stream is full", written).await;
    assert!(written <= 4 * WINDOW as usize, "{written} bytes wait");
    for _ in 0..20 {
        let [mut ours, mut theirs] = open_pair(&one, &two, "edge-2").await;
        ours.0.write_all(&vec![1; WINDOW as usize]).await.unwrap();
        ours.0.finish().unwrap();
        assert_eq!(
            within("bytes", theirs.1.read_to_end(usize::MAX))
                .await
                .unwrap()
                .len(),
            WINDOW as usize
        );
    }
}

#[tokio::test]
async fn connections_beyond_those_that_may_be_are_refused_one_after_the_other() {
    let world = world().await;
    let (one, two) = (node(&world, "edge-1").await, node(&world, "edge-2").await);
    let (mut opens, begun) = (JoinSet::new(), tokio::time::Instant::now());
    for number in 0..1000 {
        let one = one.clone();
        opens.spawn(async move { refusal(&one, &format!("edge-{}", number + 10)).await });
        if opens.len() >= 100 {
            let refused = within("a refusal", opens.join_next())
                .await
                .unwrap()
                .unwrap();
            assert!(refused.contains("is not connected"), "{refused}");
        }
    }
    within("all refusals", opens.join_all()).await;
    // a burst of 256 waits for nothing, and then there are a hundred a second
    assert!(
        begun.elapsed() > Duration::from_secs(7),
        "{:?}",
        begun.elapsed()
    );
    // of nodes that have had none: of streams that have ended, QUIC's peers tell only when an eighth of all may be opened again
    let mut held = Vec::new();
    let share = MAX_STREAMS / 4;
    for name in ["edge-3", "edge-4", "edge-5", "edge-6"] {
        let asks = node(&world, name).await;
        for _ in 0..share {
            held.push((open_pair(&asks, &two, "edge-2").await, asks.clone()));
        }
        if name == "edge-3" {
            let refused = refusal(&asks, "edge-2").await;
            assert!(refused.contains("as one node may have"), "{refused}");
            drop(open_pair(&asks, &one, "edge-1").await);
        }
    }
    let last = node(&world, "edge-7").await;
    let refused = refusal(&last, "edge-2").await;
    assert!(
        refused.contains("as many connections over the relay as it may have"),
        "{refused}"
    );
    held.truncate(1);
    eventually(
        "the others have ended",
        async || so(joined_now(&world) == 1),
    )
    .await;
    drop(open_pair(&last, &two, "edge-2").await);
}

#[tokio::test]
async fn a_fault_cuts_a_node_off_the_relay_and_nothing_else() {
    let world = World::with(Setup {
        nodes: 1,
        relay: true,
        ..Setup::default()
    })
    .await;
    let (one, two) = (node(&world, "edge-8").await, node(&world, "edge-9").await);
    let [mut ours, _theirs] = open_pair(&one, &two, "edge-9").await;
    let cut = Conditions {
        cut_relay: Some(true),
        ..Conditions::default()
    };
    world
        .cloud()
        .faults()
        .set(&FaultTarget::Node("edge-9".to_owned()), cut.clone())
        .unwrap();
    let why = within("the end", two.closed()).await.to_string();
    assert!(why.contains("cut by fault injection"), "{why}");
    assert!(
        within("the stream's end", ours.1.read_to_end(100))
            .await
            .is_err(),
        "it breaks off, and does not end"
    );
    assert!(refusal(&one, "edge-9").await.contains("is not connected"));
    let caller = Caller::node(&world, "edge-9").await;
    if let Ok(connection) = connect(relay_of(&world), &caller).await {
        assert!(
            within("the end", connection.closed())
                .await
                .to_string()
                .contains("cut by fault injection")
        );
    }
    world.cloud().faults().restore("edge-9");
    let two = connect(relay_of(&world), &caller).await.unwrap();
    eventually("the node is back", async || {
        so(world.cloud().relays().has("edge-9"))
    })
    .await;
    drop(open_pair(&one, &two, "edge-9").await);
    world
        .cloud()
        .faults()
        .set(&FaultTarget::Node("edge-1".to_owned()), cut)
        .unwrap();
    world
        .run(&tests::manifests::pod("web", Some("edge-1")))
        .await;
}

#[tokio::test]
async fn what_a_node_says_of_its_ways_is_told() {
    let world = world().await;
    let one = node(&world, "edge-1").await;
    let report = Report {
        paths: [("edge-2".to_owned(), Path::Relayed)].into(),
    };
    let names = |names: Vec<String>| {
        let paths = names.into_iter().map(|name| (name, Path::Direct)).collect();
        serde_json::to_vec(&Report { paths }).unwrap()
    };
    for text in [
        b"no report".to_vec(),
        vec![b' '; 100_000],
        names(vec!["edge-3\nroot@host direct".to_owned()]),
        names(vec!["a".repeat(300)]),
        names((0..1001).map(|number| format!("edge-{number}")).collect()),
        serde_json::to_vec(&report).unwrap(),
    ] {
        let mut stream = within("a stream", one.open_uni()).await.unwrap();
        // the relay does not read all of what is too long
        let _ = stream.write_all(&text).await;
        let _ = stream.finish();
    }
    eventually("the report", async || {
        let paths = world.cloud().relays().state().nodes[0].paths.clone();
        assert!(paths.is_empty() || paths == report.paths, "{paths:?}");
        so(paths == report.paths)
    })
    .await;
}

mod attacks;
mod nodes;
