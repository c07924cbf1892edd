//! The graph of owners and dependents, and the decisions that follow. Pure.
//!
//! Source: Kubernetes' garbage collector (`graph_builder.go`, `garbagecollector.go`).

use clock::{HashMap, HashSet};

/// The finalizer of an owner that is deleted after its dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are kept.
pub(super) const ORPHAN: &str = "orphan";

/// The number of a kind in this process.
pub(super) type KindId = usize;

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// `blockOwnerDeletion`: a foreground deletion of the owner waits for this object.
    pub(super) blocks: bool,
}

/// An object in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: KindId,
    /// The namespace; empty for cluster-scoped kinds.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) owners: Vec<Owner>,
    pub(super) deleting: bool,
    pub(super) finalizers: Vec<String>,
}

impl Node {
    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| own == finalizer)
    }

    /// Reports whether the object is being deleted in the foreground and waits for its dependents.
    fn is_waiting(&self) -> bool {
        self.deleting && self.has(FOREGROUND)
    }
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Nothing,
    /// Look up these owners, and decide again with the absent ones.
    Verify(Vec<Owner>),
    /// Delete the object.
    Delete(Propagation),
    /// Let none of its owners wait for it, to break a cycle.
    Unblock,
    /// Remove the references to these uids.
    Disown(Vec<String>),
    /// Remove this finalizer.
    Release(&'static str),
    /// Remove the references to it from these objects, then its finalizer.
    Orphan(Vec<Node>),
}

impl Decision {
    /// Returns the name for the log.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Verify(_) => "verify owners",
            Self::Delete(_) => "delete",
            Self::Unblock => "unblock",
            Self::Disown(_) => "remove owner references",
            Self::Release(_) => "remove finalizer",
            Self::Orphan(_) => "orphan dependents",
        }
    }
}

/// All objects that own or are owned.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<String, Node>,
    /// By the owner's uid, even if the owner is not known.
    dependents: HashMap<String, HashSet<String>>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Returns the uids of the known objects of a kind.
    pub(super) fn of_kind(&self, kind: KindId) -> HashSet<String> {
        self.nodes
            .values()
            .filter(|node| node.kind == kind)
            .map(|node| node.uid.clone())
            .collect()
    }

    /// Returns the uids of objects with an unknown owner, whose kind may not have been known before.
    pub(super) fn with_unknown_owner(&self) -> Vec<String> {
        let unknown = self
            .dependents
            .iter()
            .filter(|(owner, _)| !self.nodes.contains_key(*owner));
        unknown
            .flat_map(|(_, dependents)| dependents.iter().cloned())
            .collect()
    }

    /// Adds or updates an object. Returns the uids of the objects to examine.
    pub(super) fn apply(&mut self, node: Node) -> Vec<String> {
        let mut concerned = self.forget(&node.uid);
        for owner in &node.owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(node.uid.clone());
        }
        if node.is_waiting() {
            concerned.extend(self.dependents_of(&node.uid));
        }
        if !node.owners.is_empty() || node.deleting {
            concerned.push(node.uid.clone());
        }
        self.nodes.insert(node.uid.clone(), node);
        concerned
    }

    /// Removes an object. Returns the uids of the objects to examine.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<String> {
        let mut concerned = self.forget(uid);
        concerned.extend(self.dependents_of(uid));
        concerned
    }

    fn dependents_of(&self, uid: &str) -> Vec<String> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Removes an object. Returns its owners that wait for it.
    fn forget(&mut self, uid: &str) -> Vec<String> {
        let Some(node) = self.nodes.remove(uid) else {
            return Vec::new();
        };
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        let waits = |owner: &&Owner| self.nodes.get(&owner.uid).is_some_and(Node::is_waiting);
        node.owners
            .iter()
            .filter(waits)
            .map(|owner| owner.uid.clone())
            .collect()
    }

    /// Decides what to do with an object, given the uids of absent owners.
    pub(super) fn decide(&self, uid: &str, absent: &HashSet<String>) -> Decision {
        let Some(node) = self.nodes.get(uid) else {
            return Decision::Nothing;
        };
        if node.deleting {
            return self.decide_deleting(node);
        }
        if node.owners.is_empty() {
            return Decision::Nothing;
        }
        let (mut solid, mut waiting, mut gone, mut unknown) =
            (0, Vec::new(), Vec::new(), Vec::new());
        for owner in &node.owners {
            let known = self.nodes.get(&owner.uid);
            match known
                .filter(|known| known.namespace.is_empty() || known.namespace == node.namespace)
            {
                Some(known) if known.is_waiting() => waiting.push(owner.uid.clone()),
                Some(_) => solid += 1,
                // an object of another namespace cannot be an owner
                None if absent.contains(&owner.uid) || known.is_some() => {
                    gone.push(owner.uid.clone())
                }
                None => unknown.push(owner.clone()),
            }
        }
        if !unknown.is_empty() {
            return Decision::Verify(unknown);
        }
        if solid > 0 {
            gone.extend(waiting);
            return if gone.is_empty() {
                Decision::Nothing
            } else {
                Decision::Disown(gone)
            };
        }
        let has_dependents = self.dependents.contains_key(uid);
        if !waiting.is_empty() && self.is_in_cycle(node) {
            return Decision::Unblock;
        }
        Decision::Delete(if node.has(ORPHAN) {
            Propagation::Orphan
        } else if node.has(FOREGROUND) || (!waiting.is_empty() && has_dependents) {
            Propagation::Foreground
        } else {
            Propagation::Background
        })
    }

    /// Reports whether the object blocks its owners while its own dependents wait, possibly in a cycle.
    fn is_in_cycle(&self, node: &Node) -> bool {
        let mut dependents = self.dependents.get(&node.uid).into_iter().flatten();
        let waits = dependents.any(|uid| self.nodes.get(uid).is_some_and(Node::is_waiting));
        waits && node.owners.iter().any(|owner| owner.blocks)
    }

    fn decide_deleting(&self, node: &Node) -> Decision {
        let dependents = self.dependents.get(&node.uid).into_iter().flatten();
        let dependents: Vec<_> = dependents.filter_map(|uid| self.nodes.get(uid)).collect();
        if node.has(ORPHAN) {
            return Decision::Orphan(dependents.into_iter().cloned().collect());
        }
        if !node.has(FOREGROUND) {
            return Decision::Nothing;
        }
        let blocks = |dependent: &&Node| {
            dependent
                .owners
                .iter()
                .any(|owner| owner.uid == node.uid && owner.blocks)
        };
        if dependents.iter().any(blocks) {
            Decision::Nothing
        } else {
            Decision::Release(FOREGROUND)
        }
    }
}

#[cfg(test)]
mod tests;
