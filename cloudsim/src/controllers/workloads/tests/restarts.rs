//! A cloud that is started again over the same store changes nothing.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use http::{Method, Request};
use kube::{Api, Client, ResourceExt, api::ListParams, client::Body};
use kubeapi::client_of;
use objectstore::MemoryStore;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use super::{
    job, template, workload,
    world::{World, start_controllers},
};
use crate::controllers::garbage_collector::list_served;

/// Longer than every interval of a controller, on a clock that runs ahead when nothing is left to do.
const SETTLED: Duration = Duration::from_secs(120);

/// Returns a client whose lists arrive in another order at each start.
fn slow_lists(api: &kubeapi::Api, start: u64) -> Client {
    let service = api.service();
    let slow = move |request: Request<Body>| {
        let mut service = service.clone();
        async move {
            let uri = request.uri();
            let lists = request.method() == Method::GET
                && !uri.query().unwrap_or_default().contains("watch=");
            if lists {
                let mut hasher = DefaultHasher::new();
                (start, uri.path()).hash(&mut hasher);
                sleep(Duration::from_millis(hasher.finish() % 500)).await;
            }
            ServiceExt::<Request<Body>>::ready(&mut service)
                .await?
                .call(request)
                .await
        }
    };
    client_of(tower::service_fn(slow), "default")
}

/// Returns the uid and version of every object, events included, by kind, namespace and name.
async fn everything(client: &Client) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for kind in list_served(client).await.unwrap() {
        let objects: Api<kube::api::DynamicObject> = Api::all_with(client.clone(), &kind.resource);
        for object in objects
            .list_metadata(&ListParams::default())
            .await
            .unwrap()
            .items
        {
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            let key = format!(
                "{}.{} {namespace}/{name}",
                kind.resource.plural, kind.resource.group
            );
            all.insert(
                key,
                format!("{:?} {:?}", object.uid(), object.resource_version()),
            );
        }
    }
    all
}

async fn create_one_of_each(world: &World) {
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}]);
    for (kind, name, spec) in [
        ("Deployment", "web", json!({"replicas": 3})),
        ("ReplicaSet", "set", json!({"replicas": 2})),
        ("DaemonSet", "agent", json!({})),
        (
            "StatefulSet",
            "db",
            json!({"replicas": 2, "serviceName": "db"}),
        ),
        (
            "StatefulSet",
            "cache",
            json!({"replicas": 2, "serviceName": "cache"}),
        ),
        (
            "StatefulSet",
            "kept",
            json!({"replicas": 1, "serviceName": "kept", "volumeClaimTemplates": claims}),
        ),
    ] {
        world.create(workload(kind, name, spec)).await;
    }
    world.create(job("done", "0", json!({}))).await;
    world
        .create(job("failed", "1", json!({"backoffLimit": 0})))
        .await;
    let template = |name: &str| template(name, "one");
    for object in [
        json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
            "spec": {"replicas": 1, "selector": {"app": "rc"}, "template": template("rc")}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 0 29 2 *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "a", "image": "a"}]}}}}}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mirrored"}, "spec": {"ports": [{"port": 80}]}}),
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "mirrored"},
            "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
    ] {
        world.create(object).await;
    }
    // a pod that fits nowhere, with its event
    let mut large = workload("Deployment", "large", json!({"replicas": 1}));
    large["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "64"}});
    world.create(large).await;
}

#[tokio::test(start_paused = true)]
async fn restarting_the_cloud_changes_no_object_that_nobody_changed() {
    let api = apiserver::builder(MemoryStore::new()).build();
    let client = api.client("default");
    let world = World::with_nodes(client.clone(), &["edge-1", "edge-2"]).await;
    create_one_of_each(&world).await;
    let mut before = BTreeMap::new();
    for start in 0..=20 {
        let stop = CancellationToken::new();
        start_controllers(&slow_lists(&api, start), &stop);
        sleep(SETTLED).await;
        stop.cancel();
        let after = everything(&client).await;
        let pods = after.keys().filter(|key| key.starts_with("pods. ")).count();
        assert_eq!(pods, 16, "{after:#?}");
        if start > 0 {
            assert_eq!(changes(&before, &after), [""; 0], "start {start}");
        }
        before = after;
        if start == 0 {
            next_second().await;
        }
    }
}

/// Waits for the next second of the real clock, which creation times have: what is created in the second of a start is new to it.
async fn next_second() {
    let created = clock::now().as_second();
    while clock::now().as_second() == created {
        tokio::task::yield_now().await;
    }
}

/// Returns what was created, changed or deleted.
fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let keys = before
        .keys()
        .chain(after.keys().filter(|key| !before.contains_key(*key)));
    let differs = keys.filter(|key| before.get(*key) != after.get(*key));
    differs
        .map(|key| format!("{key}: {:?} became {:?}", before.get(key), after.get(key)))
        .collect()
}
