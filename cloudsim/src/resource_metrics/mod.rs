//! `metrics.k8s.io`, from which `kubectl top` reads the usage of nodes and pods. In: the nodes' pages `/metrics/resource`, through
//! [`NodeStreams`]. Out: API objects that are computed on request.
//!
//! The rules are metrics-server's (<https://github.com/kubernetes-sigs/metrics-server>), except that nodes are scraped only while
//! somebody asks. A pod's usage is taken from the node on which the pod is, whatever other nodes report.

mod aggregated;
mod history;
mod inventory;
mod objects;
mod page;
mod role;
mod scrape;

use std::sync::Arc;

use async_trait::async_trait;
use kube::Client;
use kubeapi::{BoxError, ComputedKind, ComputedObjects, Kind, NodeStreams};
use objectstore::Store;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{aggregated::AggregatedApi, role::ensure as ensure_role};
use self::{
    inventory::{ClusterInventory, Inventory, StoreInventory},
    scrape::Scraper,
};

/// Computes the objects of `metrics.k8s.io`. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ResourceMetrics {
    inventory: Arc<dyn Inventory>,
    scraper: Arc<Scraper>,
}

impl ResourceMetrics {
    /// Creates it for the nodes and pods in `store`; `streams` reaches their kubelets.
    pub(crate) fn new(store: Arc<dyn Store>, streams: Arc<dyn NodeStreams>) -> Self {
        Self::of(Arc::new(StoreInventory(store)), streams)
    }

    /// Creates it for the edge nodes of a cluster, and the pods there.
    pub(crate) fn in_cluster(client: Client, streams: Arc<dyn NodeStreams>) -> Self {
        Self::of(Arc::new(ClusterInventory(client)), streams)
    }

    fn of(inventory: Arc<dyn Inventory>, streams: Arc<dyn NodeStreams>) -> Self {
        Self {
            scraper: Arc::new(Scraper::new(Arc::clone(&inventory), streams)),
            inventory,
        }
    }

    /// Scrapes nodes while somebody asks, until `stop`. Without it no request is answered.
    pub(crate) async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.scraper.run()).await;
    }
}

#[async_trait]
impl ComputedObjects for ResourceMetrics {
    fn kinds(&self) -> Vec<ComputedKind> {
        objects::kinds()
    }

    async fn list(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Vec<Value>, BoxError> {
        self.scraper.wait_scraped().await;
        let all = self.inventory.list(&kind.plural, namespace, name).await?;
        let now = clock::now();
        let mut found = Vec::new();
        for measured in all {
            found.extend(if kind.kind == objects::NODE {
                self.scraper
                    .node(&measured.metadata.name)
                    .map(|usage| objects::node(&measured, usage, now))
            } else if measured.status.phase == "Running" {
                let pod = (
                    measured.metadata.namespace.clone(),
                    measured.metadata.name.clone(),
                );
                self.scraper.pod(&measured.spec.node_name, &pod, |used| {
                    objects::pod(&measured, used, now)
                })
            } else {
                None
            });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
