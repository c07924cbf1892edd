//! The watches of this server's clients, and whether the cloud sends the changes that they cover. No IO, no clock.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use wire::application::Target;

use crate::edgehub::Link;

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
struct Entry {
    clients: usize,
    /// The connection over which the cloud sends the changes.
    told_over: Option<Link>,
    idle_since: Option<Instant>,
}

/// All watches; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientWatches(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    entries: HashMap<Collection, Entry>,
    /// One was forgotten before its time.
    has_forgotten: bool,
}

/// The watch of one client; dropping it ends the watch.
#[derive(Debug)]
pub(super) struct Client {
    kept: ClientWatches,
    collection: Collection,
}

impl ClientWatches {
    /// Adds a client's watch; `None` if too many different collections are watched.
    pub(super) fn enter(&self, collection: &Collection) -> Option<Client> {
        let mut kept = self.0.lock();
        if kept.entries.len() >= MAX_COLLECTIONS && !kept.entries.contains_key(collection) {
            let idle =
                kept.entries.iter().find(|(_, entry)| entry.clients == 0).map(|(idle, _)| idle.clone());
            kept.entries.remove(&idle?);
            kept.has_forgotten = true;
        }
        let entry = kept.entries.entry(collection.clone()).or_default();
        entry.clients += 1;
        entry.idle_since = None;
        Some(Client { kept: self.clone(), collection: collection.clone() })
    }

    /// Reports whether the cloud sends all changes of `collection` over this connection.
    pub(super) fn is_confirmed(&self, collection: &Collection, link: Link) -> bool {
        self.0
            .lock()
            .entries
            .iter()
            .any(|(kept, entry)| entry.told_over == Some(link) && covers(kept, collection))
    }

    /// Records that the cloud sends the changes of `collection` over this connection.
    pub(super) fn confirm(&self, collection: &Collection, link: Link) {
        if let Some(entry) = self.0.lock().entries.get_mut(collection) {
            entry.told_over = Some(link);
        }
    }

    /// Returns all watched collections.
    pub(super) fn all(&self) -> Vec<Collection> {
        self.0.lock().entries.keys().cloned().collect()
    }

    /// Removes watches that had no client for [`LINGER_PERIOD`]. Returns whether any was removed since the last call.
    pub(super) fn forget_idle(&self, now: Instant) -> bool {
        let mut kept = self.0.lock();
        let before = kept.entries.len();
        kept.entries.retain(|_, entry| {
            entry.idle_since.is_none_or(|since| now.duration_since(since) < LINGER_PERIOD)
        });
        std::mem::take(&mut kept.has_forgotten) || kept.entries.len() != before
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(entry) = self.kept.0.lock().entries.get_mut(&self.collection) {
            entry.clients -= 1;
            if entry.clients == 0 {
                entry.idle_since = Some(Instant::now());
            }
        }
    }
}

/// Reports whether `kept` contains everything of `wanted`.
pub(super) fn covers(kept: &Collection, wanted: &Collection) -> bool {
    let (wide, narrow) = (&kept.target, &wanted.target);
    let same_kind = (&wide.group, &wide.plural) == (&narrow.group, &narrow.plural);
    let all = kept.labels.is_empty() && kept.fields.is_empty();
    let same_selection = (&kept.labels, &kept.fields) == (&wanted.labels, &wanted.fields);
    same_kind && (wide.namespace.is_empty() || wide.namespace == narrow.namespace) && (all || same_selection)
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
        Collection { target, labels: String::new(), fields: fields.into() }
    }

    #[test]
    fn a_watch_covers_what_is_narrower() {
        let rows = [
            (pods("", ""), pods("", ""), true),
            (pods("", ""), pods("a", ""), true),
            (pods("", ""), pods("a", "x=y"), true),
            (pods("a", ""), pods("", ""), false),
            (pods("a", ""), pods("b", ""), false),
            (pods("", "x=y"), pods("a", "x=y"), true),
            (pods("", "x=y"), pods("a", ""), false),
        ];
        for (kept, wanted, expected) in rows {
            assert_eq!(covers(&kept, &wanted), expected, "{kept:?} {wanted:?}");
        }
    }

    #[test]
    fn what_nobody_watches_is_told_for_a_while_and_then_forgotten() {
        let kept = ClientWatches::default();
        let (first, second) = (kept.enter(&pods("a", "")).unwrap(), kept.enter(&pods("a", "")).unwrap());
        kept.confirm(&pods("a", ""), Link::Up(1));
        assert!(
            kept.is_confirmed(&pods("a", ""), Link::Up(1)) && !kept.is_confirmed(&pods("a", ""), Link::Up(2))
        );
        let late = Instant::now() + LINGER_PERIOD * 2;
        drop(first);
        assert!(!kept.forget_idle(late), "one is left");
        drop(second);
        assert!(!kept.forget_idle(Instant::now()), "it may come back");
        assert!(kept.forget_idle(late));
        assert!(kept.all().is_empty());
    }

    #[test]
    fn there_is_a_limit() {
        let kept = ClientWatches::default();
        let clients: Vec<_> =
            (0..MAX_COLLECTIONS).map(|number| kept.enter(&pods(&number.to_string(), "")).unwrap()).collect();
        assert!(kept.enter(&pods("one more", "")).is_none());
        assert!(kept.enter(&pods("0", "")).is_some());
        drop(clients);
        assert!(kept.enter(&pods("one more", "")).is_some(), "what nobody watches makes room");
        assert_eq!(kept.all().len(), MAX_COLLECTIONS);
        assert!(kept.forget_idle(Instant::now()), "the cloud is to be told");
        assert!(!kept.forget_idle(Instant::now()));
    }
}
