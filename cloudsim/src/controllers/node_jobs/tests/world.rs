//! The controllers of node jobs with an API in memory. Its nodes give the answers that a test chooses.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::Event,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, JSONSchemaProps,
    },
};
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
};
use objectstore::MemoryStore;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::eventually;
use tokio::sync::mpsc;
use wire::{
    Header, Message,
    node_job::{Action, JobPath, Next},
};

use super::super::{NodeJobs, OpenNode, run};
use crate::{controllers::test_api::TestApi, delivery::Reply};

/// How a node answers the first action of a job.
#[derive(Clone, Copy)]
pub(super) enum Behaviour {
    Succeeds,
    Fails(Action),
    /// Reports nothing.
    Silent,
    /// Reports after this time.
    Late(Duration),
    /// Reports nothing but the first action.
    Stops,
}

/// A cloud of jobs, with what its nodes were sent.
pub(super) struct World {
    pub(super) api: TestApi,
    pub(super) jobs: NodeJobs,
    pub(super) sent: Arc<Mutex<Vec<Message>>>,
    sessions: Mutex<BTreeMap<String, OpenNode>>,
}

impl World {
    /// Starts a cloud over a store, with agents of ours or others.
    pub(super) fn start(store: &Arc<MemoryStore>, is_own: bool) -> Self {
        let api = TestApi::with_definitions(store, &definitions());
        api.reflectors.start("taskmanager", run);
        let jobs = NodeJobs::new(
            api.client.clone(),
            api.reflectors.shared.events.clone(),
            move |_| is_own,
        );
        tokio::spawn(jobs.clone().run(api.stop.child_token()));
        Self {
            api,
            jobs,
            sent: Arc::default(),
            sessions: Mutex::default(),
        }
    }

    pub(super) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let api_version = match kind {
            "Node" | "Namespace" => "v1",
            _ => "operations.kubeedge.io/v1alpha2",
        };
        self.api.objects(api_version, kind, "")
    }

    pub(super) async fn create(&self, kind: &str, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    /// Creates a Node: ready, not ready, or not of the edge.
    pub(super) async fn node(&self, name: &str, is_edge: bool, is_ready: bool) {
        let labels = if is_edge {
            json!({"node-role.kubernetes.io/edge": "", "site": "a"})
        } else {
            json!({})
        };
        let ready = if is_ready { "True" } else { "Unknown" };
        let node = json!({
            "metadata": {"name": name, "labels": labels},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        self.create("Node", node.clone()).await;
        let patch = kube::api::Patch::Merge(&node);
        self.api("Node")
            .patch_status(name, &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Connects a node, which answers in this way.
    pub(super) fn connect(&self, node: &str, behaviour: Behaviour) {
        let (replies, mut received) = mpsc::channel(8);
        let open = self.jobs.open(node, replies);
        self.sessions.lock().insert(node.to_owned(), open);
        let (jobs, sent, node) = (self.jobs.clone(), Arc::clone(&self.sent), node.to_owned());
        tokio::spawn(async move {
            while let Some(Reply::Direct(message)) = received.recv().await.map(|reply| *reply) {
                sent.lock().push(message.clone());
                let path = JobPath::parse(message.route.resource.as_str()).unwrap();
                assert_eq!(path.node, node);
                if message.route.operation.as_str() == "Check" {
                    answer(&jobs, &message, path, behaviour).await;
                }
            }
        });
    }

    pub(super) fn disconnect(&self, node: &str) {
        self.sessions.lock().remove(node);
    }

    /// Reports an action of a node.
    pub(super) async fn report(
        &self,
        node: &str,
        kind: &str,
        job: &str,
        action: &str,
        succeeds: bool,
    ) {
        let path = format!("operations.kubeedge.io/v1alpha2/{kind}/{job}/node/edge-1");
        let status = json!({"action": action, "succ": succeeds, "finishTime": "", "reason": "", "extend": ""});
        self.jobs
            .report(node, &Header::default(), &path.as_str().into(), status)
            .await;
    }

    pub(super) async fn status(&self, kind: &str, name: &str) -> Value {
        let job = self.api(kind).get(name).await.unwrap();
        job.data.get("status").cloned().unwrap_or_default()
    }

    /// Waits for the phases of a job and its nodes: `Completed: Successful Failure`.
    pub(super) async fn wait(&self, kind: &str, name: &str, wanted: &str) -> Value {
        eventually(wanted, async || {
            let status = self.status(kind, name).await;
            let found = phases(&status);
            if found == wanted {
                Ok(status)
            } else {
                Err(found)
            }
        })
        .await
    }

    /// Waits for the first report of the node with this number in the job's status.
    pub(super) async fn wait_report(&self, kind: &str, name: &str, node: usize) {
        eventually("the first report of a node", async || {
            let status = self.status(kind, name).await;
            match status["nodeStatus"][node]["actionFlow"].is_array() {
                true => Ok(()),
                false => Err(status),
            }
        })
        .await;
    }

    /// Waits for an event of a job.
    pub(super) async fn wait_event(&self, reason: &str, message: &str) {
        let events = Api::<Event>::all(self.api.client.clone());
        eventually(message, async || {
            let all = events.list(&ListParams::default()).await.unwrap();
            let found = all.items.iter().any(|event| {
                event.reason.as_deref() == Some(reason) && event.message.as_deref() == Some(message)
            });
            if found { Ok(()) } else { Err(all.items.len()) }
        })
        .await;
    }

    /// Counts the messages that nodes were sent with this operation.
    pub(super) fn count_sent(&self, operation: &str) -> usize {
        let sent = self.sent.lock();
        sent.iter()
            .filter(|message| message.route.operation.as_str() == operation)
            .count()
    }
}

/// Returns definitions without rules, as KubeEdge's are.
fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = crds::all();
    for version in all.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        let schema = version.schema.as_mut();
        if let Some(schema) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            remove_rules(schema);
        }
    }
    all
}

fn remove_rules(schema: &mut JSONSchemaProps) {
    schema.x_kubernetes_validations = None;
    let properties = schema.properties.iter_mut().flatten();
    properties.for_each(|(_, field)| remove_rules(field));
}

pub(super) fn phases(status: &Value) -> String {
    let nodes = status["nodeStatus"].as_array().cloned().unwrap_or_default();
    let each: Vec<&str> = nodes
        .iter()
        .filter_map(|node| node["phase"].as_str())
        .collect();
    format!(
        "{}: {}",
        status["phase"].as_str().unwrap_or_default(),
        each.join(" ")
    )
}

/// Reports every action of a job on a node.
pub(super) async fn answer(
    jobs: &NodeJobs,
    message: &Message,
    path: JobPath,
    behaviour: Behaviour,
) {
    let mut at = Action::Check;
    loop {
        let fails = match behaviour {
            Behaviour::Silent => return,
            Behaviour::Late(time) => {
                testkit::at(tokio::time::Instant::now() + time).await;
                false
            }
            Behaviour::Fails(action) => action == at,
            Behaviour::Succeeds | Behaviour::Stops => false,
        };
        let extend = match at {
            Action::BackUp => ",v1.0.0",
            Action::Upgrade => "v1.0.0,v1.23.0",
            Action::Pull => r#"[{"image":"a/b:1","status":"True","reason":""}]"#,
            _ => "",
        };
        let reason = if fails { "no space" } else { "" };
        let status = json!({"action": at.as_str(), "succ": !fails, "finishTime": "2026-07-25T17:20:01Z", "reason": reason, "extend": extend});
        let header = Header {
            parent_msg_id: message.header.msg_id.clone(),
            ..Header::default()
        };
        jobs.report(
            &path.node,
            &header,
            &path.to_string().as_str().into(),
            status,
        )
        .await;
        match path.kind.next(at, !fails).unwrap() {
            Next::Action(_) if matches!(behaviour, Behaviour::Stops) => return,
            Next::Action(next) => at = next,
            Next::End(_) => return,
        }
    }
}

pub(super) fn upgrade(name: &str, mut spec: Value) -> Value {
    spec["version"] = json!("v1.23.0");
    json!({"metadata": {"name": name}, "spec": spec})
}

pub(super) const UPGRADE: &str = "NodeUpgradeJob";
