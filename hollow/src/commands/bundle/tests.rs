//! An archive of a cloud with a node, a Secret and a log.

use std::{fs, io::Read, os::unix::fs::PermissionsExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;

use super::*;
use crate::{
    cli::{Access, LogArgs},
    commands::running::tests::records,
    testing::TestCloud,
};

const OBJECTS: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: db, namespace: default}
stringData: {p: canary-secret-value}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: app, namespace: default}
data: {p: canary-config-map}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  containers:
  - name: web
    image: web
    args: ["--db=postgres://u:canary-url-password@db/x"]
    env: [{name: PASSWORD, value: canary-environment}]
"#;
const CANARIES: [&str; 4] = [
    "canary-secret-value",
    "canary-config-map",
    "canary-url-password",
    "canary-environment",
];

fn unpack(path: &Path) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(GzDecoder::new(fs::File::open(path).unwrap()));
    let read = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    });
    read.collect()
}

fn options(directory: &Path) -> Bundle {
    Bundle {
        access: Access {
            kubeconfig: Some(directory.join("kubeconfig")),
            context: None,
        },
        output: Some(directory.join("bundle.tar.gz")),
        logs: LogArgs {
            since: clock::now() - jiff::SignedDuration::from_hours(1),
            until: None,
            files: vec![directory.join("cloud.log")],
        },
    }
}

#[tokio::test]
async fn no_secret_of_the_cloud_is_in_the_archive() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let cloud = TestCloud::builder().nodes(1).start().await.unwrap();
    cloud.apply(OBJECTS).await.unwrap();
    fs::write(directory.join("kubeconfig"), cloud.kubeconfig()).unwrap();
    let log = format!(
        "{now} WARN lost canary-secret-value and {}\n",
        STANDARD.encode("canary-secret-value"),
        now = clock::now()
    );
    fs::write(directory.join("cloud.log"), log).unwrap();
    let records = records(&directory.join("records"));
    let options = options(directory);
    run(&options, &records).await.unwrap();
    let path = directory.join("bundle.tar.gz");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let found = unpack(&path);
    let content = |name: &str| {
        let file = found.iter().find(|(path, _)| path.ends_with(name));
        &file.unwrap_or_else(|| panic!("{name}: {found:?}")).1
    };
    for (name, part) in [
        ("/objects/nodes.json", "\"kind\": \"Node"),
        ("/objects/secrets.json", "\"p\": \"***\""),
        ("/objects/configmaps.json", "\"p\": \"***\""),
        ("/objects/pods.json", "postgres://***@db/x"),
        ("/sessions.json", "\"node\": \""),
        ("/metrics.txt", "KubeEdge_CloudHub_connected_nodes 1"),
        ("/logs/0-cloud.log", "WARN lost *** and ***"),
        ("/versions.json", "Commit"),
    ] {
        assert!(
            content(name).contains(part),
            "{name}: {part}\n{}",
            content(name)
        );
    }
    assert_eq!(content("/errors.txt"), "");
    // the keys of the kubeconfig, and tokens of service accounts, which the cloud creates
    let kubeconfig = cloud.kubeconfig().to_owned();
    let keys = kubeconfig
        .lines()
        .filter_map(|line| line.trim().strip_prefix("client-key-data: "));
    let secrets = CANARIES.into_iter().chain(keys);
    for secret in secrets {
        let encoded = STANDARD.encode(secret);
        for (name, text) in &found {
            assert!(
                !text.contains(secret) && !text.contains(&encoded),
                "{name} has {secret}"
            );
        }
    }
    assert!(found.iter().all(|(_, text)| !text.contains("PRIVATE KEY")));
    cloud.stop().await.unwrap();
}

#[tokio::test]
async fn without_a_cloud_the_archive_has_the_log_and_the_error() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(
        directory.join("cloud.log"),
        format!("{} WARN last words\n", clock::now()),
    )
    .unwrap();
    let records = records(&directory.join("records"));
    run(&options(directory), &records).await.unwrap();
    let found = unpack(&directory.join("bundle.tar.gz"));
    let has = |name: &str, part: &str| {
        found
            .iter()
            .any(|(path, text)| path.ends_with(name) && text.contains(part))
    };
    assert!(
        has("/errors.txt", "objects: ") && has("/logs/0-cloud.log", "last words"),
        "{found:?}"
    );
}
