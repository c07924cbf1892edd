//! The nodes and pods whose usage is computed: in the store under this cloud's API, or in a cluster.

use std::sync::Arc;

use async_trait::async_trait;
use kube::{
    Client,
    api::{GetParams, ListParams, Request},
};
use kubeapi::BoxError;
use objectstore::{Key, Page, Resource, Scope, Store};
use serde::Deserialize;
use wire::names::{is_dns_label, is_path_segment};

use super::objects::Measured;

/// Objects of a cluster that are listed at a time.
const PAGE_SIZE: u32 = 500;
/// The label of edge nodes, which KubeEdge sets; the other nodes of a cluster have kubelets.
const EDGE_LABEL: &str = "node-role.kubernetes.io/edge";

/// Nodes and pods.
#[async_trait]
pub(super) trait Inventory: Send + Sync + 'static {
    /// Returns objects of the core group, `plural` is `nodes` or `pods`: those in `namespace` (if it is empty, all), and if `name` is not
    /// empty, at most the one with this name.
    async fn list(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<Measured>, BoxError>;
}

/// Those in a store.
pub(super) struct StoreInventory(pub(super) Arc<dyn Store>);

#[async_trait]
impl Inventory for StoreInventory {
    async fn list(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<Measured>, BoxError> {
        let resource = Resource::new("", plural);
        let stored = if name.is_empty() {
            let namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
            let scope = Scope {
                resource,
                namespace,
            };
            self.0.list(&scope, &Page::default()).await?.items
        } else {
            let found = self.0.get(&Key::new(resource, namespace, name)).await?;
            found.into_iter().collect()
        };
        let parsed = stored
            .iter()
            .map(|object| serde_json::from_slice(&object.json));
        Ok(parsed.collect::<Result<_, _>>()?)
    }
}

/// Those of a cluster: edge nodes, and running pods.
pub(super) struct ClusterInventory(pub(super) Client);

/// A list, with only the needed fields.
#[derive(Deserialize)]
struct MeasuredList {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<Measured>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[async_trait]
impl Inventory for ClusterInventory {
    async fn list(
        &self,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<Measured>, BoxError> {
        let is_placed = namespace.is_empty() || is_dns_label(namespace);
        if !is_placed || !(name.is_empty() || is_path_segment(name)) {
            return Ok(Vec::new());
        }
        let url = match namespace {
            "" => format!("/api/v1/{plural}"),
            namespace => format!("/api/v1/namespaces/{namespace}/{plural}"),
        };
        if !name.is_empty() {
            let request = Request::new(url).get(name, &GetParams::default())?;
            return match self.0.request::<Measured>(request).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Vec::new()),
                found => Ok(vec![found?]),
            };
        }
        let mut page = ListParams::default().limit(PAGE_SIZE);
        page = match plural {
            "nodes" => page.labels(EDGE_LABEL),
            _ => page.fields("status.phase=Running"),
        };
        let mut all = Vec::new();
        loop {
            let request = Request::new(&url).list(&page)?;
            let list: MeasuredList = self.0.request(request).await?;
            all.extend(list.items);
            match list.metadata.next.filter(|token| !token.is_empty()) {
                Some(token) => page.continue_token = Some(token),
                None => return Ok(all),
            }
        }
    }
}
