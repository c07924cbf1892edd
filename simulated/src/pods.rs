//! The pods of a node: starts those that are stored, reports them, and stops those that are deleted. Containers outlive the agent, as
//! they do in reality.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use objectstore::{Page, Resource, Scope, Store, StoreError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    objects::{uid_of, used_objects},
    store::Slow,
    watcher::{Watcher, get, pod_key},
};

/// How long to wait after a write that was refused for a reason that is not the pod's.
const AGAIN: Duration = Duration::from_millis(200);

/// What runs on a node's machine.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// The running pods: UID → name.
    pub(crate) running: BTreeMap<String, String>,
    /// The newest status that the store has accepted: UID → serial number.
    pub(crate) written: BTreeMap<String, u64>,
    /// The serial number of the node's own status.
    pub(crate) node_written: u64,
    /// The number of statuses so far.
    pub(crate) serial: u64,
}

/// The pods of a node while its agent runs; cheap to clone.
#[derive(Clone)]
pub(crate) struct Pods {
    pub(crate) node: String,
    pub(crate) client: Client,
    pub(crate) store: Arc<Slow>,
    pub(crate) machine: Arc<Mutex<Machine>>,
    pub(crate) watcher: Watcher,
}

impl Pods {
    /// Runs for ever.
    pub(crate) async fn run(self) {
        while self.register().await.is_err() {
            sleep(AGAIN).await;
        }
        loop {
            // It was too far behind and starts again with a list.
            let _ = self.follow().await;
            clock::trace(|| format!("{} looks at everything", self.node));
        }
    }

    async fn register(&self) -> Result<(), kube::Error> {
        let nodes = Api::<Node>::all(self.client.clone());
        if nodes.get_opt(&self.node).await?.is_none() {
            let node: Node = serde_json::from_value(json!({"metadata": {"name": self.node}}))
                .unwrap_or_default();
            nodes.create(&PostParams::default(), &node).await?;
        }
        Ok(())
    }

    async fn follow(&self) -> Result<(), StoreError> {
        let scope = Scope {
            resource: Resource::new("", "pods"),
            namespace: None,
        };
        let listing = self.store.list(&scope, &Page::default()).await?;
        let mut watch = self.store.watch(scope, listing.revision)?;
        let mut names: Vec<String> = listing.items.into_iter().map(|pod| pod.key.name).collect();
        names.extend(self.machine.lock().running.values().cloned());
        names.sort();
        names.dedup();
        for name in names {
            self.look(&name).await;
        }
        loop {
            let event = watch.next().await?;
            self.watcher.record_event(&self.node, &event);
            self.look(&event.object.key.name).await;
        }
    }

    /// Does what is due for the pod of this name until nothing is left to do.
    async fn look(&self, name: &str) {
        while let Err(kube::Error::Api(status)) = self.act(name).await {
            // The pod is gone or was replaced; the next turn sees that.
            clock::trace(|| format!("{} could not write {name}: {}", self.node, status.code));
            sleep(AGAIN).await;
        }
    }

    async fn act(&self, name: &str) -> Result<(), kube::Error> {
        let pod = get(self.store.inner(), &pod_key(name));
        let uid = pod.as_ref().map(uid_of).unwrap_or_default();
        let others = |machine: &Machine| -> Vec<String> {
            let here = machine
                .running
                .iter()
                .filter(|(other, at)| *at == name && **other != uid);
            here.map(|(other, _)| other.clone()).collect()
        };
        let others = others(&self.machine.lock());
        others.iter().for_each(|other| self.stop(name, other));
        let Some(pod) = pod else { return Ok(()) };
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            if self.machine.lock().running.contains_key(&uid) {
                self.stop(name, &uid);
            }
            if pod["status"]["phase"] != "Succeeded" {
                self.report(name, &uid, "Succeeded").await?;
            }
            let pods = Api::<Pod>::default_namespaced(self.client.clone());
            let preconditions = Some(Preconditions {
                uid: Some(uid),
                resource_version: None,
            });
            let options = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions,
                ..DeleteParams::default()
            };
            return pods.delete(name, &options).await.map(drop);
        }
        if !self.machine.lock().running.contains_key(&uid) {
            self.read_what_it_uses(&pod).await;
            // The pod may be gone meanwhile.
            if get(self.store.inner(), &pod_key(name)).as_ref() != Some(&pod) {
                return Box::pin(self.act(name)).await;
            }
            self.machine
                .lock()
                .running
                .insert(uid.clone(), name.to_owned());
            self.watcher.record_start(&self.node, name, &uid);
        }
        if pod["status"]["startTime"].is_null() {
            self.report(name, &uid, "Running").await?;
        }
        Ok(())
    }

    /// Reads what a pod uses, as its start does: what is not stored is requested from the cloud, and no request waits for ever.
    async fn read_what_it_uses(&self, pod: &Value) {
        for (plural, name) in used_objects(pod) {
            let client = self.client.clone();
            // All of it is optional.
            let _ = match plural {
                "configmaps" => Api::<ConfigMap>::default_namespaced(client)
                    .get_opt(&name)
                    .await
                    .map(drop),
                _ => Api::<Secret>::default_namespaced(client)
                    .get_opt(&name)
                    .await
                    .map(drop),
            };
        }
    }

    fn stop(&self, name: &str, uid: &str) {
        self.machine.lock().running.remove(uid);
        self.watcher.record_stop(&self.node, name, uid);
    }

    /// Writes a new status of a pod.
    pub(crate) async fn report(
        &self,
        name: &str,
        uid: &str,
        phase: &str,
    ) -> Result<(), kube::Error> {
        let serial = self.serial();
        let status = json!({
            "phase": phase, "startTime": "2020-01-01T00:00:00Z", "message": serial.to_string(),
            "conditions": [{"type": "Ready", "status": if phase == "Running" { "True" } else { "False" }}],
        });
        let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
        let pods = Api::<Pod>::default_namespaced(self.client.clone());
        pods.patch_status(name, &PatchParams::default(), &patch)
            .await?;
        self.machine.lock().written.insert(uid.to_owned(), serial);
        Ok(())
    }

    /// Writes a new status of the node.
    pub(crate) async fn report_node(&self) -> Result<(), kube::Error> {
        let serial = self.serial();
        let condition = json!({"type": "Told", "status": "True", "message": serial.to_string()});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        let nodes = Api::<Node>::all(self.client.clone());
        nodes
            .patch_status(&self.node, &PatchParams::default(), &patch)
            .await?;
        self.machine.lock().node_written = serial;
        Ok(())
    }

    fn serial(&self) -> u64 {
        let mut machine = self.machine.lock();
        machine.serial += 1;
        machine.serial
    }
}
