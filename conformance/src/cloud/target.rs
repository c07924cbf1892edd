//! The cloud that is tested: its addresses, its API, and nodes that the kit plays.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    core::NamespaceResourceScope,
};
use parking_lot::Mutex;
use peer::{
    Failure,
    edge::{Dialer, Endpoints, session_headers},
    ensure,
    identity::Identity,
    session::{Automatic, Session},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use wire::{Change, ResourceType, Upstream, enroll::Token};

/// How long a cloud may take to deliver an object.
pub(super) const DELIVERY_DEADLINE: Duration = Duration::from_secs(30);
/// How long the kit waits for a change in the API.
const API_DEADLINE: Duration = Duration::from_secs(30);

/// How the cloud is reached.
#[derive(Clone)]
pub struct Options {
    /// Its addresses; without that of the stream tunnel, the tunnel's cases are skipped.
    pub endpoints: Endpoints,
    /// A join token.
    pub token: Token,
    /// The cloud's Kubernetes API.
    pub client: Client,
}

/// A cloud that is tested.
pub struct Target {
    pub(super) dialer: Dialer,
    pub(super) token: Token,
    pub(super) client: Client,
    /// The namespace of all objects of this run.
    pub(super) namespace: String,
    run: String,
    nodes: Mutex<Vec<String>>,
}

/// A node that the kit plays.
pub(super) struct PlayedNode {
    pub(super) name: String,
    pub(super) identity: Identity,
    pub(super) session: Session,
}

impl Target {
    pub(super) async fn new(options: Options) -> Result<Self, Failure> {
        let dialer = Dialer::discover(options.endpoints, &options.token).await?;
        let run = uuid::Uuid::new_v4().simple().to_string()[..6].to_owned();
        let namespace = format!("conformance-{run}");
        let target = Self {
            dialer,
            token: options.token,
            client: options.client,
            namespace: namespace.clone(),
            run,
            nodes: Mutex::new(Vec::new()),
        };
        let namespaces = Api::<Namespace>::all(target.client.clone());
        let object = json!({"metadata": {"name": namespace}});
        namespaces
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        // a controller may be faster, and pods are refused without it
        let account = json!({"metadata": {"name": "default"}});
        let account: ServiceAccount = serde_json::from_value(account)?;
        match target.api().create(&PostParams::default(), &account).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created?),
        }
        Ok(target)
    }

    /// Removes the objects of this run. What cannot be removed stays, as the namespace says.
    pub(super) async fn clean_up(&self) {
        let now = DeleteParams::default().grace_period(0);
        let pods = self.api::<Pod>();
        pods.delete_collection(&now, &ListParams::default())
            .await
            .ok();
        let nodes = Api::<Node>::all(self.client.clone());
        let names = std::mem::take(&mut *self.nodes.lock());
        for name in names {
            nodes.delete(&name, &now).await.ok();
        }
        Api::<Namespace>::all(self.client.clone())
            .delete(&self.namespace, &now)
            .await
            .ok();
    }

    /// Returns the API of a kind in the namespace of this run.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates an object in the namespace of this run.
    pub(super) async fn create<K>(&self, object: Value) -> Result<K, Failure>
    where
        K: Resource<Scope = NamespaceResourceScope> + DeserializeOwned + Serialize,
        K: Clone + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let object: K = serde_json::from_value(object)?;
        Ok(self.api().create(&PostParams::default(), &object).await?)
    }

    /// Waits until an object of the API is as `wanted` says.
    pub(super) async fn wait<K>(
        &self,
        api: &Api<K>,
        name: &str,
        what: &str,
        wanted: impl Fn(Option<&K>) -> bool,
    ) -> Result<(), Failure>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        let deadline = Instant::now() + API_DEADLINE;
        loop {
            let found = api.get_opt(name).await?;
            if wanted(found.as_ref()) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{what}: not within {API_DEADLINE:?} in the API"
            );
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Returns a name of a node for a case, which is removed after the run.
    pub(super) fn node_name(&self, case: &str) -> String {
        let name = format!("conformance-{}-{case}", self.run);
        self.nodes.lock().push(name.clone());
        name
    }

    /// Enrols a node with the join token.
    pub(super) async fn enrol(&self, node: &str) -> Result<Identity, Failure> {
        self.dialer.enrol(node, &self.token).await
    }

    /// Opens a session of a node as an edge does.
    pub(super) async fn connect(
        &self,
        node: &str,
        identity: &Identity,
        automatic: Automatic,
    ) -> Result<Session, Failure> {
        let headers = session_headers(node);
        self.dialer
            .session(Some(identity), &headers, automatic)
            .await
    }

    /// Enrols and connects a node, and registers it as an edge does.
    pub(super) async fn node(&self, case: &str) -> Result<PlayedNode, Failure> {
        let name = self.node_name(case);
        let identity = self.enrol(&name).await?;
        let mut session = self.connect(&name, &identity, Automatic::EDGE).await?;
        let answer = session
            .ask(Upstream::put(
                Change::Insert,
                "",
                &ResourceType::Node,
                &name,
                node_object(&name),
            ))
            .await?;
        ensure!(
            answer.content["Err"].is_null(),
            "the node was not registered: {}",
            answer.content["Err"]
        );
        let nodes = Api::<Node>::all(self.client.clone());
        // KubeEdge's cloud adds the labels in a second step, and sends nothing to a node without the label
        self.wait(&nodes, &name, "the node with its labels", |node| {
            node.is_some_and(|node| node.labels().contains_key("node-role.kubernetes.io/edge"))
        })
        .await?;
        Ok(PlayedNode {
            name,
            identity,
            session,
        })
    }
}

/// Returns a Node as an edge registers it.
pub(super) fn node_object(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "node-role.kubernetes.io/edge": "", "node-role.kubernetes.io/agent": "",
            },
        },
        "spec": {},
        "status": {
            "capacity": {"cpu": "4", "memory": "4Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "4Gi", "pods": "110"},
        },
    })
}

/// Returns a pod that is bound to a node. It has tolerations for everything, since nobody reports the node as ready.
pub(super) fn pod_object(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "busybox"}],
        },
    })
}
