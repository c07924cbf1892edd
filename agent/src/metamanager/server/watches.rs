//! The watches of this server's clients, and whether the cloud sends the changes that they cover. No IO, no clock.

use std::{collections::HashMap, sync::Arc, time::Duration};

use clock::Instant;
use componentbase::Link;
use parking_lot::Mutex;
use wire::application::Target;

/// The most different collections that the cloud is asked to watch at a time.
const MAX_COLLECTIONS: usize = 256;
/// How long the cloud goes on sending after the last client has gone: clients end their watches every few minutes and start
/// them again.
const LINGER_PERIOD: Duration = Duration::from_secs(60);

/// A collection, or the part of it that selectors select.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Collection {
    /// The collection, without a name.
    pub(super) target: Target,
    /// The label selector; empty for all.
    pub(super) labels: String,
    /// The field selector; empty for all.
    pub(super) fields: String,
}

#[derive(Debug, Default)]
struct WatchEntry {
    clients: usize,
    /// The connection over which the cloud sends the changes.
    confirmed_over: Option<Link>,
    idle_since: Option<Instant>,
}

/// All watches; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientWatches(Arc<Mutex<Watches>>);

#[derive(Debug, Default)]
struct Watches {
    entries: HashMap<Collection, WatchEntry>,
    /// One was forgotten before its time.
    has_forgotten: bool,
}

/// The watch of one client; dropping it ends the watch.
#[derive(Debug)]
pub(super) struct WatchGuard {
    watched: ClientWatches,
    collection: Collection,
}

impl ClientWatches {
    /// Adds a client's watch; `None` if too many different collections are watched.
    pub(super) fn add(&self, collection: &Collection) -> Option<WatchGuard> {
        let mut watched = self.0.lock();
        if watched.entries.len() >= MAX_COLLECTIONS && !watched.entries.contains_key(collection) {
            let idle = watched
                .entries
                .iter()
                .find(|(_, entry)| entry.clients == 0)
                .map(|(idle, _)| idle.clone());
            watched.entries.remove(&idle?);
            watched.has_forgotten = true;
        }
        let entry = watched.entries.entry(collection.clone()).or_default();
        entry.clients += 1;
        entry.idle_since = None;
        Some(WatchGuard {
            watched: self.clone(),
            collection: collection.clone(),
        })
    }

    /// Reports whether the cloud sends all changes of `collection` over this connection.
    pub(super) fn is_confirmed(&self, collection: &Collection, link: Link) -> bool {
        self.0.lock().entries.iter().any(|(watched, entry)| {
            entry.confirmed_over == Some(link) && covers(watched, collection)
        })
    }

    /// Records that the cloud sends the changes of `collection` over this connection.
    pub(super) fn confirm(&self, collection: &Collection, link: Link) {
        if let Some(entry) = self.0.lock().entries.get_mut(collection) {
            entry.confirmed_over = Some(link);
        }
    }

    /// Returns all watched collections.
    pub(super) fn all(&self) -> Vec<Collection> {
        self.0.lock().entries.keys().cloned().collect()
    }

    /// Removes watches that had no client for [`LINGER_PERIOD`]. Returns whether any was removed since the last call.
    pub(super) fn forget_idle(&self, now: Instant) -> bool {
        let mut watched = self.0.lock();
        let before = watched.entries.len();
        watched.entries.retain(|_, entry| {
            entry
                .idle_since
                .is_none_or(|since| now.duration_since(since) < LINGER_PERIOD)
        });
        std::mem::take(&mut watched.has_forgotten) || watched.entries.len() != before
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        if let Some(entry) = self.watched.0.lock().entries.get_mut(&self.collection) {
            entry.clients -= 1;
            if entry.clients == 0 {
                entry.idle_since = Some(Instant::now());
            }
        }
    }
}

/// Reports whether `watched` contains everything of `wanted`.
pub(super) fn covers(watched: &Collection, wanted: &Collection) -> bool {
    let (wide, narrow) = (&watched.target, &wanted.target);
    let same_kind = (&wide.group, &wide.plural) == (&narrow.group, &narrow.plural);
    let all = watched.labels.is_empty() && watched.fields.is_empty();
    let same_selection = (&watched.labels, &watched.fields) == (&wanted.labels, &wanted.fields);
    same_kind
        && (wide.namespace.is_empty() || wide.namespace == narrow.namespace)
        && (all || same_selection)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(namespace: &str, fields: &str) -> Collection {
        let target = Target {
            version: "v1".into(),
            plural: "pods".into(),
            namespace: namespace.into(),
            ..Target::default()
        };
        Collection {
            target,
            labels: String::new(),
            fields: fields.into(),
        }
    }

    #[test]
    fn a_watch_covers_narrower_collections() {
        let rows = [
            (pods("", ""), pods("", ""), true),
            (pods("", ""), pods("a", ""), true),
            (pods("", ""), pods("a", "x=y"), true),
            (pods("a", ""), pods("", ""), false),
            (pods("a", ""), pods("b", ""), false),
            (pods("", "x=y"), pods("a", "x=y"), true),
            (pods("", "x=y"), pods("a", ""), false),
        ];
        for (watched, wanted, expected) in rows {
            assert_eq!(
                covers(&watched, &wanted),
                expected,
                "{watched:?} {wanted:?}"
            );
        }
    }

    #[test]
    fn idle_watches_linger_and_are_then_removed() {
        let watched = ClientWatches::default();
        let (first, second) = (
            watched.add(&pods("a", "")).unwrap(),
            watched.add(&pods("a", "")).unwrap(),
        );
        watched.confirm(&pods("a", ""), Link::Up(1));
        assert!(
            watched.is_confirmed(&pods("a", ""), Link::Up(1))
                && !watched.is_confirmed(&pods("a", ""), Link::Up(2))
        );
        let late = Instant::now() + LINGER_PERIOD * 2;
        drop(first);
        assert!(!watched.forget_idle(late), "one is left");
        drop(second);
        assert!(!watched.forget_idle(Instant::now()), "it may come back");
        assert!(watched.forget_idle(late));
        assert!(watched.all().is_empty());
    }

    #[test]
    fn there_is_a_limit() {
        let watched = ClientWatches::default();
        let clients: Vec<_> = (0..MAX_COLLECTIONS)
            .map(|number| watched.add(&pods(&number.to_string(), "")).unwrap())
            .collect();
        assert!(watched.add(&pods("one more", "")).is_none());
        assert!(watched.add(&pods("0", "")).is_some());
        drop(clients);
        assert!(
            watched.add(&pods("one more", "")).is_some(),
            "what nobody watches makes room"
        );
        assert_eq!(watched.all().len(), MAX_COLLECTIONS);
        assert!(
            watched.forget_idle(Instant::now()),
            "the cloud is to be told"
        );
        assert!(!watched.forget_idle(Instant::now()));
    }
}
