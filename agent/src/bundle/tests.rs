//! An archive of a node whose files and database are full of secrets.

use std::{fs, io::Read, os::unix::fs::PermissionsExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use objectstore::{Expect, Key, Resource, SqliteOptions, SqliteStore, Store, Write as Put};
use serde_json::{Value, json};
use wire::enroll::{Ca, Token};

use super::*;
use crate::{
    app,
    cli::{InstallPaths, LogArgs},
};

/// What no file of the archive may contain, in plain text or in base64.
const CANARIES: [&str; 9] = [
    "canary-mqtt-password",
    "canary-secret-value",
    "canary-string-data",
    "canary-config-map",
    "canary-environment",
    "canary-account-token",
    "canary-last-applied",
    "canary-url-password",
    "canary-upload",
];

/// Writes configuration, key, log and database of a node; returns further secrets.
async fn prepare(root: &Path) -> Vec<String> {
    let host = Host {
        name: "edge-1".into(),
        address: [127, 0, 0, 1].into(),
    };
    let now = clock::system_now();
    let ca = Ca::generate(now).unwrap();
    let token = Token::mint(&ca, now, std::time::Duration::from_hours(1))
        .unwrap()
        .to_string();
    let text = config::minimal_config(&host)
        .replace("token: \"\"", &format!("token: {token:?}"))
        .replace("mqttPassword: \"\"", "mqttPassword: canary-mqtt-password")
        .replace("mqttUsername: \"\"", "mqttUsername: me");
    let text = config::relocate(&text, |usual| root.join(&usual[1..])).unwrap();
    let path = root.join("etc/kubeedge/config/edgecore.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, &text).unwrap();
    let (config, _) = config::load(&path).unwrap();
    let key = wire::enroll::EcKey::generate().unwrap();
    let key = wire::enroll::pem_ec_private_key(key.sec1_der());
    fs::create_dir_all(config.edge_hub.tls.key.parent().unwrap()).unwrap();
    fs::write(&config.edge_hub.tls.key, &key).unwrap();
    write_objects(&config).await;
    let log = format!(
        "2026-01-01T00:00:00Z WARN old line\n\
         {now} WARN failed to connect error=http://me:canary-url-password@proxy:3128 refused\n\
         {now} INFO secret {} of canary-secret-value, token {token}\n{key}",
        STANDARD.encode("canary-secret-value"),
        now = clock::now(),
    );
    fs::write(root.join("agent.log"), log).unwrap();
    let body: Vec<String> = key
        .lines()
        .filter(|line| !line.contains("-----"))
        .map(str::to_owned)
        .collect();
    [token].into_iter().chain(body).collect()
}

async fn write_objects(config: &Config) {
    let core = |plural: &str, name: &str| Key::new(Resource::new("", plural), "default", name);
    let applied = json!({"kubectl.kubernetes.io/last-applied-configuration": "{\"p\":\"canary-last-applied\"}"});
    let objects: [(Key, Value); 5] = [
        (
            core("secrets", "db"),
            json!({"metadata": {"name": "db"}, "data": {"p": STANDARD.encode("canary-secret-value")},
                   "stringData": {"q": "canary-string-data"}}),
        ),
        (
            core("configmaps", "app"),
            json!({"metadata": {"name": "app"}, "data": {"p": "canary-config-map"}}),
        ),
        (
            core("pods", "web"),
            json!({"metadata": {"name": "web", "annotations": applied}, "spec": {"containers": [
                {"name": "web", "env": [{"name": "PASSWORD", "value": "canary-environment"}],
                 "args": ["--db=postgres://u:canary-url-password@db/x"]}]}}),
        ),
        (
            Key::new(
                Resource::new("kubeedge.io", "serviceaccounttokens"),
                "default",
                "t",
            ),
            json!({"metadata": {}, "token": {"status": {"token": "canary-account-token"}}}),
        ),
        (
            Key::new(Resource::new("outrigger.dev", "uploads"), "", "1"),
            json!({"metadata": {}, "payload": "canary-upload"}),
        ),
    ];
    let database = app::database(config);
    fs::create_dir_all(database.parent().unwrap()).unwrap();
    let store = SqliteStore::open_with(&database, SqliteOptions::default())
        .await
        .unwrap();
    let put = |(key, value)| Put {
        key,
        expect: Expect::Anything,
        value: Some(value),
    };
    store
        .commit(objects.into_iter().map(put).collect())
        .await
        .unwrap();
}

/// Returns the names and contents of an archive, and checks the modes.
fn unpack(path: &Path) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(GzDecoder::new(fs::File::open(path).unwrap()));
    let read = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    });
    read.collect()
}

#[tokio::test]
async fn no_secret_of_the_node_is_in_the_archive_and_failed_parts_are_listed() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mut secrets = prepare(root).await;
    secrets.extend(CANARIES.map(str::to_owned));
    let output = root.join("bundle.tar.gz");
    let bundle = Bundle {
        output: Some(output.clone()),
        logs: LogArgs {
            since: clock::now() - jiff::SignedDuration::from_hours(1),
            until: None,
            files: vec![root.join("agent.log"), root.join("missing.log")],
        },
        paths: InstallPaths {
            config: None,
            root: root.into(),
        },
    };
    let archive = write(&bundle).await.unwrap();
    let said = archive.lines().join("\n");
    assert!(
        said.contains("  failed: status.json: no agent answers"),
        "{said}"
    );
    let CompleteArchive {
        path,
        files,
        errors,
    } = archive;
    assert_eq!(path.as_deref(), Some(output.as_path()));
    assert_eq!(
        fs::metadata(&output).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let found = unpack(&output);
    assert_eq!(found.len(), files);
    let content = |name: &str| {
        let file = found.iter().find(|(path, _)| path.ends_with(name));
        &file.unwrap_or_else(|| panic!("{name}: {found:?}")).1
    };
    for (name, part) in [
        ("/edgecore.yaml", "mqttPassword: ***"),
        ("/check.json", "\"id\": \"certificate\""),
        (
            "/database/objects.jsonl",
            "\"name\":\"PASSWORD\",\"value\":\"***\"",
        ),
        ("/database/objects.jsonl", "\"p\":\"***\""),
        ("/database/check.json", "\"objects\": 5"),
        ("/logs/0-agent.log", "http://***@proxy:3128 refused"),
        ("/versions.json", "\"edgeAgent\""),
        ("/errors.txt", "missing.log"),
        ("/errors.txt", "status.json: no agent answers"),
        ("/errors.txt", "runtime.json: "),
    ] {
        assert!(
            content(name).contains(part),
            "{name}: {part}\n{}",
            content(name)
        );
    }
    assert!(!content("/logs/0-agent.log").contains("old line"));
    assert_eq!(content("/errors.txt").lines().count(), errors.len());
    for (name, text) in &found {
        for secret in &secrets {
            for form in [
                secret.clone(),
                STANDARD.encode(secret),
                STANDARD.encode(secret).trim_end_matches('=').to_owned(),
            ] {
                assert!(!text.contains(&form), "{name} has {form}:\n{text}");
            }
        }
    }
    // a second one does not replace the first
    let again = write(&bundle).await.unwrap_err().to_string();
    assert!(
        again.contains("bundle.tar.gz") && again.contains("--output"),
        "{again}"
    );
}
