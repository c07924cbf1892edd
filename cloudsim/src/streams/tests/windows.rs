//! A node with windows: streams that are read slowly, beside others.

use std::time::Duration;

use tokio::{io::ReadHalf, time::Instant};
use wire::tunnel::window::WINDOW;

use super::*;

/// The contents of a followed log and of a copy.
const SLOW: usize = 1024 * 1024;
const FAST: usize = 20 * SLOW;

fn pattern(bytes: usize) -> Vec<u8> {
    (0..=250).cycle().take(bytes).collect()
}

/// A node that sends the contents of streams in turns, each within its window.
struct Sender {
    /// For each stream, the rest of its contents and its credit.
    streams: Vec<(u64, Vec<u8>, usize)>,
}

impl Sender {
    async fn run(mut self, mut node: Node) -> Node {
        while !self.streams.is_empty() {
            for (id, left, credit) in &mut self.streams {
                let part = left.len().min(*credit).min(16 * 1024);
                if part > 0 {
                    node.data(*id, left.drain(..part).as_slice()).await;
                    *credit -= part;
                }
            }
            for (id, left, _) in &self.streams {
                if left.is_empty() {
                    node.frame(*id, Kind::RemoveConnect, b"").await;
                }
            }
            self.streams.retain(|(_, left, _)| !left.is_empty());
            if self.streams.iter().all(|(_, _, credit)| *credit == 0) && !self.streams.is_empty() {
                let frame = node.next_frame().await;
                for (id, _, credit) in &mut self.streams {
                    if *id == frame.id {
                        *credit += frame.window_bytes().unwrap();
                    }
                }
            }
        }
        node
    }
}

/// Reads everything, at this rate in bytes per second.
async fn read(mut io: ReadHalf<Box<dyn NodeIo>>, rate: Option<usize>) -> (Vec<u8>, Duration) {
    let (begun, mut all, mut part) = (Instant::now(), Vec::new(), vec![0; 4096]);
    loop {
        let count = io.read(&mut part).await.unwrap();
        if count == 0 {
            return (all, begun.elapsed());
        }
        all.extend_from_slice(&part[..count]);
        if let Some(rate) = rate {
            tokio::time::advance(
                Duration::from_secs(1) * u32::try_from(count).unwrap()
                    / u32::try_from(rate).unwrap(),
            )
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_is_read_slowly_slows_neither_a_copy_nor_a_command_beside_it() {
    let world = World::new();
    let mut node = world.dial_with(Some(WINDOW));
    let (slow, io) = world.upgrade(&mut node, SWITCHING).await;
    let (slow_io, _slow) = tokio::io::split(io);
    let (fast, io) = world.upgrade(&mut node, SWITCHING).await;
    let (fast_io, _fast) = tokio::io::split(io);
    let (sent, copied) = (pattern(SLOW), pattern(FAST));
    // the heads are bytes of the streams, too
    let credit = WINDOW - SWITCHING.len();
    let streams = vec![(slow, sent.clone(), credit), (fast, copied.clone(), credit)];
    let sending = tokio::spawn(Sender { streams }.run(node));
    // the copy is complete before the log is read at all
    let (came, _) = within("the end of the fast stream", read(fast_io, None)).await;
    assert!(came == copied, "the copy in its order");
    // a reader with 20 kB/s delays nobody: the log ends after the time that it takes, with all of its bytes
    let (came, took) = read(slow_io, Some(20_000)).await;
    assert!(came == sent, "the log in its order");
    assert!(took >= Duration::from_secs(50), "{took:?}");
    within("the end of the writer", sending)
        .await
        .unwrap()
        .is_alive()
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_node_does_not_take_is_not_sent_and_others_go_on() {
    let world = World::new();
    let mut node = world.dial_with(Some(1000));
    let (full, mut io) = world.upgrade(&mut node, SWITCHING).await;
    let sent = pattern(5000);
    let input = sent.clone();
    let writing = tokio::spawn(async move {
        io.write_all(&input).await.unwrap();
        io
    });
    let mut came = Vec::new();
    for bound in [1000, 1001, 3001] {
        while came.len() < bound {
            let frame = node.next_frame().await;
            assert_eq!((frame.id, frame.kind), (full, Kind::Data));
            came.extend_from_slice(&frame.data);
        }
        assert_eq!(came.len(), bound);
        // nothing arrives until it is acknowledged
        let (other, body) = world
            .body(&mut node, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await;
        assert_eq!(whole(body).await.unwrap(), "ok");
        node.remove_stream(other).await;
        let more = if bound == 1000 { 1 } else { 2000 };
        node.message(&Message::Text(Frame::window(full, more).encode().into()))
            .await;
    }
    while came.len() < sent.len() {
        came.extend_from_slice(&node.next_frame().await.data);
    }
    assert_eq!(came, sent);
    drop(within("the end of the writer", writing).await.unwrap());
    node.remove_stream(full).await;
    // a waiting stream ends with it
    let (id, mut io) = world.upgrade(&mut node, SWITCHING).await;
    let writing = tokio::spawn(async move { io.write_all(&[7; 5000]).await });
    assert_eq!(node.next_frame().await.data.len(), 1000);
    node.frame(id, Kind::RemoveConnect, b"").await;
    within("the end of the writer", writing)
        .await
        .unwrap()
        .unwrap_err();
    node.is_alive().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_exceeds_a_window_loses_that_stream_at_once() {
    let world = World::new();
    let mut node = world.dial_with(Some(WINDOW));
    let begun = Instant::now();
    let (id, mut io) = world.upgrade(&mut node, SWITCHING).await;
    node.data(id, vec![7; WINDOW]).await;
    node.is_alive().await;
    node.data(id, b"x").await;
    node.remove_stream(id).await;
    let error = within("the end of the stream", io.read_to_end(&mut Vec::new()))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("more of it than was taken"),
        "{error}"
    );
    for (credit, is_number) in [(usize::MAX, true), (0, false)] {
        let (id, mut io) = world.upgrade(&mut node, SWITCHING).await;
        let frame = if is_number {
            Frame::window(id, credit)
        } else {
            Frame::new(id, Kind::Window, &b"\xff"[..])
        };
        node.message(&Message::Text(frame.encode().into())).await;
        node.remove_stream(id).await;
        within("the end of the stream", io.read_to_end(&mut Vec::new()))
            .await
            .unwrap_err();
    }
    node.message(&Message::Text(Frame::window(77, 1).encode().into()))
        .await;
    node.is_alive().await;
    assert!(
        begun.elapsed().is_zero(),
        "nothing waits: {:?}",
        begun.elapsed()
    );
}
