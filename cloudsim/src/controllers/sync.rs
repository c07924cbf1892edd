//! ObjectSync and ClusterObjectSync: which revision of an object each node has acknowledged, kept in the API so that it
//! survives this process. They are made before an object is sent for the first time: a node whose acknowledgement was lost with
//! this process may hold the object, and has to be told of its end.
//!
//! Source: `reliablesyncs.kubeedge.io/v1alpha1`; objects are named `<node>.<uid>`, namespaced ones stand in the object's
//! namespace.

use std::{collections::HashMap, fmt::Debug, sync::Arc};

use crds::reliablesyncs::{ClusterObjectSync, ClusterObjectSyncSpec, ObjectSync, ObjectSyncSpec};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Request},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use super::newest::Newest;
use crate::{
    delivery::ObjectRef,
    mailbox::{ObjectKind, ObjectPath},
};

/// Records that are asked for at a time; a record has some 500 bytes.
const PAGE: u32 = 2000;

/// What one node has acknowledged: UID → place and revision; 0 where it was sent and not acknowledged yet.
pub type Synced = HashMap<String, (ObjectPath, u64)>;

/// The node may hold any of it, in any revision: all is to be sent, and the end of what there is no more.
pub(crate) fn doubt(synced: &mut Synced) {
    synced.values_mut().for_each(|(_, revision)| *revision = 0);
}

/// To be written down.
#[derive(Clone, Debug)]
pub enum Record {
    /// The node is about to be sent the object, and may hold it from then on.
    Sent(ObjectRef),
    /// The node holds this revision.
    Holds(ObjectRef, u64),
    /// The node has deleted the object.
    Dropped(ObjectRef),
}

/// Reads and writes the bookkeeping of all nodes.
#[derive(Clone)]
pub struct SyncRecords {
    client: Client,
    /// By node.
    all: Arc<Newest<HashMap<String, Synced>>>,
}

impl SyncRecords {
    /// Through this client.
    pub fn new(client: Client) -> Self {
        Self { client, all: Arc::default() }
    }

    /// Everything that `node` has acknowledged.
    pub async fn load(&self, node: &str) -> Result<Synced, kube::Error> {
        let all = self.all.get(self.read()).await?;
        Ok(all.get(node).cloned().unwrap_or_default())
    }

    /// `node` may have lost all that it has acknowledged: nothing is known but that it may hold it. Whatever there still is will be
    /// sent anew, and the end of what there is no more.
    pub async fn doubt(&self, node: &str) -> Result<(), kube::Error> {
        for (uid, (path, revision)) in self.load(node).await? {
            if revision > 0 {
                self.write(node, &Record::Holds(ObjectRef { path, uid }, 0)).await?;
            }
        }
        Ok(())
    }

    async fn read(&self) -> Result<HashMap<String, Synced>, kube::Error> {
        let mut all = HashMap::<_, Synced>::new();
        for url in [ObjectSync::url_path(&(), None), ClusterObjectSync::url_path(&(), None)] {
            let mut page = ListParams::default().limit(PAGE);
            loop {
                let request = Request::new(&url).list(&page).map_err(kube::Error::BuildRequest)?;
                let found: Listed = self.client.request(request).await?;
                for (node, uid, held) in found.items.into_iter().filter_map(Line::object) {
                    all.entry(node).or_default().insert(uid, held);
                }
                // a list that takes too long is refused (410), and the node comes again
                match found.metadata.next.filter(|token| !token.is_empty()) {
                    Some(token) => page.continue_token = Some(token),
                    None => break,
                }
            }
        }
        Ok(all)
    }

    /// Writes something about `node` down.
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
            write(&Api::<ObjectSync>::namespaced(client, namespace), node, record).await
        }
    }
}

/// A list of either kind. Of what a record is only what is needed is read: there is one for each object on each node.
#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    metadata: More,
    items: Vec<Line>,
}

#[derive(Default, Deserialize)]
struct More {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Line {
    metadata: Place,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Place {
    name: String,
    #[serde(default)]
    namespace: String,
}

/// Both kinds' specs are alike …
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    object_kind: Option<String>,
    object_name: Option<String>,
}

/// … and so are their statuses.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    object_resource_version: Option<String>,
}

impl Line {
    /// The node, and what `Synced` has of it; `None` where it is no such record.
    fn object(self) -> Option<(String, String, (ObjectPath, u64))> {
        // names of nodes may hold dots, UIDs do not
        let (node, uid) = self.metadata.name.rsplit_once('.')?;
        let kind = ObjectKind::from_kind(&self.spec.object_kind?)?;
        let path = ObjectPath::new(kind, self.metadata.namespace, self.spec.object_name?);
        let revision = self.status.object_resource_version;
        let revision = revision.and_then(|revision| revision.parse().ok()).unwrap_or(0);
        Some((node.to_owned(), uid.to_owned(), (path, revision)))
    }
}

/// An ObjectSync or a ClusterObjectSync.
trait Entry: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned {
    /// Without a status: the API takes none at creation.
    fn new(metadata: ObjectMeta, path: &ObjectPath) -> Self;
}

macro_rules! sync {
    ($kind:ident, $spec:ident) => {
        impl Entry for $kind {
            fn new(metadata: ObjectMeta, path: &ObjectPath) -> Self {
                let spec = $spec {
                    object_api_version: Some(path.kind.api_version().into()),
                    object_kind: Some(path.kind.kind().into()),
                    object_name: Some(path.name.clone()),
                };
                Self { metadata, spec, status: None }
            }
        }
    };
}

sync!(ObjectSync, ObjectSyncSpec);
sync!(ClusterObjectSync, ClusterObjectSyncSpec);

async fn write<K: Entry>(api: &Api<K>, node: &str, record: &Record) -> Result<(), kube::Error> {
    match record {
        Record::Sent(object) => exists(api.create(&PostParams::default(), &sync::<K>(node, object)).await),
        Record::Holds(object, revision) => put_status(api, &sync(node, object), *revision).await,
        Record::Dropped(object) => {
            match api.delete(&sync_name(node, object), &DeleteParams::default()).await.map(drop) {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                deleted => deleted,
            }
        }
    }
}

fn sync<K: Entry>(node: &str, object: &ObjectRef) -> K {
    let metadata = ObjectMeta { name: Some(sync_name(node, object)), ..ObjectMeta::default() };
    K::new(metadata, &object.path)
}

fn sync_name(node: &str, object: &ObjectRef) -> String {
    format!("{node}.{}", object.uid)
}

/// Made now or before; or the namespace goes away with its objects (403 as long as it does, 404 then), and there is nothing to
/// remember.
fn exists<K>(made: Result<K, kube::Error>) -> Result<(), kube::Error> {
    match made {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains(GOING) => Ok(()),
        made => made.map(drop),
    }
}

/// What the API says of a namespace that goes away; other refusals are rights that this cloud lacks.
const GOING: &str = "is being terminated";

/// Sets the status; creates the object first where it is missing, as after somebody has deleted it.
async fn put_status<K: Entry>(api: &Api<K>, sync: &K, revision: u64) -> Result<(), kube::Error> {
    let name = sync.name_any();
    let patch = Patch::Merge(json!({"status": {"objectResourceVersion": revision.to_string()}}));
    let parameters = PatchParams::default();
    match api.patch_status(&name, &parameters, &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        result => return result.map(drop),
    }
    exists(api.create(&PostParams::default(), sync).await)?;
    match api.patch_status(&name, &parameters, &patch).await {
        // as above
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => result.map(drop),
    }
}
