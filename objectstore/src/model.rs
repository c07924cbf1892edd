//! Compares both stores with a plain map under random commits.

use std::collections::BTreeMap;

use futures::FutureExt;
use proptest::prelude::*;
use serde_json::json;

use super::{suite::Kind, *};

#[derive(Default)]
struct Model {
    head: u64,
    objects: BTreeMap<Key, (u64, Option<u8>)>,
    /// Kind, key, revision and note of every change.
    events: Vec<(EventKind, Key, u64, Option<u8>)>,
}

/// A write whose precondition is relative to the current object.
#[derive(Clone, Debug)]
struct ModelWrite {
    key: Key,
    expect: Expectation,
    note: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Expectation {
    Anything,
    Absent,
    Current,
    Stale,
}

#[derive(Debug, PartialEq)]
enum CommitOutcome {
    Written(Vec<u64>),
    Exists,
    Missing,
    Conflict,
}

impl Model {
    /// Executes a commit; also returns the writes with absolute preconditions.
    fn commit(&mut self, steps: &[ModelWrite]) -> (Vec<Write>, CommitOutcome) {
        let (mut head, mut objects, mut events) =
            (self.head, self.objects.clone(), self.events.clone());
        let (mut writes, mut refusal) = (Vec::new(), None);
        for step in steps {
            let found = objects.get(&step.key).map(|(revision, _)| *revision);
            let expect = match step.expect {
                Expectation::Anything => Expect::Anything,
                Expectation::Absent => Expect::Absent,
                Expectation::Current => Expect::Revision(found.unwrap_or(1)),
                Expectation::Stale => Expect::Revision(found.unwrap_or(1) - 1),
            };
            let value = step
                .note
                .map(|note| json!({ "metadata": {}, "note": note }));
            writes.push(Write {
                key: step.key.clone(),
                expect,
                value,
            });
            let refused = match (step.expect, found, step.note) {
                (Expectation::Absent, Some(_), _) => Some(CommitOutcome::Exists),
                (Expectation::Stale, Some(_), _) => Some(CommitOutcome::Conflict),
                (Expectation::Current | Expectation::Stale, None, _) | (_, None, None) => {
                    Some(CommitOutcome::Missing)
                }
                _ => None,
            };
            refusal = refusal.or(refused);
            head += 1;
            let kind = match (step.note, found) {
                (None, _) => EventKind::Deleted,
                (Some(_), None) => EventKind::Added,
                (Some(_), Some(_)) => EventKind::Modified,
            };
            let last = objects.remove(&step.key).and_then(|(_, note)| note);
            events.push((kind, step.key.clone(), head, step.note.or(last)));
            if step.note.is_some() {
                objects.insert(step.key.clone(), (head, step.note));
            }
        }
        if let Some(refusal) = refusal {
            return (writes, refusal);
        }
        let revisions = (self.head + 1..=head).collect();
        (self.head, self.objects, self.events) = (head, objects, events);
        (writes, CommitOutcome::Written(revisions))
    }
}

fn answer(result: Result<Vec<Object>, StoreError>) -> CommitOutcome {
    match result {
        Ok(objects) => {
            CommitOutcome::Written(objects.into_iter().map(|object| object.revision).collect())
        }
        Err(StoreError::Exists(_)) => CommitOutcome::Exists,
        Err(StoreError::Missing(_)) => CommitOutcome::Missing,
        Err(StoreError::Conflict { .. }) => CommitOutcome::Conflict,
        Err(error) => panic!("{error}"),
    }
}

fn note(object: &Object) -> Option<u8> {
    let value = object.value().unwrap();
    assert_eq!(
        value["metadata"]["resourceVersion"],
        object.revision.to_string()
    );
    value["note"]
        .as_u64()
        .map(|note| u8::try_from(note).unwrap())
}

async fn compare(kind: Kind, commits: &[Vec<ModelWrite>]) {
    let store = kind.open(LogLimits::CLOUD).await;
    let start = store.revision();
    let mut model = Model {
        head: start,
        ..Model::default()
    };
    for steps in commits {
        let (writes, expected) = model.commit(steps);
        assert_eq!(answer(store.commit(writes).await), expected);
        assert_eq!(store.revision(), model.head);
    }
    for resource in ["pods", "nodes"].map(|plural| Resource::new("", plural)) {
        for namespace in [None, Some("a"), Some("b")] {
            let scope = Scope {
                resource: resource.clone(),
                namespace: namespace.map(String::from),
            };
            compare_scope(&*store, &model, &scope, start).await;
        }
    }
}

async fn compare_scope(store: &dyn Store, model: &Model, scope: &Scope, start: u64) {
    let covered = |key: &Key| {
        key.resource == scope.resource
            && scope
                .namespace
                .as_ref()
                .is_none_or(|wanted| *wanted == key.namespace)
    };
    let listing = store.list(scope, &Page::default()).await.unwrap();
    let listed: Vec<_> = listing
        .items
        .iter()
        .map(|o| (o.key.clone(), (o.revision, note(o))))
        .collect();
    let expected: Vec<_> = model
        .objects
        .iter()
        .filter(|(key, _)| covered(key))
        .map(|(k, v)| (k.clone(), *v))
        .collect();
    assert_eq!(listed, expected);
    for after in start..=model.head {
        let mut watch = store.watch(scope.clone(), after).unwrap();
        for (kind, key, revision, wanted) in &model.events {
            if *revision > after && covered(key) {
                let event = watch
                    .next()
                    .now_or_never()
                    .expect("a change is missing")
                    .unwrap();
                let found = (
                    event.kind,
                    &event.object.key,
                    event.object.revision,
                    note(&event.object),
                );
                assert_eq!(found, (*kind, key, *revision, *wanted));
            }
        }
        assert!(watch.next().now_or_never().is_none());
        assert_eq!(watch.position(), model.head);
    }
}

fn commits() -> impl Strategy<Value = Vec<Vec<ModelWrite>>> {
    let key = (prop::sample::select(vec!["pods", "nodes"]), "[ab]", "[xyz]")
        .prop_map(|(plural, namespace, name)| Key::new(Resource::new("", plural), namespace, name));
    let expect = prop::sample::select(vec![
        Expectation::Anything,
        Expectation::Absent,
        Expectation::Current,
        Expectation::Stale,
    ]);
    let step = (key, expect, prop::option::weighted(0.7, any::<u8>()))
        .prop_map(|(key, expect, note)| ModelWrite { key, expect, note });
    prop::collection::vec(prop::collection::vec(step, 0..4), 0..24)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

proptest! {
    #[test]
    fn the_memory_store_is_a_map(commits in commits()) {
        runtime().block_on(compare(Kind::Memory, &commits));
    }
}

proptest! {
    // Each case makes a file and syncs it many times.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_sqlite_store_is_a_map(commits in commits()) {
        runtime().block_on(compare(Kind::sqlite(), &commits));
    }
}
