//! Nodes that have gone, or that keep what they do not use.

use super::*;

#[tokio::test]
async fn a_stream_whose_first_bytes_do_not_come_is_given_back() {
    let world = world().await;
    let (one, two) = (node(&world, "edge-1").await, node(&world, "edge-2").await);
    // one is never answered; the other one is, and its node says nothing more
    let mut unanswered = open(&one, "edge-2").await;
    let mut not_answering = within("a stream", two.accept_bi()).await.unwrap();
    hear::<Open>(&mut not_answering.1).await;
    unanswered.0.write_all(b"f").await.unwrap();
    let mut silent = open(&one, "edge-2").await;
    let mut theirs = within("a stream", two.accept_bi()).await.unwrap();
    theirs
        .0
        .write_all(&encode(&Answer::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(hear::<Answer>(&mut silent.1).await, Answer::default());
    let kept = open_pair(&one, &two, "edge-2").await;
    eventually("both are given back", async || so(joined_now(&world) == 1)).await;
    for mut stream in [unanswered, silent, not_answering, theirs] {
        assert!(
            within("the stop", stream.0.stopped())
                .await
                .unwrap()
                .is_some()
        );
        assert!(
            within("the end", stream.1.read_to_end(1000)).await.is_err(),
            "it breaks off"
        );
    }
    drop(kept);
}

#[tokio::test]
async fn a_connection_whose_other_end_has_gone_is_given_back_though_nobody_speaks() {
    let world = world().await;
    let (one, two) = (node(&world, "edge-1").await, node(&world, "edge-2").await);
    // the node that was asked gives it up, and the one that asked says nothing
    let [mut ours, theirs] = open_pair(&one, &two, "edge-2").await;
    drop(theirs);
    nothing_is_joined(&world, "the other node has given it up").await;
    assert!(
        within("the stop", ours.0.stopped())
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        within("the end", ours.1.read_to_end(10))
            .await
            .unwrap()
            .is_empty()
    );
    // the node that asked gives it up, and the one that was asked says nothing
    let [ours, mut theirs] = open_pair(&one, &two, "edge-2").await;
    drop(ours);
    nothing_is_joined(&world, "the node has given it up").await;
    assert!(
        within("the stop", theirs.0.stopped())
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        within("the end", theirs.1.read_to_end(10))
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_node_that_has_gone_leaves_no_connection_and_no_bytes_behind() {
    let world = world().await;
    let two = node(&world, "edge-2").await;
    for (name, asks) in [("edge-1", true), ("edge-3", false)] {
        let one = node(&world, name).await;
        let [mut ours, mut theirs] = if asks {
            open_pair(&one, &two, "edge-2").await
        } else {
            open_pair(&two, &one, name).await
        };
        if !asks {
            std::mem::swap(&mut ours, &mut theirs);
        }
        // an end that was handed on, and another stream whose bytes nobody reads
        ours.0.finish().unwrap();
        assert!(
            within("the end", theirs.1.read_to_end(10))
                .await
                .unwrap()
                .is_empty()
        );
        let [mut unread, _theirs] = open_pair(&one, &two, "edge-2").await;
        let more = vec![0; 8 * WINDOW as usize];
        let full = tokio::time::timeout(Duration::from_secs(1), unread.0.write_all(&more)).await;
        assert!(full.is_err(), "the stream is full");
        one.close(VarInt::from_u32(0), b"");
        nothing_is_joined(&world, "its connections have ended").await;
        eventually("it is not at the relay", async || {
            so(!world.cloud().relays().has(name))
        })
        .await;
        assert!(
            within("the stop", theirs.0.stopped())
                .await
                .unwrap()
                .is_some()
        );
    }
}
