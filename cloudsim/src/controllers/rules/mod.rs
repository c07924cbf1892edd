//! The router: Rules carry messages between REST in the cloud, and MQTT and HTTP services on nodes.
//!
//! In: Rules and RuleEndpoints, an annotation of Nodes ([`node_namespaces`]), requests to the router ([`Rules::call`]), messages of nodes
//! ([`Rules::bus_upload`], [`Rules::service_upload`]). Out: messages to nodes, calls of rules' target servers, and rules' statuses. A
//! rule that is invalid ([`check`]) or without its endpoints is not in force; its status has the reason.
//!
//! Source: KubeEdge's `cloud/pkg/router`. Differences: `edge-agent` acknowledges what it publishes, and gets an answer for what it
//! uploads; redirects are not followed; an MQTT message fails if its target does not answer with 2xx.

mod addresses;
mod calls;
pub(crate) mod check;
mod counters;
mod manual_send;
mod node_namespaces;
mod nodes;
mod objects;
mod pending;
mod status;
mod table;
mod targets;
mod upload_queue;
mod uploads;
mod via;

use std::{sync::Arc, time::Duration};

use kube::{Client, ResourceExt};
use limits::Repeated;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{
    calls::{Call, CallAnswer, CallError},
    nodes::OpenNode,
    via::Via,
};
use self::{
    counters::{Counters, RuleRef},
    nodes::Nodes,
    objects::ObjectReflectors,
    pending::Pending,
    table::Table,
    targets::Targets,
    upload_queue::UploadQueues,
};
use crate::delivery::Reply;

/// How long to wait for a node's answer; KubeEdge's `restTimeout`.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause after rebuilding the table, as a multiple of its duration, so that many changes are handled together.
const REBUILD_SHARE: u32 = 9;
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long shutdown waits for calls under way.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The router; cheap to clone. One serves all replicas of the hub.
#[derive(Clone)]
pub struct Rules(Arc<Inner>);

/// Reports whether a node's agent is `edge-agent`.
type OwnAgents = Box<dyn Fn(&str) -> bool + Send + Sync>;

struct Inner {
    client: Client,
    own_agents: OwnAgents,
    call_timeout: Duration,
    /// `None` before all rules have been listed.
    table: watch::Sender<Option<Arc<Table>>>,
    nodes: Nodes,
    pending: Pending,
    counters: Counters,
    targets: Targets,
    upload_queue: UploadQueues,
    refusals: Mutex<Repeated>,
    tasks: TaskTracker,
}

impl Rules {
    /// Creates the router of the cloud with this `Via` name. `own_agents` reports whether a node's agent is `edge-agent`; `call_timeout`
    /// is the time for a node's answer.
    pub fn new(
        client: Client,
        via: Via,
        own_agents: impl Fn(&str) -> bool + Send + Sync + 'static,
        call_timeout: Duration,
    ) -> Self {
        Self(Arc::new(Inner {
            client,
            own_agents: Box::new(own_agents),
            call_timeout,
            table: watch::channel(None).0,
            nodes: Nodes::default(),
            pending: Pending::default(),
            counters: Counters::default(),
            targets: Targets::new(via),
            upload_queue: UploadQueues::default(),
            refusals: Mutex::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Begins a session of `node`; `replies` sends to it.
    pub(crate) fn open(&self, node: &str, replies: mpsc::Sender<Box<Reply>>) -> OpenNode {
        let open = self.nodes().open(node, replies);
        let (this, node) = (self.clone(), node.to_owned());
        self.spawn(async move { this.subscribe(&node).await });
        open
    }

    /// Reports whether the node is connected to this replica.
    pub(crate) fn has_node(&self, node: &str) -> bool {
        self.nodes().has(node)
    }

    /// Returns this cloud's name in `Via`.
    pub(crate) fn via(&self) -> &Via {
        self.targets().via()
    }

    /// Runs until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let objects = ObjectReflectors::default();
        let watches = objects.watches(&self.0.client, &stop);
        tokio::join!(
            watches,
            self.clone().follow(objects, stop.child_token()),
            self.clone().write_statuses(stop.child_token()),
        );
    }

    async fn follow(self, objects: ObjectReflectors, stop: CancellationToken) {
        let Some(mut objects) = stop.run_until_cancelled(objects.wait_synced()).await else {
            return;
        };
        let (mut is_new, mut next) = (true, Instant::now());
        loop {
            let pause = next.saturating_duration_since(Instant::now());
            if is_new && pause.is_zero() {
                let begun = Instant::now();
                self.replace_table(objects.table());
                for node in self.nodes().connected_nodes() {
                    let this = self.clone();
                    self.spawn(async move { this.subscribe(&node).await });
                }
                next = Instant::now() + (begun.elapsed() * REBUILD_SHARE).min(LONGEST_PAUSE);
                is_new = false;
            }
            is_new |= clock::select! {
                // cancel-safe: a cancelled token stays cancelled
                () = stop.cancelled() => return,
                // cancel-safe: sleeping holds no data
                () = sleep(pause), if is_new => true,
                // cancel-safe: it says so
                Some(alters) = objects.changed() => alters,
                else => return,
            };
        }
    }

    fn replace_table(&self, table: Table) {
        self.counters().update(table.all().map(|(rule, problem)| {
            let place = RuleRef {
                uid: rule.uid().unwrap_or_default(),
                namespace: rule.namespace().unwrap_or_default(),
                name: rule.name_any(),
            };
            (place, rule.status.as_ref(), problem)
        }));
        self.0.table.send_replace(Some(Arc::new(table)));
    }

    /// Reports whether all rules have been listed.
    fn is_complete(&self) -> bool {
        self.0.table.borrow().is_some()
    }

    /// Waits until all rules have been listed.
    pub(crate) async fn complete(&self) {
        // fails only when the sender is gone, which `self` has
        let _ = self.0.table.subscribe().wait_for(Option::is_some).await;
    }

    /// Sends a node its subscriptions, once they are known.
    async fn subscribe(&self, node: &str) {
        if self.is_complete() {
            self.nodes()
                .subscribe(node, || self.table().subscriptions(node))
                .await;
        }
    }

    /// Reports whether the node's agent is `edge-agent`: it acknowledges what it publishes, and accepts bytes that are not UTF-8.
    fn is_own_agent(&self, node: &str) -> bool {
        (self.0.own_agents)(node)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(task);
    }

    fn table(&self) -> Arc<Table> {
        self.0.table.borrow().clone().unwrap_or_default()
    }

    fn nodes(&self) -> &Nodes {
        &self.0.nodes
    }

    fn pending(&self) -> &Pending {
        &self.0.pending
    }

    fn counters(&self) -> &Counters {
        &self.0.counters
    }

    fn targets(&self) -> &Targets {
        &self.0.targets
    }

    fn upload_queue(&self) -> &UploadQueues {
        &self.0.upload_queue
    }

    fn refusals(&self) -> parking_lot::MutexGuard<'_, Repeated> {
        self.0.refusals.lock()
    }

    fn call_timeout(&self) -> Duration {
        self.0.call_timeout
    }
}

#[cfg(test)]
mod tests;
