//! Many streams in one tunnel, one of which is not read.

use super::*;
use crate::streams::{inbox::BUFFER, stream::STALL_TIMEOUT};

const LOGS: usize = 200;

#[tokio::test(start_paused = true)]
async fn of_200_followed_logs_one_that_is_not_read_is_ended_and_the_others_go_on() {
    let world = World::new();
    let mut node = world.dial();
    let mut logs = Vec::new();
    for _ in 0..LOGS {
        logs.push(world.body(&mut node, CHUNKED).await);
    }
    let (stuck, held) = logs.pop().unwrap();
    let begun = tokio::time::Instant::now();
    // as much as fits unread; hyper holds some itself
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    for _ in 0..3 * BUFFER / 0x4000 {
        node.data(stuck, &chunk).await;
    }
    node.remove_stream(stuck).await;
    assert!(
        begun.elapsed() <= 2 * STALL_TIMEOUT,
        "{:?}",
        begun.elapsed()
    );
    for round in 0..10 {
        for (id, _) in &logs {
            node.data(*id, format!("2\r\n{round}\n\r\n")).await;
        }
        for (_, body) in &mut logs {
            assert_eq!(piece(body).await, format!("{round}\n"));
        }
    }
    assert_eq!(world.tunnels.count(), (1, LOGS - 1));
    let error = whole(held).await.unwrap_err();
    assert!(error.contains("not read in time"), "{error}");
    node.is_alive().await;
}
