//! An enrolment server whose answers never end: nothing of them is kept, and the machine becomes a node when they are good again.

use cloudsim::{Addresses, faults::Answers};
use tests::{Setup, TcpRelay, World, eventually};

/// A machine that wants to become a node while answers are like this, until so many connections were made; then they are good.
async fn joins_after(answers: Answers, connections: u64) {
    let mut world = World::new(0).await;
    world.cloud().faults().set_answers(answers);
    let addresses = world.cloud().addresses();
    let relay = TcpRelay::to(addresses.https).await;
    let mut node = world
        .prepare_at(
            Addresses {
                https: relay.address(),
                ..addresses
            },
            "edge-1",
            &Setup::default(),
        )
        .await;
    node.start().await.unwrap();
    world.nodes.push(node);
    eventually("it has asked", async || match relay.connection_count() {
        made if made >= connections => Ok(()),
        made => Err(made),
    })
    .await;
    assert!(
        world.cloud().sessions().is_empty(),
        "nobody can have joined"
    );
    world.cloud().faults().set_answers(Answers::Genuine);
    world.until_ready().await;
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up_and_asked_for_again() {
    // each attempt ends by itself, after 64 KiB
    joins_after(Answers::Endless, 3).await;
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte_ends_with_its_fault() {
    joins_after(Answers::Slow, 1).await;
}
