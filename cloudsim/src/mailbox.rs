//! What each connected node should look at next: sets of object paths, filled by controllers, emptied by sessions.
//!
//! A path is in a node's set at most once, so the sets are bounded by the number of objects and never lose a change: the
//! session reads the object's newest state when it gets to it.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Deref,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The kinds of objects that controllers send, in the order in which a node should get them: what pods mount comes before the
/// pods, a model before its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// `v1` Node.
    Node,
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` Secret.
    Secret,
    /// `policy.kubeedge.io/v1alpha1` ServiceAccountAccess.
    Access,
    /// `v1` Pod.
    Pod,
    /// `devices.kubeedge.io/v1beta1` DeviceModel.
    DeviceModel,
    /// `devices.kubeedge.io/v1beta1` Device.
    Device,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Node, Self::ConfigMap, Self::Secret, Self::Access, Self::Pod, Self::DeviceModel, Self::Device];

    /// The Kubernetes kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Access => "ServiceAccountAccess",
            Self::Pod => "Pod",
            Self::DeviceModel => "DeviceModel",
            Self::Device => "Device",
        }
    }

    /// The group and version that it is served in.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Node | Self::ConfigMap | Self::Secret | Self::Pod => "v1",
            Self::Access => "policy.kubeedge.io/v1alpha1",
            Self::DeviceModel | Self::Device => "devices.kubeedge.io/v1beta1",
        }
    }

    /// The kind of that Kubernetes name.
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.kind() == kind)
    }
}

/// One object's place. The namespace of cluster-scoped objects is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectPath {
    /// What it is.
    pub kind: ObjectKind,
    /// Its namespace, empty for nodes.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectPath {
    /// A path from its parts.
    pub fn new(kind: ObjectKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

/// The set of one connected node.
#[derive(Debug, Default)]
pub struct Mailbox {
    paths: Mutex<BTreeSet<ObjectPath>>,
    changed: Notify,
}

impl Mailbox {
    /// Adds paths and wakes the session.
    pub fn add(&self, paths: impl IntoIterator<Item = ObjectPath>) {
        self.paths.lock().extend(paths);
        self.changed.notify_one();
    }

    /// Waits until something may be there. Cancel-safe: an unseen wake-up stays.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes everything, in the order of kinds.
    pub fn take(&self) -> BTreeSet<ObjectPath> {
        std::mem::take(&mut self.paths.lock())
    }
}

/// The mailboxes of all connected nodes.
#[derive(Clone, Debug, Default)]
pub struct Mailboxes(Arc<Mutex<HashMap<String, Arc<Mailbox>>>>);

impl Mailboxes {
    /// A fresh mailbox for a node that has just connected; it replaces an older session's.
    pub fn open(&self, node: &str) -> OpenMailbox {
        let mailbox = Arc::new(Mailbox::default());
        self.0.lock().insert(node.to_owned(), mailbox.clone());
        OpenMailbox { all: self.clone(), node: node.to_owned(), mailbox }
    }

    /// The nodes that are connected.
    pub fn nodes(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }

    /// Tells `node`'s session, if there is one, that `path` may have changed.
    pub fn poke(&self, node: &str, path: ObjectPath) {
        if let Some(mailbox) = self.0.lock().get(node) {
            mailbox.add([path]);
        }
    }
}

/// A connected node's mailbox, until this is dropped; a newer session's mailbox of the same node stays then.
#[derive(Debug)]
pub struct OpenMailbox {
    all: Mailboxes,
    node: String,
    mailbox: Arc<Mailbox>,
}

impl Deref for OpenMailbox {
    type Target = Mailbox;

    fn deref(&self) -> &Mailbox {
        &self.mailbox
    }
}

impl Drop for OpenMailbox {
    fn drop(&mut self) {
        let mut boxes = self.all.0.lock();
        if boxes.get(&self.node).is_some_and(|current| Arc::ptr_eq(current, &self.mailbox)) {
            boxes.remove(&self.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_waits_once_and_comes_after_what_it_needs() {
        let boxes = Mailboxes::default();
        let mailbox = boxes.open("edge");
        for kind in [ObjectKind::Device, ObjectKind::Pod, ObjectKind::Secret, ObjectKind::Pod] {
            boxes.poke("edge", ObjectPath::new(kind, "default", "x"));
        }
        let kinds: Vec<ObjectKind> = mailbox.take().into_iter().map(|path| path.kind).collect();
        assert_eq!(kinds, [ObjectKind::Secret, ObjectKind::Pod, ObjectKind::Device]);
        assert!(mailbox.take().is_empty());
    }

    #[test]
    fn closing_an_old_session_leaves_the_new_one_alone() {
        let boxes = Mailboxes::default();
        let old = boxes.open("edge");
        let new = boxes.open("edge");
        drop(old);
        boxes.poke("edge", ObjectPath::new(ObjectKind::Node, "", "edge"));
        assert_eq!((boxes.nodes().len(), new.take().len()), (1, 1));
        drop(new);
        assert_eq!(boxes.nodes(), [""; 0]);
    }
}
