//! The cloud that is tested: its addresses, its API, and nodes that the kit plays.

use std::time::Duration;

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node, Pod, ServiceAccount},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams},
    core::NamespaceResourceScope,
};
use peer::{
    Failure,
    edge::{Dialer, Endpoints, session_headers},
    ensure,
    identity::Identity,
    session::{Automatic, Session},
    transport::Transport,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use wire::{Change, ResourceType, Upstream, enroll::Token};

/// How long a cloud may take to deliver an object.
pub(super) const DELIVERY_DEADLINE: Duration = Duration::from_secs(30);
/// How long the kit waits for a change in the API.
const API_DEADLINE: Duration = Duration::from_secs(30);
/// How long a cloud may take to begin a session.
const SESSION_START: Duration = Duration::from_millis(200);
/// How long removing the objects of a run may take.
const CLEAN_UP_DEADLINE: Duration = Duration::from_secs(120);
/// The beginning of the namespace of a run.
const PREFIX: &str = "conformance-";
/// The namespace of the nodes' leases.
pub(super) const NODE_LEASES: &str = "kube-node-lease";

/// How the cloud is reached.
#[derive(Clone)]
pub struct Options {
    /// Its addresses; without that of the stream tunnel, the tunnel's cases are skipped.
    pub endpoints: Endpoints,
    /// The transport of sessions.
    pub transport: Transport,
    /// The router of rules, which speaks HTTP, `host:port`; without it, its cases are skipped.
    pub router: Option<String>,
    /// A join token.
    pub token: Token,
    /// The cloud's Kubernetes API.
    pub client: Client,
}

/// A cloud that is tested.
pub struct Target {
    pub(super) dialer: Dialer,
    pub(super) router: Option<String>,
    pub(super) token: Token,
    pub(super) client: Client,
    /// The namespace of all objects of this run.
    pub(super) namespace: String,
}

/// A node that the kit plays.
pub(super) struct PlayedNode {
    pub(super) name: String,
    pub(super) identity: Identity,
    pub(super) session: Session,
}

impl Target {
    /// Fetches the cloud's CA, and creates the namespace of this run. [`Self::clean_up`] removes what a run creates.
    ///
    /// # Errors
    /// The CA cannot be fetched, or the API does not let the kit create its namespace.
    pub async fn prepare(options: Options) -> Result<Self, Failure> {
        let dialer = Dialer::discover(options.endpoints, &options.token).await?;
        let dialer = dialer.over(options.transport);
        let run = uuid::Uuid::new_v4().simple().to_string()[..6].to_owned();
        let target = Self {
            dialer,
            router: options.router,
            token: options.token,
            client: options.client,
            namespace: format!("{PREFIX}{run}"),
        };
        if let Err(failure) = target.create_namespace().await {
            target.clean_up().await;
            return Err(failure);
        }
        Ok(target)
    }

    /// Returns the namespace of all objects of this run. The names of its nodes begin with it.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn create_namespace(&self) -> Result<(), Failure> {
        let object = json!({"metadata": {"name": self.namespace}});
        Api::<Namespace>::all(self.client.clone())
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        // a controller may be faster, and pods are refused without it
        let account = json!({"metadata": {"name": "default"}});
        let account: ServiceAccount = serde_json::from_value(account)?;
        match self.api().create(&PostParams::default(), &account).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created?),
        }
        Ok(())
    }

    /// Removes the objects of this run, and returns what could not be removed: kind, name and reason.
    pub async fn clean_up(&self) -> Vec<String> {
        let client = || self.client.clone();
        let immediate = DeleteParams::default().grace_period(0);
        let removed = async {
            let (pods, all) = (self.api::<Pod>(), ListParams::default());
            let deleted = pods.delete_collection(&immediate, &all).await;
            let mut left = Vec::from_iter(remaining("pods of namespace", &self.namespace, deleted));
            let namespaces = Api::<Namespace>::all(client());
            let deleted = namespaces.delete(&self.namespace, &immediate).await;
            left.extend(remaining("namespace", &self.namespace, deleted));
            let leases = Api::<Lease>::namespaced(client(), NODE_LEASES);
            left.extend(self.remove_ours("lease", leases, &immediate).await);
            left.extend(self.remove_ours("job", self.jobs(), &immediate).await);
            // last: a session that has just ended may still register its node
            let nodes = Api::<Node>::all(client());
            left.extend(self.remove_ours("node", nodes, &immediate).await);
            left
        };
        match timeout(CLEAN_UP_DEADLINE, removed).await {
            Ok(left) => left,
            Err(_) => vec![format!(
                "namespace {0}, and nodes whose names begin with {0}: the API did not answer within {CLEAN_UP_DEADLINE:?}",
                self.namespace
            )],
        }
    }

    /// Removes the objects of a kind whose names begin with that of the namespace.
    async fn remove_ours<K>(&self, kind: &str, api: Api<K>, how: &DeleteParams) -> Vec<String>
    where
        K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let listed = match api.list_metadata(&ListParams::default()).await {
            Ok(listed) => listed,
            failed => {
                return Vec::from_iter(remaining(kind, &format!("{}-*", self.namespace), failed));
            }
        };
        let api = &api;
        let names = listed.items.iter().map(ResourceExt::name_any);
        let deletions = names
            .filter(|name| name.starts_with(&self.namespace))
            .map(|name| async move { remaining(kind, &name, api.delete(&name, how).await) });
        let left = futures::future::join_all(deletions).await;
        left.into_iter().flatten().collect()
    }

    /// Returns the API of a kind in the namespace of this run.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns the node jobs that pull images.
    pub(super) fn jobs(&self) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "operations.kubeedge.io".into(),
            version: "v1alpha2".into(),
            api_version: "operations.kubeedge.io/v1alpha2".into(),
            kind: "ImagePrePullJob".into(),
            plural: "imageprepulljobs".into(),
        };
        Api::all_with(self.client.clone(), &resource)
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
                "timed out after {API_DEADLINE:?} waiting for {what} in the API"
            );
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Returns a name of a node for a case, which is removed after the run.
    pub(super) fn node_name(&self, case: &str) -> String {
        format!("{}-{case}", self.namespace)
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
        let session = self
            .dialer
            .session(Some(identity), &session_headers(node), automatic)
            .await?;
        // CloudCore loses the answers to requests that arrive before its session has begun
        sleep(SESSION_START).await;
        Ok(session)
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

/// Returns what a deletion has left: kind, name and reason.
fn remaining<T>(kind: &str, name: &str, deleted: Result<T, kube::Error>) -> Option<String> {
    match deleted {
        Ok(_) => None,
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => Some(format!("{kind} {name}: {error}")),
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
