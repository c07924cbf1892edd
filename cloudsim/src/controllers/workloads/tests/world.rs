//! An API in memory, all controllers, and a kubelet that runs no containers.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, wait::await_condition, watcher},
};
use objectstore::MemoryStore;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use testkit::WAIT_TIMEOUT;
use tokio_util::sync::CancellationToken;

use crate::{
    controllers::{
        events::Recorder,
        manager::{Switches, spawn},
        node_lifecycle, scheduler,
        workloads::Shared,
    },
    tasks::Tasks,
};

pub(super) struct World {
    pub(super) client: Client,
    /// The namespace of its objects.
    namespace: &'static str,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Longer than any test: the nodes of these worlds have no leases.
const GRACE: Duration = Duration::from_secs(3600);

/// The nodes of all worlds.
pub(super) const NODES: [&str; 2] = ["edge-1", "edge-2"];

impl World {
    pub(super) async fn new() -> Self {
        Self::in_namespace("default").await
    }

    /// With its objects in a namespace that can be deleted, unlike `default`.
    pub(super) async fn in_namespace(namespace: &'static str) -> Self {
        let api = apiserver::builder(MemoryStore::new()).build();
        let client = api.client("default");
        let stop = CancellationToken::new();
        let world = Self {
            client: client.clone(),
            namespace,
            stop: stop.clone(),
        };
        world
            .create(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            )
            .await;
        for name in NODES {
            world
                .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}))
                .await;
        }
        tokio::spawn(kubelet(client.clone(), stop.clone()));
        let tasks = Tasks::default();
        let events = Recorder::spawn(&tasks, &client, &stop);
        spawn(
            Shared::new(client, events),
            &tasks,
            &Switches::default(),
            &stop,
        );
        world
    }

    /// With the scheduler: edge nodes with two CPUs each.
    pub(super) async fn scheduled(nodes: &[&str]) -> Self {
        let api = apiserver::builder(MemoryStore::new()).build();
        let world = Self::with_nodes(api.client("default"), nodes).await;
        start_controllers(&world.client, &world.stop);
        world
    }

    /// Without controllers: edge nodes with two CPUs each, and their kubelet.
    pub(super) async fn with_nodes(client: Client, nodes: &[&str]) -> Self {
        let stop = CancellationToken::new();
        let world = Self {
            client: client.clone(),
            namespace: "default",
            stop: stop.clone(),
        };
        world
            .create(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
            )
            .await;
        for name in nodes {
            let labels =
                json!({"kubernetes.io/hostname": name, "node-role.kubernetes.io/edge": ""});
            let status = json!({"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}});
            world
                .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}))
                .await;
        }
        tokio::spawn(tend_all(client, stop, false));
        world
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// Creates the object that the value describes.
    pub(super) async fn create(&self, value: Value) {
        let object: kube::api::DynamicObject = serde_json::from_value(value).unwrap();
        let types = object.types.clone().unwrap();
        let gvk: kube::api::GroupVersionKind = (&types).try_into().unwrap();
        let resource = kube::api::ApiResource::from_gvk(&gvk);
        let api: Api<kube::api::DynamicObject> = match types.kind.as_str() {
            "Node" | "Namespace" | "CustomResourceDefinition" | "StorageClass" => {
                Api::all_with(self.client.clone(), &resource)
            }
            _ => Api::namespaced_with(self.client.clone(), self.namespace, &resource),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(super) async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        self.api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub(super) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        self.api::<K>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Waits until `condition` holds for the object, and returns it.
    pub(super) async fn until<K>(&self, name: &str, condition: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Serialize
            + Debug
            + Send
            + 'static,
    {
        let holds = |object: Option<&K>| object.is_some_and(&condition);
        let waited =
            tokio::time::timeout(WAIT_TIMEOUT, await_condition(self.api::<K>(), name, holds)).await;
        match waited {
            Ok(object) => object.unwrap().unwrap(),
            Err(_) => {
                let last = self.api::<K>().get_opt(name).await.unwrap();
                panic!(
                    "{} {name}: not within {WAIT_TIMEOUT:?}; last seen: {}",
                    K::kind(&()),
                    serde_json::to_string_pretty(&last).unwrap()
                );
            }
        }
    }

    /// Waits until `condition` holds for all objects of a kind, and returns them by name.
    pub(super) async fn until_all<K>(
        &self,
        condition: impl Fn(&BTreeMap<String, K>) -> bool,
    ) -> BTreeMap<String, K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + 'static,
    {
        let mut all = BTreeMap::new();
        let mut complete = false;
        let waited = async {
            let mut events = Box::pin(
                watcher::watcher(self.api::<K>(), watcher::Config::default()).default_backoff(),
            );
            while let Some(event) = events.next().await {
                match event.unwrap() {
                    watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                        all.insert(object.name_any(), object);
                    }
                    watcher::Event::Delete(object) => drop(all.remove(&object.name_any())),
                    watcher::Event::Init => all.clear(),
                    watcher::Event::InitDone => complete = true,
                }
                if complete && condition(&all) {
                    return;
                }
            }
        };
        let waited = tokio::time::timeout(WAIT_TIMEOUT, waited).await;
        assert!(waited.is_ok(), "{}s are still {all:#?}", K::kind(&()));
        all
    }

    /// Returns the active pods with this label `app`.
    pub(super) async fn pods(&self, app: &str, count: usize) -> BTreeMap<String, Pod> {
        let mine = |pod: &Pod| {
            pod.labels().get("app").is_some_and(|label| label == app)
                && super::super::pods::is_active(pod)
        };
        let mut pods = self
            .until_all::<Pod>(|pods| pods.values().filter(|pod| mine(pod)).count() == count)
            .await;
        pods.retain(|_, pod| mine(pod));
        pods
    }
}

/// Starts all controllers and the scheduler, until `stop`.
pub(super) fn start_controllers(client: &Client, stop: &CancellationToken) {
    let tasks = Tasks::default();
    let events = Recorder::spawn(&tasks, client, stop);
    let lifecycle = node_lifecycle::run(client.clone(), events.clone(), GRACE, stop.clone());
    tasks.spawn("node-lifecycle", lifecycle);
    let shared = Shared::new(client.clone(), events);
    let reflectors = spawn(shared, &tasks, &Switches::default(), stop);
    reflectors.start("scheduler", |cluster, stop| {
        scheduler::run(cluster, scheduler::SchedulerMetrics::default(), stop)
    });
}

/// Binds pods, runs them, and ends those that are deleted. The annotation `exit` of a pod is its exit code.
pub(super) async fn kubelet(client: Client, stop: CancellationToken) {
    tend_all(client, stop, true).await;
}

async fn tend_all(client: Client, stop: CancellationToken, binds: bool) {
    let events = watcher::watcher(Api::<Pod>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .take_until(stop.cancelled_owned());
    events
        .for_each_concurrent(64, |pod| {
            let client = client.clone();
            async move {
                if let Ok(pod) = pod {
                    tend(&client, pod, binds).await;
                }
            }
        })
        .await;
}

async fn tend(client: &Client, pod: Pod, binds: bool) {
    let api = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap());
    let name = pod.name_any();
    let spec = pod.spec.clone().unwrap();
    if pod.metadata.deletion_timestamp.is_some() {
        let _ = api
            .delete(&name, &DeleteParams::default().grace_period(0))
            .await;
        return;
    }
    let phase = super::super::pods::phase(&pod).to_owned();
    let has_node = spec.node_name.is_some();
    let mut status = json!({});
    if !has_node && !binds {
        return;
    }
    if !has_node {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": NODES[0]}});
        let _ = api
            .create_subresource::<Value, Value>("binding", &name, &PostParams::default(), &binding)
            .await;
        return;
    }
    let now = clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let exit = pod.annotations().get("exit");
    let hold = pod.annotations().get("hold").is_some();
    if phase == "Pending" && pod.annotations().contains_key("refuse") {
        let refused = json!({"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected"}});
        let _ = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(refused))
            .await;
        return;
    }
    match (phase.as_str(), exit) {
        ("Pending", None) if !hold => {
            status["phase"] = json!("Running");
            status["podIP"] = json!("10.0.0.1");
            status["podIPs"] = json!([{"ip": "10.0.0.1"}]);
            status["conditions"] =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": now}]);
        }
        ("Pending", Some(code)) => {
            status["phase"] = json!(if code == "0" { "Succeeded" } else { "Failed" });
            status["containerStatuses"] = json!([{"name": "a", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code.parse::<i32>().unwrap(), "finishedAt": now}}}]);
        }
        _ => return,
    }
    let _ = api
        .patch_status(
            &name,
            &PatchParams::default(),
            &Patch::Merge(json!({"status": status})),
        )
        .await;
}
