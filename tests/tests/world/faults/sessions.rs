//! Several replicas of the hub behind one address, and sessions that take each other's place.

use std::collections::BTreeSet;

use futures::future::join_all;
use tests::{
    Setup, World, eventually,
    manifests::{config_map, pod},
};
use wire::{ResourceType, Upstream};

use super::{link, until_anew};
use crate::raw::Caller;

fn replicas(world: &World) -> Vec<usize> {
    world
        .cloud()
        .sessions()
        .into_iter()
        .map(|session| session.replica)
        .collect()
}

#[tokio::test]
async fn a_session_moves_from_replica_to_replica_and_nothing_is_lost() {
    let world = World::with(Setup {
        hubs: 3,
        ..Setup::default()
    })
    .await;
    let faults = world.cloud().faults();
    let mut seen = BTreeSet::new();
    let mut web = None;
    for round in 0..6 {
        world.until_connected(0, true).await;
        let before = link(&world, 0);
        // changes while it is away, to be found by a replica that has never heard of this node
        faults.cut_link("edge-1");
        world.until_connected(0, false).await;
        world
            .apply(&config_map(
                "settings",
                serde_json::json!({"round": round.to_string()}),
            ))
            .await;
        world
            .apply(&pod(&format!("p{round}"), Some("edge-1")))
            .await;
        faults.restore("edge-1");
        until_anew(&world, 0, before).await;
        world
            .pod(&format!("p{round}"))
            .until("running", tests::runs)
            .await;
        web.get_or_insert_with(|| world.running(0));
        seen.extend(replicas(&world));
    }
    assert_eq!(seen, BTreeSet::from([1, 2, 3]), "every replica has had it");
    let now = world.running(0);
    assert!(
        web.unwrap()
            .iter()
            .all(|(place, id)| now.get(place) == Some(id)),
        "the same containers"
    );
    assert_eq!(now.len(), 6);
}

#[tokio::test]
async fn a_session_that_is_replaced_does_not_take_the_new_one_with_it() {
    let world = World::with(Setup {
        nodes: 0,
        hubs: 2,
        ..Setup::default()
    })
    .await;
    let caller = Caller::node(&world, "rogue").await;
    for _ in 0..20 {
        let mut older = caller.session(&world, "rogue").await;
        let mut newer = caller.session(&world, "rogue").await;
        newer
            .ask(Upstream::query("", &ResourceType::Node, "rogue"))
            .await;
        let said = older.wait_ended().await;
        assert!(
            said.contains("has reconnected") || said.is_empty(),
            "{said}"
        );
        drop(older);
        // and after the older one's end
        newer
            .ask(Upstream::query("", &ResourceType::Node, "rogue"))
            .await;
        assert_eq!(world.cloud().sessions().len(), 1);
    }
}

#[tokio::test]
async fn of_many_sessions_at_one_time_one_stays_and_answers() {
    let world = World::with(Setup {
        nodes: 0,
        hubs: 3,
        ..Setup::default()
    })
    .await;
    let caller = Caller::node(&world, "rogue").await;
    for _ in 0..10 {
        let mut sessions = join_all((0..8).map(|_| caller.session(&world, "rogue"))).await;
        for session in &mut sessions {
            session
                .say(wire::json::encode(&Upstream::keepalive().into_message(0)))
                .await;
        }
        // whichever it is: all others end
        let ends = sessions
            .iter_mut()
            .map(|session| Box::pin(session.wait_ended()));
        let (mut running, mut ended) = (ends.collect::<Vec<_>>(), 0);
        while ended < 7 {
            let (_, _, rest) = futures::future::select_all(running).await;
            (running, ended) = (rest, ended + 1);
        }
        drop(running);
        assert_eq!(world.cloud().sessions().len(), 1);
        let mut answered = 0;
        for session in &mut sessions {
            answered += usize::from(
                session
                    .answers(Upstream::query("", &ResourceType::Node, "rogue"))
                    .await,
            );
        }
        assert_eq!(answered, 1);
        drop(sessions);
        eventually("nobody is connected", async || {
            match world.cloud().sessions() {
                none if none.is_empty() => Ok(()),
                some => Err(some),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_connection_that_was_given_up_does_not_end_the_one_in_use() {
    let world = World::with(Setup {
        nodes: 0,
        ..Setup::default()
    })
    .await;
    let caller = Caller::node(&world, "rogue").await;
    let mut used = caller.session(&world, "rogue").await;
    used.ask(Upstream::query("", &ResourceType::Node, "rogue"))
        .await;
    for _ in 0..20 {
        // made and closed without a word
        drop(caller.session(&world, "rogue").await);
        used.ask(Upstream::query("", &ResourceType::Node, "rogue"))
            .await;
    }
    let since = world.cloud().sessions();
    assert_eq!(since.len(), 1, "{since:?}");
}
