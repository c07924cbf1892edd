//! The operations of somebody on this node: over MetaServer, and over the status socket.

use std::sync::Arc;

use async_trait::async_trait;
use edged::{LocalKubelet, RuntimeChannel, hold, restart_containers};
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams, Patch, PatchParams},
};
use kubeapi::NodeStreams;
use objectstore::Store;
use serde_json::json;
use tracing::info;
use wire::text::with_causes;

use crate::{
    config::Config,
    metamanager::{DeviceObjects, Done, MetaManager, MetaServer, Operation, Operations, Refusal},
    status::Objects,
    taskmanager::{NO_JOBS, NONE_WAITS, NodeJobs},
};

/// Carries out the operations.
pub(super) struct NodeOperations {
    /// The name of this node.
    node: String,
    /// The local API.
    client: Client,
    /// The container runtime.
    runtime: RuntimeChannel,
    /// The node jobs, if TaskManager is enabled.
    jobs: Option<NodeJobs>,
}

/// The objects of this node for the status socket, before it is known which pods run.
pub(super) struct NodeObjects {
    store: Arc<dyn Store>,
    kubelet: Option<Arc<dyn NodeStreams>>,
    devices: DeviceObjects,
    operations: Arc<dyn Operations>,
}

impl NodeObjects {
    /// Creates them over the store of this node; MetaServer gets the operations as well.
    pub(super) fn new(
        store: Arc<dyn Store>,
        meta: &MetaManager,
        operations: NodeOperations,
        meta_server: Option<&MetaServer>,
    ) -> Self {
        let operations: Arc<dyn Operations> = Arc::new(operations);
        if let Some(meta_server) = meta_server {
            meta_server.set_operations(operations.clone());
        }
        Self {
            store,
            kubelet: None,
            devices: meta.devices(),
            operations,
        }
    }

    /// Adds the logs and commands of pods.
    pub(super) fn set_kubelet(&mut self, kubelet: &LocalKubelet) {
        self.kubelet = Some(Arc::new(kubelet.clone()));
    }

    /// Returns the objects.
    pub(super) fn build(self) -> Objects {
        let api = kubeapi::Api::builder(self.store);
        let api = match self.kubelet {
            Some(kubelet) => api.node_streams(kubelet),
            None => api,
        };
        Objects {
            api: api.build().service(),
            devices: self.devices,
            operations: self.operations,
        }
    }
}

#[async_trait]
impl Operations for NodeOperations {
    async fn run(&self, operation: &Operation) -> Result<Done, Refusal> {
        match operation {
            Operation::ConfirmUpgrade => self.confirm_upgrade().await,
            Operation::UnholdPod(namespace, name) => self.unhold_pod(namespace, name).await,
            Operation::UnholdNode(node) if *node == self.node => self.unhold_all().await,
            Operation::UnholdNode(node) => {
                let why = format!("node {node:?} not found: this is the node {:?}", self.node);
                Err((StatusCode::NOT_FOUND, why))
            }
            Operation::Restart(namespace, names) => {
                let mut done = Done::default();
                for name in names {
                    match self.restart(namespace, name).await {
                        Ok(()) => done.messages.push(format!("pod/{name} restarted")),
                        Err(why) => done.errors.push(format!("pod {name}: {why}")),
                    }
                }
                Ok(done)
            }
        }
    }
}

impl NodeOperations {
    /// Creates them; the local API and the container runtime are called when needed.
    pub(super) fn new(
        config: &Config,
        meta: &MetaManager,
        runtime: RuntimeChannel,
        jobs: Option<NodeJobs>,
    ) -> Self {
        Self {
            node: config.node.name.clone(),
            client: meta.client(),
            runtime,
            jobs,
        }
    }

    async fn confirm_upgrade(&self) -> Result<Done, Refusal> {
        let confirmed = match &self.jobs {
            Some(jobs) => jobs.confirm_upgrade().await.ok_or(NONE_WAITS),
            None => Err(NO_JOBS),
        };
        match confirmed {
            Ok(job) => Ok(one(format!("upgrade {job} confirmed"))),
            Err(why) => Err((StatusCode::BAD_REQUEST, why.to_owned())),
        }
    }

    async fn unhold_pod(&self, namespace: &str, name: &str) -> Result<Done, Refusal> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let pod = pods.get_opt(name).await.map_err(refusal)?;
        let Some(pod) = pod else {
            let why = format!("pod {namespace}/{name} not found on this node");
            return Err((StatusCode::NOT_FOUND, why));
        };
        let refused = |why: &str| {
            Err((
                StatusCode::BAD_REQUEST,
                format!("pod {namespace}/{name} {why}"),
            ))
        };
        if !hold::asks_to_be_held(&pod) {
            return refused(
                "is not held: it does not have the annotation edge.kubeedge.io/hold-upgrade: \"true\"",
            );
        }
        if edged::is_terminal(&pod) {
            return refused("is not held: it has ended");
        }
        if !hold::is_held(&pod) {
            return refused("is not held: it has already begun to start");
        }
        self.release(&pod).await?;
        Ok(one(format!("pod/{name} released")))
    }

    async fn unhold_all(&self) -> Result<Done, Refusal> {
        let pods = Api::<Pod>::all(self.client.clone());
        let pods = pods.list(&ListParams::default()).await.map_err(refusal)?;
        let mut done = Done::default();
        for pod in pods.items.iter().filter(|pod| hold::is_held(pod)) {
            self.release(pod).await?;
            done.messages
                .push(format!("pod/{} released", pod.name_any()));
        }
        Ok(done)
    }

    /// Writes the release of one pod; no other pod is touched.
    async fn release(&self, pod: &Pod) -> Result<(), Refusal> {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let conditions = hold::conditions(pod, false, clock::now());
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": conditions}});
        let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
        let written = pods
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        written.map_err(refusal)?;
        info!(pod = format!("{namespace}/{name}"), "held pod released");
        Ok(())
    }

    /// Stops the containers of a pod, which then start again.
    async fn restart(&self, namespace: &str, name: &str) -> Result<(), String> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let pod = pods
            .get_opt(name)
            .await
            .map_err(|error| error.to_string())?;
        let pod = pod.ok_or("not found on this node")?;
        let policy = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.restart_policy.as_deref());
        let policy = policy.unwrap_or("Always");
        if policy != "Always" {
            return Err(format!(
                "its restartPolicy is {policy}, so its containers would not start again"
            ));
        }
        restart_containers(self.runtime.clone(), &pod)
            .await
            .map_err(|error| with_causes(&error))?;
        info!(
            pod = format!("{namespace}/{name}"),
            "containers of a pod restarted"
        );
        Ok(())
    }
}

fn one(message: String) -> Done {
    Done {
        messages: vec![message],
        errors: Vec::new(),
    }
}

fn refusal(error: kube::Error) -> Refusal {
    match error {
        kube::Error::Api(status) => (
            StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            status.message,
        ),
        other => (StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
    }
}
