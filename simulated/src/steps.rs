//! The random steps of a world.

use std::time::Duration;

use clock::Instant;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::{sleep, sleep_until};
use wire::{ResourceType, Upstream};

use crate::{World, settled::list, watcher::FOREIGN, world::PODS};

/// The names of ConfigMaps and Secrets.
const THINGS: [&str; 3] = ["one", "two", "three"];

impl World {
    /// Makes one random step and lets some time pass.
    pub async fn step(&mut self) {
        match self.chance.below(100) {
            0..20 => self.create_pod().await,
            20..27 => self.label_pod().await,
            27..37 => self.delete_pod().await,
            37..49 => self.put_thing().await,
            49..52 => self.delete_thing().await,
            52..70 => self.report_pod().await,
            70..73 => self.report_node().await,
            73..81 => {
                let node = self.node();
                self.cut_link(node);
            }
            81..85 => self.swallow(),
            85..90 => self.kill_agent(),
            90..92 => self.kill_cloud(),
            92..96 => self.reach_out().await,
            _ => self.pass(60_000).await,
        }
        self.come_back();
        let longest = if self.chance.permille(850) { 25 } else { 6_000 };
        self.pass(longest).await;
    }

    /// Starts and connects at random what is down.
    fn come_back(&mut self) {
        if !self.cloud.runs() && self.chance.permille(400) {
            clock::trace(|| "the cloud starts".to_owned());
            self.cloud.start();
        }
        for node in 0..self.nodes.len() {
            if !self.nodes[node].runs() && self.chance.permille(500) {
                clock::trace(|| format!("{} starts", self.nodes[node].name));
                self.nodes[node].start();
            }
            if self.chance.permille(600) {
                self.connect(node);
            }
        }
    }

    /// Lets time pass until `end`; what is down comes back meanwhile.
    pub(crate) async fn spend(&mut self, end: Instant) {
        while Instant::now() < end {
            let longest = Duration::from_millis(self.chance.below(120_000) + 1);
            sleep_until(end.min(Instant::now() + longest)).await;
            self.come_back();
        }
    }

    async fn pass(&mut self, longest: u64) {
        sleep(Duration::from_millis(self.chance.below(longest) + 1)).await;
    }

    fn node(&mut self) -> usize {
        usize::try_from(self.chance.below(self.nodes.len() as u64)).unwrap_or_default()
    }

    /// Makes a step that creates no objects, and lets the time of a few frames pass.
    pub(crate) async fn small_step(&mut self) {
        match self.chance.below(10) {
            0..3 => self.put_thing().await,
            3..6 => self.label_pod().await,
            6..9 => self.report_pod().await,
            _ => self.report_node().await,
        }
        self.pass(40).await;
    }

    async fn create_pod(&mut self) {
        let name = *self.chance.pick(&PODS).unwrap_or(&PODS[0]);
        let node = self.node();
        self.create_pod_on(name, node).await;
    }

    pub(crate) async fn create_pod_on(&mut self, name: &str, node: usize) {
        let (map, secret) = (self.thing(), self.thing());
        let node = self.nodes[node].name.clone();
        for (kind, name) in [
            (ResourceType::Pod, name),
            (ResourceType::ConfigMap, map),
            (ResourceType::Secret, secret),
        ] {
            self.watcher.belongs(&node, kind, name);
        }
        let made = self
            .pods()
            .create(&PostParams::default(), &pod(name, &node, map, secret))
            .await;
        clock::trace(|| format!("create {name} on {node}: {}", outcome(&made)));
    }

    async fn label_pod(&mut self) {
        let name = *self.chance.pick(&PODS).unwrap_or(&PODS[0]);
        let label = self.chance.below(1000).to_string();
        let patch = Patch::Merge(json!({"metadata": {"labels": {"label": label}}}));
        let made = self
            .pods()
            .patch(name, &PatchParams::default(), &patch)
            .await;
        clock::trace(|| format!("label {name}: {}", outcome(&made)));
    }

    async fn delete_pod(&mut self) {
        let name = *self.chance.pick(&PODS).unwrap_or(&PODS[0]);
        let force = self.chance.permille(300);
        let options = DeleteParams {
            grace_period_seconds: force.then_some(0),
            ..DeleteParams::default()
        };
        let made = self.pods().delete(name, &options).await;
        clock::trace(|| format!("delete {name}, force {force}: {}", outcome(&made)));
    }

    async fn put_thing(&mut self) {
        // Four digits are also valid base64.
        let (name, value) = (self.thing(), format!("{:04}", self.chance.below(1000)));
        let (parameters, metadata) = (PatchParams::apply("world").force(), json!({"name": name}));
        let made = if self.chance.permille(500) {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}});
            let maps = Api::<ConfigMap>::default_namespaced(self.cloud.client.clone());
            outcome(&maps.patch(name, &parameters, &Patch::Apply(map)).await)
        } else {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"v": value}});
            let secrets = Api::<Secret>::default_namespaced(self.cloud.client.clone());
            outcome(
                &secrets
                    .patch(name, &parameters, &Patch::Apply(secret))
                    .await,
            )
        };
        clock::trace(|| format!("put {name}: {made}"));
    }

    async fn delete_thing(&mut self) {
        let (name, options) = (self.thing(), DeleteParams::default());
        let client = self.cloud.client.clone();
        let made = if self.chance.permille(500) {
            outcome(
                &Api::<ConfigMap>::default_namespaced(client)
                    .delete(name, &options)
                    .await,
            )
        } else {
            outcome(
                &Api::<Secret>::default_namespaced(client)
                    .delete(name, &options)
                    .await,
            )
        };
        clock::trace(|| format!("delete {name}: {made}"));
    }

    async fn report_pod(&mut self) {
        let node = self.node();
        let Some(pods) = self.nodes[node].pods().cloned() else {
            return;
        };
        // The order is by name, because UIDs differ in each run.
        let mut running: Vec<(String, String)> = pods
            .machine
            .lock()
            .running
            .iter()
            .map(|(uid, name)| (name.clone(), uid.clone()))
            .collect();
        running.sort();
        let Some((name, uid)) = self.chance.pick(&running).cloned() else {
            return;
        };
        let made = pods.report(&name, &uid, "Running").await;
        clock::trace(|| format!("{} reports {name}: {}", pods.node, outcome(&made)));
    }

    async fn report_node(&mut self) {
        let node = self.node();
        let Some(pods) = self.nodes[node].pods().cloned() else {
            return;
        };
        let made = pods.report_node().await;
        clock::trace(|| format!("{} reports itself: {}", pods.node, outcome(&made)));
    }

    fn swallow(&mut self) {
        let node = self.node();
        let node = &self.nodes[node];
        if let Some(connection) = &node.connection {
            clock::trace(|| format!("{}'s link swallows", node.name));
            connection.swallow();
        }
    }

    fn kill_agent(&mut self) {
        let node = self.node();
        let node = &mut self.nodes[node];
        clock::trace(|| format!("{} is killed", node.name));
        node.kill();
    }

    fn kill_cloud(&mut self) {
        clock::trace(|| "the cloud is killed".to_owned());
        self.cloud.kill();
    }

    /// Lets a node try to write an object that is not its own.
    async fn reach_out(&mut self) {
        let node = self.node();
        let node = &self.nodes[node];
        let pods = list(self.cloud.store.inner(), "pods");
        let others: Vec<&Value> = pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] != node.name.as_str())
            .collect();
        let (Some(pod), Some(hub)) = (self.chance.pick(&others), node.hub()) else {
            return;
        };
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let patch =
            json!({"metadata": {"annotations": {"by": FOREIGN}}, "status": {"reason": FOREIGN}});
        let message = Upstream::pod_patch("default", name, patch.to_string()).into_message(0);
        clock::trace(|| format!("{} reaches out for {name}", node.name));
        // An offline node reaches nobody.
        let _ = hub.send(message).await;
    }

    fn thing(&mut self) -> &'static str {
        self.chance.pick(&THINGS).copied().unwrap_or(THINGS[0])
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.cloud.client.clone())
    }
}

/// Returns a pod that mounts a ConfigMap and a Secret.
pub(crate) fn pod(name: &str, node: &str, map: &str, secret: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false,
            "volumes": [
                {"name": "map", "configMap": {"name": map, "optional": true}},
                {"name": "secret", "secret": {"secretName": secret, "optional": true}},
            ],
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
        },
    });
    serde_json::from_value(pod).expect("a pod")
}

fn outcome<T>(result: &Result<T, kube::Error>) -> String {
    match result {
        Ok(_) => "done".to_owned(),
        Err(kube::Error::Api(status)) => status.code.to_string(),
        Err(error) => error.to_string(),
    }
}
