//! The index of subscriptions: a tree with one node for each level of a filter.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use crate::{
    message::QoS,
    topic::{Filter, is_hidden},
};

/// A receiver of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subscriber {
    /// A client's session.
    Session(u64),
    /// A receiver in this process.
    Local(u64),
}

/// One subscription as the index returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) who: Subscriber,
    pub(crate) qos: QoS,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    pub(crate) subscription_id: Option<u32>,
}

/// The subscriptions that match a topic.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Ordinary subscriptions: each gets the message.
    pub(crate) each: Vec<IndexEntry>,
    /// Shared subscriptions: one member of each group gets the message.
    pub(crate) groups: Vec<Vec<IndexEntry>>,
}

#[derive(Debug, Default)]
struct Node {
    children: HashMap<Box<str>, Node>,
    entries: Vec<IndexEntry>,
    shared: BTreeMap<Box<str>, Vec<IndexEntry>>,
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Index {
    root: Node,
}

impl Index {
    /// Adds `entry`, replacing an earlier one of the same subscriber.
    pub(crate) fn insert(&mut self, filter: Filter<'_>, entry: IndexEntry) {
        let mut node = &mut self.root;
        for level in filter.filter.split('/') {
            node = node.children.entry(level.into()).or_default();
        }
        let entries = match filter.share {
            None => &mut node.entries,
            Some(name) => node.shared.entry(name.into()).or_default(),
        };
        match entries.iter_mut().find(|old| old.who == entry.who) {
            Some(old) => *old = entry,
            None => entries.push(entry),
        }
    }

    /// Removes the subscription of `who`, and nodes that have become empty.
    pub(crate) fn remove(&mut self, filter: Filter<'_>, who: Subscriber) {
        let levels: Vec<&str> = filter.filter.split('/').collect();
        self.root.remove(&levels, filter.share, who);
    }

    /// Adds to `found` the subscriptions whose filters match `topic`.
    pub(crate) fn find(&self, topic: &str, found: &mut Found) {
        self.root.find(Some(topic), is_hidden(topic), found);
    }

    /// Reports whether the index is empty.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.root.is_empty()
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.children.is_empty() && self.entries.is_empty() && self.shared.is_empty()
    }

    /// Removes a subscription recursively; the depth is limited by the number of levels of a filter.
    fn remove(&mut self, levels: &[&str], share: Option<&str>, who: Subscriber) {
        let Some((level, rest)) = levels.split_first() else {
            match share {
                None => self.entries.retain(|entry| entry.who != who),
                Some(name) => {
                    if let Some(entries) = self.shared.get_mut(name) {
                        entries.retain(|entry| entry.who != who);
                        if entries.is_empty() {
                            self.shared.remove(name);
                        }
                    }
                }
            }
            return;
        };
        if let Some(child) = self.children.get_mut(*level) {
            child.remove(rest, share, who);
            if child.is_empty() {
                self.children.remove(*level);
            }
        }
    }

    fn take(&self, found: &mut Found) {
        found.each.extend_from_slice(&self.entries);
        found.groups.extend(self.shared.values().cloned());
    }

    /// Searches recursively. `rest` is `None` when every level of the topic has been matched; `system` is set for a first level with `$`.
    fn find(&self, rest: Option<&str>, system: bool, found: &mut Found) {
        if !system && let Some(all) = self.children.get("#") {
            all.take(found);
        }
        let Some(rest) = rest else {
            return self.take(found);
        };
        let (level, after) = match rest.split_once('/') {
            Some((level, after)) => (level, Some(after)),
            None => (rest, None),
        };
        if let Some(child) = self.children.get(level) {
            child.find(after, false, found);
        }
        if !system && let Some(child) = self.children.get("+") {
            child.find(after, false, found);
        }
    }
}
