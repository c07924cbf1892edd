//! Sets of names that rules of the cloud have given, in the store: subscribed topics, and URLs that may be called. The names in
//! EdgeCore's tables count, too, until the cloud removes them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use objectstore::{Expect, Key, Page, Resource, Scope, Store, StoreError, Write};
use serde_json::{Value, json};

/// The group of rows that were taken over from EdgeCore, a collection for each of its tables.
const EDGECORE_GROUP: &str = "edgecore.outrigger.dev";

/// A set of names in the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameSet {
    /// The API group and plural of this agent's own collection.
    own: (&'static str, &'static str),
    /// The name of EdgeCore's table.
    table: &'static str,
}

impl NameSet {
    /// Creates the set of this collection and EdgeCore's table.
    pub(crate) const fn new(
        group: &'static str,
        plural: &'static str,
        table: &'static str,
    ) -> Self {
        Self {
            own: (group, plural),
            table,
        }
    }

    /// Returns all names.
    pub(crate) async fn load(
        &self,
        store: &Arc<dyn Store>,
    ) -> Result<BTreeSet<String>, StoreError> {
        Ok(self.load_details(store).await?.into_keys().collect())
    }

    /// Returns all names with the detail of each; `null` for none.
    pub(crate) async fn load_details(
        &self,
        store: &Arc<dyn Store>,
    ) -> Result<BTreeMap<String, Value>, StoreError> {
        let mut names = BTreeMap::new();
        for resource in self.resources() {
            let scope = Scope {
                resource,
                namespace: None,
            };
            for object in store.list(&scope, &Page::default()).await?.items {
                // a damaged object still has its name
                let detail = object
                    .value()
                    .map(|mut value| value["detail"].take())
                    .unwrap_or_default();
                names.entry(object.key.name).or_insert(detail);
            }
        }
        Ok(names)
    }

    /// Adds or removes a name.
    pub(crate) async fn set(
        &self,
        store: &Arc<dyn Store>,
        name: &str,
        on: bool,
    ) -> Result<(), StoreError> {
        self.set_detail(store, name, on.then_some(Value::Null))
            .await
    }

    /// Adds a name with its detail, or removes it.
    pub(crate) async fn set_detail(
        &self,
        store: &Arc<dyn Store>,
        name: &str,
        detail: Option<Value>,
    ) -> Result<(), StoreError> {
        let resources = self.resources();
        // EdgeCore's name is removed, too
        let count = if detail.is_some() { 1 } else { resources.len() };
        for resource in resources.into_iter().take(count) {
            let key = Key::new(resource, "", name);
            let value = detail
                .as_ref()
                .map(|detail| json!({"metadata": {"name": name}, "detail": detail}));
            match store
                .commit(vec![Write {
                    key,
                    expect: Expect::Anything,
                    value,
                }])
                .await
            {
                Ok(_) | Err(StoreError::Missing(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn resources(&self) -> [Resource; 2] {
        [self.own, (EDGECORE_GROUP, self.table)].map(|(group, plural)| Resource::new(group, plural))
    }
}

#[cfg(test)]
mod tests {
    use objectstore::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn names_are_kept_with_those_of_edgecore() {
        let names = NameSet::new("eventbus.outrigger.dev", "topics", "sub_topics");
        let store: Arc<dyn Store> = MemoryStore::new();
        let [_, old] = names.resources();
        let value = Some(json!({"metadata": {}, "row": {}}));
        let key = Key::new(old, "", "default/old");
        store
            .commit(vec![Write {
                key,
                expect: Expect::Anything,
                value,
            }])
            .await
            .unwrap();
        names.set(&store, "default/up", true).await.unwrap();
        names
            .set_detail(&store, "default/up", Some(json!({"a": 1})))
            .await
            .unwrap();
        let all = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(
            names.load(&store).await.unwrap(),
            all(&["default/old", "default/up"])
        );
        assert_eq!(
            names.load_details(&store).await.unwrap()["default/up"],
            json!({"a": 1})
        );
        names.set(&store, "default/old", false).await.unwrap();
        names.set(&store, "never", false).await.unwrap();
        assert_eq!(names.load(&store).await.unwrap(), all(&["default/up"]));
    }
}
