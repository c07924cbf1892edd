//! Follows the devices of each registered plugin.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::Status;
use wire::device_plugin::{HEALTHY, ListAndWatchResponse};

use super::{manager::DeviceManager, plugin::Plugin, state::Device};

/// How long the resource of a plugin that has ended stays in the Node's capacity; the kubelet's `endpointStopGracePeriod`.
pub(super) const STOP_GRACE_PERIOD: Duration = Duration::from_secs(300);

/// Adds a plugin and follows its devices in the background.
pub(super) fn add_plugin(
    manager: &DeviceManager,
    resource: String,
    plugin: Plugin,
) -> Result<(), Status> {
    let (number, replaced) = manager.connect(&resource, plugin.clone())?;
    tracing::info!(resource, "device plugin registered");
    let follower = Follower {
        manager: manager.clone(),
        resource,
        number,
    };
    manager
        .background()
        .spawn(async move { follower.run(plugin, replaced).await });
    Ok(())
}

/// Follows one registration of a plugin.
struct Follower {
    manager: DeviceManager,
    resource: String,
    number: u64,
}

impl Follower {
    async fn run(self, plugin: Plugin, replaced: CancellationToken) {
        let watching = replaced.run_until_cancelled(self.watch(&plugin));
        let Some(reason) = watching.await else {
            return;
        };
        let Self {
            manager,
            resource,
            number,
        } = &self;
        tracing::warn!(
            resource,
            reason,
            "connection to device plugin lost; its devices are unhealthy until it registers again"
        );
        // the client holds the connection
        drop(plugin);
        manager.disconnect(resource, *number).await;
        tokio::time::sleep(STOP_GRACE_PERIOD).await;
        manager.remove(resource, Some(*number)).await;
    }

    /// Takes the plugin's lists until they end, and returns why.
    async fn watch(&self, plugin: &Plugin) -> String {
        let mut lists = match plugin.list_and_watch().await {
            Ok(lists) => lists,
            Err(status) => return status.message().to_owned(),
        };
        loop {
            match lists.message().await {
                Ok(Some(list)) => self.take(list).await,
                Ok(None) => return "the plugin closed the connection".to_owned(),
                Err(status) => return status.message().to_owned(),
            }
        }
    }

    async fn take(&self, list: ListAndWatchResponse) {
        let devices = list.devices.into_iter().map(|device| {
            let nodes = device.topology.unwrap_or_default().nodes;
            let is_healthy = device.health == HEALTHY;
            let numa_nodes = nodes.iter().map(|node| node.id).collect();
            (
                device.id,
                Device {
                    is_healthy,
                    numa_nodes,
                },
            )
        });
        let devices = devices.collect();
        self.manager
            .update(&self.resource, self.number, devices)
            .await;
    }
}
