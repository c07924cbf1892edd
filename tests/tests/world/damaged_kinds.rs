//! One object of each kind is damaged, in the cloud's store and in a node's: nothing else is deleted, restarted or locked out, and the
//! object is healed or named.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use objectstore::{Key, Page, Resource, Scope};
use serde_json::{Value, json};
use sqlx::{Connection, Row};
use tests::{
    Setup, World, eventually,
    manifests::{config_map, device, device_model, pod, secret},
};

use crate::damage::by_hand;

/// Collections whose objects come and go, or are recreated with another uid.
const TRANSIENT: [&str; 7] = [
    "events",
    "leases.coordination.k8s.io",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "objectsyncs.reliablesyncs.kubeedge.io",
    "clusterobjectsyncs.reliablesyncs.kubeedge.io",
    "checks.store.outrigger.dev",
];
/// Collections from which controllers and nodes conclude most: an object of each is damaged alone.
const ALONE: [&str; 13] = [
    "configmaps",
    "controllerrevisions.apps",
    "customresourcedefinitions.apiextensions.k8s.io",
    "daemonsets.apps",
    "deployments.apps",
    "devices.devices.kubeedge.io",
    "namespaces",
    "nodes",
    "pods",
    "replicasets.apps",
    "secrets",
    "services",
    "statefulsets.apps",
];
/// What nodes and pods cannot do without is named when the cloud starts, the node connects or the pod is created: the authority of all,
/// the node's certificates, the account of the namespace.
const NEEDED: [&str; 3] = [
    "secrets kubeedge/casecret",
    "nodecertificates.cloudsim edge-1",
    "serviceaccounts default/default",
];

/// A row of a store.
#[derive(Clone, Debug)]
struct StoredRow {
    key: Key,
    value: Vec<u8>,
}

impl StoredRow {
    fn title(&self) -> String {
        self.key.to_string()
    }
}

/// All objects of a store.
async fn all_rows(file: &Path) -> Vec<StoredRow> {
    let mut hand = by_hand(file).await;
    let query =
        "SELECT resource, namespace, name, value FROM objects ORDER BY resource, namespace, name";
    let rows = sqlx::query(query).fetch_all(&mut hand).await.unwrap();
    hand.close().await.unwrap();
    let row = |row: &sqlx::sqlite::SqliteRow| StoredRow {
        // the notation of a resource, which has its group in it
        key: Key::new(
            Resource::new("", row.get(0)),
            row.get::<String, _>(1),
            row.get::<String, _>(2),
        ),
        value: row.get(3),
    };
    rows.iter().map(row).collect()
}

/// The first object of each collection of a store, and the cloud's keys.
async fn one_of_each(file: &Path) -> Vec<StoredRow> {
    let mut seen = BTreeSet::new();
    let mut rows = all_rows(file).await;
    rows.retain(|row| row.key.namespace == "kubeedge" || seen.insert(row.key.resource.clone()));
    rows
}

/// The rows as they are now.
async fn current(file: &Path, rows: &[StoredRow]) -> Vec<StoredRow> {
    let titles: BTreeSet<_> = rows.iter().map(StoredRow::title).collect();
    let mut now = all_rows(file).await;
    now.retain(|row| titles.contains(&row.title()));
    now
}

/// Writes these bytes in place of the row's.
async fn write(file: &Path, row: &StoredRow, value: &[u8]) {
    let mut hand = by_hand(file).await;
    let update =
        "UPDATE objects SET value = ?1 WHERE resource = ?2 AND namespace = ?3 AND name = ?4";
    let Key {
        resource,
        namespace,
        name,
    } = &row.key;
    let update = sqlx::query(update)
        .bind(value)
        .bind(resource.as_str())
        .bind(namespace)
        .bind(name);
    assert_eq!(
        update.execute(&mut hand).await.unwrap().rows_affected(),
        1,
        "{}",
        row.title()
    );
    hand.close().await.unwrap();
}

/// The bytes with one bit flipped: in a name, or else in the middle.
fn flip_bit(row: &StoredRow) -> Vec<u8> {
    const NAME: &[u8] = b"\"name\":\"";
    let mut value = row.value.clone();
    let name = value.windows(NAME.len()).position(|window| window == NAME);
    let place = name.map_or(value.len() / 2, |start| start + NAME.len());
    value[place] ^= 1;
    value
}

/// The uids of all objects of the cloud that stay.
async fn uids(world: &World) -> BTreeMap<Key, String> {
    let store = world.cloud().store().unwrap().clone();
    let mut uids = BTreeMap::new();
    for (resource, _) in store.sizes().await.unwrap() {
        if TRANSIENT.contains(&resource.as_str()) {
            continue;
        }
        let scope = Scope {
            resource,
            namespace: None,
        };
        for object in store.list(&scope, &Page::default()).await.unwrap().items {
            let value = object.value().unwrap();
            let uid = value["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            uids.insert(object.key, uid);
        }
    }
    uids
}

fn workload(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Applies one object of each kind that controllers act on.
async fn populate(world: &World) {
    let template = |app: &str| {
        let mut template = pod("unused", None);
        template["spec"].as_object_mut().unwrap().remove("nodeName");
        json!({"metadata": {"labels": {"app": app}}, "spec": template["spec"]})
    };
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    let workloads = [
        workload(
            "apps/v1",
            "Deployment",
            "web",
            json!({"replicas": 1, "selector": selector("web"), "template": template("web")}),
        ),
        workload(
            "apps/v1",
            "StatefulSet",
            "db",
            json!({"replicas": 1, "serviceName": "db", "selector": selector("db"), "template": template("db")}),
        ),
        workload(
            "apps/v1",
            "DaemonSet",
            "agent",
            json!({"selector": selector("agent"), "template": template("agent")}),
        ),
        workload(
            "v1",
            "Service",
            "web",
            json!({"selector": {"app": "web"}, "ports": [{"port": 80}]}),
        ),
        workload(
            "policy/v1",
            "PodDisruptionBudget",
            "web",
            json!({"minAvailable": 0, "selector": selector("web")}),
        ),
        workload("v1", "LimitRange", "limits", json!({"limits": []})),
    ];
    world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await;
    world.apply(&secret("password", json!({"a": "b"}))).await;
    world.apply(&device_model()).await;
    world.apply(&device("sensor", "edge-1", Some("20"))).await;
    for manifest in &workloads {
        world.apply(manifest).await;
    }
    let mut manifest = pod("mounts", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([
        {"name": "v", "configMap": {"name": "settings"}}, {"name": "w", "secret": {"secretName": "password"}},
    ]);
    world.run(&manifest).await;
    eventually("the pods of all workloads run", async || {
        match world.running(0).len() {
            4 => Ok(()),
            count => Err(count),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_object_of_any_kind_of_the_cloud_takes_nothing_with_it() {
    let mut world = World::with(Setup {
        durable: true,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    populate(&world).await;
    let file: PathBuf = world.directory().join("cloud/cloudsim.db");
    let (containers, before) = (world.running(0), uids(&world).await);
    world.stop_cloud().await;
    let rows = one_of_each(&file).await;
    assert!(rows.len() > 30, "{rows:?}");
    let rows = rows
        .into_iter()
        .filter(|row| !NEEDED.contains(&row.title().as_str()));
    let (alone, together): (Vec<_>, Vec<_>) =
        rows.partition(|row| ALONE.contains(&row.key.resource.as_str()));
    assert!(alone.len() >= ALONE.len(), "{alone:?}");
    let groups = alone.into_iter().map(|row| vec![row]).chain([together]);
    for group in groups {
        let group = current(&file, &group).await;
        let titles: BTreeSet<_> = group.iter().map(StoredRow::title).collect();
        println!("damaging {titles:?}");
        for row in &group {
            write(&file, row, &flip_bit(row)).await;
        }
        world.start_cloud().await;
        world.until_connected(0, true).await;
        // what the cloud sends arrives, and what the node reports is stored
        let marker = pod("marker", Some("edge-1"));
        world.run(&marker).await;
        world.pod("marker").delete(Some(0)).await;
        world.pod("marker").until_gone().await;
        world
            .node("edge-1")
            .until("it is ready", |node| {
                tests::condition(node, "Ready") == Some("True")
            })
            .await;
        eventually("the same containers run", async || match world.running(0) {
            running if running == containers => Ok(()),
            running => Err(running),
        })
        .await;
        let after = uids(&world).await;
        for (key, uid) in &before {
            let (now, is_it) = (after.get(key), titles.contains(&key.to_string()));
            assert!(
                is_it || now == Some(uid),
                "{titles:?} have taken {key} with them"
            );
            assert!(
                !is_it || now.is_none_or(|now| now == uid),
                "{key} has another uid"
            );
        }
        let store = world.cloud().store().unwrap().clone();
        let named: BTreeSet<_> = store
            .damaged_objects()
            .now()
            .keys()
            .map(Key::to_string)
            .collect();
        let healed: BTreeSet<_> = after.keys().map(Key::to_string).collect();
        for row in &group {
            let is_healed =
                healed.contains(&row.title()) || TRANSIENT.contains(&row.key.resource.as_str());
            assert!(
                named.contains(&row.title()) != is_healed,
                "{} is neither healed nor named",
                row.title()
            );
        }
        drop(store);
        world.stop_cloud().await;
        for row in group.iter().filter(|row| named.contains(&row.title())) {
            write(&file, row, &row.value).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_object_of_any_kind_of_a_node_takes_nothing_with_it() {
    let mut world = World::with(Setup {
        durable: true,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    populate(&world).await;
    let containers = world.running(0);
    let file = world.nodes[0].directory().join("agent.db");
    world.nodes[0].stop().await;
    let mut rows = one_of_each(&file).await;
    // that the store has all pods is written again after two quiet minutes
    rows.retain(|row| row.key.resource.as_str() != "stores.records.outrigger.dev");
    assert!(rows.len() > 8, "{rows:?}");
    for (count, row) in rows.iter().enumerate() {
        println!("damaging {}", row.title());
        // one that has gone meanwhile, as a report that was sent, cannot be damaged
        let Some(row) = current(&file, std::slice::from_ref(row)).await.pop() else {
            continue;
        };
        write(&file, &row, &flip_bit(&row)).await;
        world.nodes[0].start().await.unwrap();
        world.until_connected(0, true).await;
        let marker = pod("marker", Some("edge-1"));
        world.run(&marker).await;
        world.pod("marker").delete(Some(0)).await;
        world.pod("marker").until_gone().await;
        eventually("the same containers run", async || match world.running(0) {
            running if running == containers => Ok(()),
            running => Err((row.title(), running)),
        })
        .await;
        // nodes cannot ask for devices, models and what an account may do: the next change brings them
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": format!("b{count}"), "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]});
        world.apply(&binding).await;
        let mut model = device_model();
        model["metadata"]["labels"] = json!({"change": count.to_string()});
        world.apply(&model).await;
        world
            .apply(&device("sensor", "edge-1", Some(&(30 + count).to_string())))
            .await;
        eventually("it is healed or removed", async || {
            let stays = current(&file, std::slice::from_ref(&row))
                .await
                .iter()
                .any(|now| now.value == flip_bit(&row));
            if stays { Err(row.title()) } else { Ok(()) }
        })
        .await;
        world.nodes[0].stop().await;
    }
}
