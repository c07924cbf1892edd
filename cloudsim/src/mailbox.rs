//! The objects that each connected node should be sent next: sets of paths, filled by controllers and emptied by sessions.
//!
//! A path is in a node's set at most once, so the sets are bounded by the number of objects and lose no change: the session reads the
//! object's newest state when it handles the path.

use std::{collections::BTreeSet, fmt, ops::Deref, sync::Arc};

use clock::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The kinds of objects that controllers send, in the order for nodes: mounted objects before pods, models before devices.
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
    pub const ALL: [Self; 7] = [
        Self::Node,
        Self::ConfigMap,
        Self::Secret,
        Self::Access,
        Self::Pod,
        Self::DeviceModel,
        Self::Device,
    ];

    /// Returns the Kubernetes kind.
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

    /// Returns the group and version in which the kind is served.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Node | Self::ConfigMap | Self::Secret | Self::Pod => "v1",
            Self::Access => "policy.kubeedge.io/v1alpha1",
            Self::DeviceModel | Self::Device => "devices.kubeedge.io/v1beta1",
        }
    }

    /// Returns the kind of this Kubernetes name.
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.kind() == kind)
    }
}

/// The path of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectPath {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind.kind(), self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind.kind(), self.name),
        }
    }
}

impl ObjectPath {
    /// Creates a path from its parts.
    pub fn new(kind: ObjectKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// The paths that one connected node should be sent.
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

    /// Waits until paths may be available. Cancel-safe: a wake-up that is not seen is kept.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes all paths, in the order of kinds.
    pub fn take(&self) -> BTreeSet<ObjectPath> {
        std::mem::take(&mut self.paths.lock())
    }
}

/// The mailboxes of all connected nodes.
#[derive(Clone, Debug, Default)]
pub struct Mailboxes(Arc<Mutex<HashMap<String, Arc<Mailbox>>>>);

impl Mailboxes {
    /// Creates a mailbox for a node that has just connected; it replaces that of an older session.
    pub fn open(&self, node: &str) -> OpenMailbox {
        let mailbox = Arc::new(Mailbox::default());
        self.0.lock().insert(node.to_owned(), mailbox.clone());
        OpenMailbox {
            all: self.clone(),
            node: node.to_owned(),
            mailbox,
        }
    }

    /// Returns the names of the connected nodes.
    pub fn nodes(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }

    /// Notifies the session of `node`, if there is one, that `path` may have changed.
    pub fn notify(&self, node: &str, path: ObjectPath) {
        if let Some(mailbox) = self.0.lock().get(node) {
            mailbox.add([path]);
        }
    }
}

/// The mailbox of a connected node. Dropping it removes it, unless a newer session has replaced it.
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
        if boxes
            .get(&self.node)
            .is_some_and(|current| Arc::ptr_eq(current, &self.mailbox))
        {
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
        for kind in [
            ObjectKind::Device,
            ObjectKind::Pod,
            ObjectKind::Secret,
            ObjectKind::Pod,
        ] {
            boxes.notify("edge", ObjectPath::new(kind, "default", "x"));
        }
        let kinds: Vec<ObjectKind> = mailbox.take().into_iter().map(|path| path.kind).collect();
        assert_eq!(
            kinds,
            [ObjectKind::Secret, ObjectKind::Pod, ObjectKind::Device]
        );
        assert!(mailbox.take().is_empty());
    }

    #[test]
    fn closing_an_old_session_leaves_the_new_one_alone() {
        let boxes = Mailboxes::default();
        let old = boxes.open("edge");
        let new = boxes.open("edge");
        drop(old);
        boxes.notify("edge", ObjectPath::new(ObjectKind::Node, "", "edge"));
        assert_eq!((boxes.nodes().len(), new.take().len()), (1, 1));
        drop(new);
        assert_eq!(boxes.nodes(), [""; 0]);
    }
}
