//! The demonstration: a node becomes Ready, manifests are applied, a pod becomes Running, its container gets its variables and files,
//! and a device follows its twin.

mod inside;
pub(crate) mod manifests;
mod thermometer;
mod twin;

use std::time::Duration;

use clock::Instant;

use anyhow::{anyhow, bail};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    runtime::{WatchStreamExt, watcher},
};

use self::manifests::Applied;
use crate::fleet::HollowNode;

/// The time limit of each step: many times what it takes on a slow laptop.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// The steps of the demonstration, and what they need.
pub(crate) struct Steps<'a> {
    /// The cloud's API.
    pub(crate) client: Client,
    /// A client over a socket, through which commands run in containers; `None` runs them in the node's runtime if the API reaches no node.
    pub(crate) connected: Option<Client>,
    /// The node.
    pub(crate) node: &'a HollowNode,
    /// The objects that [`manifests::read`] has read.
    pub(crate) manifests: Vec<DynamicObject>,
    /// Called with a line when a step is done.
    pub(crate) progress: &'a dyn Fn(&str),
}

/// What was observed, and when.
pub(crate) struct Seen {
    /// The node.
    pub(crate) node: String,
    /// When the node was Ready.
    pub(crate) node_ready: Instant,
    /// The pod.
    pub(crate) pod: String,
    /// When the pod was Running.
    pub(crate) pod_running: Instant,
    /// When the container was checked.
    pub(crate) looked_inside: Instant,
    /// What the container sees: names and values.
    pub(crate) inside: Vec<(String, String)>,
    /// When the device's twin was as desired.
    pub(crate) twin_followed: Instant,
    /// What was observed of the device; empty if the manifests have none.
    pub(crate) twin: Vec<(String, String)>,
}

impl Steps<'_> {
    /// Runs all steps; fails with the first that did not succeed.
    pub(crate) async fn walk(mut self) -> anyhow::Result<Seen> {
        let node = &self.node.name;
        self.wait::<Node>(Api::all(self.client.clone()), node, "Ready", is_ready)
            .await?;
        let node_ready = Instant::now();
        (self.progress)(&format!("node {node} is Ready"));

        let manifests = std::mem::take(&mut self.manifests);
        let Applied { pod, device } =
            manifests::apply(&self.client, manifests, self.progress).await?;
        let api = Api::<Pod>::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let name = pod.name_any();
        let running = self.wait(api, &name, "Running", is_running).await?;
        let pod_running = Instant::now();
        (self.progress)(&format!("pod {name} is Running"));

        let inside = inside::look(&self, &running).await?;
        (self.progress)(&format!(
            "pod {name} has its configuration{}",
            if self.connected.is_some() {
                "; kubectl exec and logs work"
            } else {
                ""
            }
        ));
        let looked_inside = Instant::now();
        let twin = match &device {
            Some(device) => Box::pin(twin::watch(&self, device)).await?,
            None => Vec::new(),
        };
        Ok(Seen {
            node: node.clone(),
            node_ready,
            pod: name,
            pod_running,
            looked_inside,
            inside,
            twin_followed: Instant::now(),
            twin,
        })
    }

    /// Waits until the object called `name` is as desired.
    async fn wait<K>(
        &self,
        api: Api<K>,
        name: &str,
        what: &str,
        wanted: fn(&K) -> bool,
    ) -> anyhow::Result<K>
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let objects = watcher::watcher(api, config)
            .default_backoff()
            .applied_objects();
        let found = async {
            let mut objects = std::pin::pin!(objects);
            loop {
                match objects.try_next().await {
                    Ok(Some(object)) if wanted(&object) => return Ok(object),
                    // Errors are temporary: the watcher starts again.
                    Ok(Some(_)) | Err(_) => {}
                    Ok(None) => bail!("the API has closed the watch"),
                }
            }
        };
        tokio::time::timeout(STEP_TIMEOUT, found)
            .await
            .map_err(|_| anyhow!("{name} is not {what} after {STEP_TIMEOUT:?}"))?
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Running")
        && status.is_some_and(|status| {
            status
                .container_statuses
                .iter()
                .flatten()
                .all(|container| container.ready)
        })
}
