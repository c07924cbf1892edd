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

/// Those filters that no other of them covers: together they match the same topics.
pub(super) fn widest(filters: BTreeSet<String>) -> BTreeSet<String> {
    let is_covered = |filter: &String| filters.iter().any(|other| other != filter && covers(other, filter));
    filters.iter().filter(|filter| !is_covered(filter)).cloned().collect()
}

/// Whether a filter matches whatever the other one does.
fn covers(wide: &str, narrow: &str) -> bool {
    // wildcards do not stand for a first level with `$`
    if wide.starts_with(['+', '#']) && narrow.starts_with('$') {
        return false;
    }
    let mut levels = narrow.split('/');
    for wanted in wide.split('/') {
        match (wanted, levels.next()) {
            ("#", _) => return true,
            (_, None | Some("#")) => return false,
            ("+", Some(_)) => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
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
    fn what_another_filter_covers_is_not_asked_for() {
        for (wide, narrow) in [
            ("#", "a/b"),
            ("a/#", "a"),
            ("a/#", "a/+/c"),
            ("+/user/#", "x/user/y"),
            ("a/+", "a/b"),
            ("+", "a"),
        ] {
            assert!(covers(wide, narrow) && !covers(narrow, wide), "{wide} {narrow}");
        }
        for (one, other) in [("#", "$hw/x"), ("+/b", "a/+"), ("a/+", "a/#"), ("a", "b"), ("a/b", "a")] {
            assert!(!covers(one, other), "{one} {other}");
        }
        let set = |filters: &[&str]| filters.iter().map(|&filter| filter.to_owned()).collect::<BTreeSet<_>>();
        let rules = set(&["+/user/#", "default/user/x", "default/up", "default/#", "$hw/a"]);
        assert_eq!(widest(rules), set(&["$hw/a", "+/user/#", "default/#"]));
    }
}
