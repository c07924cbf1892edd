//! Creates and deletes pods for their owner, with events: kube-controller-manager's `PodControl`.

use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::shared::{CONCURRENT_WRITES, Namespaced, Shared};
use crate::controllers::{
    api_status,
    events::{Component, NewEvent},
    informers::{Failure, Informer},
};

impl Shared {
    /// Creates pods for `owner`, several at the same time. Returns the first failure after all were tried.
    pub(crate) async fn create_pods<O: Namespaced>(
        &self,
        informer: &Informer<Pod>,
        owner: &O,
        by: Component,
        pods: Vec<Pod>,
    ) -> Result<(), kube::Error> {
        let made = stream::iter(pods).map(|pod| async move {
            let made = self.create(informer, &pod).await;
            let told = match &made {
                Ok(pod) => NewEvent::normal(
                    by,
                    "SuccessfulCreate",
                    format!("Created pod: {}", pod.name_any()),
                ),
                Err(error) => {
                    let message = format!("Error creating: {}", api_status::text(error));
                    NewEvent::warning(by, "FailedCreate", message)
                }
            };
            self.events.record(owner, told);
            made.map(drop)
        });
        let results: Vec<_> = made.buffer_unordered(CONCURRENT_WRITES).collect().await;
        results.into_iter().collect()
    }

    /// Deletes pods of `owner`, several at the same time.
    pub(crate) async fn delete_pods<O: Namespaced>(
        &self,
        informer: &Informer<Pod>,
        owner: &O,
        by: Component,
        pods: Vec<Arc<Pod>>,
    ) -> Result<(), Failure> {
        let deleted = stream::iter(pods).map(|pod| async move {
            self.delete(informer, &*pod).await?;
            let message = format!("Deleted pod: {}", pod.name_any());
            self.events
                .record(owner, NewEvent::normal(by, "SuccessfulDelete", message));
            Ok(())
        });
        let results: Vec<_> = deleted.buffer_unordered(CONCURRENT_WRITES).collect().await;
        results.into_iter().collect()
    }
}
