//! Nodes that violate the protocol.

use wire::tunnel::MAX_DATA;

use super::*;
use crate::streams::{inbox::BUFFER, table::MAX_STREAMS};

#[tokio::test(start_paused = true)]
async fn what_no_node_should_send_is_passed_over() {
    let world = World::new();
    let mut node = world.dial();
    let (id, mut body) = world.body(&mut node, CHUNKED).await;
    for kind in [
        Kind::Logs,
        Kind::Exec,
        Kind::Metrics,
        Kind::Attach,
        Kind::CloseConnect,
    ] {
        node.frame(id, kind, b"{\"MessID\":1}").await;
        node.frame(77, kind, b"").await;
    }
    for other in [0, 77, u64::MAX] {
        node.data(other, b"\xff\xfe\x00 no text").await;
        node.frame(other, Kind::RemoveConnect, b"data").await;
    }
    for payload in [&b""[..], b"\x01", b"\x01\x63", &[0xff; 30]] {
        node.message(&Message::Text(Bytes::copy_from_slice(payload)))
            .await;
        node.message(&Message::Binary(Bytes::copy_from_slice(payload)))
            .await;
    }
    node.is_alive().await;
    node.data(id, "4\r\nbody\r\n0\r\n\r\n").await;
    assert_eq!(piece(&mut body).await, "body");
    assert_eq!(whole(body).await.unwrap(), "");
}

#[tokio::test]
async fn a_hundred_thousand_connects_and_removes_leave_nothing_behind() {
    let world = World::new();
    let mut node = world.dial();
    let mut out = BytesMut::new();
    for number in 0..50_000_u64 {
        for kind in [Kind::Exec, Kind::RemoveConnect] {
            let frame = Frame::new(number, kind, Bytes::new());
            encode(
                &mut out,
                &Message::Text(frame.encode().into()),
                Some([0; 4]),
            );
        }
    }
    within("room for what is written", node.io.write_all(&out))
        .await
        .unwrap();
    node.is_alive().await;
    assert_eq!(world.tunnels.count(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn streams_that_a_node_ends_twice_or_goes_on_with_are_over() {
    let world = World::new();
    let mut node = world.dial();
    let (id, mut io) = world.upgrade(&mut node, SWITCHING).await;
    for _ in 0..3 {
        node.data(id, "x").await;
        node.frame(id, Kind::RemoveConnect, b"").await;
    }
    node.data(id, vec![0; 2 * BUFFER]).await;
    let mut read = Vec::new();
    within("the end of the stream", io.read_to_end(&mut read))
        .await
        .unwrap();
    assert_eq!(read, b"x");
    node.is_alive().await;
    assert_eq!(world.tunnels.count(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_large_or_no_websocket_ends_the_tunnel() {
    let world = World::new();
    let mut node = world.dial();
    let (id, mut io) = world.upgrade(&mut node, SWITCHING).await;
    // the largest allowed frame is more than a stream buffers
    let sending = async {
        node.data(id, vec![7; MAX_DATA]).await;
        node
    };
    let reading = async {
        let mut read = vec![0; MAX_DATA];
        io.read_exact(&mut read).await.unwrap();
        io
    };
    let (mut node, _io) = within("the end of both", async { tokio::join!(sending, reading) }).await;
    node.is_alive().await;
    // only the head: it announces 2 MiB
    node.io
        .write_all(&[0x81, 0xff, 0, 0, 0, 0, 0, 0x20, 0, 0])
        .await
        .unwrap();
    assert!(matches!(
        within("the end of the tunnel", node.run).await.unwrap(),
        TunnelEnd::Lost(_)
    ));
    // unmasked bytes
    let mut node = world.dial();
    node.io.write_all(&[0x81, 0]).await.unwrap();
    assert!(matches!(
        within("the end of the tunnel", node.run).await.unwrap(),
        TunnelEnd::Lost(_)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_head_without_end_is_no_answer() {
    let world = World::new();
    let mut node = world.dial();
    let asked = world.get("/pods");
    let id = node.connect().await.id;
    node.data(id, format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(100_000)))
        .await;
    let error = within("the answer", asked).await.unwrap().unwrap_err();
    assert!(matches!(error, NodeError::Broken(..)), "{error}");
    node.remove_stream(id).await;
    node.is_alive().await;
}

#[tokio::test(start_paused = true)]
async fn there_are_so_many_tunnels_and_a_node_that_has_one_may_come_again() {
    let world = World::new();
    let _node = world.dial();
    assert!(
        world
            .tunnels
            .begin("edge-2", DialHeaders::default(), 1, &world.shutdown)
            .is_none()
    );
    let mut newer = world.dial();
    newer.is_alive().await;
    assert!(
        world
            .tunnels
            .begin("edge-2", DialHeaders::default(), 2, &world.shutdown)
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn there_are_so_many_streams_of_a_node_and_an_ended_one_makes_room() {
    let world = World::new();
    let mut node = world.dial();
    let mut bodies = Vec::new();
    for _ in 0..MAX_STREAMS {
        bodies.push(world.body(&mut node, CHUNKED).await);
    }
    let error = within("the answer", world.get("/pods"))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, NodeError::Full(_)), "{error}");
    let (id, body) = bodies.pop().unwrap();
    drop(body);
    node.remove_stream(id).await;
    // its slot is free once that was written
    node.is_alive().await;
    bodies.push(world.body(&mut node, CHUNKED).await);
    assert_eq!(world.tunnels.count(), (1, MAX_STREAMS));
}
