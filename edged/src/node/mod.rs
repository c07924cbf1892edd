//! The node object and its lease, by which the cloud knows the node and its state.

mod address;
mod images;
mod lease;
mod machine;
mod object;
pub(super) mod resources;
mod status;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use componentbase::{Backoff, Heartbeat};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::{Notify, mpsc, watch};

pub use self::address::AddressSource;
use self::status::RuntimeHealth;
pub(super) use self::{address::Addresses, machine::Machine, object::Description};
use super::{
    Config, Progress, api_message,
    device_manager::DeviceCounts,
    pressure::Pressure,
    runtime::Runtime,
    shutdown_status::{self, ShutdownStatus},
    status::difference,
    trigger::Trigger,
};

/// First delay before a failed registration is tried again, doubled up to [`MAX_WAIT`]; the kubelet's.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(7);
/// Interval of computing the status of a node that is not ready, so that it becomes ready soon after its runtime.
const NOT_READY_INTERVAL: Duration = Duration::from_secs(1);

/// What the node's status and lease need.
pub(super) struct Deps {
    /// The machine's properties.
    pub(super) machine: Machine,
    /// The node's addresses.
    pub(super) addresses: Addresses,
    /// The node's resource pressure.
    pub(super) pressure: Pressure,
    /// The numbers of devices of plugins.
    pub(super) devices: watch::Receiver<DeviceCounts>,
    /// Whether the node is shutting down.
    pub(super) shutdown: ShutdownStatus,
    /// The container runtime.
    pub(super) runtime: Runtime,
    /// Triggers pods when the node's addresses change, as their statuses contain them.
    pub(super) triggers: mpsc::Sender<Trigger>,
}

/// Registers the node, then reports its status and renews its lease. Never returns, whatever fails.
pub(super) async fn run(
    config: &Config,
    deps: Deps,
    progress: &watch::Sender<Progress>,
    heart: &Heartbeat,
) {
    let Deps {
        machine,
        addresses,
        pressure,
        devices,
        shutdown,
        runtime,
        triggers,
    } = deps;
    let back_online = Arc::new(Notify::new());
    let (report_sender, reported) = watch::channel(());
    let name = &config.node_name;
    let lease = lease::Renewal {
        client: &config.client,
        node: name,
        duration: config.node.lease_duration,
        reported,
    };
    let lease = lease.run(config.online.clone(), &back_online, heart.for_loop("lease"));
    let reporter = Reporter {
        api: Api::all(config.client.clone()),
        description: Description {
            name,
            config: &config.node,
            addresses: addresses.of_status(name),
            machine,
            pressure,
            devices,
        },
        addresses,
        shutdown,
        triggers,
        runtime,
        last: None,
        pod_cidr: String::new(),
        reported_at: None,
        heart: heart.for_loop("node status"),
    };
    let reporting = Box::pin(reporter.run(&report_sender, progress, &back_online));
    tokio::join!(reporting, lease);
}

/// Keeps the node object up to date.
struct Reporter<'a> {
    api: Api<Node>,
    description: Description<'a>,
    addresses: Addresses,
    shutdown: ShutdownStatus,
    /// Triggers pods, whose statuses contain the node's addresses.
    triggers: mpsc::Sender<Trigger>,
    runtime: Runtime,
    /// The node as last received from the API; `None` while it is not registered.
    last: Option<Node>,
    /// The pod address ranges that were given to the runtime; empty for none.
    pod_cidr: String,
    reported_at: Option<Timestamp>,
    heart: Heartbeat,
}

impl Reporter<'_> {
    async fn run(
        mut self,
        reported: &watch::Sender<()>,
        progress: &watch::Sender<Progress>,
        back_online: &Notify,
    ) {
        let mut backoff = Backoff::new(FIRST_WAIT, MAX_WAIT);
        let mut pressure = self.description.pressure.subscribe();
        let mut devices = self.description.devices.clone();
        let mut shutdown = self.shutdown.subscribe();
        loop {
            let wait = match Box::pin(self.sync_status()).await {
                Ok(ready) => {
                    backoff.reset();
                    reported.send_replace(());
                    progress.send_modify(|progress| progress.node_reported = true);
                    let frequency = self.description.config.status_frequency;
                    if ready {
                        frequency
                    } else {
                        frequency.min(NOT_READY_INTERVAL)
                    }
                }
                Err(error) => {
                    let node = self.description.name;
                    tracing::warn!(
                        node,
                        error = api_message(&error),
                        "failed to report the node; retrying"
                    );
                    // With full jitter the delay could be almost zero; this spreads a fleet as well.
                    backoff.next(clock::rng().random_range(0.5..1.0))
                }
            };
            let _rest = self.heart.idle();
            clock::select! {
                () = tokio::time::sleep(wait) => {}
                // cancel-safe: a change that is not taken here remains visible.
                _ = pressure.changed() => {}
                _ = devices.changed() => {}
                _ = shutdown.changed() => {}
                // The cloud may have marked the node as unreachable meanwhile.
                () = back_online.notified() => self.reported_at = None,
            }
        }
    }

    /// Computes the status, reports it if it has changed or a report is due, and returns whether the node is ready.
    async fn sync_status(&mut self) -> Result<bool, kube::Error> {
        if self.addresses.refresh() {
            self.description.addresses = self.addresses.of_status(self.description.name);
            let addresses = self.addresses.ips().join(", ");
            tracing::info!(
                node = self.description.name,
                addresses,
                "addresses of the node changed"
            );
            // If the channel is full, each pod is synced a little later anyway.
            let _ = self.triggers.try_send(Trigger::All);
        }
        let mut health = {
            // calls to the runtime have timeouts of their own
            let _rest = self.heart.idle();
            self.health().await
        };
        if self.shutdown.is_shutting_down() {
            health.add_problem(shutdown_status::NODE_MESSAGE);
        }
        let now = clock::now();
        let base = match self.get_or_register(&health, now).await? {
            Some(node) => node,
            None => return Ok(health.problem.is_none()),
        };
        self.update_pod_cidr(&base).await;
        let old = base.status.clone().unwrap_or_default();
        let status = self.description.status(&old, &health, now);
        let due = self.reported_at.is_none_or(|at| {
            super::timestamps::since(at, now) >= self.description.config.report_frequency
        });
        if due || status::differs(&old, &status) {
            self.last = Some(self.patch_status(&old, &status).await?);
            self.reported_at = Some(now);
        }
        Ok(health.problem.is_none())
    }

    /// Gives the pod address ranges that the cloud assigned to the runtime if they have changed. A failure is tried again with
    /// the next status.
    ///
    /// Source: the kubelet, `updatePodCIDR`.
    async fn update_pod_cidr(&mut self, node: &Node) {
        let spec = node.spec.as_ref();
        let several = spec
            .and_then(|spec| spec.pod_cidrs.as_ref())
            .map(|all| all.join(","))
            .filter(|all| !all.is_empty());
        let Some(wanted) = several.or_else(|| spec.and_then(|spec| spec.pod_cidr.clone())) else {
            return;
        };
        if wanted.is_empty() || wanted == self.pod_cidr {
            return;
        }
        let _rest = self.heart.idle();
        match self.runtime.set_pod_cidr(&wanted).await {
            Ok(()) => {
                tracing::info!(
                    node = self.description.name,
                    addresses = wanted,
                    "pod CIDR assigned by the cloud"
                );
                self.pod_cidr = wanted;
            }
            Err(error) => tracing::warn!(
                addresses = wanted,
                error = &error as &dyn std::error::Error,
                "failed to set the pod CIDR in the container runtime"
            ),
        }
    }

    /// Returns the node from the API, registering it if necessary. Returns `None` if it was created just now including its
    /// status.
    async fn get_or_register(
        &mut self,
        health: &RuntimeHealth,
        now: Timestamp,
    ) -> Result<Option<Node>, kube::Error> {
        let name = self.description.name;
        match (self.api.get_opt(name).await, &self.last) {
            (Ok(Some(node)), Some(_)) => Ok(Some(node)),
            (Ok(Some(node)), None) if self.description.config.register => {
                let node = match self.description.metadata_patch(&node) {
                    Some(patch) => {
                        self.api
                            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
                            .await?
                    }
                    None => node,
                };
                self.last = Some(node.clone());
                Ok(Some(node))
            }
            (Ok(Some(node)), None) => {
                self.last = Some(node.clone());
                Ok(Some(node))
            }
            (Ok(None), _) if self.description.config.register => {
                let status = self.description.status(&NodeStatus::default(), health, now);
                let node = self.description.node(status.clone());
                let made = self.api.create(&PostParams::default(), &node).await?;
                tracing::info!(node = name, "Node object created; it is sent to the cloud");
                // An API may drop the status of a created object.
                let stored = made.status.clone().unwrap_or_default();
                let complete = !status::differs(&stored, &status);
                self.last = Some(made.clone());
                self.reported_at = complete.then_some(now);
                Ok((!complete).then_some(made))
            }
            (Ok(None), _) => Err(kube::Error::Api(
                kube::core::Status::failure(
                    "the node does not exist and registerNode is false: create it in the cloud",
                    "NotFound",
                )
                .with_code(404)
                .boxed(),
            )),
            // Offline: the last known version is used.
            (Err(_), Some(last)) => Ok(Some(last.clone())),
            (Err(error), None) => Err(error),
        }
    }

    async fn patch_status(
        &self,
        old: &NodeStatus,
        status: &NodeStatus,
    ) -> Result<Node, kube::Error> {
        let difference = difference(old, status).map_err(kube::Error::SerdeError)?;
        let patch = Patch::Merge(json!({"status": difference.unwrap_or_else(|| json!({}))}));
        self.api
            .patch_status(self.description.name, &PatchParams::default(), &patch)
            .await
    }

    async fn health(&self) -> RuntimeHealth {
        let most = self.description.config.max_images;
        let images = async {
            if most == Some(0) {
                Ok(Vec::new())
            } else {
                self.runtime.list_images().await
            }
        };
        match tokio::try_join!(self.runtime.version(), self.runtime.status(), images) {
            Ok((version, status, images)) => RuntimeHealth {
                images: images::largest(images, most),
                ..RuntimeHealth::of(&version, &status)
            },
            Err(error) => RuntimeHealth::down(&error.to_string()),
        }
    }
}

/// Returns the API of leases in the node leases' namespace.
fn leases(client: &Client) -> Api<k8s_openapi::api::coordination::v1::Lease> {
    Api::namespaced(client.clone(), "kube-node-lease")
}
