//! Disconnects of real sockets in the middle of everything: nothing is lost, nothing is done twice, nothing grows.
//! `OUTRIGGER_REAL_DISCONNECTS=1000` makes so many of them.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use cloudsim::Addresses;
use componentbase::Link;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    runtime::watcher::{self, Event},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::at;
use tests::{
    Setup, TcpRelay, World, eventually,
    manifests::{config_map, pod},
    within,
};
use tokio::{runtime::Handle, task::JoinSet, time::Instant};

/// Disconnects in the suite.
const DISCONNECTS: u64 = 12;
/// So many pods come and go meanwhile.
const PODS: u64 = 6;

/// What a client of the cloud is shown of pods: each state, without what every write changes.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<BTreeMap<String, Vec<Value>>>>);

impl Shown {
    async fn follow(self, client: Client) {
        let mut events = pin!(watcher::watcher(
            Api::<Pod>::all(client),
            watcher::Config::default()
        ));
        while let Some(event) = events.next().await {
            let Ok(Event::Apply(mut pod)) = event else {
                continue;
            };
            let uid = pod.uid().unwrap_or_default();
            pod.metadata.resource_version = None;
            pod.metadata.managed_fields = None;
            self.0.lock().entry(uid).or_default().push(json!(pod));
        }
    }

    /// States that were shown twice in a row.
    fn twice(&self) -> Vec<Value> {
        let shown = self.0.lock();
        let pairs = shown.values().flat_map(|states| states.windows(2));
        pairs
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| pair[0].clone())
            .collect()
    }
}

#[tokio::test]
async fn disconnects_lose_nothing_and_do_nothing_twice() {
    let wanted = std::env::var("OUTRIGGER_REAL_DISCONNECTS");
    let rounds: u64 = wanted.map_or(DISCONNECTS, |text| text.parse().unwrap());
    let mut world = World::with(Setup {
        nodes: 0,
        ..Setup::default()
    })
    .await;
    let addresses = world.cloud().addresses();
    let relay = TcpRelay::to(addresses.websocket).await;
    let addresses = Addresses {
        websocket: relay.address(),
        ..addresses
    };
    let mut node = world
        .prepare_at(addresses, "edge-1", &Setup::default())
        .await;
    node.start().await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    let map = world
        .apply(&config_map("settings", json!({"round": "0"})))
        .await;
    let mut manifest = pod("steady", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let steady = world.run(&manifest).await;
    let ids = world.running(0);
    let (shown, mut watching) = (Shown::default(), JoinSet::new());
    watching.spawn(shown.clone().follow(world.client()));
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut link = world.nodes[0].link().unwrap();
    let mut made = 0;
    for round in 1..=rounds {
        map.merge(json!({"data": {"round": round.to_string()}}))
            .await;
        if round % (rounds / PODS).max(1) == 0 {
            made += 1;
            world
                .apply(&pod(&format!("pod-{made}"), Some("edge-1")))
                .await;
        }
        at(Instant::now() + Duration::from_millis(round * 7 % 23)).await;
        let Link::Up(number) = *link.borrow_and_update() else {
            panic!("connected before")
        };
        relay.cut_connections();
        within(
            "the end of the connection",
            link.wait_for(|link| *link == Link::Down),
        )
        .await
        .unwrap();
        relay.through();
        let again = link.wait_for(|link| matches!(link, Link::Up(next) if *next > number));
        within("the connection", again).await.unwrap();
    }
    for number in 1..=made {
        world
            .pod(&format!("pod-{number}"))
            .until("running", tests::runs)
            .await;
    }
    world
        .until_file(0, &steady, "/v/round", &rounds.to_string())
        .await;
    let place = (tests::uid(&steady).to_owned(), "main".to_owned());
    assert_eq!(
        world.running(0).get(&place),
        ids.get(&place),
        "the steady pod runs in its old container"
    );
    let created = world.nodes[0].runtime.calls("CreateContainer");
    assert_eq!(created, made + 1, "one container for each pod");
    assert_eq!(shown.twice(), Vec::<Value>::new());
    for number in 1..=made {
        world.pod(&format!("pod-{number}")).delete(None).await;
        world.pod(&format!("pod-{number}")).until_gone().await;
    }
    // a cloud before a cluster keeps connections to its API for the next call, with tasks at both ends: fewer than there were rounds
    let kept = if Setup::default().backed { 16 } else { 0 };
    eventually("as many tasks as before", async || match tasks() {
        now if now <= before + kept => Ok(()),
        now => Err((before, now)),
    })
    .await;
}
