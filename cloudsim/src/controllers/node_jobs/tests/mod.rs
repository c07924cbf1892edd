//! Jobs of an API in memory, with nodes that answer as they are told.

mod messages;
mod restarts;
mod world;

use std::{pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::api::{WatchEvent, WatchParams};
use objectstore::MemoryStore;
use parking_lot::Mutex;
use serde_json::json;
use testkit::{eventually, until};
use tokio_util::sync::CancellationToken;
use wire::{Header, node_job::Action};

use self::world::{Behaviour, UPGRADE, World, phases, upgrade};

#[tokio::test]
async fn each_wanted_node_has_an_entry_with_its_reason() {
    let world = World::start(&MemoryStore::new(), true);
    // events of nodes and jobs are in this namespace
    let namespace = json!({"metadata": {"name": "default"}});
    world.create("Namespace", namespace).await;
    world.node("edge-1", true, true).await;
    world.node("away", true, false).await;
    world.node("cloud", false, true).await;
    world.connect("edge-1", Behaviour::Succeeds);
    let names = json!({"nodeNames": ["edge-1", "away", "cloud", "nobody", "edge-1"]});
    world.create(UPGRADE, upgrade("names", names)).await;
    let status = world
        .wait(
            UPGRADE,
            "names",
            "Failure: Successful Failure Failure Failure",
        )
        .await;
    let reasons: Vec<_> = status["nodeStatus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["reason"].as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            None,
            Some("the node is not ready"),
            Some("the node is not an edge node"),
            Some("the node does not exist")
        ]
    );
    assert_eq!(
        status["reason"],
        "3 of 4 nodes failed, more than failureTolerate 0.1"
    );
    assert_eq!(status["conditions"][0]["type"], "Failed");
    let first = &status["nodeStatus"][0];
    let actions: Vec<_> = first["actionFlow"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["action"].as_str().unwrap())
        .collect();
    assert_eq!(
        actions,
        ["Check", "WaitingConfirmation", "BackUp", "Upgrade"]
    );
    assert_eq!(
        (&first["historicVersion"], &first["currentVersion"]),
        (&json!("v1.0.0"), &json!("v1.23.0"))
    );

    let labels = json!({"labelSelector": {"matchLabels": {"site": "a"}}});
    world.create(UPGRADE, upgrade("labels", labels)).await;
    let status = world
        .wait(UPGRADE, "labels", "Failure: Failure Successful")
        .await;
    assert_eq!(status["nodeStatus"][0]["nodeName"], "away");

    // a job that selects no node keeps its reason
    for (name, spec, why) in [
        (
            "none",
            json!({}),
            "spec.nodeNames: exactly one of nodeNames and labelSelector is required",
        ),
        (
            "both",
            json!({"nodeNames": ["edge-1"], "labelSelector": {}}),
            "spec.nodeNames: exactly one of nodeNames and labelSelector is required",
        ),
        (
            "nobody",
            json!({"labelSelector": {"matchLabels": {"site": "b"}}}),
            "no node has the labels of labelSelector",
        ),
        (
            "half",
            json!({"nodeNames": ["edge-1"], "failureTolerate": "abc"}),
            "spec.failureTolerate: must be a number from 0 to 1, for example \"0.1\"",
        ),
        (
            "shell",
            json!({"nodeNames": ["edge-1"], "image": "x/y;z", "checkItems": ["gpu"]}),
            "spec.checkItems: \"gpu\" is unknown; use cpu, mem or disk; spec.image: must be the name of an image with at least one slash, \
             for example kubeedge/installation-package",
        ),
    ] {
        world.create(UPGRADE, upgrade(name, spec)).await;
        let status = world.wait(UPGRADE, name, "Failure: ").await;
        assert_eq!(status["reason"], why);
        assert_eq!(status["conditions"][0]["message"], why);
        world.wait_event("Failed", why).await;
    }
    check_events(&world).await;
}

#[tokio::test]
async fn a_job_that_is_changed_ends() {
    let world = World::start(&MemoryStore::new(), true);
    let namespace = json!({"metadata": {"name": "default"}});
    world.create("Namespace", namespace).await;
    for node in ["edge-1", "edge-2"] {
        world.node(node, true, true).await;
        world.connect(node, Behaviour::Stops);
    }
    let spec = json!({"nodeNames": ["edge-1", "edge-2"]});
    world.create(UPGRADE, upgrade("up", spec)).await;
    let wanted = "InProgress: InProgress Pending";
    world.wait(UPGRADE, "up", wanted).await;
    let change = json!({"spec": {"version": "v9.9.9"}});
    let patch = kube::api::Patch::Merge(&change);
    let api = world.api(UPGRADE);
    let params = kube::api::PatchParams::default();
    api.patch("up", &params, &patch).await.unwrap();
    let status = world.wait(UPGRADE, "up", "Failure: Failure Failure").await;
    let why = "spec: was changed after the job was created; delete the job and create it again";
    assert_eq!(
        (&status["reason"], &status["nodeStatus"][1]["reason"]),
        (&json!(why), &json!(why))
    );
    world.wait_event("Failed", why).await;
}

/// Checks the events of a node that cannot take part, and of one that reports a failure.
async fn check_events(world: &World) {
    world.node("full", true, true).await;
    world.connect("full", Behaviour::Fails(Action::Check));
    let names = json!({"nodeNames": ["full"]});
    world.create(UPGRADE, upgrade("full", names)).await;
    for message in [
        "node cloud: the node is not an edge node",
        "node full: Check: no space",
    ] {
        world.wait_event("NodeFailed", message).await;
    }
}

#[tokio::test]
async fn jobs_that_a_node_cannot_take_yet_wait_in_the_cloud() {
    let world = World::start(&MemoryStore::new(), true);
    world.node("edge-1", true, true).await;
    world.connect("edge-1", Behaviour::Silent);
    let all: Vec<String> = (0..40).map(|number| format!("up-{number}")).collect();
    for name in &all {
        let spec = json!({"nodeNames": ["edge-1"]});
        world.create(UPGRADE, upgrade(name, spec)).await;
    }
    until("the node has all that it takes", || {
        world.count_sent("Check") == 16
    })
    .await;
    let mut at_work = 0;
    for name in &all {
        match phases(&world.status(UPGRADE, name).await).as_str() {
            "InProgress: InProgress" => at_work += 1,
            // not chosen yet
            "InProgress: Pending" | "Init: Pending" | ": " => {}
            other => panic!("{name}: {other}"),
        }
    }
    assert_eq!(at_work, 16);
    world.connect("edge-1", Behaviour::Succeeds);
    for name in &all {
        world.wait(UPGRADE, name, "Completed: Successful").await;
    }
}

#[tokio::test]
async fn a_node_whose_earlier_reports_were_lost_repeats_them_once() {
    let world = World::start(&MemoryStore::new(), true);
    world.node("edge-1", true, true).await;
    world.connect("edge-1", Behaviour::Silent);
    let spec = json!({"nodeNames": ["edge-1"]});
    world.create(UPGRADE, upgrade("up", spec)).await;
    until("the first message", || world.count_sent("Check") == 1).await;
    let before = world.status(UPGRADE, "up").await;
    let report = |action| world.report("edge-1", "nodeupgradejob", "up", action, true);
    report("Upgrade").await;
    until("the question", || world.count_sent("Check") == 2).await;
    assert_eq!(world.status(UPGRADE, "up").await, before);
    report("Check").await;
    report("Upgrade").await;
    world.wait(UPGRADE, "up", "Completed: Successful").await;
    assert_eq!(world.count_sent("Check"), 2);
}

#[tokio::test]
async fn a_job_fails_if_more_nodes_fail_than_it_tolerates() {
    let world = World::start(&MemoryStore::new(), true);
    let names: Vec<String> = (0..10).map(|number| format!("edge-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        world.node(name, true, true).await;
        let fails = matches!(number, 0 | 1);
        world.connect(
            name,
            if fails {
                Behaviour::Fails(Action::Pull)
            } else {
                Behaviour::Succeeds
            },
        );
    }
    for (name, nodes, tolerate, ends) in [
        ("a", vec![0, 2, 3], Some("0.33"), "Completed"),
        ("b", vec![0, 2, 3], Some("0.3"), "Failure"),
        ("c", vec![0, 2, 3, 4, 5, 6, 7, 8, 9, 1], None, "Failure"),
        (
            "d",
            vec![0, 2, 3, 4, 5, 6, 7, 8, 9, 1],
            Some("0.2"),
            "Completed",
        ),
        ("e", vec![0, 1], Some("1"), "Completed"),
        ("f", vec![2], Some("0"), "Completed"),
    ] {
        let nodes: Vec<&str> = nodes.iter().map(|number| names[*number].as_str()).collect();
        let mut template = json!({"images": ["a/b:1"], "nodeNames": nodes, "concurrency": 10});
        if let Some(tolerate) = tolerate {
            template["failureTolerate"] = json!(tolerate);
        }
        let job = json!({"metadata": {"name": name}, "spec": {"imagePrePullTemplate": template}});
        world.create("ImagePrePullJob", job).await;
        let status = eventually(name, async || {
            let status = world.status("ImagePrePullJob", name).await;
            if matches!(status["phase"].as_str(), Some("Completed" | "Failure")) {
                Ok(status)
            } else {
                Err(phases(&status))
            }
        })
        .await;
        assert_eq!(status["phase"], ends, "{name}: {status}");
    }
    let status = world.status("ImagePrePullJob", "a").await;
    assert_eq!(status["nodeStatus"][0]["reason"], "Pull: no space");
    assert_eq!(status["nodeStatus"][1]["imageStatus"][0]["image"], "a/b:1");
}

#[tokio::test]
async fn a_silent_node_frees_its_place_and_a_late_one_is_still_counted() {
    let world = World::start(&MemoryStore::new(), true);
    for name in ["edge-1", "edge-2", "edge-3", "edge-4", "edge-5"] {
        world.node(name, true, true).await;
        let behaviour = match name {
            "edge-2" => Behaviour::Silent,
            "edge-3" => Behaviour::Late(Duration::from_millis(700)),
            "edge-4" => Behaviour::Fails(Action::Update),
            _ => Behaviour::Succeeds,
        };
        world.connect(name, behaviour);
    }
    let spec = json!({"nodeNames": ["edge-1", "edge-2", "edge-3", "edge-4", "edge-5"], "concurrency": 2, "timeoutSeconds": 5,
        "updateFields": {"modules.edgeStream.enable": "true"}, "failureTolerate": "0.4"});
    world
        .create(
            "ConfigUpdateJob",
            json!({"metadata": {"name": "node-1"}, "spec": spec}),
        )
        .await;
    let (stop, most) = (CancellationToken::new(), Arc::new(Mutex::new(0)));
    let (watching, seen, api) = (
        stop.clone(),
        Arc::clone(&most),
        world.api("ConfigUpdateJob"),
    );
    let watch = tokio::spawn(async move {
        let changes = api.watch(&WatchParams::default(), "0").await.unwrap();
        let (mut changes, mut had_ended) = (pin!(changes), Vec::new());
        while let Some(Some(change)) = watching.run_until_cancelled(changes.next()).await {
            let (WatchEvent::Added(job) | WatchEvent::Modified(job)) = change.unwrap() else {
                continue;
            };
            let now = phases(&job.data["status"]);
            let at_work = now.matches("InProgress").count();
            // a node that has ended begins no second time
            let is_end = |phase: &str| !matches!(phase, "Pending" | "InProgress");
            let mut ended = had_ended.iter().zip(now.split(' ').skip(1));
            assert!(
                ended.all(|(before, phase)| !before || is_end(phase)),
                "{now}"
            );
            had_ended = now.split(' ').skip(1).map(is_end).collect();
            // the job itself is in this phase as well
            let mut most = seen.lock();
            *most = (*most).max(at_work.saturating_sub(1));
        }
    });
    let status = world
        .wait(
            "ConfigUpdateJob",
            "node-1",
            "Completed: Successful Unknown Successful Failure Successful",
        )
        .await;
    stop.cancel();
    watch.await.unwrap();
    assert!(*most.lock() <= 2);
    let reason = |number: usize| {
        status["nodeStatus"][number]["reason"]
            .as_str()
            .unwrap_or_default()
    };
    assert!(
        reason(1).starts_with("the node has not reported anything within 5 s"),
        "{}",
        reason(1)
    );
    assert_eq!(reason(3), "Update: no space");

    // the node's final report corrects its own phase; the job has ended
    let path = "operations.kubeedge.io/v1alpha2/configupdatejob/node-1/node/edge-2";
    let late =
        json!({"action": "Update", "succ": true, "finishTime": "", "reason": "", "extend": ""});
    world
        .jobs
        .report("edge-2", &Header::default(), &path.into(), late)
        .await;
    let status = world.status("ConfigUpdateJob", "node-1").await;
    assert_eq!(
        phases(&status),
        "Completed: Successful Successful Successful Failure Successful"
    );
}

#[tokio::test]
async fn nodes_that_wait_for_their_turn_do_not_time_out() {
    let world = World::start(&MemoryStore::new(), true);
    let names: Vec<String> = (0..6).map(|number| format!("edge-{number}")).collect();
    for name in &names {
        world.node(name, true, true).await;
        // each of two actions
        world.connect(name, Behaviour::Late(Duration::from_millis(500)));
    }
    let template =
        json!({"images": ["a/b:1"], "nodeNames": names, "concurrency": 1, "timeoutSeconds": 5});
    let job = json!({"metadata": {"name": "long"}, "spec": {"imagePrePullTemplate": template}});
    world.create("ImagePrePullJob", job).await;
    let wanted = format!("Completed:{}", " Successful".repeat(names.len()));
    world.wait("ImagePrePullJob", "long", &wanted).await;
}

#[tokio::test]
async fn foreign_and_repeated_reports_change_nothing() {
    let world = World::start(&MemoryStore::new(), false);
    world.node("edge-1", true, true).await;
    world.node("edge-2", true, true).await;
    world.connect("edge-1", Behaviour::Stops);
    world
        .create(
            UPGRADE,
            upgrade("up", json!({"nodeNames": ["edge-1", "edge-2"]})),
        )
        .await;
    world.wait_report(UPGRADE, "up", 0).await;
    let before = world.status(UPGRADE, "up").await;
    for (node, kind, job, action) in [
        // another node's name, an unknown job, an unknown action, an action of other jobs, one again
        ("edge-2", "nodeupgradejob", "up", "BackUp"),
        ("edge-1", "nodeupgradejob", "other", "BackUp"),
        ("edge-1", "nodeupgradejob", "up", "Explode"),
        ("edge-1", "nodeupgradejob", "up", "Pull"),
        ("edge-1", "configupdatejob", "up", "Check"),
        ("edge-1", "nodeupgradejob", "up", "Check"),
        ("edge-1", "nodeupgradejob", "up/x", "BackUp"),
    ] {
        world.report(node, kind, job, action, true).await;
        assert_eq!(
            world.status(UPGRADE, "up").await,
            before,
            "{node} {kind} {job} {action}"
        );
    }
    // a report of a node that has not begun
    let path = "operations.kubeedge.io/v1alpha2/nodeupgradejob/up/node/edge-2";
    let done = json!({"action": "Upgrade", "succ": true});
    world
        .jobs
        .report("edge-2", &Header::default(), &path.into(), done)
        .await;
    assert_eq!(world.status(UPGRADE, "up").await, before);
    // the end counts once, and the rollback of a failed upgrade is a failure
    world
        .report("edge-1", "nodeupgradejob", "up", "Upgrade", false)
        .await;
    world
        .report("edge-1", "nodeupgradejob", "up", "RollBack", true)
        .await;
    world
        .report("edge-1", "nodeupgradejob", "up", "RollBack", true)
        .await;
    let status = world
        .wait(UPGRADE, "up", "InProgress: Failure InProgress")
        .await;
    assert_eq!(status["nodeStatus"][0]["reason"], "Upgrade failed");
}

#[tokio::test]
async fn the_secret_of_a_pull_is_readable_while_the_job_is_at_work() {
    let world = World::start(&MemoryStore::new(), true);
    world.node("edge-1", true, true).await;
    let template =
        json!({"images": ["a/b:1"], "nodeNames": ["edge-1"], "imageSecrets": "default/registry"});
    let job = json!({"metadata": {"name": "pull"}, "spec": {"imagePrePullTemplate": template}});
    world.create("ImagePrePullJob", job).await;
    until("the job is at work", || {
        world.jobs.has_secret("edge-1", "default", "registry")
    })
    .await;
    assert!(!world.jobs.has_secret("edge-1", "default", "other"));
    assert!(!world.jobs.has_secret("edge-2", "default", "registry"));
    world.connect("edge-1", Behaviour::Succeeds);
    world
        .wait("ImagePrePullJob", "pull", "Completed: Successful")
        .await;
    until("the job has ended", || {
        !world.jobs.has_secret("edge-1", "default", "registry")
    })
    .await;
}
