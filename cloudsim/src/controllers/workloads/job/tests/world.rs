//! One job, an API in memory, and pods that are ended by a script; see [`run`].

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use objectstore::MemoryStore;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{pod::index, sync, tally::is_tracked};
use crate::{
    controllers::{
        events::Recorder,
        informers::Informer,
        workloads::{Shared, job::Cluster, pods::is_active},
    },
    tasks::Tasks,
};

/// The largest number of passes that a script needs at once.
const MAX_PASSES: usize = 12;

struct World {
    client: Client,
    cluster: Cluster,
    /// The offset of the script's clock.
    ahead: SignedDuration,
    /// All pods that ever existed, in the order of creation.
    made: Vec<String>,
    _stop: tokio_util::sync::DropGuard,
}

/// Runs a script on a job with this spec. Its lines are separated by `;`:
///
/// - `sync` reconciles until nothing follows at once, `pass` once.
/// - `end N CODE`, `refuse N REASON` (by its node), `disrupt N`, `restart N COUNT`, `ready N`: changes the pod that was created as the
///   `N`th, from 0; `end A-B CODE` several.
/// - `delete N` as a user does, `gone N`: the node has stopped it.
/// - `wait SECONDS`, `spec JSON` (a merge patch), `remove` (the job, and what it owns).
/// - `made=`: how many pods were ever created; `there=`, `live=` and `tracked=`: how many exist, are neither finished nor terminating,
///   have their finalizer; `indexes=`: the indexes of the live ones; others: fields of the status, `-` for none; `conditions=`.
pub(super) async fn run(row: &str, spec: &Value, script: &str) {
    let mut world = World::new(spec).await;
    for line in script
        .split(';')
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        world.step(row, line).await;
    }
}

impl World {
    async fn new(spec: &Value) -> Self {
        let client = apiserver::builder(MemoryStore::new())
            .build()
            .client("default");
        let stop = CancellationToken::new();
        let events = Recorder::spawn(&Tasks::default(), &client, &stop);
        let shared = Shared::new(client.clone(), events);
        let cluster = Cluster {
            shared,
            jobs: Informer::default(),
            pods: Informer::default(),
        };
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "pi"}, "spec": {"template":
            {"spec": {"nodeName": "n", "restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}}}});
        json_patch(&mut job["spec"], spec);
        let namespace = json!({"metadata": {"name": "default"}});
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
        let _ = namespaces
            .create(
                &PostParams::default(),
                &serde_json::from_value(namespace).unwrap(),
            )
            .await;
        let world = Self {
            client,
            cluster,
            ahead: SignedDuration::ZERO,
            made: Vec::new(),
            _stop: stop.drop_guard(),
        };
        world
            .jobs()
            .create(
                &PostParams::default(),
                &serde_json::from_value(job).unwrap(),
            )
            .await
            .unwrap();
        world
    }

    fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn now(&self) -> Timestamp {
        clock::now() + self.ahead
    }

    /// Applies what a watch would report.
    async fn refresh(&mut self) -> BTreeMap<String, Pod> {
        let pods = self
            .pods()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items;
        let there: BTreeMap<_, _> = pods.into_iter().map(|pod| (pod.name_any(), pod)).collect();
        for known in self.cluster.pods.all() {
            if !there.contains_key(&known.name_any()) {
                self.cluster.pods.apply_removal(&known);
            }
        }
        let mut new: Vec<_> = there
            .values()
            .filter(|pod| !self.made.contains(&pod.name_any()))
            .collect();
        new.sort_by_key(|pod| (index(pod), pod.name_any()));
        self.made.extend(new.iter().map(|pod| pod.name_any()));
        there
            .values()
            .for_each(|pod| self.cluster.pods.wrote(pod.clone()));
        there
    }

    async fn pass(&mut self) -> Action {
        self.refresh().await;
        let Some(job) = self.jobs().get_opt("pi").await.unwrap() else {
            return Action::await_change();
        };
        self.cluster.jobs.wrote(job.clone());
        let action = sync(Arc::new(job), &self.cluster, self.now())
            .await
            .unwrap();
        self.refresh().await;
        action
    }

    async fn sync(&mut self) {
        for _ in 0..MAX_PASSES {
            let before = self
                .jobs()
                .get_opt("pi")
                .await
                .unwrap()
                .and_then(|job| job.status);
            let action = self.pass().await;
            let after = self
                .jobs()
                .get_opt("pi")
                .await
                .unwrap()
                .and_then(|job| job.status);
            // deletions and additions trigger a reconciliation, as with the watch
            if action != Action::requeue(Duration::ZERO) && before == after {
                return;
            }
        }
        panic!("it goes on for ever");
    }

    async fn step(&mut self, row: &str, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "sync" => self.sync().await,
            "pass" => {
                self.pass().await;
            }
            "wait" => self.ahead += SignedDuration::from_secs(rest.parse().unwrap()),
            "spec" => {
                let patch = json!({"spec": serde_json::from_str::<Value>(rest).unwrap()});
                self.jobs()
                    .patch("pi", &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .unwrap();
            }
            "remove" => drop(
                self.jobs()
                    .delete("pi", &DeleteParams::background())
                    .await
                    .unwrap(),
            ),
            _ if line.contains('=') => {
                for expectation in line.split_whitespace() {
                    self.expect(row, expectation).await;
                }
            }
            _ => self.happen(word, rest).await,
        }
    }

    async fn happen(&mut self, word: &str, rest: &str) {
        let (which, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (first, last) = which.split_once('-').unwrap_or((which, which));
        for number in first.parse::<usize>().unwrap()..=last.parse::<usize>().unwrap() {
            let name = self.made[number].clone();
            match word {
                "delete" => drop(
                    self.pods()
                        .delete(&name, &DeleteParams::default())
                        .await
                        .unwrap(),
                ),
                "gone" => {
                    drop(
                        self.pods()
                            .delete(&name, &DeleteParams::default().grace_period(0))
                            .await
                            .unwrap(),
                    );
                }
                _ => {
                    let status = json!({"status": self.status(word, rest)});
                    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
                    self.pods()
                        .patch_status(&name, &params, &patch)
                        .await
                        .unwrap();
                }
            }
        }
    }

    fn status(&self, word: &str, rest: &str) -> Value {
        let now = self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let container = |restarts: i32, state: Value| {
            json!([{"name": "c", "image": "c", "imageID": "", "ready": false,
            "restartCount": restarts, "state": state}])
        };
        match word {
            "end" => {
                let code: i32 = rest.parse().unwrap();
                let ended = json!({"terminated": {"exitCode": code, "finishedAt": now}});
                json!({"phase": if code == 0 { "Succeeded" } else { "Failed" }, "containerStatuses": container(0, ended)})
            }
            "refuse" => json!({"phase": "Failed", "reason": rest, "message": "Pod was rejected"}),
            "disrupt" => {
                json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]})
            }
            "ready" => {
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}]})
            }
            "restart" => {
                json!({"phase": "Running", "containerStatuses": container(rest.parse().unwrap(), json!({"running": {}}))})
            }
            _ => panic!("{word}?"),
        }
    }

    async fn expect(&mut self, row: &str, expectation: &str) {
        let (key, expected) = expectation.split_once('=').unwrap();
        let pods = self.refresh().await;
        let job = self.jobs().get_opt("pi").await.unwrap();
        let status = job
            .as_ref()
            .and_then(|job| serde_json::to_value(&job.status).ok())
            .unwrap_or_default();
        let count = |wanted: &dyn Fn(&Pod) -> bool| {
            pods.values().filter(|pod| wanted(pod)).count().to_string()
        };
        let found = match key {
            "made" => self.made.len().to_string(),
            "there" => count(&|_| true),
            "live" => count(&is_active),
            "tracked" => count(&is_tracked),
            "indexes" => {
                let mut indexes: Vec<_> = pods
                    .values()
                    .filter(|pod| is_active(pod))
                    .filter_map(index)
                    .collect();
                indexes.sort_unstable();
                indexes
                    .iter()
                    .map(i32::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            }
            "started" => status.get("startTime").is_some().to_string(),
            "conditions" => {
                let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
                let text = |condition: &Value| {
                    let not = if condition["status"] == "True" {
                        ""
                    } else {
                        "!"
                    };
                    format!(
                        "{not}{}:{}",
                        condition["type"].as_str().unwrap(),
                        condition["reason"].as_str().unwrap()
                    )
                };
                conditions.iter().map(text).collect::<Vec<_>>().join(",")
            }
            "failures" => {
                // the failures of the newest pod's index, from its annotation
                let newest = self.made.last().and_then(|name| pods.get(name)).unwrap();
                newest
                    .annotations()
                    .get("batch.kubernetes.io/job-index-failure-count")
                    .cloned()
                    .unwrap_or_default()
            }
            field => match &status[field] {
                Value::Null => "-".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
        };
        assert_eq!(found, expected, "{row}: {expectation}; {status:#}");
    }
}

/// Sets the fields of `patch` in `value`.
fn json_patch(value: &mut Value, patch: &Value) {
    for (key, patch) in patch.as_object().unwrap() {
        match (value.get_mut(key), patch) {
            (Some(old @ Value::Object(_)), Value::Object(_)) => json_patch(old, patch),
            _ => value[key] = patch.clone(),
        }
    }
}
