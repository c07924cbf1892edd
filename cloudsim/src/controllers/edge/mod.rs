//! The edge controller: sends Kubernetes objects to the nodes that need them, and applies nodes' reports and requests to the API.
//!
//! In: events of pods, nodes, ConfigMaps, Secrets and ServiceAccountAccesses, which fill the mailboxes of their nodes; messages of nodes
//! ([`Edge::request`]). Out: messages that a node lacks ([`Edge::deliveries`]), and answers. Every request of a node is checked against
//! [`index::Index`]: a node reaches only its own objects.

mod authorize;
mod certificates;
mod content;
mod event_limits;
mod events;
mod index;
pub(super) mod mirror;
pub(super) mod objects;
mod outcome;
mod readable_pods;
mod references;
mod request;
mod requests;
pub(crate) mod restriction;
mod storage;
mod token_requests;
mod tokens;
pub(crate) mod topology;
mod unhandled;
mod watch;

use std::{collections::BTreeSet, sync::Arc};

use crds::policy::ServiceAccountAccessSpec;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use serde_json::json;

pub use self::request::Verb;
pub(super) use self::unhandled::Unhandled;
use self::{
    event_limits::EventLimits, index::Index, readable_pods::ReadablePods, topology::Topology,
};
use crate::{
    controllers::{
        certificates::Approver, deliveries::difference, node_jobs::NodeJobs, sync::Synced,
    },
    delivery::Delivery,
    mailbox::{Mailboxes, ObjectKind, ObjectPath},
    pki::NodeCertificates,
    streams::KubeletEndpoint,
};

/// The edge controller; cheap to clone.
#[derive(Clone)]
pub struct Edge {
    client: Client,
    /// A client whose lists fail if one of their objects is damaged.
    complete: Client,
    readable_pods: ReadablePods,
    index: Arc<RwLock<Index>>,
    mailboxes: Mailboxes,
    root_ca: Arc<str>,
    unhandled: Unhandled,
    /// The records of nodes' certificates; `None` if nodes were authenticated elsewhere.
    certificates: Option<NodeCertificates>,
    event_limits: Arc<Mutex<EventLimits>>,
    /// Where an external API server reaches the kubelets of all nodes.
    kubelets: Option<KubeletEndpoint>,
    /// Approves nodes' certificate requests in this cloud's name; `None` if they are made in the nodes' names.
    approver: Option<Approver>,
    /// Says which Secrets nodes may read for jobs.
    node_jobs: Option<NodeJobs>,
    topology: Topology,
}

impl Edge {
    /// Creates the controller; `root_ca` (PEM) is the answer to nodes' queries for it.
    pub fn new(client: Client, mailboxes: Mailboxes, root_ca: &str) -> Self {
        let (index, unhandled) = (Arc::default(), Unhandled::default());
        Self {
            complete: client.clone(),
            readable_pods: ReadablePods::default(),
            client,
            index,
            mailboxes,
            root_ca: root_ca.into(),
            unhandled,
            certificates: None,
            event_limits: Arc::default(),
            kubelets: None,
            approver: None,
            node_jobs: None,
            topology: Topology::default(),
        }
    }

    /// Sets the client whose lists fail if one of their objects is damaged.
    #[must_use]
    pub fn with_complete_client(self, complete: Client) -> Self {
        Self { complete, ..self }
    }

    /// Returns the client whose lists fail if one of their objects is damaged.
    pub(super) fn complete_client(&self) -> &Client {
        &self.complete
    }

    /// Refuses to create a Node again after its deletion: the node's certificate ends with it.
    #[must_use]
    pub fn with_certificates(self, certificates: NodeCertificates) -> Self {
        Self {
            certificates: Some(certificates),
            ..self
        }
    }

    /// Sets the kubelets' port and address in Nodes' status, before the nodes' own.
    #[must_use]
    pub(crate) fn with_kubelets(self, kubelets: Option<KubeletEndpoint>) -> Self {
        Self { kubelets, ..self }
    }

    /// Approves nodes' CertificateSigningRequests here. A cluster's API server takes them for this cloud's own, so nothing else can check
    /// whether a node requests its own certificate.
    #[must_use]
    pub fn with_approver(self, approver: Option<Approver>) -> Self {
        Self { approver, ..self }
    }

    /// Lets nodes read the Secrets that jobs at work on them name.
    #[must_use]
    pub fn with_node_jobs(self, node_jobs: NodeJobs) -> Self {
        let node_jobs = Some(node_jobs);
        Self { node_jobs, ..self }
    }

    /// Returns which endpoints nodes receive.
    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the handler of messages that no controller handles.
    pub(super) fn unhandled_messages(&self) -> &Unhandled {
        &self.unhandled
    }

    /// Reports whether `node` holds or needs the object at `path`.
    pub(crate) fn concerns(&self, node: &str, path: &ObjectPath) -> bool {
        self.index.read().concerns(node, path)
    }

    /// Returns the rights of the service accounts of pods on `node`.
    pub(crate) fn accesses_on(&self, node: &str) -> Vec<Arc<ServiceAccountAccessSpec>> {
        self.index.read().accesses_on(node)
    }

    /// Returns the objects for `node` when it connects: desired objects, and objects that it has acknowledged.
    pub fn everything(&self, node: &str, synced: &Synced) -> BTreeSet<ObjectPath> {
        let mut paths = self.index.read().desired_objects(node);
        paths.extend(synced.values().map(|(path, _)| path.clone()));
        paths
    }

    /// Returns the messages that bring `node` from the acknowledged to the newest state of the object at `path`; none if it is up to
    /// date, or the object does not concern the node.
    pub async fn deliveries(
        &self,
        node: &str,
        path: &ObjectPath,
        synced: &Synced,
    ) -> Result<Vec<Delivery>, kube::Error> {
        let concerns = self.index.read().concerns(node, path);
        if !concerns && !synced.values().any(|(known, _)| known == path) {
            return Ok(Vec::new());
        }
        let live = objects::get(&self.client, path).await?;
        if path.kind == ObjectKind::Access && !concerns && live.is_some() {
            // a pod of the account may be damaged, and is not in the index then
            self.readable_pods
                .check(&self.complete, &path.namespace)
                .await?;
        }
        let mut mine = live.filter(|object| match path.kind {
            // a pod that was bound to another node meanwhile counts as deleted for this one
            ObjectKind::Pod => object["spec"]["nodeName"] == node,
            // an account's access does not concern a node without pods of that account
            ObjectKind::Access => concerns,
            _ => true,
        });
        if let Some(object) = mine.as_mut().filter(|_| path.kind == ObjectKind::Access) {
            // of a common account, all nodes of the cluster
            object["status"]["nodeList"] = json!([node]);
        }
        Ok(difference(path, mine, synced))
    }
}
