//! The edge controller: Kubernetes objects go down to the nodes that need them, the nodes' reports and requests go into the API.
//!
//! In: events of pods, nodes, ConfigMaps and Secrets (they fill the mailboxes of the nodes concerned); messages of nodes
//! ([`Edge::handle`]). Out: the messages that a node lacks ([`Edge::parcels`]) and answers. Every request of a node is checked
//! against [`index::Index`]: a node touches only its own objects.

mod authorize;
mod index;
mod mirror;
mod objects;
mod references;
mod request;
mod status;
mod storage;
mod upstream;
mod watch;

use std::{collections::BTreeSet, sync::Arc};

use kube::Client;
use parking_lot::RwLock;
use serde_json::{Value, json};
use wire::{Change, Downstream, ResourceType};

use self::index::Index;
pub use self::upstream::Reply;
use crate::{
    controllers::sync::{Subject, Synced},
    hub::lane::{LaneKey, Parcel},
    mailbox::{Mailboxes, ObjectKind, ObjectPath},
};

/// The handle; cheap to clone.
#[derive(Clone)]
pub struct Edge {
    client: Client,
    index: Arc<RwLock<Index>>,
    mailboxes: Mailboxes,
    root_ca: Arc<str>,
}

impl Edge {
    /// A controller over `client`; `root_ca` (PEM) answers the nodes' query for it.
    pub fn new(client: Client, mailboxes: Mailboxes, root_ca: &str) -> Self {
        Self { client, index: Arc::default(), mailboxes, root_ca: root_ca.into() }
    }

    /// Whether `node` holds or needs the object at `path`.
    pub(crate) fn concerns(&self, node: &str, path: &ObjectPath) -> bool {
        self.index.read().concerns(node, path)
    }

    /// Whether the pod of this UID runs on `node`, as this service account.
    pub(crate) fn runs_as(&self, node: &str, namespace: &str, account: &str, pod: &str) -> bool {
        self.index.read().account_on(node, namespace, account, Some(pod))
    }

    /// Everything that `node` should look at when it connects: what it should hold, and what it is known to hold.
    pub fn everything(&self, node: &str, synced: &Synced) -> BTreeSet<ObjectPath> {
        let mut paths = self.index.read().desired(node);
        paths.extend(synced.values().map(|(path, _)| path.clone()));
        paths
    }

    /// The messages that bring `node` from what it has acknowledged to the newest state of the object at `path`; none where it
    /// is up to date, or where the object is none of its business.
    pub async fn parcels(
        &self,
        node: &str,
        path: &ObjectPath,
        synced: &Synced,
    ) -> Result<Vec<Parcel>, kube::Error> {
        let live =
            if self.index.read().concerns(node, path) || synced.values().any(|(known, _)| known == path) {
                objects::get(&self.client, path).await?
            } else {
                return Ok(Vec::new());
            };
        // a pod that was bound to another node meanwhile is gone for this one
        let mine = live.filter(|object| path.kind != ObjectKind::Pod || object["spec"]["nodeName"] == node);
        Ok(difference(path, mine, synced))
    }
}

/// Pure: what to send, given the live object and what was acknowledged.
fn difference(path: &ObjectPath, live: Option<Value>, synced: &Synced) -> Vec<Parcel> {
    let uid =
        live.as_ref().and_then(|object| object["metadata"]["uid"].as_str()).unwrap_or_default().to_owned();
    let mut gone: Vec<(u64, &String)> = synced
        .iter()
        .filter(|(known, (place, _))| place == path && **known != uid)
        .map(|(gone, (_, revision))| (*revision, gone))
        .collect();
    // the oldest first
    gone.sort();
    let mut parcels: Vec<Parcel> = gone.into_iter().map(|(_, gone)| delete(path, gone)).collect();
    if let Some(object) = live {
        parcels.extend(put(path, uid, object, synced));
    }
    parcels
}

/// The last word on an object: a stub, as CloudCore's sync controller sends it.
fn delete(path: &ObjectPath, uid: &str) -> Parcel {
    let stub = json!({"metadata": {"name": path.name, "namespace": path.namespace, "uid": uid}});
    let body = Downstream::put(Change::Delete, &path.namespace, &token(path.kind), &path.name, stub);
    Parcel {
        key: LaneKey::Object(uid.to_owned()),
        subject: Some(Subject { path: path.clone(), uid: uid.to_owned() }),
        revision: None,
        message: body.into_message(now_ms()),
    }
}

fn put(path: &ObjectPath, uid: String, object: Value, synced: &Synced) -> Option<Parcel> {
    let text = object["metadata"]["resourceVersion"].as_str()?.to_owned();
    let revision: u64 = text.parse().ok()?;
    let known = synced.get(&uid).map(|(_, revision)| *revision);
    if known.is_some_and(|known| known >= revision) {
        return None;
    }
    // sent and not acknowledged, it may never have arrived
    let first = known.is_none_or(|known| known == 0);
    let change = match path.kind {
        // as CloudCore: nodes and secrets are always updates, and so is a pod that is first seen while it is being deleted
        ObjectKind::Node | ObjectKind::Secret => Change::Update,
        ObjectKind::Pod if object["metadata"]["deletionTimestamp"].is_string() => Change::Update,
        ObjectKind::Pod | ObjectKind::ConfigMap if first => Change::Insert,
        ObjectKind::Pod | ObjectKind::ConfigMap => Change::Update,
    };
    let body = Downstream::put(change, &path.namespace, &token(path.kind), &path.name, object);
    Some(Parcel {
        key: LaneKey::Object(uid.clone()),
        subject: Some(Subject { path: path.clone(), uid }),
        revision: Some(revision),
        message: body.into_message(now_ms()).at_revision(&text),
    })
}

fn token(kind: ObjectKind) -> ResourceType {
    match kind {
        ObjectKind::Node => ResourceType::Node,
        ObjectKind::ConfigMap => ResourceType::ConfigMap,
        ObjectKind::Secret => ResourceType::Secret,
        ObjectKind::Pod => ResourceType::Pod,
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests;
