//! Dispatches the messages of one node to controllers. [`UpstreamDispatcher::dispatch`] has the one `match` over all messages of a node:
//! a new variant of [`wire::Upstream`] does not compile without its arm here.

use tokio::sync::mpsc;
use wire::{Message, Operation, Up, Upstream};

use super::{
    device::Devices,
    dynamic::{self, Dynamic},
    edge::{Edge, Verb},
    node_jobs::{self, NodeJobs},
    rules::{OpenNode, Rules},
};
use crate::delivery::Reply;

/// The controllers that handle nodes' messages; cheap to clone.
#[derive(Clone)]
pub struct Controllers {
    /// Kubernetes objects.
    pub edge: Edge,
    /// API calls through MetaServer.
    pub dynamic: Dynamic,
    /// Devices.
    pub devices: Devices,
    /// Messages between the cloud and programs on nodes; `None` without rules.
    pub rules: Option<Rules>,
    /// Node jobs; `None` without them.
    pub node_jobs: Option<NodeJobs>,
}

/// Dispatches the messages of one session of a node.
pub struct UpstreamDispatcher {
    node: String,
    edge: Edge,
    dynamic: dynamic::Session,
    devices: Devices,
    rules: Option<Rules>,
    node_jobs: Option<NodeJobs>,
    /// Keeps the node reachable for rules and for node jobs.
    _open: (Option<OpenNode>, Option<node_jobs::OpenNode>),
}

impl UpstreamDispatcher {
    /// Opens the controllers' sessions of `node`; their unsolicited messages go to `replies`.
    pub fn open(
        node: String,
        controllers: Controllers,
        replies: &mpsc::Sender<Box<Reply>>,
    ) -> Self {
        let Controllers {
            edge,
            dynamic,
            devices,
            rules,
            node_jobs,
        } = controllers;
        let dynamic = dynamic.open(&node, replies.clone());
        let open = rules
            .as_ref()
            .map(|rules| rules.open(&node, replies.clone()));
        let open_for_jobs = node_jobs
            .as_ref()
            .map(|jobs| jobs.open(&node, replies.clone()));
        Self {
            node,
            edge,
            dynamic,
            devices,
            rules,
            node_jobs,
            _open: (open, open_for_jobs),
        }
    }

    /// Handles one message; returns the answers.
    pub async fn dispatch(&mut self, message: Message) -> Vec<Reply> {
        let up = Up::from(message);
        // an answer for a rule is identified by its parent alone: failures of EdgeCore's ServiceBus have no operation
        let up = match &self.rules {
            Some(rules) => rules.take_answer(&self.node, up),
            None => Some(up),
        };
        let Some(Up { header, body }) = up else {
            return Vec::new();
        };
        let (node, edge) = (self.node.as_str(), &self.edge);
        let reply = match body {
            // handled by the session itself
            Upstream::Keepalive(_) | Upstream::Shutdown | Upstream::Ack { .. } => None,
            Upstream::Object {
                change,
                path,
                object,
            } => {
                edge.request(node, &header, change.into(), (path, &object))
                    .await
            }
            Upstream::Patch { path, patch } => {
                edge.request(node, &header, Verb::Patch, (path, &patch))
                    .await
            }
            Upstream::Query { path, content } => {
                edge.request(node, &header, Verb::Query, (path, &content))
                    .await
            }
            Upstream::RootCa(_) => Some(edge.root_ca(&header)),
            Upstream::MembershipDetail(_) => return self.devices.members(node, &header),
            Upstream::Device { path, update } => {
                Some(self.devices.report(node, &header, &path, &update).await)
            }
            Upstream::Application(content) => self.dynamic.call(&header, &content).await,
            Upstream::WatchSync(content) => self.dynamic.keep(&header, &content).await,
            Upstream::BusUpload { topic, payload } => match &self.rules {
                Some(rules) => {
                    rules.bus_upload(node, header, &topic, &payload);
                    None
                }
                None => edge.unhandled_messages().bus_upload(node, &header),
            },
            Upstream::ServiceUpload { target, content } => match &self.rules {
                Some(rules) => {
                    rules.service_upload(node, header, &target, &content);
                    None
                }
                None => edge
                    .unhandled_messages()
                    .service_upload(node, &header, target),
            },
            // nobody waits for it any more
            Upstream::BusAnswer { .. } => None,
            Upstream::ActionStatus { path, status } => match &self.node_jobs {
                Some(jobs) => {
                    jobs.report(node, &header, &path, status).await;
                    None
                }
                None => edge.unhandled_messages().job_status(
                    node,
                    &header,
                    &Operation::UpdateNodeActionStatus,
                    &path,
                ),
            },
            Upstream::TaskStatus {
                operation, path, ..
            } => edge
                .unhandled_messages()
                .job_status(node, &header, &operation, &path),
            Upstream::Unknown { route, .. } => {
                edge.unhandled_messages().unknown(node, &header, route)
            }
        };
        reply.into_iter().collect()
    }

    /// Waits for watches of the node that panic, and forgets them; never returns.
    pub(crate) async fn forget_panicked(&mut self) {
        self.dynamic.forget_panicked().await;
    }
}

#[cfg(test)]
pub(super) mod tests;
