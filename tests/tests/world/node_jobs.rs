//! A node job over many real agents, of which some fail, are late or say nothing, while the cloud is killed.

use std::collections::BTreeMap;

use cloudsim::faults::FaultTarget;
use edged::Signal;
use serde_json::{Value, json};
use tests::{Readings, Setup, World, within};

const JOBS: &str = "operations.kubeedge.io/v1alpha2";
/// Nodes that do what the job says.
const GOOD: usize = 47;
/// Pulls an image, which takes so long that the cloud can be killed while most nodes have not been asked.
const IMAGE: &str = "slow-400ms.sim/app:1";

/// The phase of each node of a job.
fn phases(job: &Value) -> BTreeMap<String, String> {
    let nodes = job["status"]["nodeStatus"].as_array().cloned();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let each = nodes.unwrap_or_default().into_iter();
    each.map(|node| (text(&node["nodeName"]), text(&node["phase"])))
        .collect()
}

fn count(job: &Value, phase: &str) -> usize {
    phases(job).values().filter(|one| *one == phase).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_nodes_end_exactly_as_they_did_although_the_cloud_was_killed() {
    let setup = Setup {
        nodes: GOOD,
        durable: true,
        readings: Some(Readings::default()),
        ..Setup::default()
    };
    let mut world = World::with(setup.clone()).await;
    // the last ones that are asked
    let full = Readings::default();
    full.set(Signal::MemoryAvailable, 100);
    let others = [
        ("x-full", full),
        ("y-late", Readings::default()),
        ("z-silent", Readings::default()),
    ];
    for (name, readings) in others {
        let setup = Setup {
            readings: Some(readings),
            ..setup.clone()
        };
        let mut node = world.prepare(name, &setup).await;
        node.start().await.unwrap();
        world.nodes.push(node);
    }
    within("all nodes are ready", world.until_ready()).await;
    let job = json!({"apiVersion": JOBS, "kind": "ImagePrePullJob", "metadata": {"name": "all"}, "spec": {
        "imagePrePullTemplate": {
            "labelSelector": {"matchLabels": {"node-role.kubernetes.io/edge": ""}}, "images": [IMAGE], "checkItems": ["mem"],
            "concurrency": 5, "timeoutSeconds": 12, "failureTolerate": "0.06"}}});
    world.apply(&job).await;
    let job = world.object_of_cluster(JOBS, "ImagePrePullJob", "all");
    job.until("some have pulled", |job| count(job, "Successful") > 4)
        .await;
    world.stop_cloud().await;
    world.start_cloud().await;
    let faults = world.cloud().faults();
    faults.half_open("z-silent");
    let late = serde_json::from_value(json!({"delay": "16s", "direction": "toCloud"})).unwrap();
    let target = FaultTarget::Node("y-late".to_owned());
    faults.set(&target, late).unwrap();
    let job = world.object_of_cluster(JOBS, "ImagePrePullJob", "all");
    let ended = job
        .until("ended", |job| job["status"]["conditions"].is_array())
        .await;
    let mut expected: BTreeMap<String, String> = (1..=GOOD)
        .map(|number| (format!("edge-{number}"), "Successful".to_owned()))
        .collect();
    for (node, phase) in [
        ("x-full", "Failure"),
        ("y-late", "Unknown"),
        ("z-silent", "Unknown"),
    ] {
        expected.insert(node.to_owned(), phase.to_owned());
    }
    assert_eq!(phases(&ended), expected, "{:#}", ended["status"]);
    // three of fifty have not succeeded, which is as many as may
    assert_eq!(ended["status"]["phase"], "Completed", "{ended}");
    // each node has the image, and has reported it once
    for node in ended["status"]["nodeStatus"].as_array().unwrap() {
        let actions: Vec<_> = node["actionFlow"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        let actions: Vec<_> = actions
            .iter()
            .map(|action| action["action"].as_str().unwrap())
            .collect();
        match node["phase"].as_str().unwrap() {
            // also if a report was on its way to the killed cloud
            "Successful" => assert_eq!(actions, ["Check", "Pull"], "{node}"),
            "Failure" => assert_eq!(actions, ["Check"], "{node}"),
            _ => assert!(actions.is_empty(), "{node}"),
        }
    }
    // what the late one reports afterwards is stored, and does not change how the job has ended
    expected.insert("y-late".to_owned(), "Successful".to_owned());
    let later = job
        .until("the late report is stored", |job| {
            count(job, "Unknown") == 1
        })
        .await;
    assert_eq!(
        (phases(&later), &later["status"]["phase"]),
        (expected, &json!("Completed"))
    );
}
