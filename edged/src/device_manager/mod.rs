//! Devices of plugins, as the kubelet's device manager: plugins register at a socket and report devices, of which containers get
//! those that they request. The kubelet's checkpoint records who uses which device, also over a change between EdgeCore and this
//! agent.
//!
//! | file | what |
//! |---|---|
//! | `state` | which devices there are and who uses them: decisions |
//! | `checkpoint` | the kubelet's file |
//! | `container` | what a container gets: the answers of its plugins, merged |
//! | `manager` | the handle: allocations, changes, the checkpoint on disk |
//! | `plugin`, `follow` | calls to a plugin, and its list of devices |
//! | `registration`, `pod_resources`, `socket` | the two gRPC servers |

mod checkpoint;
mod container;
mod follow;
mod manager;
mod plugin;
mod pod_resources;
mod registration;
mod socket;
mod state;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use tonic::service::Routes;
use wire::device_plugin::KUBELET_SOCKET;

pub(crate) use self::{
    container::ContainerDevices,
    manager::{Deps, DeviceManager},
    state::{AllocateError, DeviceCounts},
};

/// Returns the files of an agent with this root that are about devices; the sockets beside them are those of plugins.
pub fn device_files(root: &Path) -> [PathBuf; 3] {
    let plugins = root.join("device-plugins");
    [
        plugins.join(KUBELET_SOCKET),
        plugins.join(checkpoint::FILE_NAME),
        root.join("pod-resources").join(KUBELET_SOCKET),
    ]
}

/// Serves both sockets. Never returns.
pub(crate) async fn run(manager: DeviceManager) {
    let Some(root) = manager.root().cloned() else {
        return std::future::pending().await;
    };
    let plugins = manager.directory().join(KUBELET_SOCKET);
    let resources = root.join("pod-resources").join(KUBELET_SOCKET);
    let registration: Routes = registration::routes(manager.clone());
    let listing: Routes = pod_resources::routes(manager.clone());
    tokio::join!(
        socket::serve(&plugins, registration, registration::prepare_directory),
        socket::serve(&resources, listing, pod_resources::prepare_directory),
        remove_absent_plugins(&manager),
    );
}

/// Removes the resources whose plugins, known from the checkpoint, do not register in time.
async fn remove_absent_plugins(manager: &DeviceManager) {
    let awaited = manager.with_state(state::DeviceState::awaited_resources);
    tokio::time::sleep(follow::STOP_GRACE_PERIOD).await;
    for resource in awaited {
        manager.remove(&resource, None).await;
    }
}
