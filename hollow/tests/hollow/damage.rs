//! Tests a cloud whose store was damaged on disk: it starts, serves what is intact, and is repaired.

use std::{
    collections::BTreeSet,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use cloudsim::{
    Cloud, Options, StartError,
    pki::{Name, NodeCertificates},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams,
        TypeMeta,
    },
};
use objectstore::Seal;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, ConnectOptions, sqlite::SqliteConnectOptions};
use testkit::eventually;
use wire::enroll::{Ca, Csr, Usage};

async fn run(path: &Path, statement: &str) {
    let mut hand = SqliteConnectOptions::new()
        .filename(path)
        .connect()
        .await
        .unwrap();
    let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(&mut hand)
        .await
        .unwrap();
    assert!(done.rows_affected() > 0, "{statement}");
    sqlx::Connection::close(hand).await.unwrap();
}

fn options(directory: &Path) -> Options {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Options {
        data_dir: Some(directory.to_owned()),
        ..Options::default().any_ports()
    }
}

/// Returns what `cloudsim db` prints, and whether it succeeded.
fn db(directory: &Path, command: &str) -> (bool, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_cloudsim"));
    let output = program
        .args(["db", command, "--data-dir"])
        .arg(directory)
        .output()
        .unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    )
}

/// Returns the cloud's authority with its key.
async fn authority(cloud: &Cloud) -> Ca {
    let secret = Api::<Secret>::namespaced(cloud.client(), "kubeedge")
        .get("casecret")
        .await
        .unwrap();
    let data = secret.data.unwrap();
    Ca::from_der(&data["cadata"].0, &data["cakeydata"].0).unwrap()
}

/// Issues a node's certificate and records it as one in use; if `taken_back`, the node is reset afterwards.
async fn certificate(cloud: &Cloud, node: &str, taken_back: bool) -> Vec<u8> {
    let ca = authority(cloud).await;
    let (csr, usages) = (
        Csr::for_node(node).unwrap(),
        Usage::parse_header(None).unwrap(),
    );
    let signed = ca
        .sign_edge(
            csr.der(),
            &usages,
            Duration::from_secs(3600),
            SystemTime::now(),
        )
        .unwrap();
    let records = NodeCertificates::new(cloud.store().expect("a store of its own").clone());
    assert!(records.admit(node, &signed, ca.cert_der()).await.unwrap());
    if taken_back {
        assert!(cloud.reset_node(node).await.unwrap());
    }
    assert_eq!(cloud.knows(node, &signed).await.unwrap(), !taken_back);
    signed
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "v"}})).unwrap()
}

async fn names(maps: &Api<ConfigMap>) -> Vec<String> {
    let items = maps.list(&ListParams::default()).await.unwrap().items;
    items
        .iter()
        .map(ResourceExt::name_any)
        .filter(|name| name != "kube-root-ca.crt")
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_with_damaged_objects_starts_and_is_repaired() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cloudsim.db");
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cloud.client());
    for name in ["one", "three", "two"] {
        maps.create(&PostParams::default(), &map(name))
            .await
            .unwrap();
    }
    drop(maps);
    cloud.stop().await.unwrap();
    assert!(db(directory.path(), "check").0);
    let (is_whole, told) = db(&directory.path().join("typo"), "check");
    assert!(!is_whole && told.contains("--data-dir"), "{told}");
    for row in [
        "resource = 'configmaps' AND name IN ('one', 'two')",
        "resource = 'customresourcedefinitions.apiextensions.k8s.io' AND name LIKE 'devices.%'",
        "resource = 'clusterroles.rbac.authorization.k8s.io' AND name IN ('view', 'cluster-admin')",
        "resource = 'namespaces' AND name = 'default'",
    ] {
        run(
            &path,
            &format!("UPDATE objects SET value = substr(value, 1, 40) WHERE {row}"),
        )
        .await;
    }
    let (is_whole, told) = db(directory.path(), "check");
    assert!(
        !is_whole && told.contains("damaged: configmaps default/one: "),
        "{told}"
    );

    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cloud.client());
    assert_eq!(names(&maps).await, ["three"]);
    let definitions = Api::<CustomResourceDefinition>::all(cloud.client());
    assert!(
        definitions
            .get_opt("devices.devices.kubeedge.io")
            .await
            .unwrap()
            .is_some()
    );
    // One object is deleted by hand.
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &map("one"))
        .await
        .unwrap();
    assert_eq!(names(&maps).await, ["one", "three"]);
    drop((maps, definitions));
    cloud.stop().await.unwrap();

    // The program removes the rest.
    assert!(!db(directory.path(), "check").0);
    let (repaired, told) = db(directory.path(), "repair");
    assert!(
        repaired && told.contains("lost: configmaps default/two: "),
        "{told}"
    );
    assert!(db(directory.path(), "check").0);
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    assert_eq!(
        names(&Api::default_namespaced(cloud.client())).await,
        ["one", "three"]
    );
    cloud.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_read_or_is_empty_is_no_new_cloud() {
    for bytes in [Vec::new(), b"apiVersion: v1\n".repeat(500)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cloudsim.db");
        Cloud::start(options(directory.path()))
            .await
            .unwrap()
            .stop()
            .await
            .unwrap();
        // SQLite removes it when a connection is closed while there is no other. Two that are closed at once may both leave it.
        let log = format!("{}-wal", path.display());
        let closed = async || {
            let hand = SqliteConnectOptions::new()
                .filename(&path)
                .connect()
                .await
                .unwrap();
            sqlx::Connection::close(hand).await.unwrap();
            (!Path::new(&log).exists()).then_some(()).ok_or(&log)
        };
        eventually("the store is closed", closed).await;
        std::fs::write(&path, &bytes).unwrap();
        let refused = Cloud::start(options(directory.path())).await.unwrap_err();
        assert!(matches!(refused, StartError::Damaged { .. }), "{refused:?}");
        assert!(
            refused
                .to_string()
                .contains("cloudsim db repair --data-dir"),
            "{refused}"
        );
        assert!(std::fs::read(&path).unwrap() == bytes, "it was written to");
        assert!(!db(directory.path(), "check").0);
        let (kept_some, told) = db(directory.path(), "repair");
        assert_eq!(kept_some, bytes.is_empty(), "{told}");
        assert_eq!(
            told.contains("nothing could be read"),
            !bytes.is_empty(),
            "{told}"
        );
        // The authority is a new one, so no name is taken.
        let cloud = Cloud::start(options(directory.path())).await.unwrap();
        let records = NodeCertificates::new(cloud.store().expect("a store of its own").clone());
        let ca = authority(&cloud).await;
        assert_eq!(
            records
                .name("edge-1", ca.cert_der(), Duration::ZERO)
                .await
                .unwrap(),
            Name::Free
        );
        cloud.stop().await.unwrap();
    }
}

/// A controller waits only for the kinds that it reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_object_holds_up_only_the_controllers_of_its_kind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cloudsim.db");
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}});
    let selected = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template});
    let claimed =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let mut scheduled =
        json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}});
    scheduled["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let create = async |cloud: &Cloud, api_version: &str, kind: &str, name: &str, spec: &Value| {
        let types = TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let api = Api::<DynamicObject>::default_namespaced_with(cloud.client(), &resource);
        api.create(&PostParams::default(), &object).await.unwrap();
    };
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    for (api_version, kind, spec) in [
        ("apps/v1", "Deployment", &selected),
        ("apps/v1", "DaemonSet", &selected),
        ("batch/v1", "CronJob", &scheduled),
        (
            "policy/v1",
            "PodDisruptionBudget",
            &json!({"maxUnavailable": 1}),
        ),
        ("v1", "Service", &json!({"ports": [{"port": 80}]})),
        ("v1", "PersistentVolumeClaim", &claimed),
    ] {
        create(&cloud, api_version, kind, "damaged", spec).await;
    }
    cloud.stop().await.unwrap();
    run(&path, "UPDATE objects SET value = substr(value, 1, 40) WHERE name = 'damaged' OR name = 'standard'")
        .await;
    let (is_whole, told) = db(directory.path(), "check");
    let damaged = told
        .lines()
        .filter(|line| line.starts_with("damaged: "))
        .count();
    assert!(!is_whole && damaged == 7, "{told}");

    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    create(&cloud, "apps/v1", "ReplicaSet", "set", &selected).await;
    let mut job = json!({"template": template});
    job["template"]["spec"]["restartPolicy"] = json!("Never");
    create(&cloud, "batch/v1", "Job", "job", &job).await;
    let pods = Api::<Pod>::default_namespaced(cloud.client());
    eventually("a pod of the ReplicaSet and one of the Job", async || {
        let pods = pods.list(&ListParams::default()).await.unwrap().items;
        let owners = pods
            .iter()
            .flat_map(|pod| pod.owner_references())
            .map(|owner| owner.name.clone());
        let owners: BTreeSet<String> = owners.collect();
        ["job", "set"]
            .iter()
            .all(|name| owners.contains(*name))
            .then_some(())
            .ok_or(owners)
    })
    .await;
    drop(pods);
    cloud.stop().await.unwrap();
}

/// A revoked certificate or a join token must gain nothing from damage.
#[tokio::test(flavor = "multi_thread")]
async fn a_repair_that_loses_records_of_certificates_keeps_their_names_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cloudsim.db");
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    let mut shown = Vec::new();
    for (node, taken_back) in [("revoked", true), ("held", false), ("whole", false)] {
        shown.push((node, certificate(&cloud, node, taken_back).await));
    }
    // In the file these lie between the records and the authority's key, so that they are not on the same page.
    let pods = Api::<Pod>::default_namespaced(cloud.client());
    for number in 0..12 {
        let pod = json!({"metadata": {"name": format!("pod-{number}"), "annotations": {"padding": "x".repeat(900)}},
            "spec": {"containers": [{"name": "main", "image": "busybox"}]}});
        pods.create(
            &PostParams::default(),
            &serde_json::from_value(pod).unwrap(),
        )
        .await
        .unwrap();
    }
    drop(pods);
    cloud.stop().await.unwrap();
    run(
        &path,
        "UPDATE objects SET value = substr(value, 1, 30) WHERE resource = 'nodecertificates.cloudsim' AND name IN ('revoked', 'held')",
    )
    .await;
    let closed = async |cloud: &Cloud| {
        let (records, ca) = (
            NodeCertificates::new(cloud.store().expect("a store of its own").clone()),
            authority(cloud).await,
        );
        let mut closed = Vec::new();
        for (node, certificate) in &shown {
            let counts = records
                .admit(node, certificate, ca.cert_der())
                .await
                .unwrap();
            let name = records
                .name(node, ca.cert_der(), Duration::ZERO)
                .await
                .unwrap();
            assert_eq!(counts, name == Name::Held, "{node}: {name:?}");
            if name == Name::Lost {
                closed.push(*node);
            }
        }
        closed
    };
    // Without a repair, an administrator can free names one by one.
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    let records = NodeCertificates::new(cloud.store().expect("a store of its own").clone());
    assert!(records.admit("revoked", &shown[0].1, b"").await.is_err());
    drop(records);
    cloud.stop().await.unwrap();

    let (repaired, told) = db(directory.path(), "repair");
    assert!(
        repaired && told.contains("closed: revoked: ") && told.contains("closed: held: "),
        "{told}"
    );
    assert!(!told.contains("closed: every name"), "{told}");
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    assert_eq!(closed(&cloud).await, ["revoked", "held"]);
    assert!(cloud.reset_node("revoked").await.unwrap());
    assert_eq!(closed(&cloud).await, ["held"]);
    cloud.stop().await.unwrap();

    // A page with records is damaged, and nobody knows which names it held.
    run(
        &path,
        "DELETE FROM objects WHERE name = 'revoked'; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)",
    )
    .await;
    let mut bytes = std::fs::read(&path).unwrap();
    let has_record = |page: &[u8]| {
        page.windows(30)
            .any(|part| part == b"nodecertificates.cloudsimwhole")
    };
    let page = bytes.chunks(4096).position(has_record).unwrap();
    let at = page * 4096;
    bytes[at + 8..at + 4096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let (repaired, told) = db(directory.path(), "repair");
    assert!(repaired && told.contains("closed: every name"), "{told}");
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    assert_eq!(closed(&cloud).await, ["revoked", "held", "whole"]);
    assert!(cloud.reset_lost().await.unwrap().contains(&"*".to_owned()));
    assert!(closed(&cloud).await.is_empty());
    cloud.stop().await.unwrap();
}

/// A key file that does not belong to the store must not look like damage.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_is_told_from_damage() {
    let directory = tempfile::tempdir().unwrap();
    let (own, other) = (
        directory.path().join("own.key"),
        directory.path().join("other.key"),
    );
    for file in [&own, &other] {
        Seal::add_key(file).unwrap();
    }
    let options = Options {
        key_file: Some(own.clone()),
        ..options(directory.path())
    };
    Cloud::start(options).await.unwrap().stop().await.unwrap();
    let said = |command: &str, key: Option<&Path>| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_cloudsim"));
        program
            .args(["db", command, "--data-dir"])
            .arg(directory.path());
        if let Some(key) = key {
            program.arg("--key-file").arg(key);
        }
        let output = program.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    for command in ["check", "repair"] {
        let (is_whole, told) = said(command, Some(&other));
        assert!(
            !is_whole && told.contains("with a key that is not in"),
            "{told}"
        );
        assert!(
            !told.contains("damaged") && !told.contains("fault:"),
            "{told}"
        );
        let (is_whole, told) = said(command, None);
        assert!(
            !is_whole && told.contains("name the file of their keys with --key-file"),
            "{told}"
        );
        assert!(said(command, Some(&own)).0);
    }
}
