//! An API with fake nodes, whose answers the test determines.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use clock::HashMap;
use futures::stream;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    rbac::v1::RoleBinding,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use kubeapi::{Body, BoxError, NodeAnswer, NodeError, NodeRequest, NodeStreams};
use objectstore::{MemoryStore, Store};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::{ResourceMetrics, ensure_role};
use crate::{controllers::namespace_defaults, kinds};

/// How a node answers a request for its page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answers {
    /// With its usage: half a CPU and half a GiB, each container a quarter and 64 MiB.
    Well,
    NotConnected,
    Never,
    Code(StatusCode),
    Text(&'static str),
    /// With an endless body.
    Endless,
    /// With a part of the body, and then nothing more.
    HalfOfAPage,
}

/// The nodes.
#[derive(Default)]
pub(super) struct Fakes {
    answers: Mutex<HashMap<String, Answers>>,
    asked: Mutex<HashMap<String, usize>>,
    /// The containers of the pods on each node.
    pods: Mutex<BTreeMap<String, BTreeMap<String, Vec<String>>>>,
    /// Paused with the tests' clock, unlike the system's.
    began: Option<(tokio::time::Instant, Timestamp)>,
}

impl Fakes {
    fn page(&self, node: &str) -> String {
        let (began, start) = self.began.unwrap();
        let at = start.as_millisecond() + i64::try_from(began.elapsed().as_millis()).unwrap();
        let used = |cores: f64| {
            cores * f64::from(u32::try_from(at - start.as_millisecond()).unwrap() + 1000) / 1e3
        };
        let mut page = format!(
            "node_cpu_usage_seconds_total {} {at}\nnode_memory_working_set_bytes {} {at}\n",
            used(0.5),
            512 << 20
        );
        for (pod, containers) in self.pods.lock().get(node).into_iter().flatten() {
            for container in containers {
                let labels =
                    format!("{{container=\"{container}\",namespace=\"default\",pod=\"{pod}\"}}");
                page += &format!(
                    "container_cpu_usage_seconds_total{labels} {} {at}\n",
                    used(0.25)
                );
                page += &format!(
                    "container_memory_working_set_bytes{labels} {} {at}\n",
                    64 << 20
                );
                page += &format!(
                    "container_start_time_seconds{labels} {}\n",
                    start.as_second() - 1000
                );
            }
        }
        page
    }
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

#[async_trait]
impl NodeStreams for Fakes {
    async fn ask(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError> {
        assert_eq!(
            (request.method.as_str(), request.path_and_query.as_str()),
            ("GET", "/metrics/resource")
        );
        *self.asked.lock().entry(node.to_owned()).or_default() += 1;
        let answers = self.answers.lock()[node];
        let frame = |text: &str| Ok::<_, BoxError>(Frame::data(Bytes::from(text.to_owned())));
        let body = match answers {
            Answers::Well => full(self.page(node)),
            Answers::NotConnected => return Err(NodeError::NotConnected(node.to_owned())),
            Answers::Never => std::future::pending().await,
            Answers::Code(code) => {
                let response = Response::builder().status(code).body(full("no")).unwrap();
                return Ok(NodeAnswer::Response(response));
            }
            Answers::Text(text) => full(text),
            Answers::Endless => {
                let line = frame(&"# more\n".repeat(10_000))
                    .unwrap()
                    .into_data()
                    .unwrap();
                let frames = stream::repeat_with(move || Ok(Frame::data(line.clone())));
                StreamBody::new(frames).boxed_unsync()
            }
            Answers::HalfOfAPage => {
                let frames = stream::unfold(true, move |first| async move {
                    if !first {
                        std::future::pending::<()>().await;
                    }
                    Some((frame("node_cpu_usage_seconds_total 1\n"), false))
                });
                StreamBody::new(frames).boxed_unsync()
            }
        };
        Ok(NodeAnswer::Response(Response::new(body)))
    }
}

/// An API with `metrics.k8s.io` over such nodes.
pub(super) struct World {
    pub(super) api: kubeapi::Api,
    fakes: Arc<Fakes>,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub(super) async fn new(nodes: &[(&str, Answers)]) -> Self {
        let began = Some((tokio::time::Instant::now(), clock::now()));
        let answers = nodes
            .iter()
            .map(|(name, answers)| ((*name).to_owned(), *answers))
            .collect();
        let fakes = Arc::new(Fakes {
            answers: Mutex::new(answers),
            began,
            ..Fakes::default()
        });
        let store: Arc<dyn Store> = MemoryStore::new();
        let metrics = ResourceMetrics::new(Arc::clone(&store), fakes.clone());
        let api = apiserver::builder(store)
            .registry(kinds::registry())
            .rbac(true);
        let api = api.computed(Arc::new(metrics.clone())).build();
        let stop = CancellationToken::new();
        tokio::spawn(metrics.run(stop.clone()));
        let client = api.client("default");
        namespace_defaults::ensure_initial(&client).await.unwrap();
        ensure_role(&client).await.unwrap();
        for (name, _) in nodes {
            let node = json!({"metadata": {"name": name, "labels": {"zone": name}},
                "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}});
            let node: Node = serde_json::from_value(node).unwrap();
            Api::all(client.clone())
                .create(&PostParams::default(), &node)
                .await
                .unwrap();
        }
        Self { api, fakes, stop }
    }

    pub(super) fn set(&self, node: &str, answers: Answers) {
        self.fakes.answers.lock().insert(node.to_owned(), answers);
    }

    /// Returns how often the node was scraped.
    pub(super) fn scrape_count(&self, node: &str) -> usize {
        self.fakes
            .asked
            .lock()
            .get(node)
            .copied()
            .unwrap_or_default()
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.api.client("default"))
    }

    /// Creates a pod on the node, whose label `app` is its name.
    pub(super) async fn pod(&self, name: &str, node: &str, containers: &[&str]) {
        let specs: Vec<_> = containers
            .iter()
            .map(|name| json!({"name": name, "image": "one"}))
            .collect();
        let pod = json!({"metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": node, "containers": specs}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap();
        self.phase(name, "Running").await;
        self.claim(node, name, containers);
    }

    /// Lets the node report this pod.
    pub(super) fn claim(&self, node: &str, pod: &str, containers: &[&str]) {
        let containers = containers.iter().map(|name| (*name).to_owned()).collect();
        self.fakes
            .pods
            .lock()
            .entry(node.to_owned())
            .or_default()
            .insert(pod.to_owned(), containers);
    }

    pub(super) async fn phase(&self, pod: &str, phase: &str) {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        self.pods()
            .patch_status(pod, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Grants a user a role in the namespace `default`.
    pub(super) async fn bind(&self, user: &str, role: &str) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": user}, "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
        });
        let binding: RoleBinding = serde_json::from_value(binding).unwrap();
        let bindings = Api::default_namespaced(self.api.client("default"));
        bindings
            .create(&PostParams::default(), &binding)
            .await
            .unwrap();
    }
}
