//! The demonstration: a node becomes Ready, manifests are applied, a pod becomes Running, its container sees what it was given,
//! and a device follows its twin.

mod inside;
pub(crate) mod manifests;
mod thermometer;
mod twin;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    runtime::{WatchStreamExt, watcher},
};

use self::manifests::Applied;
use crate::fleet::HollowNode;

/// Each step's limit: many times what it takes on a slow laptop.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// What to walk through.
pub(crate) struct Steps<'a> {
    /// The cloud's API.
    pub(crate) client: Client,
    /// The same over a socket, through which containers are looked into; `None`: the node itself is asked, where the API reaches no node.
    pub(crate) connected: Option<Client>,
    /// The node.
    pub(crate) node: &'a HollowNode,
    /// What [`manifests::read`] has read.
    pub(crate) manifests: Vec<DynamicObject>,
    /// Is told each step when it is done.
    pub(crate) progress: &'a dyn Fn(&str),
}

/// What was seen, and when.
pub(crate) struct Seen {
    /// The node.
    pub(crate) node: String,
    /// When it was Ready.
    pub(crate) node_ready: Instant,
    /// The pod.
    pub(crate) pod: String,
    /// When it was Running.
    pub(crate) pod_running: Instant,
    /// When the container was asked.
    pub(crate) looked_inside: Instant,
    /// What the container sees: what it is, and its value.
    pub(crate) inside: Vec<(String, String)>,
    /// When the device was as wanted.
    pub(crate) twin_followed: Instant,
    /// What was seen of the device; nothing where the manifests have none.
    pub(crate) twin: Vec<(String, String)>,
}

impl Steps<'_> {
    /// All steps, or the first that did not come true.
    pub(crate) async fn walk(mut self) -> anyhow::Result<Seen> {
        let node = &self.node.name;
        self.wait::<Node>(Api::all(self.client.clone()), node, "Ready", is_ready).await?;
        let node_ready = Instant::now();
        (self.progress)(&format!("node {node} is Ready"));

        let manifests = std::mem::take(&mut self.manifests);
        let Applied { pod, device } = manifests::apply(&self.client, manifests, self.progress).await?;
        let api = Api::<Pod>::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let name = pod.name_any();
        let running = self.wait(api, &name, "Running", is_running).await?;
        let pod_running = Instant::now();
        (self.progress)(&format!("pod {name} is Running"));

        let inside = inside::look(&self, &running).await?;
        (self.progress)(&format!(
            "pod {name} sees its ConfigMap and its Secret, as environment and as files{}",
            if self.connected.is_some() { ", by kubectl exec; its log is there" } else { "" }
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

    /// Waits until the object called `name` is as wanted.
    async fn wait<K>(&self, api: Api<K>, name: &str, what: &str, wanted: fn(&K) -> bool) -> anyhow::Result<K>
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let objects = watcher::watcher(api, config).default_backoff().applied_objects();
        let found = async {
            let mut objects = std::pin::pin!(objects);
            loop {
                match objects.try_next().await {
                    Ok(Some(object)) if wanted(&object) => return Ok(object),
                    // errors pass: the watcher begins anew
                    Ok(Some(_)) | Err(_) => {}
                    Ok(None) => bail!("the API has closed the watch"),
                }
            }
        };
        tokio::time::timeout(STEP_TIMEOUT, found)
            .await
            .with_context(|| format!("{name} was not {what} within {STEP_TIMEOUT:?}"))?
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Running")
        && status
            .is_some_and(|status| status.container_statuses.iter().flatten().all(|container| container.ready))
}
