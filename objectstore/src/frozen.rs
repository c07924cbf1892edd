//! Everything that several stores in memory have at one moment.

use parking_lot::RwLockReadGuard;

use super::{Image, MemoryStore, memory::Objects};

/// Stores that nobody writes to.
pub struct Frozen<'a>(Vec<(RwLockReadGuard<'a, Objects>, u64)>);

impl std::fmt::Debug for Frozen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frozen({} stores)", self.0.len())
    }
}

/// Holds all commits to these stores until the returned value is dropped. A thread that has it must not commit.
pub fn freeze<'a>(stores: impl IntoIterator<Item = &'a MemoryStore>) -> Frozen<'a> {
    Frozen(stores.into_iter().map(MemoryStore::freeze).collect())
}

impl Frozen<'_> {
    /// Returns what each store has, in the order of the stores.
    pub fn images(&self) -> Vec<Image> {
        let image = |(objects, revision): &(RwLockReadGuard<'_, Objects>, u64)| Image {
            revision: *revision,
            objects: objects.all(),
        };
        self.0.iter().map(image).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::{Expect, Key, LogLimits, Page, Resource, Scope, Store, StoreError, Write};

    fn write(name: &str, value: Option<serde_json::Value>) -> Write {
        Write {
            key: Key::new(Resource::new("apps", "deployments"), "default", name),
            expect: Expect::Anything,
            value,
        }
    }

    #[tokio::test]
    async fn an_image_is_the_same_store() {
        let first = MemoryStore::new();
        for name in ["web", "shop", "old"] {
            let value = Some(json!({"metadata": {"labels": {"of": name}}, "text": "ä\n\"1\""}));
            first.commit(vec![write(name, value)]).await.unwrap();
        }
        first.commit(vec![write("old", None)]).await.unwrap();
        let images = freeze([&*first]).images();
        let text = serde_json::to_string(&images[0]).unwrap();
        let read: Image = serde_json::from_str(&text).unwrap();
        assert_eq!(read, images[0]);

        let second = MemoryStore::from_image(read, LogLimits::CLOUD);
        let scope = Scope {
            resource: Resource::new("apps", "deployments"),
            namespace: None,
        };
        let page = Page::default();
        let all = [&first, &second].map(|store| store.list(&scope, &page));
        let [of_first, of_second] = all.map(|listing| listing.now_or_never().unwrap().unwrap());
        assert_eq!(of_first.items, of_second.items);
        assert_eq!(second.revision(), first.revision());
        // it goes on where the first one was, and knows no events from before
        let early = second.watch(scope.clone(), first.revision() - 1);
        assert!(
            matches!(early, Err(StoreError::Expired { .. })),
            "{early:?}"
        );
        let mut watch = second.watch(scope.clone(), first.revision()).unwrap();
        let written = second
            .commit(vec![write("web", Some(json!({"metadata": {}})))])
            .await;
        assert_eq!(written.unwrap()[0].revision, first.revision() + 1);
        assert_eq!(watch.next().await.unwrap().object.key.name, "web");
    }
}
