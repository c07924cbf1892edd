//! Jobs of an API in memory, with nodes that answer as they are told.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
};
use objectstore::MemoryStore;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::{eventually, until};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wire::{
    Header, Message,
    node_job::{Action, JobPath, Next},
};

use super::*;
use crate::{controllers::test_api::TestApi, delivery::Reply};

/// How a node answers the first action of a job.
#[derive(Clone, Copy)]
enum Behaviour {
    Succeeds,
    Fails(Action),
    /// Reports nothing.
    Silent,
    /// Reports after this time.
    Late(Duration),
    /// Reports nothing but the first action.
    Stops,
}

/// A cloud of jobs, with what its nodes were sent.
struct World {
    api: TestApi,
    jobs: NodeJobs,
    sent: Arc<Mutex<Vec<Message>>>,
    sessions: Mutex<BTreeMap<String, OpenNode>>,
}

impl World {
    /// Starts a cloud over a store, with agents of ours or others.
    fn start(store: &Arc<MemoryStore>, is_own: bool) -> Self {
        let api = TestApi::new(store);
        api.reflectors.start("taskmanager", run);
        let jobs = NodeJobs::new(
            api.client.clone(),
            api.reflectors.shared.events.clone(),
            move |_| is_own,
        );
        tokio::spawn(jobs.clone().run(api.stop.child_token()));
        Self {
            api,
            jobs,
            sent: Arc::default(),
            sessions: Mutex::default(),
        }
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let api_version = match kind {
            "Node" | "Namespace" => "v1",
            _ => "operations.kubeedge.io/v1alpha2",
        };
        self.api.objects(api_version, kind, "")
    }

    async fn create(&self, kind: &str, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    /// Creates a Node: ready, not ready, or not of the edge.
    async fn node(&self, name: &str, is_edge: bool, is_ready: bool) {
        let labels = if is_edge {
            json!({"node-role.kubernetes.io/edge": "", "site": "a"})
        } else {
            json!({})
        };
        let ready = if is_ready { "True" } else { "Unknown" };
        let node = json!({
            "metadata": {"name": name, "labels": labels},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        self.create("Node", node.clone()).await;
        let patch = kube::api::Patch::Merge(&node);
        self.api("Node")
            .patch_status(name, &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Connects a node, which answers in this way.
    fn connect(&self, node: &str, behaviour: Behaviour) {
        let (replies, mut received) = mpsc::channel(8);
        let open = self.jobs.open(node, replies);
        self.sessions.lock().insert(node.to_owned(), open);
        let (jobs, sent, node) = (self.jobs.clone(), Arc::clone(&self.sent), node.to_owned());
        tokio::spawn(async move {
            while let Some(Reply::Direct(message)) = received.recv().await {
                sent.lock().push(message.clone());
                let path = JobPath::parse(message.route.resource.as_str()).unwrap();
                assert_eq!(path.node, node);
                if message.route.operation.as_str() == "Check" {
                    answer(&jobs, &message, path, behaviour).await;
                }
            }
        });
    }

    fn disconnect(&self, node: &str) {
        self.sessions.lock().remove(node);
    }

    /// Reports an action of a node.
    async fn report(&self, node: &str, kind: &str, job: &str, action: &str, succeeds: bool) {
        let path = format!("operations.kubeedge.io/v1alpha2/{kind}/{job}/node/edge-1");
        let status = json!({"action": action, "succ": succeeds, "finishTime": "", "reason": "", "extend": ""});
        self.jobs
            .report(node, &Header::default(), &path.as_str().into(), status)
            .await;
    }

    async fn status(&self, kind: &str, name: &str) -> Value {
        let job = self.api(kind).get(name).await.unwrap();
        job.data.get("status").cloned().unwrap_or_default()
    }

    /// Waits for the phases of a job and its nodes: `Completed: Successful Failure`.
    async fn wait(&self, kind: &str, name: &str, wanted: &str) -> Value {
        eventually(wanted, async || {
            let status = self.status(kind, name).await;
            let found = phases(&status);
            if found == wanted {
                Ok(status)
            } else {
                Err(found)
            }
        })
        .await
    }

    /// Counts the messages that nodes were sent with this operation.
    fn count_sent(&self, operation: &str) -> usize {
        let sent = self.sent.lock();
        sent.iter()
            .filter(|message| message.route.operation.as_str() == operation)
            .count()
    }
}

fn phases(status: &Value) -> String {
    let nodes = status["nodeStatus"].as_array().cloned().unwrap_or_default();
    let each: Vec<&str> = nodes
        .iter()
        .filter_map(|node| node["phase"].as_str())
        .collect();
    format!(
        "{}: {}",
        status["phase"].as_str().unwrap_or_default(),
        each.join(" ")
    )
}

/// Reports every action of a job on a node.
async fn answer(jobs: &NodeJobs, message: &Message, path: JobPath, behaviour: Behaviour) {
    let mut at = Action::Check;
    loop {
        let fails = match behaviour {
            Behaviour::Silent => return,
            Behaviour::Late(time) => {
                testkit::at(tokio::time::Instant::now() + time).await;
                false
            }
            Behaviour::Fails(action) => action == at,
            Behaviour::Succeeds | Behaviour::Stops => false,
        };
        let extend = match at {
            Action::BackUp => ",v1.0.0",
            Action::Upgrade => "v1.0.0,v1.23.0",
            Action::Pull => r#"[{"image":"a/b:1","status":"True","reason":""}]"#,
            _ => "",
        };
        let reason = if fails { "no space" } else { "" };
        let status = json!({"action": at.as_str(), "succ": !fails, "finishTime": "2026-07-25T17:20:01Z", "reason": reason, "extend": extend});
        let header = Header {
            parent_msg_id: message.header.msg_id.clone(),
            ..Header::default()
        };
        jobs.report(
            &path.node,
            &header,
            &path.to_string().as_str().into(),
            status,
        )
        .await;
        match path.kind.next(at, !fails).unwrap() {
            Next::Action(_) if matches!(behaviour, Behaviour::Stops) => return,
            Next::Action(next) => at = next,
            Next::End(_) => return,
        }
    }
}

fn upgrade(name: &str, mut spec: Value) -> Value {
    spec["version"] = json!("v1.23.0");
    json!({"metadata": {"name": name}, "spec": spec})
}

const UPGRADE: &str = "NodeUpgradeJob";

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
            "neither nodeNames nor labelSelector is set; set one of them",
        ),
        (
            "both",
            json!({"nodeNames": ["edge-1"], "labelSelector": {}}),
            "both nodeNames and labelSelector are set; set one of them",
        ),
        (
            "nobody",
            json!({"labelSelector": {"matchLabels": {"site": "b"}}}),
            "no node has the labels of labelSelector",
        ),
        (
            "half",
            json!({"nodeNames": ["edge-1"], "failureTolerate": "abc"}),
            "failureTolerate \"abc\" is not a number from 0 to 1",
        ),
    ] {
        world.create(UPGRADE, upgrade(name, spec)).await;
        let status = world.wait(UPGRADE, name, "Failure: ").await;
        assert_eq!(status["reason"], why);
    }
    check_events(&world).await;
}

/// Checks the events of a node that cannot take part, and of one that reports a failure.
async fn check_events(world: &World) {
    world.node("full", true, true).await;
    world.connect("full", Behaviour::Fails(Action::Check));
    let names = json!({"nodeNames": ["full"]});
    world.create(UPGRADE, upgrade("full", names)).await;
    let events = Api::<Event>::all(world.api.client.clone());
    for message in [
        "node cloud: the node is not an edge node",
        "node full: Check: no space",
    ] {
        eventually(message, async || {
            let all = events.list(&ListParams::default()).await.unwrap();
            let found = all.items.iter().any(|event| {
                event.reason.as_deref() == Some("NodeFailed")
                    && event.message.as_deref() == Some(message)
            });
            if found { Ok(()) } else { Err(all.items.len()) }
        })
        .await;
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
    let spec = json!({"nodeNames": ["edge-1", "edge-2", "edge-3", "edge-4", "edge-5"], "concurrency": 2, "timeoutSeconds": 2,
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
        while !watching.is_cancelled() {
            let job = api.get("node-1").await.unwrap();
            let at_work = phases(&job.data["status"]).matches("InProgress").count();
            // the job itself is in this phase as well
            {
                let mut most = seen.lock();
                *most = (*most).max(at_work.saturating_sub(1));
            }
            tokio::task::yield_now().await;
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
        reason(1).starts_with("the node has not reported anything within 2 s"),
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
    eventually("the first report", async || {
        let status = world.status(UPGRADE, "up").await;
        if status["nodeStatus"][0]["actionFlow"].is_array() {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;
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
        eventually("the first report of the second node", async || {
            let status = world.status(UPGRADE, "up").await;
            if status["nodeStatus"][1]["actionFlow"].is_array() {
                Ok(())
            } else {
                Err(status)
            }
        })
        .await;
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
