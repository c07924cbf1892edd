//! Follows a Secret from the API through hub and agent into a pod: it appears in no line of the log at any level, in no recording, and with
//! a key in no file of the cloud's or the node's store.

use std::path::{Path, PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use cloudsim::{Cloud, Options, StartError};
use hollow::fleet::{self, Fleet};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
    runtime::{conditions::is_pod_running, wait::await_condition},
};
use objectstore::Seal;
use record::{Limits, Reader, Recording, Side};
use serde_json::{Value, json};
use testkit::{LogBuffer, within};
use tracing_subscriber::{filter::Targets, prelude::*};

const CANARY: &str = "the-canary-of-this-test";
const CHANGED: &str = "another-canary-of-this-test";

/// Asserts that no line of the log contains `text`.
fn assert_not_logged(log: &LogBuffer, text: &str, what: &str) {
    if let Some(line) = log.text().lines().find(|line| line.contains(text)) {
        panic!("{what} is in the log: {line:.400}");
    }
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn secret(text: &str) -> Secret {
    object(json!({"metadata": {"name": "canary"}, "stringData": {"word": text}}))
}

fn pod(name: &str) -> Pod {
    let from = json!({"secretKeyRef": {"name": "canary", "key": "word"}});
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": "edge-1", "restartPolicy": "Always",
            "containers": [{
                "name": "c", "image": "busybox", "command": ["sleep", "3600"],
                "env": [{"name": "WORD", "valueFrom": from}],
                "volumeMounts": [{"name": "secret", "mountPath": "/secret"}],
            }],
            "volumes": [{"name": "secret", "secret": {"secretName": "canary"}}],
        },
    }))
}

async fn running(pods: &Api<Pod>, name: &str) {
    let is_running = await_condition(pods.clone(), name, is_pod_running());
    within(&format!("{name} runs"), is_running).await.unwrap();
}

/// Returns the files below `directory` with `part` in their names that contain the text.
fn files_with(directory: &Path, part: &str, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with(&path, part, text));
        } else if path.file_name().unwrap().to_string_lossy().contains(part) {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
            {
                found.push(path);
            }
        }
    }
    found
}

/// Returns the lines of a recording.
fn recorded_text(file: &Path) -> String {
    Reader::open(file)
        .unwrap()
        .map(|line| serde_json::to_string(&line.unwrap()).unwrap() + "\n")
        .collect()
}

async fn all_tokens(cloud: &Cloud) -> Vec<String> {
    let secrets = Api::<Secret>::namespaced(cloud.client(), "kubeedge");
    let mut all = vec![cloud.token().to_owned()];
    for secret in secrets.list(&ListParams::default()).await.unwrap().items {
        for data in secret.data.unwrap_or_default().into_values() {
            // Longer texts do not occur by chance.
            all.extend(Some(STANDARD.encode(&data.0)).filter(|text| text.len() > 16));
        }
    }
    all
}

/// Starts a recording as the programs do by default.
fn recording_to(file: &Path) -> Recording {
    Recording::start(record::Options {
        path: file.to_owned(),
        limits: Limits::default(),
        program: "test".to_owned(),
        side: Side::Cloud,
        redact: true,
    })
    .unwrap()
}

/// Checks that a recording has the expected messages, and none of the secret words.
fn assert_not_recorded(recorded: &str, words: &[String]) {
    for word in words {
        // certificates are public, and a part of enrolment
        let is_certificate = word.starts_with("MII");
        assert!(
            is_certificate || !recorded.contains(word),
            "{word} is in the recording"
        );
    }
    for kind in ["request", "response", "node-registration", "pod", "secret"] {
        let is_recorded = recorded.contains(&format!("\"kind\":\"{kind}\""));
        assert!(is_recorded, "no {kind} was recorded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_stands_in_no_line_of_the_log_and_with_a_key_in_no_database() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let log = LogBuffer::default();
    // The log is written as both programs do it, with the widest filter.
    let written = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(log.clone());
    let filter: Targets = "trace".parse().unwrap();
    tracing_subscriber::registry()
        .with(written)
        .with(filter)
        .with(agent::log::without_contents())
        .init();

    let directory = tempfile::tempdir().unwrap();
    let (data, key) = (directory.path().join("data"), directory.path().join("key"));
    Seal::add_key(&key).unwrap();
    let options = Options {
        data_dir: Some(data.clone()),
        ..Options::default().any_ports()
    };

    // The store begins in plain text.
    let cloud = Cloud::start(options.clone()).await.unwrap();
    let secrets = Api::<Secret>::default_namespaced(cloud.client());
    secrets
        .create(&PostParams::default(), &secret(CANARY))
        .await
        .unwrap();
    cloud.stop().await.unwrap();
    let encoded = STANDARD.encode(CANARY);
    assert!(
        !files_with(&data, "cloudsim.db", &encoded).is_empty(),
        "the test looks for the wrong thing"
    );

    // Then it is encrypted with the key.
    let file = directory.path().join("recording");
    let recording = recording_to(&file);
    let sealed = Options {
        key_file: Some(key.clone()),
        recorder: recording.recorder(),
        ..options.clone()
    };
    let cloud = Cloud::start(sealed.clone()).await.unwrap();
    let nodes = fleet::Options {
        key_file: Some(key.clone()),
        ..fleet::Options::new(1, data.join("nodes"))
    };
    let fleet = Fleet::start(cloud.addresses(), cloud.token(), &nodes)
        .await
        .unwrap();
    let pods = Api::<Pod>::default_namespaced(cloud.client());
    pods.create(&PostParams::default(), &pod("one"))
        .await
        .unwrap();
    running(&pods, "one").await;
    let secrets = Api::<Secret>::default_namespaced(cloud.client());
    let change = Patch::Merge(secret(CHANGED));
    secrets
        .patch("canary", &PatchParams::default(), &change)
        .await
        .unwrap();
    pods.create(&PostParams::default(), &pod("two"))
        .await
        .unwrap();
    running(&pods, "two").await;

    let mut words = all_tokens(&cloud).await;
    words.extend([CANARY, CHANGED].map(|word| STANDARD.encode(word)));
    for database in ["cloudsim.db", "agent.db"] {
        for word in &words {
            assert_eq!(files_with(&data, database, word), Vec::<PathBuf>::new());
        }
    }
    words.extend([CANARY, CHANGED].map(str::to_owned));
    fleet.stop().await;
    cloud.stop().await.unwrap();
    recording.finish();
    for word in &words {
        assert_not_logged(&log, word, word);
    }
    assert_not_recorded(&recorded_text(&file), &words);
    assert_not_logged(&log, "Bearer e", "a token");
    assert!(log.text().len() > 10_000, "nothing was logged");

    // The cloud does not start without the key or with another one.
    let refused = Cloud::start(options).await.unwrap_err();
    assert!(text(&refused).contains("--key-file"), "{}", text(&refused));
    let other = directory.path().join("other");
    Seal::add_key(&other).unwrap();
    let refused = Cloud::start(Options {
        key_file: Some(other),
        ..sealed.clone()
    })
    .await
    .unwrap_err();
    assert!(
        text(&refused).contains("encrypted with an unknown key"),
        "{}",
        text(&refused)
    );
    let missing = Options {
        key_file: Some(directory.path().join("none")),
        ..sealed
    };
    assert!(matches!(
        Cloud::start(missing).await.unwrap_err(),
        StartError::Keys(_)
    ));
}

fn text(error: &StartError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
