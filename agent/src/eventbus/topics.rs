//! The topics that rules of the cloud listen to, in the store.

use std::{collections::BTreeSet, sync::Arc};

use kubeapi::store::{Expect, Key, Page, Resource, Scope, Store, StoreError, Write};
use serde_json::json;

/// Where they stand, and where EdgeCore's rows of them do.
const GROUPS: [(&str, &str); 2] =
    [("eventbus.outrigger.dev", "topics"), ("edgecore.outrigger.dev", "sub_topics")];

/// All of them.
pub(super) async fn load(store: &Arc<dyn Store>) -> Result<BTreeSet<String>, StoreError> {
    let mut topics = BTreeSet::new();
    for resource in resources() {
        let scope = Scope { resource, namespace: None };
        topics.extend(
            store.list(&scope, &Page::default()).await?.items.into_iter().map(|object| object.key.name),
        );
    }
    Ok(topics)
}

/// Adds or removes one.
pub(super) async fn set(store: &Arc<dyn Store>, topic: &str, on: bool) -> Result<(), StoreError> {
    let keys = resources().into_iter().map(|resource| Key::new(resource, "", topic));
    // what EdgeCore kept goes too when it is not listened to any more
    for key in keys.take(if on { 1 } else { GROUPS.len() }) {
        let value = on.then(|| json!({"metadata": {"name": topic}}));
        match store.commit(vec![Write { key, expect: Expect::Anything, value }]).await {
            Ok(_) | Err(StoreError::Missing(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn resources() -> [Resource; 2] {
    GROUPS.map(|(group, plural)| Resource::new(group, plural))
}

/// Whether a text can be subscribed to.
pub(super) fn is_filter(text: &str) -> bool {
    let mut levels = text.split('/').peekable();
    let mut is_sound = !text.is_empty() && text.len() <= usize::from(u16::MAX) && !text.contains('\0');
    while let Some(level) = levels.next() {
        is_sound &= match level {
            "#" => levels.peek().is_none(),
            "+" => true,
            level => !level.contains(['+', '#']),
        };
    }
    is_sound
}

#[cfg(test)]
mod tests {
    use kubeapi::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn topics_are_kept_with_those_of_edgecore() {
        let store: Arc<dyn Store> = MemoryStore::new();
        let [_, old] = resources();
        let value = Some(json!({"metadata": {}, "row": {}}));
        let key = Key::new(old, "", "default/old");
        store.commit(vec![Write { key, expect: Expect::Anything, value }]).await.unwrap();
        set(&store, "default/up", true).await.unwrap();
        set(&store, "default/up", true).await.unwrap();
        let all = |topics: &[&str]| topics.iter().map(|&topic| topic.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(load(&store).await.unwrap(), all(&["default/old", "default/up"]));
        set(&store, "default/old", false).await.unwrap();
        set(&store, "never", false).await.unwrap();
        assert_eq!(load(&store).await.unwrap(), all(&["default/up"]));
    }

    #[test]
    fn filters() {
        for good in ["a", "a/+/b", "#", "a/#", "+", "/", "a//b", "$hw/x"] {
            assert!(is_filter(good), "{good}");
        }
        for bad in ["", "a#", "#/a", "a/b+", "a\0"] {
            assert!(!is_filter(bad), "{bad:?}");
        }
    }
}
