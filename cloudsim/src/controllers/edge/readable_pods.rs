//! Whether all pods of a namespace can be read. Nodes from which a common account's pod was removed ask it at the same time; one read
//! serves them.

use std::sync::Arc;

use clock::HashMap;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams, core::PartialObjectMeta};
use parking_lot::Mutex;

use crate::controllers::shared_read::SharedRead;

/// The number of namespaces that are remembered; above it, those without a reader are forgotten.
const MAX_NAMESPACES: usize = 1_000;

/// The reads of each namespace; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadablePods(Arc<Mutex<HashMap<String, Arc<SharedRead<()>>>>>);

impl ReadablePods {
    /// Reads the pods of the namespace, or waits for a read that began after this call.
    ///
    /// # Errors
    /// Those of the list; with a `client` whose lists fail if one of their objects is damaged, that too.
    pub(super) async fn check(&self, client: &Client, namespace: &str) -> Result<(), kube::Error> {
        let read = {
            let mut reads = self.0.lock();
            if reads.len() >= MAX_NAMESPACES {
                reads.retain(|_, read| Arc::strong_count(read) > 1);
            }
            Arc::clone(reads.entry(namespace.to_owned()).or_default())
        };
        let pods = Api::<PartialObjectMeta<Pod>>::namespaced(client.clone(), namespace);
        let list = async { pods.list_metadata(&ListParams::default()).await.map(drop) };
        read.get(list).await.map(drop)
    }
}
