//! Caches the APIServices of other servers, and which resources these servers have.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kubeapi::request::remote::RemoteVersion;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

/// A group and version of another server.
#[derive(Clone, Debug)]
pub(super) struct RemoteService {
    pub(super) name: String,
    pub(super) spec: Value,
}

/// The stored APIServices with a service.
#[derive(Debug, Default)]
pub(super) struct RemoteServices {
    pub(super) versions: Arc<[RemoteVersion]>,
    pub(super) services: Vec<RemoteService>,
}

/// The resources of other servers, and when they were read.
pub(super) type ResourceCache = HashMap<(String, String), (Instant, Option<Value>)>;

/// Caches the APIServices until one is written.
#[derive(Debug, Default)]
pub(crate) struct AggregationCache {
    pub(super) known: Mutex<Option<Arc<RemoteServices>>>,
    pub(super) resources: Mutex<ResourceCache>,
    /// The number of changes: what was read before a change is not cached.
    pub(super) changes: AtomicU64,
}

impl AggregationCache {
    /// Drops what is cached, since an APIService was written.
    pub(crate) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        *self.known.lock() = None;
        self.resources.lock().clear();
    }
}
