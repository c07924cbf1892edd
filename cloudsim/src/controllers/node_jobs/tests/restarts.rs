//! Jobs that continue, or end, when the cloud restarts, a node reconnects, or the job is created again.

use kube::{ResourceExt, api::DeleteParams};
use objectstore::MemoryStore;
use serde_json::json;
use testkit::until;
use wire::{Header, node_job::JobPath};

use super::world::{Behaviour, UPGRADE, World, answer, phases, upgrade};

#[tokio::test]
async fn a_job_of_the_same_name_is_another_job() {
    let world = World::start(&MemoryStore::new(), true);
    world.node("edge-1", true, true).await;
    world.connect("edge-1", Behaviour::Silent);
    let job = || upgrade("up", json!({"nodeNames": ["edge-1"]}));
    world.create(UPGRADE, job()).await;
    until("the first message", || world.count_sent("Check") == 1).await;
    world
        .api(UPGRADE)
        .delete("up", &DeleteParams::default())
        .await
        .unwrap();
    until("the cancellation", || world.count_sent("Cancel") == 1).await;
    world.create(UPGRADE, job()).await;
    until("the second message", || world.count_sent("Check") == 2).await;
    let first = world.sent.lock()[0].clone();
    let path = JobPath::parse(first.route.resource.as_str()).unwrap();
    answer(&world.jobs, &first, path, Behaviour::Succeeds).await;
    assert_eq!(
        phases(&world.status(UPGRADE, "up").await),
        "InProgress: InProgress"
    );
}

#[tokio::test]
async fn jobs_go_on_after_a_restart_of_the_cloud_and_of_connections() {
    for is_own in [true, false] {
        let store = MemoryStore::new();
        let names = ["edge-1", "edge-2", "edge-3", "edge-4", "edge-5"];
        let world = World::start(&store, is_own);
        for name in names {
            world.node(name, true, true).await;
        }
        world.connect("edge-1", Behaviour::Succeeds);
        world.connect("edge-2", Behaviour::Stops);
        world
            .create(
                UPGRADE,
                upgrade("up", json!({"nodeNames": names, "concurrency": 1})),
            )
            .await;
        world
            .wait(
                UPGRADE,
                "up",
                "InProgress: Successful InProgress Pending Pending Pending",
            )
            .await;
        world.wait_report(UPGRADE, "up", 1).await;
        drop(world);

        let world = World::start(&store, is_own);
        for name in names {
            world.connect(name, Behaviour::Succeeds);
        }
        if !is_own {
            // an agent that is not ours is not asked again once it has reported; it goes on by itself
            until("all jobs are read", || world.jobs.knows("edge-2")).await;
            assert_eq!(world.count_sent("Check"), 0);
            let path = "operations.kubeedge.io/v1alpha2/nodeupgradejob/up/node/edge-2";
            let done = json!({"action": "Upgrade", "succ": true});
            world
                .jobs
                .report("edge-2", &Header::default(), &path.into(), done)
                .await;
        }
        world
            .wait(
                UPGRADE,
                "up",
                "Completed: Successful Successful Successful Successful Successful",
            )
            .await;
        assert_eq!(world.count_sent("Check"), if is_own { 4 } else { 3 });
    }
}

#[tokio::test]
async fn a_node_that_reconnects_is_sent_its_action_again() {
    let world = World::start(&MemoryStore::new(), false);
    world.node("edge-1", true, true).await;
    world.connect("edge-1", Behaviour::Silent);
    world
        .create(UPGRADE, upgrade("up", json!({"nodeNames": ["edge-1"]})))
        .await;
    until("the first message", || world.count_sent("Check") == 1).await;
    world.disconnect("edge-1");
    world.connect("edge-1", Behaviour::Succeeds);
    world.wait(UPGRADE, "up", "Completed: Successful").await;
    let sent = world.sent.lock().clone();
    assert_eq!(sent.len(), 2);
    let spec = json!({"version": "v1.23.0", "nodeNames": ["edge-1"], "imageDigestGatter": null,
        "concurrency": 1, "timeoutSeconds": 300, "failureTolerate": "0.1"});
    assert_eq!(sent[0].content, spec);
    assert_eq!(sent[0].route.source.as_str(), "taskmanager");
    assert_eq!(
        sent[0].header.msg_id,
        world.api(UPGRADE).get("up").await.unwrap().uid().unwrap()
    );
}

#[tokio::test]
async fn no_report_is_lost_although_many_nodes_report_at_once() {
    const NODES: usize = 30;
    let world = World::start(&MemoryStore::new(), false);
    let names: Vec<String> = (0..NODES).map(|number| format!("n-{number}")).collect();
    for name in &names {
        world.node(name, true, true).await;
        world.connect(name, Behaviour::Succeeds);
    }
    let spec = json!({"nodeNames": names, "concurrency": NODES});
    world.create(UPGRADE, upgrade("all", spec)).await;
    let ended = format!("Completed:{}", " Successful".repeat(NODES));
    world.wait(UPGRADE, "all", &ended).await;
}
