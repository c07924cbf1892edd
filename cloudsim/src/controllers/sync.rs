//! ObjectSync and ClusterObjectSync: which revision of an object each node has acknowledged, kept in the API so that it
//! survives this process. They are made before an object is sent for the first time: a node whose acknowledgement was lost with
//! this process may hold the object, and has to be told of its end.
//!
//! Source: `reliablesyncs.kubeedge.io/v1alpha1`; objects are named `<node>.<uid>`, namespaced ones stand in the object's
//! namespace.

use std::collections::HashMap;

use crds::reliablesyncs::{ClusterObjectSync, ClusterObjectSyncSpec, ObjectSync, ObjectSyncSpec};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::mailbox::{ObjectKind, ObjectPath};

/// An object as the bookkeeping knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its place.
    pub path: ObjectPath,
    /// Its UID.
    pub uid: String,
}

/// What one node has acknowledged: UID → place and revision; 0 where it was sent and not acknowledged yet.
pub type Synced = HashMap<String, (ObjectPath, u64)>;

/// To be written down.
#[derive(Clone, Debug)]
pub enum Record {
    /// The node is about to be sent the object, and may hold it from then on.
    Sent(Subject),
    /// The node holds this revision.
    Holds(Subject, u64),
    /// The node has deleted the object.
    Dropped(Subject),
}

/// Reads and writes the bookkeeping of all nodes.
#[derive(Clone)]
pub struct SyncRecords {
    client: Client,
}

impl SyncRecords {
    /// Through this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Everything that `node` has acknowledged.
    pub async fn load(&self, node: &str) -> Result<Synced, kube::Error> {
        let prefix = format!("{node}.");
        let mut synced = Synced::new();
        for sync in Api::<ObjectSync>::all(self.client.clone()).list(&ListParams::default()).await? {
            let revision = sync.status.as_ref().and_then(|status| status.object_resource_version.as_deref());
            let namespace = sync.namespace().unwrap_or_default();
            note(
                &mut synced,
                &prefix,
                &sync.name_any(),
                &sync.spec.object_kind,
                (namespace, &sync.spec.object_name),
                revision,
            );
        }
        for sync in Api::<ClusterObjectSync>::all(self.client.clone()).list(&ListParams::default()).await? {
            let revision = sync.status.as_ref().and_then(|status| status.object_resource_version.as_deref());
            let place = (String::new(), &sync.spec.object_name);
            note(&mut synced, &prefix, &sync.name_any(), &sync.spec.object_kind, place, revision);
        }
        Ok(synced)
    }

    /// Writes something about `node` down.
    pub async fn write(&self, node: &str, record: &Record) -> Result<(), kube::Error> {
        match record {
            Record::Sent(subject) if subject.path.namespace.is_empty() => {
                let api = Api::<ClusterObjectSync>::all(self.client.clone());
                exists(api.create(&PostParams::default(), &cluster_sync(node, subject)).await)
            }
            Record::Sent(subject) => {
                let api = Api::<ObjectSync>::namespaced(self.client.clone(), &subject.path.namespace);
                exists(api.create(&PostParams::default(), &sync(node, subject)).await)
            }
            Record::Holds(subject, revision) if subject.path.namespace.is_empty() => {
                self.hold_cluster(node, subject, *revision).await
            }
            Record::Holds(subject, revision) => self.hold(node, subject, *revision).await,
            Record::Dropped(subject) => self.drop(node, subject).await,
        }
    }

    async fn hold(&self, node: &str, subject: &Subject, revision: u64) -> Result<(), kube::Error> {
        let api = Api::<ObjectSync>::namespaced(self.client.clone(), &subject.path.namespace);
        put_status(&api, &sync_name(node, subject), &sync(node, subject), revision).await
    }

    async fn hold_cluster(&self, node: &str, subject: &Subject, revision: u64) -> Result<(), kube::Error> {
        let api = Api::<ClusterObjectSync>::all(self.client.clone());
        put_status(&api, &sync_name(node, subject), &cluster_sync(node, subject), revision).await
    }

    async fn drop(&self, node: &str, subject: &Subject) -> Result<(), kube::Error> {
        let (client, name) = (self.client.clone(), sync_name(node, subject));
        let parameters = DeleteParams::default();
        let deleted = if subject.path.namespace.is_empty() {
            Api::<ClusterObjectSync>::all(client).delete(&name, &parameters).await.map(|_| ())
        } else {
            Api::<ObjectSync>::namespaced(client, &subject.path.namespace)
                .delete(&name, &parameters)
                .await
                .map(|_| ())
        };
        match deleted {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted,
        }
    }
}

fn sync_name(node: &str, subject: &Subject) -> String {
    format!("{node}.{}", subject.uid)
}

/// Without a status: the API takes none at creation.
fn sync(node: &str, subject: &Subject) -> ObjectSync {
    ObjectSync {
        metadata: ObjectMeta { name: Some(sync_name(node, subject)), ..ObjectMeta::default() },
        spec: ObjectSyncSpec {
            object_api_version: Some(subject.path.kind.api_version().into()),
            object_kind: Some(subject.path.kind.kind().into()),
            object_name: Some(subject.path.name.clone()),
        },
        status: None,
    }
}

fn cluster_sync(node: &str, subject: &Subject) -> ClusterObjectSync {
    ClusterObjectSync {
        metadata: ObjectMeta { name: Some(sync_name(node, subject)), ..ObjectMeta::default() },
        spec: ClusterObjectSyncSpec {
            object_api_version: Some(subject.path.kind.api_version().into()),
            object_kind: Some(subject.path.kind.kind().into()),
            object_name: Some(subject.path.name.clone()),
        },
        status: None,
    }
}

/// Made now or before; or the namespace goes away with its objects (403 as long as it does, 404 then), and there is nothing to
/// remember.
fn exists<K>(made: Result<K, kube::Error>) -> Result<(), kube::Error> {
    match made {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => Ok(()),
        made => made.map(drop),
    }
}

fn note(
    synced: &mut Synced,
    prefix: &str,
    name: &str,
    kind: &Option<String>,
    (namespace, object): (String, &Option<String>),
    revision: Option<&str>,
) {
    let kind = kind.as_deref().and_then(ObjectKind::from_kind);
    let (Some(uid), Some(kind), Some(object)) = (name.strip_prefix(prefix), kind, object) else { return };
    // a node named `a` also sees `a.b.<uid>` of node `a.b`: UIDs hold no dots
    if !uid.contains('.') {
        let revision = revision.and_then(|revision| revision.parse().ok()).unwrap_or(0);
        synced.insert(uid.to_owned(), (ObjectPath::new(kind, namespace, object), revision));
    }
}

/// Sets the status; creates the object first where it is missing, as after somebody has deleted it.
async fn put_status<K>(api: &Api<K>, name: &str, sync: &K, revision: u64) -> Result<(), kube::Error>
where
    K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({"status": {"objectResourceVersion": revision.to_string()}}));
    let parameters = PatchParams::default();
    match api.patch_status(name, &parameters, &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        result => return result.map(drop),
    }
    exists(api.create(&PostParams::default(), sync).await)?;
    match api.patch_status(name, &parameters, &patch).await {
        // as above
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result.map(drop),
    }
}
