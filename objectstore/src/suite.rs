//! One test suite for every store.

use std::{collections::HashSet, sync::Arc};

use futures::FutureExt;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// Which store a test runs against.
pub(super) enum Kind {
    Memory,
    Sqlite(TempDir),
}

impl Kind {
    pub(super) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(super) async fn open(&self, limits: LogLimits) -> Arc<dyn Store> {
        match self {
            Self::Memory => MemoryStore::with_log(limits),
            Self::Sqlite(dir) => {
                let options = SqliteOptions {
                    log: limits,
                    ..SqliteOptions::default()
                };
                SqliteStore::open_with(&dir.path().join("objects.db"), options)
                    .await
                    .unwrap()
            }
        }
    }
}

/// Runs each test against each store.
macro_rules! suite {
    ($store:ident, $kind:expr, $($test:ident),*) => {
        mod $store {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test($kind).await;
                }
            )*
        }
    };
    ($($test:ident),* $(,)?) => {
        suite!(memory, super::Kind::Memory, $($test),*);
        suite!(sqlite, super::Kind::sqlite(), $($test),*);
    };
}

suite![
    a_created_object_can_be_read_with_its_revision,
    expectations_are_kept,
    a_refused_write_refuses_its_whole_commit,
    a_later_write_of_a_commit_sees_the_earlier_ones,
    what_is_no_object_is_refused,
    revisions_grow_through_deletions,
    lists_are_ordered_and_paged,
    collections_are_measured,
    a_watch_shows_each_change_in_order,
    a_watch_resumes_where_it_was,
    a_cancelled_wait_loses_nothing,
    a_watch_of_one_namespace_shows_no_other,
    a_quiet_watch_moves_on_with_the_others,
    a_slow_watch_expires_and_others_do_not,
    bytes_bound_the_past_too,
    a_watch_from_the_future_expires,
    concurrent_writers_get_revisions_of_their_own,
    concurrent_updates_of_one_object_do_not_lose_one,
    a_list_and_a_watch_from_it_miss_nothing,
    who_has_listed_an_object_does_not_get_an_older_one,
];

pub(super) fn pods() -> Resource {
    Resource::new("", "pods")
}

fn leases() -> Resource {
    Resource::new("coordination.k8s.io", "leases")
}

pub(super) fn pod(namespace: &str, name: &str) -> Key {
    Key::new(pods(), namespace, name)
}

fn everywhere() -> Scope {
    Scope {
        resource: pods(),
        namespace: None,
    }
}

fn within(namespace: &str) -> Scope {
    Scope {
        resource: pods(),
        namespace: Some(namespace.to_owned()),
    }
}

pub(super) fn put(key: Key, note: impl Into<Value>) -> Write {
    let value = json!({ "metadata": { "name": key.name }, "note": note.into() });
    Write {
        key,
        expect: Expect::Anything,
        value: Some(value),
    }
}

fn remove(key: Key) -> Write {
    Write {
        key,
        expect: Expect::Anything,
        value: None,
    }
}

pub(super) async fn commit(store: &dyn Store, write: Write) -> Object {
    store.commit(vec![write]).await.unwrap().remove(0)
}

fn names(objects: &[Object]) -> Vec<String> {
    objects
        .iter()
        .map(|object| format!("{}/{}", object.key.namespace, object.key.name))
        .collect()
}

async fn a_created_object_can_be_read_with_its_revision(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    assert_eq!(store.get(&pod("a", "x")).await.unwrap(), None);
    let before = store.revision();
    let made = commit(&*store, put(pod("a", "x"), 1)).await;
    assert_eq!(made.revision, before + 1);
    assert_eq!(store.revision(), made.revision);
    let value = made.value().unwrap();
    assert_eq!(
        value["metadata"]["resourceVersion"],
        made.revision.to_string()
    );
    assert_eq!(value["note"], 1);
    assert_eq!(store.get(&pod("a", "x")).await.unwrap(), Some(made));
    assert_eq!(store.get(&pod("b", "x")).await.unwrap(), None);
    assert_eq!(
        store.get(&Key::new(leases(), "a", "x")).await.unwrap(),
        None
    );
}

async fn expectations_are_kept(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    let expecting = |expect, value: Option<i32>| {
        let write = value.map_or(remove(pod("a", "x")), |note| put(pod("a", "x"), note));
        store.commit(vec![Write { expect, ..write }])
    };
    assert!(matches!(
        expecting(Expect::Revision(1), Some(1)).await,
        Err(StoreError::Missing(_))
    ));
    assert!(matches!(
        expecting(Expect::Anything, None).await,
        Err(StoreError::Missing(_))
    ));
    assert!(matches!(
        expecting(Expect::Absent, None).await,
        Err(StoreError::Missing(_))
    ));
    let made = expecting(Expect::Absent, Some(1)).await.unwrap().remove(0);
    assert!(matches!(
        expecting(Expect::Absent, Some(2)).await,
        Err(StoreError::Exists(_))
    ));
    let changed = expecting(Expect::Revision(made.revision), Some(2))
        .await
        .unwrap()
        .remove(0);
    for value in [Some(3), None] {
        let Err(StoreError::Conflict {
            expected, found, ..
        }) = expecting(Expect::Revision(made.revision), value).await
        else {
            panic!("a write to an older revision went through");
        };
        assert_eq!((expected, found), (made.revision, changed.revision));
    }
    let last = expecting(Expect::Revision(changed.revision), None)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(last.value().unwrap()["note"], 2);
    assert_eq!(
        last.value().unwrap()["metadata"]["resourceVersion"],
        last.revision.to_string()
    );
    assert_eq!(store.get(&pod("a", "x")).await.unwrap(), None);
}

async fn a_refused_write_refuses_its_whole_commit(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    commit(&*store, put(pod("a", "old"), 1)).await;
    let before = store.revision();
    let writes = vec![
        put(pod("a", "new"), 1),
        remove(pod("a", "old")),
        Write {
            expect: Expect::Revision(7777),
            ..put(pod("a", "old"), 2)
        },
    ];
    assert!(matches!(
        store.commit(writes).await,
        Err(StoreError::Missing(_))
    ));
    assert_eq!(
        names(
            &store
                .list(&everywhere(), &Page::default())
                .await
                .unwrap()
                .items
        ),
        ["a/old"]
    );
    assert_eq!(store.revision(), before);
    let next = commit(&*store, put(pod("a", "next"), 1)).await;
    assert_eq!(next.revision, before + 1);
}

async fn a_later_write_of_a_commit_sees_the_earlier_ones(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    let before = store.revision();
    let key = || pod("a", "x");
    let writes = vec![
        Write {
            expect: Expect::Absent,
            ..put(key(), 1)
        },
        Write {
            expect: Expect::Revision(before + 1),
            ..put(key(), 2)
        },
        remove(key()),
        Write {
            expect: Expect::Absent,
            ..put(key(), 3)
        },
    ];
    let mut watch = store.watch(everywhere(), before).unwrap();
    let written = store.commit(writes).await.unwrap();
    let revisions: Vec<_> = written
        .iter()
        .map(|object| object.revision - before)
        .collect();
    assert_eq!(revisions, [1, 2, 3, 4]);
    assert_eq!(
        store.get(&key()).await.unwrap().unwrap().value().unwrap()["note"],
        3
    );
    use EventKind::{Added, Deleted, Modified};
    for kind in [Added, Modified, Deleted, Added] {
        assert_eq!(watch.next().await.unwrap().kind, kind);
    }
    assert!(store.commit(Vec::new()).await.unwrap().is_empty());
}

async fn what_is_no_object_is_refused(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    for value in [json!(null), json!([]), json!({}), json!({ "metadata": 1 })] {
        let write = Write {
            key: pod("a", "x"),
            expect: Expect::Anything,
            value: Some(value),
        };
        assert!(matches!(
            store.commit(vec![write]).await,
            Err(StoreError::NotAnObject(_))
        ));
    }
}

async fn revisions_grow_through_deletions(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    let mut last = store.revision();
    for round in 0..5 {
        for write in [put(pod("a", "x"), round), remove(pod("a", "x"))] {
            let revision = commit(&*store, write).await.revision;
            assert_eq!(revision, last + 1);
            last = revision;
        }
    }
}

async fn collections_are_measured(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    assert!(store.sizes().await.unwrap().is_empty());
    let lease = Key::new(leases(), "a", "other");
    for key in [pod("a", "x"), pod("", "ä"), lease.clone()] {
        commit(&*store, put(key, 1)).await;
    }
    let length = async |scope: Scope| {
        let listing = store.list(&scope, &Page::default()).await.unwrap();
        listing
            .items
            .iter()
            .map(|object| object.json.len() as u64)
            .sum::<u64>()
    };
    let of_leases = Scope {
        resource: leases(),
        namespace: None,
    };
    let expected = [
        (leases(), length(of_leases).await),
        (pods(), length(everywhere()).await),
    ];
    let mut sizes = store.sizes().await.unwrap();
    sizes.sort();
    assert_eq!(sizes, expected);
    commit(
        &*store,
        Write {
            key: lease,
            expect: Expect::Anything,
            value: None,
        },
    )
    .await;
    assert_eq!(store.sizes().await.unwrap(), expected[1..]);
}

async fn lists_are_ordered_and_paged(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    for (namespace, name) in [
        ("b", "z"),
        ("a-b", "1"),
        ("a", "y"),
        ("b", "ä"),
        ("a", "x"),
        ("", "cluster"),
        ("c", "w"),
    ] {
        commit(&*store, put(pod(namespace, name), 1)).await;
    }
    commit(&*store, put(Key::new(leases(), "a", "other"), 1)).await;
    let all = ["/cluster", "a/x", "a/y", "a-b/1", "b/z", "b/ä", "c/w"];
    let listing = store.list(&everywhere(), &Page::default()).await.unwrap();
    assert_eq!(
        (names(&listing.items), listing.remaining),
        (all.map(String::from).to_vec(), 0)
    );
    assert_eq!(listing.revision, store.revision());
    let in_b = store.list(&within("b"), &Page::default()).await.unwrap();
    assert_eq!(names(&in_b.items), ["b/z", "b/ä"]);
    for limit in 1..=8 {
        let mut page = Page {
            after: None,
            limit: Some(limit),
        };
        let mut seen = Vec::new();
        loop {
            let listing = store.list(&everywhere(), &page).await.unwrap();
            assert!(listing.items.len() <= limit);
            seen.extend(names(&listing.items));
            assert_eq!(listing.remaining, all.len() - seen.len());
            if listing.remaining == 0 {
                break;
            }
            page.after = listing
                .items
                .last()
                .map(|last| (last.key.namespace.clone(), last.key.name.clone()));
        }
        assert_eq!(seen, all);
    }
    let after = |namespace: &str, name: &str| Page {
        after: Some((namespace.into(), name.into())),
        limit: Some(1),
    };
    for (scope, page, items, remaining) in [
        (within("b"), after("a", "x"), vec!["b/z"], 1),
        (within("b"), after("b", "z"), vec!["b/ä"], 0),
        (within("b"), after("c", "a"), vec![], 0),
        (within("nowhere"), Page::default(), vec![], 0),
        (everywhere(), after("b", "a gone one"), vec!["b/z"], 2),
        (
            everywhere(),
            Page {
                limit: Some(0),
                ..after("b", "z")
            },
            vec![],
            2,
        ),
    ] {
        let listing = store.list(&scope, &page).await.unwrap();
        assert_eq!(
            (names(&listing.items), listing.remaining),
            (items.into_iter().map(String::from).collect(), remaining)
        );
    }
}

async fn a_watch_shows_each_change_in_order(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    let mut watch = store.watch(everywhere(), store.revision()).unwrap();
    let made = commit(&*store, put(pod("a", "x"), 1)).await;
    commit(&*store, put(Key::new(leases(), "a", "x"), 1)).await;
    let changed = commit(&*store, put(pod("a", "x"), 2)).await;
    let last = commit(&*store, remove(pod("a", "x"))).await;
    for (kind, object, previous) in [
        (EventKind::Added, &made, None),
        (EventKind::Modified, &changed, Some(&made)),
        (EventKind::Deleted, &last, Some(&changed)),
    ] {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (event.kind, &event.object, event.previous.as_ref()),
            (kind, object, previous)
        );
    }
    assert!(watch.next().now_or_never().is_none());
}

async fn a_watch_resumes_where_it_was(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    let first = commit(&*store, put(pod("a", "x"), 1)).await;
    let second = commit(&*store, put(pod("a", "y"), 1)).await;
    let third = commit(&*store, remove(pod("a", "x"))).await;
    for (after, expected) in [
        (first.revision, vec![&second, &third]),
        (second.revision, vec![&third]),
        (third.revision, vec![]),
    ] {
        let mut watch = store.watch(everywhere(), after).unwrap();
        for object in expected {
            assert_eq!(&watch.next().await.unwrap().object, object);
        }
        assert!(watch.next().now_or_never().is_none());
        assert_eq!(watch.position(), third.revision);
    }
}

async fn a_cancelled_wait_loses_nothing(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    let mut watch = store.watch(everywhere(), store.revision()).unwrap();
    for round in 0..10 {
        assert!(watch.next().now_or_never().is_none());
        let object = commit(&*store, put(pod("a", "x"), round)).await;
        assert_eq!(watch.next().await.unwrap().object, object);
    }
}

async fn a_watch_of_one_namespace_shows_no_other(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    let mut watch = store.watch(within("b"), store.revision()).unwrap();
    commit(&*store, put(pod("a", "x"), 1)).await;
    let wanted = commit(&*store, put(pod("b", "x"), 1)).await;
    assert_eq!(
        watch.position(),
        wanted.revision - 2,
        "nothing may be skipped that was not returned"
    );
    assert_eq!(watch.next().await.unwrap().object, wanted);
}

async fn a_quiet_watch_moves_on_with_the_others(kind: Kind) {
    let limits = LogLimits {
        events: 4,
        ..LogLimits::EDGE
    };
    let store = kind.open(limits).await;
    commit(&*store, put(Key::new(leases(), "a", "x"), 1)).await;
    let watch = store
        .watch(
            Scope {
                resource: leases(),
                namespace: None,
            },
            store.revision(),
        )
        .unwrap();
    for round in 0..20 {
        commit(&*store, put(pod("a", "x"), round)).await;
        assert_eq!(watch.position(), store.revision());
    }
    let mut resumed = store
        .watch(
            Scope {
                resource: leases(),
                namespace: None,
            },
            watch.position(),
        )
        .unwrap();
    let lease = commit(&*store, put(Key::new(leases(), "a", "x"), 2)).await;
    assert_eq!(resumed.next().await.unwrap().object, lease);
}

async fn a_slow_watch_expires_and_others_do_not(kind: Kind) {
    let store = kind
        .open(LogLimits {
            events: 4,
            ..LogLimits::EDGE
        })
        .await;
    let start = store.revision();
    let mut slow = store.watch(everywhere(), start).unwrap();
    let mut other = store
        .watch(
            Scope {
                resource: leases(),
                namespace: None,
            },
            start,
        )
        .unwrap();
    for round in 0..4 {
        commit(&*store, put(pod("a", "x"), round)).await;
    }
    assert_eq!(slow.next().await.unwrap().object.revision, start + 1);
    for round in 0..2 {
        commit(&*store, put(pod("a", "x"), round)).await;
    }
    let expired = slow.next().await;
    assert!(
        matches!(expired, Err(StoreError::Expired { asked, oldest }) if asked == start + 1 && oldest == start + 2),
        "{expired:?}"
    );
    assert_eq!(
        slow.position(),
        start + 1,
        "what was not returned is not passed over"
    );
    assert!(matches!(
        store.watch(everywhere(), start),
        Err(StoreError::Expired { .. })
    ));
    let mut again = store.watch(everywhere(), start + 2).unwrap();
    assert_eq!(again.next().await.unwrap().object.revision, start + 3);
    assert!(other.next().now_or_never().is_none());
}

async fn bytes_bound_the_past_too(kind: Kind) {
    let store = kind.open(LogLimits::new(1000, 10_000)).await;
    let start = store.revision();
    for _ in 0..20 {
        commit(&*store, put(pod("a", "x"), "x".repeat(1000))).await;
    }
    assert!(store.watch(everywhere(), start + 9).is_err());
    assert!(store.watch(everywhere(), start + 11).is_ok());
    let huge = commit(&*store, put(pod("a", "x"), "x".repeat(20_000))).await;
    let mut watch = store.watch(everywhere(), huge.revision - 1).unwrap();
    assert_eq!(
        watch.next().await.unwrap().object,
        huge,
        "the newest event is kept whatever its size"
    );
}

async fn a_watch_from_the_future_expires(kind: Kind) {
    let store = kind.open(LogLimits::EDGE).await;
    let revision = commit(&*store, put(pod("a", "x"), 1)).await.revision;
    assert!(store.watch(everywhere(), revision).is_ok());
    assert!(matches!(
        store.watch(everywhere(), revision + 1),
        Err(StoreError::Expired { .. })
    ));
}

async fn concurrent_writers_get_revisions_of_their_own(kind: Kind) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 25;
    let store = kind.open(LogLimits::CLOUD).await;
    let start = store.revision();
    let mut watch = store.watch(everywhere(), start).unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for round in 0..EACH {
                let key = pod(&format!("ns-{writer}"), "x");
                revisions.extend(
                    store
                        .commit(vec![put(key.clone(), round), put(key, "again")])
                        .await
                        .unwrap(),
                );
            }
            revisions
        })
    });
    let written = futures::future::join_all(writers).await;
    let mut revisions = HashSet::new();
    for objects in written {
        let objects = objects.unwrap();
        assert!(objects.is_sorted_by_key(|object| object.revision));
        revisions.extend(objects.into_iter().map(|object| object.revision));
    }
    assert_eq!(
        revisions,
        (start + 1..=start + WRITERS * EACH * 2).collect()
    );
    for revision in start + 1..=start + WRITERS * EACH * 2 {
        assert_eq!(watch.next().await.unwrap().object.revision, revision);
    }
}

async fn concurrent_updates_of_one_object_do_not_lose_one(kind: Kind) {
    const WRITERS: u64 = 4;
    const EACH: u64 = 10;
    let store = kind.open(LogLimits::CLOUD).await;
    commit(&*store, put(pod("a", "x"), 0)).await;
    let writers = (0..WRITERS).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..EACH {
                loop {
                    let read = store.get(&pod("a", "x")).await.unwrap().unwrap();
                    let note = read.value().unwrap()["note"].as_u64().unwrap();
                    let write = Write {
                        expect: Expect::Revision(read.revision),
                        ..put(read.key, note + 1)
                    };
                    match store.commit(vec![write]).await {
                        Ok(_) => break,
                        Err(StoreError::Conflict { .. }) => tokio::task::yield_now().await,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        })
    });
    futures::future::try_join_all(writers).await.unwrap();
    let last = store.get(&pod("a", "x")).await.unwrap().unwrap();
    assert_eq!(last.value().unwrap()["note"], WRITERS * EACH);
}

/// What every client's cache does: list, then watch from the list's revision, while others write.
async fn a_list_and_a_watch_from_it_miss_nothing(kind: Kind) {
    const OBJECTS: usize = 40;
    let store = kind.open(LogLimits::CLOUD).await;
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..OBJECTS {
                commit(&*store, put(pod("a", &number.to_string()), 1)).await;
            }
        })
    };
    let reader = tokio::spawn(async move {
        loop {
            let listing = store.list(&everywhere(), &Page::default()).await.unwrap();
            let mut watch = store.watch(everywhere(), listing.revision).unwrap();
            if listing.items.len() == OBJECTS {
                break;
            }
            let mut seen: HashSet<_> = listing.items.into_iter().map(|object| object.key).collect();
            let next = watch.next().await.unwrap();
            assert_eq!(next.object.revision, listing.revision + 1);
            assert!(seen.insert(next.object.key));
            tokio::task::yield_now().await;
        }
    });
    futures::future::try_join_all([writer, reader])
        .await
        .unwrap();
}

async fn who_has_listed_an_object_does_not_get_an_older_one(kind: Kind) {
    const TIMES: u64 = 300;
    let store = kind.open(LogLimits::EDGE).await;
    let key = commit(&*store, put(pod("a", "x"), 0)).await.key;
    let writing = async {
        for number in 1..TIMES {
            commit(&*store, put(pod("a", "x"), number)).await;
        }
    };
    let reading = async {
        let mut last = 0;
        while last < TIMES {
            let listed = store
                .list(&everywhere(), &Page::default())
                .await
                .unwrap()
                .items[0]
                .revision;
            let got = store.get(&key).await.unwrap().unwrap().revision;
            assert!(last <= listed && listed <= got, "{last}, {listed}, {got}");
            last = got;
        }
    };
    futures::join!(writing, reading);
}
