//! ObjectSync and ClusterObjectSync: the revision of each object that each node has acknowledged, kept in the API so that it survives
//! this process. They are created before an object is sent for the first time: a node whose acknowledgement was lost with this process
//! may hold the object, and must get its deletion.
//!
//! Source: `reliablesyncs.kubeedge.io/v1alpha1`; objects are named `<node>.<uid>`, and those of namespaced objects are in the object's
//! namespace.

mod index;

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use clock::HashMap;
use crds::reliablesyncs::{ClusterObjectSync, ClusterObjectSyncSpec, ObjectSync, ObjectSyncSpec};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Request},
};
use objectstore::Store;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;
use tracing::warn;

use self::index::SyncIndex;
use super::shared_read::SharedRead;
use crate::{
    delivery::ObjectRef,
    mailbox::{ObjectKind, ObjectPath},
};

/// Records listed at a time; a record has some 500 bytes.
const PAGE_SIZE: u32 = 2000;

/// The objects that one node has acknowledged: UID → path and revision; 0 if it was sent and not acknowledged yet.
pub type Synced = HashMap<String, (ObjectPath, u64)>;

/// Marks everything as sent and not acknowledged: all objects are sent again, and so are deletions of those that no longer exist.
pub(crate) fn mark_unacknowledged(synced: &mut Synced) {
    synced.values_mut().for_each(|(_, revision)| *revision = 0);
}

/// A change of a node's records.
#[derive(Clone, Debug)]
pub enum Record {
    /// The node is about to be sent the object, and may hold it from then on.
    Sent(ObjectRef),
    /// The node has acknowledged this revision.
    Holds(ObjectRef, u64),
    /// The node has acknowledged the deletion of the object.
    Dropped(ObjectRef),
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent(object) => write!(f, "is sent {}", object.path),
            Self::Holds(object, revision) => {
                write!(f, "has {} at revision {revision}", object.path)
            }
            Self::Dropped(object) => write!(f, "has dropped {}", object.path),
        }
    }
}

/// Reads and writes the records of all nodes.
#[derive(Clone)]
pub struct SyncRecords {
    client: Client,
    /// By node.
    all: Arc<SharedRead<HashMap<String, Synced>>>,
    /// The records in the store of this program; `None` if the API is a cluster's.
    index: Option<Arc<SyncIndex>>,
}

impl SyncRecords {
    /// Creates it with a client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            all: Arc::default(),
            index: None,
        }
    }

    /// Reads the records from the store under the API, which this program has.
    pub(crate) fn with_store(self, store: Option<&Arc<dyn Store>>) -> Self {
        let index = store.map(|store| Arc::new(SyncIndex::new(Arc::clone(store))));
        Self { index, ..self }
    }

    /// Returns everything that `node` has acknowledged.
    pub async fn load(&self, node: &str) -> Result<Synced, kube::Error> {
        if let Some(index) = &self.index {
            match index.get(node).await {
                Ok(synced) => return Ok(synced),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    warn!(
                        node,
                        error,
                        "failed to read the node's records from the store; reading them from the API"
                    );
                }
            }
        }
        let all = self.all.get(self.read()).await?;
        Ok(all.get(node).cloned().unwrap_or_default())
    }

    /// Returns what all nodes have acknowledged.
    pub(crate) async fn load_all(&self) -> Result<HashMap<String, Synced>, kube::Error> {
        self.read().await
    }

    /// Marks everything that `node` has acknowledged as unacknowledged, since it may have lost it: objects are sent again, and so are
    /// deletions of those that no longer exist.
    pub async fn mark_unacknowledged(&self, node: &str) -> Result<(), kube::Error> {
        for (uid, (path, revision)) in self.load(node).await? {
            if revision > 0 {
                self.write(node, &Record::Holds(ObjectRef { path, uid }, 0))
                    .await?;
            }
        }
        Ok(())
    }

    async fn read(&self) -> Result<HashMap<String, Synced>, kube::Error> {
        let mut all = HashMap::<_, Synced>::default();
        for url in [
            ObjectSync::url_path(&(), None),
            ClusterObjectSync::url_path(&(), None),
        ] {
            let mut page = ListParams::default().limit(PAGE_SIZE);
            loop {
                let request = Request::new(&url)
                    .list(&page)
                    .map_err(kube::Error::BuildRequest)?;
                let found: RecordList = self.client.request(request).await?;
                for (node, uid, held) in found.items.into_iter().filter_map(RecordItem::object) {
                    all.entry(node).or_default().insert(uid, held);
                }
                // a list that takes too long is refused (410), and the node connects again
                match found.metadata.next.filter(|token| !token.is_empty()) {
                    Some(token) => page.continue_token = Some(token),
                    None => break,
                }
            }
        }
        Ok(all)
    }

    /// Writes a change of the records of `node`.
    pub async fn write(&self, node: &str, record: &Record) -> Result<(), kube::Error> {
        let namespace = match record {
            Record::Sent(object) | Record::Holds(object, _) | Record::Dropped(object) => {
                &object.path.namespace
            }
        };
        let client = self.client.clone();
        if namespace.is_empty() {
            write(&Api::<ClusterObjectSync>::all(client), node, record).await
        } else {
            write(
                &Api::<ObjectSync>::namespaced(client, namespace),
                node,
                record,
            )
            .await
        }
    }
}

/// A list of either kind, with only the needed fields: there is one record for each object on each node.
#[derive(Deserialize)]
struct RecordList {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<RecordItem>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct RecordItem {
    metadata: RecordMetadata,
    #[serde(default)]
    spec: RecordSpec,
    #[serde(default)]
    status: RecordStatus,
}

#[derive(Deserialize)]
struct RecordMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

/// The spec, which both kinds have in common.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RecordSpec {
    object_kind: Option<String>,
    object_name: Option<String>,
}

/// The status, which both kinds have in common.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RecordStatus {
    object_resource_version: Option<String>,
}

impl RecordItem {
    /// Returns the node and its entry for `Synced`; `None` if the record is invalid.
    fn object(self) -> Option<(String, String, (ObjectPath, u64))> {
        // names of nodes may contain dots, UIDs do not
        let (node, uid) = self.metadata.name.rsplit_once('.')?;
        let kind = ObjectKind::from_kind(&self.spec.object_kind?)?;
        let path = ObjectPath::new(kind, self.metadata.namespace, self.spec.object_name?);
        let revision = self.status.object_resource_version;
        let revision = revision
            .and_then(|revision| revision.parse().ok())
            .unwrap_or(0);
        Some((node.to_owned(), uid.to_owned(), (path, revision)))
    }
}

/// An ObjectSync or a ClusterObjectSync.
trait SyncObject: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned {
    /// Creates an object without a status, which the API ignores at creation.
    fn new(metadata: ObjectMeta, path: &ObjectPath) -> Self;
}

macro_rules! sync {
    ($kind:ident, $spec:ident) => {
        impl SyncObject for $kind {
            fn new(metadata: ObjectMeta, path: &ObjectPath) -> Self {
                let spec = $spec {
                    object_api_version: Some(path.kind.api_version().into()),
                    object_kind: Some(path.kind.kind().into()),
                    object_name: Some(path.name.clone()),
                };
                Self {
                    metadata,
                    spec,
                    status: None,
                }
            }
        }
    };
}

sync!(ObjectSync, ObjectSyncSpec);
sync!(ClusterObjectSync, ClusterObjectSyncSpec);

async fn write<K: SyncObject>(
    api: &Api<K>,
    node: &str,
    record: &Record,
) -> Result<(), kube::Error> {
    match record {
        Record::Sent(object) => exists(
            api.create(&PostParams::default(), &sync::<K>(node, object))
                .await,
        ),
        Record::Holds(object, revision) => put_status(api, &sync(node, object), *revision).await,
        Record::Dropped(object) => {
            match api
                .delete(&sync_name(node, object), &DeleteParams::default())
                .await
                .map(drop)
            {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                deleted => deleted,
            }
        }
    }
}

fn sync<K: SyncObject>(node: &str, object: &ObjectRef) -> K {
    let metadata = ObjectMeta {
        name: Some(sync_name(node, object)),
        ..ObjectMeta::default()
    };
    K::new(metadata, &object.path)
}

fn sync_name(node: &str, object: &ObjectRef) -> String {
    format!("{node}.{}", object.uid)
}

/// Accepts that the record exists, and that its namespace is being deleted (403, then 404): there is then nothing to record.
fn exists<K>(made: Result<K, kube::Error>) -> Result<(), kube::Error> {
    match made {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(kube::Error::Api(status))
            if status.code == 403 && status.message.contains(NAMESPACE_TERMINATING) =>
        {
            Ok(())
        }
        made => made.map(drop),
    }
}

/// The API's message about a namespace that is being deleted; other refusals are missing rights.
const NAMESPACE_TERMINATING: &str = "is being terminated";

/// Sets the status; creates the object first if it is missing, as after somebody has deleted it.
async fn put_status<K: SyncObject>(
    api: &Api<K>,
    sync: &K,
    revision: u64,
) -> Result<(), kube::Error> {
    let name = sync.name_any();
    let patch = Patch::Merge(json!({"status": {"objectResourceVersion": revision.to_string()}}));
    let parameters = PatchParams::default();
    match api.patch_status(&name, &parameters, &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        result => return result.map(drop),
    }
    exists(api.create(&PostParams::default(), sync).await)?;
    match api.patch_status(&name, &parameters, &patch).await {
        // the namespace may be terminating, as above
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result.map(drop),
    }
}
