//! Lists a collection as it was at an earlier revision: what is there now, with the changes since then undone.
//!
//! The changes are those that the store keeps for watchers, so a snapshot costs no memory of its own, and lasts as long as a watch
//! could start at its revision.

use std::{collections::BTreeMap, ops::Bound};

use objectstore::{Event, EventKind, Listing, Object, Page, Scope, Store, StoreError};

/// The namespace and name of an object, the order of lists.
type Position = (String, String);

/// An object that changed since the revision of the snapshot.
struct Changed {
    /// The object at the revision of the snapshot.
    then: Option<Object>,
    exists_now: bool,
}

/// Lists a page of `scope` as it was at the revision `at`, or as it is now.
///
/// # Errors
/// [`StoreError::Expired`] where the changes since `at` are no longer known.
pub(super) async fn list(
    store: &dyn Store,
    scope: &Scope,
    page: &Page,
    at: Option<u64>,
) -> Result<Listing, StoreError> {
    let mut page = page.clone();
    let mut damaged = Vec::new();
    loop {
        let mut listing = store.list(scope, &page).await?;
        damaged.append(&mut listing.damaged);
        let Some(at) = at.filter(|at| *at != listing.revision) else {
            return Ok(Listing { damaged, ..listing });
        };
        if at > listing.revision {
            // a revision of another store
            return Err(StoreError::Expired {
                asked: at,
                oldest: listing.revision,
            });
        }
        let events = store.watch(scope.clone(), at)?.up_to(listing.revision)?;
        let end = listing
            .items
            .last()
            .filter(|_| listing.remaining > 0)
            .map(position);
        let earlier = undone(&page, listing, at, events);
        match end {
            // everything in this part came later
            Some(end) if earlier.items.is_empty() && earlier.remaining > 0 => {
                page.after = Some(end)
            }
            _ => return Ok(Listing { damaged, ..earlier }),
        }
    }
}

/// Returns the page as it was before `events`.
fn undone(page: &Page, listing: Listing, at: u64, events: Vec<Event>) -> Listing {
    let mut changes: BTreeMap<Position, Changed> = BTreeMap::new();
    for Event {
        kind,
        object,
        previous,
    } in events
    {
        let exists_now = kind != EventKind::Deleted;
        let change = changes.entry(position(&object)).or_insert(Changed {
            then: previous,
            exists_now,
        });
        change.exists_now = exists_now;
    }
    let end = listing
        .items
        .last()
        .filter(|_| listing.remaining > 0)
        .map(position);
    let is_unchanged = |object: &Object| !changes.contains_key(&position(object));
    let unchanged = listing.items.into_iter().filter(is_unchanged);
    let mut items: BTreeMap<_, _> = unchanged
        .map(|object| (position(&object), object))
        .collect();
    let start = page.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
    let within = (start, end.clone().map_or(Bound::Unbounded, Bound::Included));
    for (position, change) in changes.range(within) {
        items.extend(change.then.clone().map(|then| (position.clone(), then)));
    }
    let mut remaining = listing.remaining;
    if let Some(end) = end {
        for change in changes
            .range((Bound::Excluded(end), Bound::Unbounded))
            .map(|(_, change)| change)
        {
            remaining = remaining.saturating_sub(usize::from(change.exists_now));
            remaining += usize::from(change.then.is_some());
        }
    }
    let limit = page.limit.unwrap_or(usize::MAX);
    let excess = items.len().saturating_sub(limit);
    let items = items.into_values().take(limit).collect();
    Listing {
        items,
        revision: at,
        remaining: remaining + excess,
        damaged: listing.damaged,
    }
}

fn position(object: &Object) -> Position {
    (object.key.namespace.clone(), object.key.name.clone())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use serde_json::json;

    use super::*;
    use objectstore::{Expect, Key, LogLimits, MemoryStore, Resource, Write};

    const NAMES: u64 = 12;

    fn scope(namespace: Option<&str>) -> Scope {
        Scope {
            resource: Resource::new("", "configmaps"),
            namespace: namespace.map(str::to_owned),
        }
    }

    /// Writes or deletes one of a few objects, as the number says.
    async fn change(store: &Arc<MemoryStore>, number: u64) {
        let namespace = if number.is_multiple_of(3) { "a" } else { "b" };
        let key = Key::new(
            scope(None).resource,
            namespace,
            format!("n{:02}", number / 7 % NAMES),
        );
        let is_deletion =
            number.is_multiple_of(2) && Store::get(&**store, &key).await.unwrap().is_some();
        let value =
            (!is_deletion).then(|| json!({"metadata": {"name": key.name}, "number": number}));
        store
            .commit(vec![Write {
                key,
                expect: Expect::Anything,
                value,
            }])
            .await
            .unwrap();
    }

    /// All objects, read in pages of `limit` between which others write.
    async fn read_pages(
        store: &Arc<MemoryStore>,
        scope: &Scope,
        limit: usize,
        random: &mut u64,
    ) -> Vec<Object> {
        let (mut at, mut after, mut all) = (None, None, Vec::new());
        loop {
            let page = Page {
                after,
                limit: Some(limit),
            };
            let listing = list(&**store, scope, &page, at).await.unwrap();
            at = Some(listing.revision);
            after = listing.items.last().map(position);
            let (count, remaining) = (listing.items.len(), listing.remaining);
            all.extend(listing.items);
            if remaining == 0 {
                return all;
            }
            assert!(count > 0 && count <= limit);
            for _ in 0..*random % 9 {
                *random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                change(store, *random >> 33).await;
            }
        }
    }

    #[tokio::test]
    async fn pages_show_one_revision_whatever_is_written_between_them() {
        for seed in 0..200 {
            let mut random = seed * 7919 + 1;
            let store = MemoryStore::new();
            for number in 0..20 {
                change(&store, seed * 31 + number * 13).await;
            }
            for scope in [scope(None), scope(Some("b"))] {
                for limit in 1..5 {
                    let expected = store.list(&scope, &Page::default()).await.unwrap().items;
                    let found = read_pages(&store, &scope, limit, &mut random).await;
                    let brief = |objects: &[Object]| -> BTreeMap<_, _> {
                        objects
                            .iter()
                            .map(|object| (position(object), object.revision))
                            .collect()
                    };
                    assert_eq!(
                        brief(&found),
                        brief(&expected),
                        "seed {seed}, pages of {limit}"
                    );
                    assert_eq!(found.len(), expected.len(), "seed {seed}, pages of {limit}");
                }
            }
        }
    }

    #[tokio::test]
    async fn what_remains_is_counted_at_the_revision_of_the_snapshot() {
        let store = MemoryStore::new();
        for number in [1, 8, 15, 22, 29] {
            change(&store, number).await;
        }
        let first = list(
            &*store,
            &scope(None),
            &Page {
                after: None,
                limit: Some(2),
            },
            None,
        )
        .await
        .unwrap();
        assert_eq!((first.items.len(), first.remaining), (2, 3));
        let at = Some(first.revision);
        for number in [36, 43, 50] {
            change(&store, number * 7 + 1).await;
        }
        let page = Page {
            after: first.items.last().map(position),
            limit: Some(1),
        };
        let second = list(&*store, &scope(None), &page, at).await.unwrap();
        assert_eq!(
            (second.items.len(), second.remaining, second.revision),
            (1, 2, first.revision)
        );
    }

    #[tokio::test]
    async fn a_snapshot_of_unknown_changes_is_refused() {
        let store = MemoryStore::with_log(LogLimits {
            events: 3,
            ..LogLimits::EDGE
        });
        for number in 0..10 {
            change(&store, number * 2 + 1).await;
        }
        let now = store.revision();
        for at in [0, now - 5, now + 1] {
            let listed = list(&*store, &scope(None), &Page::default(), Some(at)).await;
            assert!(matches!(listed, Err(StoreError::Expired { .. })), "{at}");
        }
        assert!(
            list(&*store, &scope(None), &Page::default(), Some(now - 1))
                .await
                .is_ok()
        );
    }
}
