//! Messages that no cloud should send: the agent refuses them, and stands.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use cloudsim::faults::{SendHostileError, Shape};
use tests::{World, eventually, manifests::pod};

use super::{NODES, both};
use crate::memory::in_use;

/// What a hostile message would leave behind.
const TRACE: &str = "/tmp/outrigger-was-here";
/// Bytes that may be in use more than a round before, when nothing is under way any more: a few pods. Of messages with names of
/// a megabyte four have gone by.
const MORE: usize = 3 << 20;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Sends a message, if need be over the next connection: an earlier one may have ended the last.
async fn send(world: &World, number: usize, shape: Shape) {
    let (node, what) = (NODES[number], shape.name());
    eventually(&format!("{what} is sent to {node}"), async || {
        match world.cloud().faults().send_hostile(node, shape).await {
            // the session may end while it is written: an agent does not wait for the end of what it refuses
            Err(SendHostileError::NotWritten(_)) if shape.may_end_session() => Ok(()),
            sent => sent,
        }
    })
    .await;
}

#[tokio::test]
async fn no_hostile_message_makes_an_agent_fall_or_grow() {
    std::panic::set_hook(Box::new(|info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        eprintln!("{info}");
    }));
    let _ = fs::remove_file(TRACE);
    let world = both().await;
    for node in NODES {
        world.run(&pod(&format!("on-{node}"), Some(node))).await;
    }
    let ran = [world.running(0), world.running(1)];
    let mut memory = Vec::new();
    for round in 0..3 {
        for shape in Shape::ALL.iter().copied() {
            for number in 0..2 {
                send(&world, number, shape).await;
            }
        }
        // behind all of it
        for (number, node) in NODES.iter().enumerate() {
            world
                .run(&pod(&format!("r{round}-{node}"), Some(node)))
                .await;
            let now = world.running(number);
            assert!(
                ran[number]
                    .iter()
                    .all(|(place, id)| now.get(place) == Some(id)),
                "the same containers"
            );
            assert_eq!(
                now.len(),
                round + 2,
                "nothing runs that nobody wanted: {now:?}"
            );
        }
        memory.push(in_use());
    }
    println!("in use: {memory:?}");
    let most = memory[1] + MORE;
    eventually(
        "as much memory in use as a round before",
        async || match in_use() {
            now if now <= most => Ok(()),
            now => Err((now, &memory)),
        },
    )
    .await;
    assert!(
        !Path::new(TRACE).exists(),
        "a message wrote where it should not"
    );
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn each_message_that_can_be_passed_over_leaves_the_session_alone() {
    let world = both().await;
    for shape in Shape::ALL
        .iter()
        .copied()
        .filter(|shape| !shape.may_end_session())
    {
        for (number, node) in NODES.iter().enumerate() {
            let before = super::link(&world, number);
            world
                .cloud()
                .faults()
                .send_hostile(node, shape)
                .await
                .unwrap();
            let name = format!("{}-{node}", shape.name());
            world.run(&pod(&name, Some(node))).await;
            assert_eq!(super::link(&world, number), before, "{}", shape.name());
            world.pod(&name).delete(Some(0)).await;
        }
    }
}
