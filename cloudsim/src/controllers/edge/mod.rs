//! The edge controller: Kubernetes objects go down to the nodes that need them, the nodes' reports and requests go into the API.
//!
//! In: events of pods, nodes, ConfigMaps, Secrets and ServiceAccountAccesses (they fill the mailboxes of the nodes concerned); messages of nodes
//! ([`Edge::request`]). Out: the messages that a node lacks ([`Edge::deliveries`]) and answers. Every request of a node is checked
//! against [`index::Index`]: a node touches only its own objects.

mod authorize;
mod certificates;
mod event_limits;
mod events;
mod index;
pub(super) mod mirror;
pub(super) mod objects;
mod outcome;
mod references;
mod request;
mod requests;
pub(crate) mod restriction;
pub(super) mod status;
mod storage;
mod token_requests;
mod tokens;
mod unhandled;
mod watch;

use std::{collections::BTreeSet, sync::Arc};

use crds::policy::ServiceAccountAccessSpec;
use kube::Client;
use parking_lot::{Mutex, RwLock};

pub use self::request::Verb;
pub(super) use self::unhandled::Unhandled;
use self::{event_limits::EventLimits, index::Index};
use crate::{
    controllers::{certificates::Approver, deliveries::difference, sync::Synced},
    delivery::Delivery,
    mailbox::{Mailboxes, ObjectKind, ObjectPath},
    pki::NodeCertificates,
};

/// The handle; cheap to clone.
#[derive(Clone)]
pub struct Edge {
    client: Client,
    index: Arc<RwLock<Index>>,
    mailboxes: Mailboxes,
    root_ca: Arc<str>,
    unhandled: Unhandled,
    /// Which certificates nodes are known by; nothing where they have shown who they are elsewhere.
    certificates: Option<NodeCertificates>,
    event_limits: Arc<Mutex<EventLimits>>,
    /// Where an API server that stands elsewhere finds the kubelets of all nodes.
    kubelet_port: Option<u16>,
    /// Decides on nodes' requests for certificates that are made in this cloud's name; nothing where they are made in their own.
    approver: Option<Approver>,
}

impl Edge {
    /// A controller over `client`; `root_ca` (PEM) answers the nodes' query for it.
    pub fn new(client: Client, mailboxes: Mailboxes, root_ca: &str) -> Self {
        let (index, unhandled) = (Arc::default(), Unhandled::default());
        Self {
            client,
            index,
            mailboxes,
            root_ca: root_ca.into(),
            unhandled,
            certificates: None,
            event_limits: Arc::default(),
            kubelet_port: None,
            approver: None,
        }
    }

    /// A node whose Node was deleted makes no other one: its certificate ends with the Node.
    #[must_use]
    pub fn with_certificates(self, certificates: NodeCertificates) -> Self {
        Self { certificates: Some(certificates), ..self }
    }

    /// The port that Nodes have in their status in the place of the nodes' own.
    #[must_use]
    pub fn with_kubelet_port(self, kubelet_port: Option<u16>) -> Self {
        Self { kubelet_port, ..self }
    }

    /// Decides on nodes' CertificateSigningRequests here. A cluster's API server takes them for this cloud's own, so that nobody else
    /// can tell whether a node asks for itself.
    #[must_use]
    pub fn with_approver(self, approver: Option<Approver>) -> Self {
        Self { approver, ..self }
    }

    /// What becomes of messages that no controller carries out.
    pub(super) fn unhandled(&self) -> &Unhandled {
        &self.unhandled
    }

    /// Whether `node` holds or needs the object at `path`.
    pub(crate) fn concerns(&self, node: &str, path: &ObjectPath) -> bool {
        self.index.read().concerns(node, path)
    }

    /// What the service accounts of pods on `node` may do.
    pub(crate) fn accesses_on(&self, node: &str) -> Vec<Arc<ServiceAccountAccessSpec>> {
        self.index.read().accesses_on(node)
    }

    /// Everything that `node` should look at when it connects: what it should hold, and what it is known to hold.
    pub fn everything(&self, node: &str, synced: &Synced) -> BTreeSet<ObjectPath> {
        let mut paths = self.index.read().desired(node);
        paths.extend(synced.values().map(|(path, _)| path.clone()));
        paths
    }

    /// The messages that bring `node` from what it has acknowledged to the newest state of the object at `path`; none where it
    /// is up to date, or where the object is none of its business.
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
        let mine = live.filter(|object| match path.kind {
            // a pod that was bound to another node meanwhile is gone for this one
            ObjectKind::Pod => object["spec"]["nodeName"] == node,
            // what an account may do is nobody's business where no pod runs as it any more
            ObjectKind::Access => concerns,
            _ => true,
        });
        Ok(difference(path, mine, synced))
    }
}
