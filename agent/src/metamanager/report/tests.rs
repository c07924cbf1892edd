//! The reporter with a cloud that refuses its reports.

use std::sync::atomic::{AtomicUsize, Ordering};

use objectstore::MemoryStore;
use serde_json::{Value, json};
use testkit::{WAIT_TIMEOUT, eventually_within};
use tokio::time::sleep;

use super::*;
use crate::{
    edgehub::fake_cloud::{FakeCloud, fake_cloud},
    metamanager::{
        desired::{EntryChange, StoreChange},
        record::Record,
    },
};

/// Changes of the pod, one each second.
const CHANGES: usize = 10;
/// How long no report follows after a mirror was refused.
const MIRROR_REST_PERIOD: Duration = Duration::from_secs(30);
/// The number of such periods for which the cloud is watched after the last change.
const MIRROR_REST_PERIODS: usize = 10;

fn pod(change: usize) -> Value {
    let annotations =
        json!({"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "h"});
    json!({
        "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations},
        "spec": {"nodeName": change.to_string()},
    })
}

/// Refuses every mirror, counts them, and keeps the last reported state of the pod.
async fn refuse(line: FakeCloud, asked: Arc<AtomicUsize>, last: Arc<Mutex<Value>>) {
    loop {
        let message = line.next().await;
        *last.lock() = message.content_json().unwrap()["spec"]["nodeName"].clone();
        asked.fetch_add(1, Ordering::Relaxed);
        let path = message.route.resource.clone();
        let answer = Answer::Failed(json!({"code": 403, "message": "no pods here"}));
        let id = message.header.msg_id;
        line.say(
            Downstream::Answer { path, answer }
                .into_message(1)
                .answering(&id),
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_pod_do_not_shorten_the_retry_delay() {
    let desired = Desired::new(MemoryStore::new(), "edge-1".into());
    let (hub, _inbound, mut line) = fake_cloud();
    let node = Key::new(resource(&ResourceType::Node), "", "edge-1");
    let known = |_: &_| EntryChange {
        object: StoreChange::Keep,
        record: StoreChange::Set(Record::of("n", 1)),
    };
    desired.change(&node, known).await.unwrap();
    line.up();
    let (asked, last) = (
        Arc::<AtomicUsize>::default(),
        Arc::<Mutex<Value>>::default(),
    );
    tokio::spawn(refuse(line, asked.clone(), last.clone()));
    tokio::spawn(Reporter::new(desired.clone(), hub, "edge-1".into(), None).run());
    let key = Key::new(resource(&ResourceType::Pod), "ns", "p");
    for change in 1..=CHANGES {
        desired.set(&key, Some(pod(change))).await.unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(
        asked.load(Ordering::Relaxed),
        1,
        "it rests after the first time"
    );
    let rests = u32::try_from(MIRROR_REST_PERIODS).unwrap();
    sleep(MIRROR_REST_PERIOD * rests).await;
    assert_eq!(
        asked.load(Ordering::Relaxed),
        1 + MIRROR_REST_PERIODS,
        "once after each rest"
    );
    assert_eq!(*last.lock(), json!(CHANGES.to_string()), "what it is now");
}

/// Answers as a cloud with a node of this UID and revision, if any; creating one gives it the next.
async fn know_nodes(line: FakeCloud, node: Arc<Mutex<Option<u64>>>) {
    loop {
        let message = line.next().await;
        let path = message.route.resource.clone();
        let is_new = path.to_string().contains("/node/");
        let found = {
            let mut node = node.lock();
            if is_new {
                *node = Some(node.map_or(100, |number| number + 1));
            }
            *node
        };
        let response = match found {
            Some(number) => wire::ObjectResp::ok(json!({
                "metadata": {"name": "edge-1", "uid": format!("u{number}"), "resourceVersion": number.to_string()},
            })),
            None => wire::ObjectResp::failed(json!({"code": 404, "message": "no such node"})),
        };
        let answer = Downstream::Answer {
            path,
            answer: Answer::Response(response),
        };
        line.say(answer.into_message(1).answering(&message.header.msg_id))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_nodes_uid_is_taken_from_each_answer_of_the_cloud() {
    let desired = Desired::new(MemoryStore::new(), "edge-1".into());
    let (hub, _inbound, mut line) = fake_cloud();
    let key = Key::new(resource(&ResourceType::Node), "", "edge-1");
    // as EdgeD creates it before the cloud knows it
    let own = |phase: &str| json!({"kind": "Node", "metadata": {"name": "edge-1", "uid": "own"}, "status": {"phase": phase}});
    desired.set(&key, Some(own("a"))).await.unwrap();
    line.up();
    let clouds = Arc::new(Mutex::new(None));
    tokio::spawn(know_nodes(line, clouds.clone()));
    tokio::spawn(Reporter::new(desired.clone(), hub, "edge-1".into(), None).run());
    let uid = async |wanted: &str| {
        eventually_within(2 * WAIT_TIMEOUT, wanted, async || {
            let entry = desired.entry(&key).await.unwrap();
            let stored = entry.object.map(|node| node["metadata"]["uid"].clone());
            let known = entry.record.map(|record| record.uid).unwrap_or_default();
            let is_so = known == wanted && (wanted.is_empty() || stored == Some(json!(wanted)));
            if is_so { Ok(()) } else { Err((known, stored)) }
        })
        .await;
    };
    uid("u100").await;
    // another component has created it anew
    *clouds.lock() = Some(200);
    desired.set(&key, Some(own("b"))).await.unwrap();
    uid("u200").await;
    // deleted, and registered again after a while
    *clouds.lock() = None;
    desired.set(&key, Some(own("c"))).await.unwrap();
    uid("").await;
    uid("u100").await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_pod_is_repeated_at_the_configured_interval() {
    const INTERVAL: Duration = Duration::from_secs(30);
    let desired = Desired::new(MemoryStore::new(), "edge-1".into());
    let (hub, _inbound, mut line) = fake_cloud();
    let key = Key::new(resource(&ResourceType::Pod), "ns", "p");
    let pod = json!({
        "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    });
    let placed = |_: &_| EntryChange {
        object: StoreChange::Set(pod.clone()),
        record: StoreChange::Set(Record::of("u", 1)),
    };
    desired.change(&key, placed).await.unwrap();
    line.up();
    let begun = Instant::now();
    tokio::spawn(Reporter::new(desired, hub, "edge-1".into(), Some(INTERVAL)).run());
    let mut told = Vec::new();
    while told.len() < 4 {
        let message = line.next().await;
        let path = message.route.resource.clone();
        if path.as_str().contains("/podpatch/") {
            let patch = message.content_json().unwrap();
            assert_eq!(patch["status"]["phase"], "Running");
            told.push(begun.elapsed().as_secs());
        }
        let answer = Answer::Response(wire::ObjectResp::ok(json!({"metadata": {}})));
        let answer = Downstream::Answer { path, answer };
        line.say(answer.into_message(1).answering(&message.header.msg_id))
            .await;
    }
    assert_eq!(told, [0, 30, 60, 90]);
}
