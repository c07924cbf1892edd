//! Notifications about objects that were deleted while their watch was listing again.

use std::sync::Arc;

use objectstore::{Expect, Key, LogLimits, MemoryStore, Resource, Store, Write};
use serde_json::{Value, json};
use testkit::WAIT_TIMEOUT;
use tokio::time::timeout;

use super::*;
use crate::mailbox::{Mailbox, Mailboxes};

/// The number of changes that a watcher may lag behind.
const LOG: LogLimits = LogLimits::new(4, 1 << 16);

fn write(plural: &str, namespace: &str, name: &str, value: Option<Value>) -> Write {
    let key = Key::new(Resource::new("", plural), namespace, name);
    Write {
        key,
        expect: Expect::Anything,
        value,
    }
}

fn config(name: &str) -> Write {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns", "uid": name}});
    write("configmaps", "ns", name, Some(object))
}

fn pod() -> Write {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "ns", "uid": "web"},
        "spec": {"nodeName": "edge-1", "containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "settings"}}]}]},
    });
    write("pods", "ns", "web", Some(object))
}

/// Waits until the node of the mailbox was notified of all of them.
async fn until<const N: usize>(mailbox: &Mailbox, wanted: [&ObjectPath; N]) {
    let mut left: BTreeSet<ObjectPath> = wanted.into_iter().cloned().collect();
    let seen = async {
        loop {
            left = &left - &mailbox.take();
            if left.is_empty() {
                return;
            }
            mailbox.changed().await;
        }
    };
    let waited = timeout(WAIT_TIMEOUT, seen).await;
    assert!(waited.is_ok(), "nobody looks at {left:?}");
}

#[tokio::test]
async fn what_is_deleted_while_nothing_is_watched_is_looked_at() {
    let store = MemoryStore::with_log(LOG);
    let api = apiserver::builder(Arc::<MemoryStore>::clone(&store)).build();
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-1", "uid": "n"}});
    store
        .commit(vec![
            config("settings"),
            write("nodes", "", "edge-1", Some(node)),
        ])
        .await
        .unwrap();
    let mailboxes = Mailboxes::default();
    let mailbox = mailboxes.open("edge-1");
    let (settings, node) = (
        ObjectPath::new(ObjectKind::ConfigMap, "ns", "settings"),
        ObjectPath::new(ObjectKind::Node, "", "edge-1"),
    );
    let shutdown = CancellationToken::new();
    let running =
        tokio::spawn(Edge::new(api.client("default"), mailboxes, "").run(shutdown.clone()));
    until(&mailbox, [&node]).await;
    store.commit(vec![pod()]).await.unwrap();
    until(&mailbox, [&settings]).await;
    mailbox.take();

    // more changes than any watcher can follow, with nothing running in between
    let mut writes = vec![
        write("configmaps", "ns", "settings", None),
        write("nodes", "", "edge-1", None),
    ];
    writes.extend((0..8).map(|number| config(&format!("other-{number}"))));
    store.commit(writes).await.unwrap();
    until(&mailbox, [&settings, &node]).await;
    shutdown.cancel();
    running.await.unwrap();
}
