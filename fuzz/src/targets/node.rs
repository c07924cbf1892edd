//! The files on a node's disk: configuration, databases, manifests of static pods.

use std::{fs, path::Path, sync::Arc};

use agent::{config, metamanager};
use objectstore::{Expect, Key, MemoryStore, Resource, SqliteOptions, SqliteStore, Store, Write};
use serde_json::Value;
use testkit::until;

use super::api::wait;
use crate::corpus;

/// Runs `look` on a file with these bytes in a directory of its own, in memory if there is such a directory.
fn with_file(name: &str, bytes: &[u8], look: impl FnOnce(&Path)) {
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    let directory = directory.expect("a directory");
    let path = directory.path().join(name);
    fs::write(&path, bytes).expect("a file");
    look(&path);
}

pub(super) fn edgecore_yaml(bytes: &[u8]) {
    with_file("edgecore.yaml", bytes, |path| match config::load(path) {
        Ok((config, warnings)) => {
            let _ = format!("{config:?} {warnings:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    });
}

pub(super) fn edgecore_yamls() -> Vec<Vec<u8>> {
    let host = config::Host::detect();
    let mut all = corpus::texts(&[
        &config::default_config(&host),
        &config::minimal_config(&host),
    ]);
    all.extend(corpus::files("agent/src/config/tests", ".yaml"));
    all.extend(corpus::files("agent/src/config", "optional.yaml"));
    all
}

pub(super) fn edgecore_db(bytes: &[u8]) {
    with_file("edgecore.db", bytes, |path| {
        let store: Arc<dyn Store> = MemoryStore::new();
        // A damaged row or file is left out; the in-memory store does not fail.
        wait(metamanager::take_over(path, &store, "edge-1")).expect("a takeover");
    });
}

pub(super) fn edgecore_dbs() -> Vec<Vec<u8>> {
    corpus::files("agent/src/metamanager/takeover/testdata", ".db")
}

pub(super) fn store_db(bytes: &[u8]) {
    with_file("store.db", bytes, |path| {
        wait(async {
            // A damaged file is set aside: there is always a store to go on with.
            let opened = SqliteStore::open_or_begin_anew(path, SqliteOptions::default()).await;
            if let Ok(opened) = opened {
                let _ = opened.store.get(&place()).await;
            }
        });
    });
}

fn place() -> Key {
    Key::new(Resource::new("", "pods"), "default", "web")
}

pub(super) fn store_dbs() -> Vec<Vec<u8>> {
    let mut made = Vec::new();
    with_file("made.db", b"", |path| {
        wait(async {
            let store = SqliteStore::open(path).await.expect("a store");
            let value =
                Some(serde_json::json!({"metadata": {"name": "web", "namespace": "default"}}));
            let write = Write {
                key: place(),
                expect: Expect::Absent,
                value,
            };
            store.commit(vec![write]).await.expect("a commit");
            drop(store);
            // The last connection that is closed writes everything into the one file.
            until("the last connection's end", || {
                !fs::exists(path.with_file_name("made.db-wal")).unwrap_or(true)
            })
            .await;
        });
        made = fs::read(path).expect("a database");
    });
    vec![made]
}

pub(super) fn static_pod(bytes: &[u8]) {
    let Ok(pod) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    if let Ok(pod) = kubeapi::complete_pod(pod) {
        kubeapi::complete_pod(pod).expect("a complete pod is complete");
    }
}

pub(super) fn static_pods() -> Vec<Vec<u8>> {
    corpus::texts(&[
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"},"spec":{"containers":[{"name":"main","image":"nginx:1","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"100m","memory":"1Gi"}},"env":[{"name":"A","value":"1"}]}]}}"#,
    ])
}
