//! Ends of streams and tunnels, from either side.

use std::time::Duration;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_without_a_tunnel_is_not_connected() {
    let world = World::new();
    let error = within("the answer", world.get("/pods"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(&error, NodeError::NotConnected(node) if node == NODE),
        "{error}"
    );
    let mut node = world.dial();
    assert!(world.tunnels.has(NODE));
    node.is_alive().await;
    assert!(matches!(node.wait_ended().await, TunnelEnd::Closed));
    assert!(!world.tunnels.has(NODE));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_says_nothing_is_waited_for_so_long_and_told() {
    let world = World::new();
    let mut node = world.dial();
    let asked = world.get("/pods");
    let id = node.connect().await.id;
    let error = within("the answer", asked).await.unwrap().unwrap_err();
    assert!(matches!(error, NodeError::Timeout(_)), "{error}");
    node.remove_stream(id).await;
    node.is_alive().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_before_its_head_is_no_answer() {
    let world = World::new();
    let mut node = world.dial();
    for head in ["", "HTTP/1.1 200 OK\r\nContent-", "SSH-2.0-OpenSSH\r\n\r\n"] {
        let asked = world.get("/pods");
        let id = node.connect().await.id;
        node.data(id, head).await;
        node.frame(id, Kind::RemoveConnect, b"").await;
        let error = within("the answer", asked).await.unwrap().unwrap_err();
        assert!(matches!(error, NodeError::Broken(..)), "{head:?}: {error}");
    }
    node.is_alive().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_was_cut_off_is_seen_to_be() {
    let world = World::new();
    // the node ends a stream within a body, or the tunnel ends: a body that lasts until the connection's end shows the latter
    for (head, is_told) in [(CHUNKED, true), (CHUNKED, false), (UNTIL_CLOSE, false)] {
        let mut node = world.dial();
        let (id, mut body) = world.body(&mut node, head).await;
        let text = if head == CHUNKED {
            "4\r\nbody\r\n"
        } else {
            "body"
        };
        node.data(id, text).await;
        assert_eq!(piece(&mut body).await, "body");
        if is_told {
            node.frame(id, Kind::RemoveConnect, b"").await;
            whole(body).await.unwrap_err();
        } else {
            node.wait_ended().await;
            let error = whole(body).await.unwrap_err();
            assert!(
                error.contains("the stream tunnel of the node has ended"),
                "{error}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgraded_connection_ends_cleanly_by_the_node_alone() {
    let world = World::new();
    let mut node = world.dial();
    let (id, mut io) = world.upgrade(&mut node, SWITCHING).await;
    node.data(id, "last words").await;
    node.frame(id, Kind::RemoveConnect, b"").await;
    let mut read = String::new();
    within("the end of the stream", io.read_to_string(&mut read))
        .await
        .unwrap();
    assert_eq!(read, "last words");
    io.write_all(b"late").await.unwrap_err();
    drop(io);
    // it is not told what it has sent itself
    node.is_alive().await;

    let (_, mut io) = world.upgrade(&mut node, SWITCHING).await;
    node.wait_ended().await;
    within("the end of the stream", io.read_to_string(&mut read))
        .await
        .unwrap_err();
    io.write_all(b"late").await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_newer_tunnel_takes_the_place_of_the_older() {
    let world = World::new();
    let mut older = world.dial();
    let (id, mut body) = world.body(&mut older, CHUNKED).await;
    older.data(id, "4\r\nbody\r\n").await;
    assert_eq!(piece(&mut body).await, "body");
    let mut newer = world.dial();
    assert!(matches!(older.next().await, Some(Message::Close(_))));
    assert!(matches!(older.wait_ended().await, TunnelEnd::Stopped));
    whole(body).await.unwrap_err();
    let (_, body) = world
        .body(&mut newer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        .await;
    assert_eq!(whole(body).await.unwrap(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_have_no_tunnel_any_more_is_told_why() {
    let world = World::new();
    let mut node = world.dial();
    world.tunnels.end(NODE, "taken back");
    let frame = node.next_frame().await;
    assert_eq!(
        (frame.id, frame.kind, &frame.data[..]),
        (0, Kind::CloseConnect, &b"taken back"[..])
    );
    assert!(matches!(node.next().await, Some(Message::Close(_))));
    assert!(matches!(node.wait_ended().await, TunnelEnd::Stopped));
    assert!(!world.tunnels.has(NODE));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_tunnels_and_tells_nodes() {
    let world = World::new();
    let mut node = world.dial();
    node.is_alive().await;
    world.shutdown.cancel();
    assert!(matches!(node.next().await, Some(Message::Close(_))));
    assert_eq!(node.next().await, None);
    assert!(matches!(node.wait_ended().await, TunnelEnd::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_given_up_and_one_that_takes_nothing_too() {
    let mut world = World::new();
    world.timing.read = Duration::from_secs(5);
    let node = world.dial();
    assert!(matches!(
        within("the end of the tunnel", node.run).await.unwrap(),
        TunnelEnd::Lost(_)
    ));
    world.timing = Timing {
        ping: Duration::from_millis(1),
        read: WAIT_TIMEOUT,
        write: Duration::from_secs(5),
    };
    let mut node = world.dial();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    // pings fill the buffers, and nobody reads them
    let ended = loop {
        clock::select! {
            ended = &mut node.run => break ended.unwrap(),
            _ = seconds.tick() => {
                let mut out = BytesMut::new();
                encode(&mut out, &Message::Pong(Bytes::new()), Some([0; 4]));
                let _ = node.io.write_all(&out).await;
            }
        }
    };
    let TunnelEnd::Lost(error) = ended else {
        panic!("{ended:?}")
    };
    assert!(error.to_string().contains("took nothing"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_link_ends_the_tunnel_and_a_half_open_one_lets_nothing_through() {
    let world = World::new();
    let node = world.dial();
    world.faults.cut_link(NODE);
    assert!(matches!(
        within("the end of the tunnel", node.run).await.unwrap(),
        TunnelEnd::Cut
    ));
    world.faults.restore(NODE);
    let mut node = world.dial();
    node.is_alive().await;
    world.faults.half_open(NODE);
    let error = within("the answer", world.get("/pods"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, NodeError::Timeout(_)), "{error}");
    world.faults.restore(NODE);
    assert_eq!(
        node.next().await,
        None,
        "what was swallowed does not come back"
    );
}
