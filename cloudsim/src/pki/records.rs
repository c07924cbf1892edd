//! Records about nodes and tokens: small JSON values by name, with optimistic concurrency.
//!
//! If the API is this program's own, they are in its store, in collections that the API does not serve. Before a cluster's API server
//! they are ConfigMaps in namespace `kubeedge`, which all replicas of the cloud share.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions},
};
use objectstore::{Expect, Key, Object, Page, Resource, Scope, Store, StoreError, Write};
use serde_json::Value;
use wire::enroll::sha256_hex;

use super::secrets::NAMESPACE;

/// The label of ConfigMaps that are records; its value is their kind.
pub(crate) const LABEL: &str = "cloudsim/records";
/// The key of the record's name, which may not be valid as the ConfigMap's name.
const NAME: &str = "name";
/// The key of the record.
const RECORD: &str = "record";
/// The longest name that is used in the ConfigMap's name unchanged.
const PLAIN_NAME: usize = 200;
/// Records listed at a time.
const PAGE: u32 = 500;

/// A record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// A call to the cluster failed.
    #[error(
        "cannot read or write ConfigMaps in namespace {NAMESPACE} of the cluster; `cloudsim roles` prints the permissions"
    )]
    Cluster(#[from] kube::Error),
    /// The contents are not a record.
    #[error("{0} is not a valid record")]
    Damaged(String, #[source] Box<dyn std::error::Error + Send + Sync>),
}

impl RecordsError {
    /// Reports whether the record was changed by others since it was read.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Store(error) => {
                matches!(
                    error,
                    StoreError::Exists(_) | StoreError::Missing(_) | StoreError::Conflict { .. }
                )
            }
            Self::Cluster(kube::Error::Api(status)) => matches!(status.code, 404 | 409),
            Self::Cluster(_) | Self::Damaged(..) => false,
        }
    }
}

/// The precondition of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// There is no record of this name.
    Absent,
    /// The record has this version: a revision of the store, or a resourceVersion.
    Version(String),
    /// None.
    Anything,
}

/// A stored record.
#[derive(Clone, Debug)]
pub(crate) struct RecordEntry {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) version: Precondition,
}

/// A record to write; `None` to delete it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) expected: Precondition,
    pub(crate) value: Option<Value>,
}

/// The records of one kind; cheap to clone.
#[derive(Clone)]
pub(crate) struct Records {
    kind: &'static str,
    place: Storage,
}

#[derive(Clone)]
enum Storage {
    Store(Arc<dyn Store>),
    Cluster(Box<Api<ConfigMap>>),
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Records {
    /// Uses the store under the API.
    pub(crate) fn in_store(kind: &'static str, store: Arc<dyn Store>) -> Self {
        Self {
            kind,
            place: Storage::Store(store),
        }
    }

    /// Uses a cluster.
    pub(crate) fn in_cluster(kind: &'static str, client: &Client) -> Self {
        Self {
            kind,
            place: Storage::Cluster(Box::new(Api::namespaced(client.clone(), NAMESPACE))),
        }
    }

    /// Reports whether [`Self::write`] is atomic.
    pub(crate) fn is_store(&self) -> bool {
        matches!(self.place, Storage::Store(_))
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Option<RecordEntry>, RecordsError> {
        match &self.place {
            Storage::Store(store) => match store.get(&self.key(name)).await {
                Err(error @ StoreError::Damaged { .. }) => Err(RecordsError::Damaged(
                    format!("{} {name}", self.kind),
                    Box::new(error),
                )),
                found => found?.map(|stored| of_store(&stored)).transpose(),
            },
            Storage::Cluster(api) => {
                let found = api.get_opt(&self.object_name(name)).await?;
                found.map(|map| of_cluster(&map)).transpose()
            }
        }
    }

    /// Returns all records that can be read.
    pub(crate) async fn list(&self) -> Result<Vec<RecordEntry>, RecordsError> {
        match &self.place {
            Storage::Store(store) => {
                let scope = Scope {
                    resource: self.resource(),
                    namespace: None,
                };
                let listing = store.list(&scope, &Page::default()).await?;
                Ok(listing
                    .items
                    .iter()
                    .filter_map(|stored| of_store(stored).ok())
                    .collect())
            }
            Storage::Cluster(api) => {
                let mut page = ListParams::default()
                    .labels(&format!("{LABEL}={}", self.kind))
                    .limit(PAGE);
                let mut all = Vec::new();
                loop {
                    let listed = api.list(&page).await?;
                    all.extend(listed.items.iter().filter_map(|map| of_cluster(map).ok()));
                    match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                        Some(token) => page.continue_token = Some(token),
                        None => return Ok(all),
                    }
                }
            }
        }
    }

    /// Writes the changes: atomically in the store, one after the other in a cluster.
    pub(crate) async fn write(&self, changes: Vec<Change>) -> Result<(), RecordsError> {
        match &self.place {
            Storage::Store(store) => {
                let write = |Change {
                                 name,
                                 expected,
                                 value,
                             }| {
                    let expect = match expected {
                        Precondition::Absent => Expect::Absent,
                        Precondition::Version(version) => {
                            Expect::Revision(version.parse().unwrap_or_default())
                        }
                        Precondition::Anything => Expect::Anything,
                    };
                    Write {
                        key: self.key(&name),
                        expect,
                        value,
                    }
                };
                store
                    .commit(changes.into_iter().map(write).collect())
                    .await?;
            }
            Storage::Cluster(api) => {
                for change in changes {
                    self.write_to(api, change).await?;
                }
            }
        }
        Ok(())
    }

    async fn write_to(&self, api: &Api<ConfigMap>, change: Change) -> Result<(), kube::Error> {
        let Change {
            name,
            expected,
            value,
        } = change;
        let version = match &expected {
            Precondition::Version(version) => Some(version.clone()),
            Precondition::Absent | Precondition::Anything => None,
        };
        let Some(value) = value else {
            let preconditions = version.map(|version| Preconditions {
                resource_version: Some(version),
                uid: None,
            });
            let parameters = DeleteParams {
                preconditions,
                ..DeleteParams::default()
            };
            return match api.delete(&self.object_name(&name), &parameters).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                deleted => deleted.map(drop),
            };
        };
        let (post, mut map) = (PostParams::default(), self.object(&name, &value));
        if expected == Precondition::Absent {
            return api.create(&post, &map).await.map(drop);
        }
        map.metadata.resource_version = version;
        match api.replace(&self.object_name(&name), &post, &map).await {
            Err(kube::Error::Api(status))
                if status.code == 404 && expected == Precondition::Anything =>
            {
                api.create(&post, &map).await.map(drop)
            }
            replaced => replaced.map(drop),
        }
    }

    fn object(&self, name: &str, value: &Value) -> ConfigMap {
        let labels = [
            (LABEL, self.kind),
            ("app.kubernetes.io/managed-by", "cloudsim"),
        ];
        let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
        let data = [
            (NAME.to_owned(), name.to_owned()),
            (RECORD.to_owned(), value.to_string()),
        ];
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.object_name(name)),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from(data)),
            ..ConfigMap::default()
        }
    }

    /// Returns the name of the ConfigMap: with the record's name if that is valid in it, else with its hash, which no record's name can
    /// equal.
    fn object_name(&self, name: &str) -> String {
        let is_plain = name.len() <= PLAIN_NAME
            && name.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && wire::enroll::is_node_name(name);
        if is_plain {
            format!("{}-{name}", self.kind)
        } else {
            format!("{}.{}", self.kind, sha256_hex(name.as_bytes()))
        }
    }

    fn resource(&self) -> Resource {
        Resource::new("cloudsim", self.kind)
    }

    fn key(&self, name: &str) -> Key {
        Key::new(self.resource(), "", name)
    }
}

fn of_store(stored: &Object) -> Result<RecordEntry, RecordsError> {
    let (name, version) = (
        stored.key.name.clone(),
        Precondition::Version(stored.revision.to_string()),
    );
    Ok(RecordEntry {
        value: stored.value()?,
        name,
        version,
    })
}

fn of_cluster(map: &ConfigMap) -> Result<RecordEntry, RecordsError> {
    let object = || {
        format!(
            "ConfigMap {NAMESPACE}/{}",
            map.metadata.name.as_deref().unwrap_or_default()
        )
    };
    let field = |name: &str| {
        map.data
            .as_ref()
            .and_then(|data| data.get(name))
            .map_or("", String::as_str)
    };
    let value = serde_json::from_str(field(RECORD));
    Ok(RecordEntry {
        name: field(NAME).to_owned(),
        value: value.map_err(|error| RecordsError::Damaged(object(), Box::new(error)))?,
        version: Precondition::Version(map.metadata.resource_version.clone().unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;
    use serde_json::json;

    use super::*;

    fn value(number: u8) -> Value {
        json!({"metadata": {}, "n": number})
    }

    fn change(name: &str, expected: Precondition, value: Option<Value>) -> Vec<Change> {
        vec![Change {
            name: name.to_owned(),
            expected,
            value,
        }]
    }

    #[tokio::test]
    async fn records_are_changed_by_whoever_has_read_them_last_in_both_places() {
        let client = apiserver::builder(MemoryStore::new())
            .build()
            .client("default");
        crate::controllers::namespace_defaults::ensure_initial(&client)
            .await
            .unwrap();
        let places = [
            Records::in_store("nodecertificates", MemoryStore::new()),
            Records::in_cluster("nodecertificates", &client),
        ];
        for records in places {
            for name in ["edge-1", "*", &"a".repeat(253), "edge.one"] {
                assert!(records.get(name).await.unwrap().is_none());
                records
                    .write(change(name, Precondition::Absent, Some(value(1))))
                    .await
                    .unwrap();
                let raced = records
                    .write(change(name, Precondition::Absent, Some(value(2))))
                    .await
                    .unwrap_err();
                assert!(raced.is_conflict(), "{raced:?}");
                let found = records.get(name).await.unwrap().unwrap();
                assert_eq!((found.name.as_str(), &found.value["n"]), (name, &json!(1)));
                records
                    .write(change(name, found.version.clone(), Some(value(3))))
                    .await
                    .unwrap();
                let raced = records
                    .write(change(name, found.version, Some(value(4))))
                    .await
                    .unwrap_err();
                assert!(raced.is_conflict(), "{raced:?}");
                records
                    .write(change(name, Precondition::Anything, Some(value(5))))
                    .await
                    .unwrap();
            }
            assert_eq!(records.list().await.unwrap().len(), 4);
            records
                .write(change("edge-1", Precondition::Anything, None))
                .await
                .unwrap();
            let mut names: Vec<_> = records
                .list()
                .await
                .unwrap()
                .into_iter()
                .map(|entry| entry.name)
                .collect();
            names.sort();
            assert_eq!(names, ["*", &"a".repeat(253), "edge.one"]);
        }
    }
}
