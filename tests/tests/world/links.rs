//! Links that break, and how soon that is noticed and mended.

use std::time::{Duration, Instant};

use agent::config::HostPort;
use cloudsim::Addresses;
use componentbase::Link;
use tests::{Setup, TcpRelay, World, condition, in_time, manifests::pod, within};

/// A dead link is noticed in 3 s; the rest is what a loaded machine takes to say so.
const NOTICED: Duration = Duration::from_millis(3500);
/// Half a second is promised on a machine that has time.
const BACK: Duration = Duration::from_secs(2);
/// Ready so soon after the connection.
const READY: Duration = Duration::from_millis(500);

/// A node behind a relay.
async fn relayed_world(setup: Setup) -> (World, TcpRelay) {
    let mut world = World::with(Setup {
        nodes: 0,
        ..setup.clone()
    })
    .await;
    let addresses = world.cloud().addresses();
    let relay = TcpRelay::to(addresses.websocket).await;
    let addresses = Addresses {
        websocket: relay.address(),
        ..addresses
    };
    let mut node = world.prepare_at(addresses, "edge-1", &setup).await;
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    (world, relay)
}

#[tokio::test]
async fn a_half_open_link_is_noticed_within_three_seconds_and_mended_at_once() {
    in_time("noticed, and back", async || {
        // a new one each time: who has lost a young link has more patience with the next
        let (world, relay) = relayed_world(Setup::default()).await;
        let running = world.run(&pod("web", Some("edge-1"))).await;
        let begun = Instant::now();
        relay.swallow();
        world.until_connected(0, false).await;
        let noticed = begun.elapsed();
        let begun = Instant::now();
        relay.through();
        world.until_connected(0, true).await;
        let back = begun.elapsed();
        println!("noticed after {noticed:?}, back after {back:?}");
        let pod = world.pod("web").get().await;
        assert_eq!(tests::uid(&pod), tests::uid(&running));
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
        if noticed <= NOTICED && back <= BACK {
            Ok(())
        } else {
            Err((noticed, back))
        }
    })
    .await;
}

#[tokio::test]
async fn a_node_that_was_given_up_is_ready_soon_after_the_link_is_back() {
    let lease = Duration::from_secs(4);
    in_time("Ready", async || {
        let (world, relay) = relayed_world(Setup {
            lease,
            lease_grace: lease,
            ..Setup::default()
        })
        .await;
        relay.cut_connections();
        let node = world.node("edge-1");
        node.until("given up", |node| {
            condition(node, "Ready") == Some("Unknown")
        })
        .await;
        let begun = Instant::now();
        relay.through();
        world.until_connected(0, true).await;
        let connected = begun.elapsed();
        node.until("Ready", |node| condition(node, "Ready") == Some("True"))
            .await;
        let back = begun.elapsed();
        println!("connected after {connected:?}, Ready after {back:?}");
        let in_time = connected <= BACK && back - connected <= READY;
        if in_time {
            Ok(())
        } else {
            Err((connected, back))
        }
    })
    .await;
}

#[tokio::test]
async fn a_link_that_is_used_or_idle_stands() {
    let (world, relay) = relayed_world(Setup::default()).await;
    let mut link = world.nodes[0].link().unwrap();
    let before = *link.borrow_and_update();
    // twice the time in which silence would be death
    let other = tokio::time::timeout(Duration::from_secs(6), link.changed()).await;
    assert!(other.is_err(), "{:?}", link.borrow());
    assert_eq!(*link.borrow(), before);
    drop(relay);
}

#[tokio::test]
async fn the_cloud_that_answers_is_taken_and_kept_until_it_does_not() {
    let mut world = World::new(0).await;
    let addresses = world.cloud().addresses();
    let (first, second) = (
        TcpRelay::to(addresses.websocket).await,
        TcpRelay::to(addresses.websocket).await,
    );
    first.cut_connections();
    let mut node = world.prepare("edge-1", &Setup::default()).await;
    let server = |relay: &TcpRelay| HostPort {
        host: "127.0.0.1".into(),
        port: relay.address().port(),
    };
    node.configure(|config| config.edge_hub.servers = vec![server(&first), server(&second)]);
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    // an attempt that takes long on a busy machine is not the only one
    let before = second.connection_count();
    assert_eq!((first.connection_count(), before > 0), (0, true));
    first.through();
    second.swallow();
    world.until_connected(0, false).await;
    world.until_connected(0, true).await;
    assert!(first.connection_count() > 0);
    assert_eq!(second.connection_count(), before);
    second.through();
    let mut link = world.nodes[0].link().unwrap();
    first.cut_connections();
    let again = link.wait_for(|link| matches!(link, Link::Up(number) if *number >= 3));
    within("the second again", again).await.unwrap();
    assert!(second.connection_count() > before);
}
