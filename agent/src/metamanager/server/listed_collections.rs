//! The collections that the copies hold completely, because the cloud has listed them: these can be listed without the cloud.
//! Of all others there may be copies of single objects, and a list of those would tell a client that all others are gone.
//!
//! The set is stored beside the copies, and is removed with them.

use std::sync::Arc;

use objectstore::{Key, Resource, StoreError};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use wire::application::Target;

use super::{
    super::desired::Desired,
    keys::resource,
    watches::{Collection, covers},
};

/// The most collections that are remembered; beyond it the one that was added first is dropped.
const MAX_COLLECTIONS: usize = 256;

/// The collections that were listed; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ListedCollections {
    copies: Desired,
    /// `None` until it was read from the store.
    known: Arc<Mutex<Option<Vec<Collection>>>>,
}

/// Returns the collection of the one object that stores the set; no client can request it.
pub(super) fn set_resource() -> Resource {
    Resource::new("held.outrigger.dev", "collections")
}

fn key() -> Key {
    Key::new(set_resource(), "", "all")
}

impl ListedCollections {
    /// Creates the set beside these copies.
    pub(super) fn new(copies: Desired) -> Self {
        Self {
            copies,
            known: Arc::default(),
        }
    }

    /// Reports whether all objects of `collection` were listed.
    pub(super) async fn has(&self, collection: &Collection) -> Result<bool, StoreError> {
        let mut known = self.known.lock().await;
        let known = self.read(&mut known).await?;
        Ok(known.iter().any(|held| covers(held, collection)))
    }

    /// Adds a collection, all objects of which are among the copies now.
    pub(super) async fn add(&self, collection: &Collection) -> Result<(), StoreError> {
        let mut known = self.known.lock().await;
        let known = self.read(&mut known).await?;
        if known.iter().any(|held| covers(held, collection)) {
            return Ok(());
        }
        let mut new: Vec<_> = known
            .iter()
            .filter(|held| !covers(collection, held))
            .cloned()
            .collect();
        new.push(collection.clone());
        let surplus = new.len().saturating_sub(MAX_COLLECTIONS);
        new.drain(..surplus);
        self.write(known, new).await
    }

    /// Drops a collection whose copies are removed.
    pub(super) async fn forget(&self, gone: &Resource) -> Result<(), StoreError> {
        let mut known = self.known.lock().await;
        let known = self.read(&mut known).await?;
        let new: Vec<_> = known
            .iter()
            .filter(|held| resource(&held.target) != *gone)
            .cloned()
            .collect();
        if new.len() == known.len() {
            Ok(())
        } else {
            self.write(known, new).await
        }
    }

    async fn read<'a>(
        &self,
        known: &'a mut Option<Vec<Collection>>,
    ) -> Result<&'a mut Vec<Collection>, StoreError> {
        if known.is_none() {
            let stored = self.copies.get(&key()).await?.unwrap_or_default();
            let items = stored.get("items").and_then(Value::as_array);
            *known = Some(
                items
                    .into_iter()
                    .flatten()
                    .filter_map(parse_collection)
                    .collect(),
            );
        }
        Ok(known.get_or_insert_default())
    }

    async fn write(
        &self,
        known: &mut Vec<Collection>,
        new: Vec<Collection>,
    ) -> Result<(), StoreError> {
        let items: Vec<_> = new
            .iter()
            .map(|held| json!([held.target.to_string(), held.labels, held.fields]))
            .collect();
        self.copies
            .set(&key(), Some(json!({"metadata": {}, "items": items})))
            .await?;
        *known = new;
        Ok(())
    }
}

fn parse_collection(item: &Value) -> Option<Collection> {
    let text = |at: usize| item.get(at).and_then(Value::as_str);
    let (target, labels, fields) = (
        Target::parse(text(0)?)?,
        text(1)?.to_owned(),
        text(2)?.to_owned(),
    );
    Some(Collection {
        target,
        labels,
        fields,
    })
}

#[cfg(test)]
mod tests {
    use objectstore::{MemoryStore, Store};

    use super::*;

    fn collection(plural: &str, namespace: &str, fields: &str) -> Collection {
        let target = Target {
            version: "v1".into(),
            plural: plural.into(),
            namespace: namespace.into(),
            ..Target::default()
        };
        Collection {
            target,
            labels: String::new(),
            fields: fields.into(),
        }
    }

    #[tokio::test]
    async fn listed_collections_survive_restarts_until_their_copies_are_removed() {
        let store: Arc<dyn Store> = MemoryStore::new();
        let begin = || ListedCollections::new(Desired::new(store.clone(), String::new()));
        let held = begin();
        let rows = [
            (collection("configmaps", "", ""), true),
            (collection("configmaps", "a", "metadata.name=x"), true),
            (collection("secrets", "a", ""), true),
            (collection("secrets", "a", "metadata.name=x"), true),
            (collection("secrets", "b", ""), false),
            (collection("secrets", "", ""), false),
        ];
        for (wanted, _) in &rows {
            assert!(
                !held.has(wanted).await.unwrap(),
                "{wanted:?} was never listed"
            );
        }
        held.add(&collection("configmaps", "a", "")).await.unwrap();
        held.add(&collection("configmaps", "", "")).await.unwrap();
        held.add(&collection("secrets", "a", "")).await.unwrap();
        for held in [held, begin()] {
            for (wanted, expected) in &rows {
                assert_eq!(held.has(wanted).await.unwrap(), *expected, "{wanted:?}");
            }
        }
        begin()
            .forget(&Resource::new("", "configmaps"))
            .await
            .unwrap();
        assert!(
            !begin()
                .has(&collection("configmaps", "a", ""))
                .await
                .unwrap()
        );
        assert!(begin().has(&collection("secrets", "a", "")).await.unwrap());
    }

    #[tokio::test]
    async fn there_is_a_limit() {
        let held = ListedCollections::new(Desired::new(MemoryStore::new(), String::new()));
        for number in 0..=MAX_COLLECTIONS {
            held.add(&collection("pods", &number.to_string(), ""))
                .await
                .unwrap();
        }
        assert!(
            !held.has(&collection("pods", "0", "")).await.unwrap(),
            "the first has made room"
        );
        assert!(held.has(&collection("pods", "1", "")).await.unwrap());
    }
}
