//! The effect of each fault on a node and its pods, and that it ends.

use std::time::Duration;

use cloudsim::faults::FaultTarget;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::Api;
use serde_json::{Value, json};
use tests::{Setup, World, eventually, manifests::pod};
use tokio::time::timeout;

use super::conditions;

/// Longer than a pod needs to run on a good link.
const WHILE: Duration = Duration::from_secs(2);

/// What a fault does to a pod that is created meanwhile.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// It runs.
    Runs,
    /// The cloud does not see it run.
    Waits,
    /// The node loses its connection.
    Disconnects,
}

fn rows() -> [(FaultTarget, Value, Effect); 11] {
    let node = || FaultTarget::Node("edge-1".to_owned());
    let pods = ["pod"];
    let reports = ["pod-status"];
    [
        (
            node(),
            json!({"drop": 1, "kinds": pods, "direction": "toNode"}),
            Effect::Waits,
        ),
        (
            node(),
            json!({"drop": 1, "kinds": pods, "direction": "toCloud"}),
            Effect::Runs,
        ),
        (node(), json!({"drop": 1, "kinds": reports}), Effect::Waits),
        (node(), json!({"delay": "5s", "kinds": pods}), Effect::Waits),
        (
            node(),
            json!({"corrupt": 1, "kinds": pods}),
            Effect::Disconnects,
        ),
        (
            node(),
            json!({"corrupt": 1, "direction": "toCloud"}),
            Effect::Disconnects,
        ),
        (node(), json!({"diskDelay": "5s"}), Effect::Waits),
        (node(), json!({"diskFull": true}), Effect::Waits),
        (node(), json!({"reorder": 1, "duplicate": 1}), Effect::Runs),
        (
            node(),
            json!({"link": "halfOpen", "for": "10s"}),
            Effect::Disconnects,
        ),
        (
            FaultTarget::All,
            json!({"certificate": "expired", "for": "10s"}),
            Effect::Disconnects,
        ),
    ]
}

#[tokio::test]
async fn each_fault_has_its_effect_and_ends() {
    let world = World::with(Setup::default()).await;
    world.until_ready().await;
    let faults = world.cloud().faults();
    for (number, (target, fault, effect)) in rows().into_iter().enumerate() {
        println!("{fault}: {effect:?}");
        let ends_itself = fault["for"].is_string();
        faults.add(&target, conditions(fault)).unwrap();
        let created = world
            .apply(&pod(&format!("pod-{number}"), Some("edge-1")))
            .await;
        let runs = created.until("running", tests::runs);
        match effect {
            Effect::Runs => drop(runs.await),
            Effect::Waits => assert!(timeout(WHILE, runs).await.is_err()),
            Effect::Disconnects => world.until_connected(0, false).await,
        }
        if !ends_itself {
            faults.clear_everything();
        }
        world.until_connected(0, true).await;
        created.until("running", tests::runs).await;
    }
    let active = faults.active();
    assert_eq!((active.faults.len(), active.past.len()), (0, rows().len()));
}

#[tokio::test]
async fn skewed_clock_shifts_the_heartbeats_of_a_node() {
    let world = World::with(Setup::default()).await;
    world.until_ready().await;
    let fault = conditions(json!({"clockSkew": "1h"}));
    world
        .cloud()
        .faults()
        .add(&FaultTarget::All, fault)
        .unwrap();
    let leases = Api::<Lease>::namespaced(world.client(), "kube-node-lease");
    eventually("a heartbeat from the future", async || {
        let lease = leases
            .get("edge-1")
            .await
            .map_err(|error| error.to_string())?;
        let renewed = lease.spec.and_then(|spec| spec.renew_time);
        let ahead = renewed.map(|time| time.0.duration_since(Timestamp::now()).as_mins());
        match ahead {
            Some(50..) => Ok(()),
            ahead => Err(format!("{ahead:?} minutes ahead")),
        }
    })
    .await;
}
