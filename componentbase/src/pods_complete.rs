//! Whether all pods of this node are in the store: MetaManager decides it, and EdgeD acts on it.

use std::sync::Arc;

use objectstore::{Damaged, Resource};
use tokio::sync::{Notify, watch};

/// Tells whether the stored pods are complete. Once they are, they stay so, unless one is damaged later.
#[derive(Clone, Debug)]
pub struct PodsComplete {
    complete: watch::Receiver<bool>,
    damaged: Damaged,
    no_orphans: Arc<Notify>,
    unknown: Arc<watch::Sender<bool>>,
}

impl PodsComplete {
    /// Creates the handle, and its other end. `damaged` are the objects of the store that cannot be read.
    pub fn new(damaged: Damaged) -> (CompletenessPublisher, Self) {
        let (complete, receiver) = watch::channel(false);
        let (set, unknown) = watch::channel(false);
        let no_orphans = Arc::new(Notify::new());
        let handle = Self {
            complete: receiver,
            damaged,
            no_orphans: no_orphans.clone(),
            unknown: Arc::new(set),
        };
        let publisher = CompletenessPublisher {
            complete,
            no_orphans,
            unknown,
        };
        (publisher, handle)
    }

    /// Reports whether they are complete now.
    pub fn now(&self) -> bool {
        *self.complete.borrow() && !self.has_damaged()
    }

    /// Reports whether a stored pod cannot be read: at most its name is known then.
    fn has_damaged(&self) -> bool {
        let pods = Resource::new("", "pods");
        self.damaged.now().keys().any(|key| key.resource == pods)
    }

    /// Waits until they are complete; for ever if MetaManager ends before.
    pub async fn until(&self) {
        if self
            .complete
            .clone()
            .wait_for(|complete| *complete)
            .await
            .is_err()
        {
            std::future::pending().await
        }
        let mut damaged = self.damaged.clone();
        while self.has_damaged() {
            damaged.changed().await;
        }
    }

    /// Says that nothing of any other pod is on this node, so there is nothing to wait for.
    pub fn mark_no_orphans(&self) {
        self.no_orphans.notify_one();
    }

    /// Says whether the cloud has answered, for each pod that left something on this node and is not stored, that it does not
    /// know it.
    pub fn set_unknown_to_cloud(&self, so: bool) {
        self.unknown
            .send_if_modified(|known| std::mem::replace(known, so) != so);
    }
}

/// MetaManager's end of [`PodsComplete`].
#[derive(Debug)]
pub struct CompletenessPublisher {
    /// Whether the stored pods are complete.
    pub complete: watch::Sender<bool>,
    /// Notifies that nothing of any other pod is on this node.
    pub no_orphans: Arc<Notify>,
    /// Whether the cloud has answered that it does not know any other pod of this node.
    pub unknown: watch::Receiver<bool>,
}
