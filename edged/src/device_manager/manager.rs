//! The handle of the devices, which all parts of EdgeD share.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use componentbase::{PodsComplete, replace_file};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{Client, runtime::reflector::Store};
use limits::read_regular_file;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use wire::{cri, text::with_causes};

use super::{
    checkpoint,
    container::ContainerDevices,
    plugin::Plugin,
    state::{AllocateError, Device, DeviceCounts, DeviceState, Request},
};
use crate::{background::Background, known_pods::known_pods, names, runtime::Runtime, specs};

/// Mode of the checkpoint, the kubelet's.
const CHECKPOINT_MODE: u32 = 0o600;

/// What the devices need.
pub(crate) struct Deps {
    /// The kubelet's root, with the sockets below; `None` disables device plugins.
    pub(crate) root: Option<PathBuf>,
    /// The container runtime, asked whether containers of a deleted pod still run.
    pub(crate) runtime: Runtime,
    /// The API, asked again before devices of a pod are freed.
    pub(crate) client: Client,
    /// This node's pods.
    pub(crate) pods: Store<Pod>,
    /// Whether the API has all pods. Until then, no devices are freed.
    pub(crate) pods_complete: PodsComplete,
    /// Follows the plugins.
    pub(crate) background: Background,
}

/// The devices of all plugins, and their users. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DeviceManager(Arc<Inner>);

struct Inner {
    deps: Deps,
    shared: Mutex<Shared>,
    /// By resource; held while its devices are chosen, which takes calls to its plugin, so that no device is chosen twice.
    allocating: Mutex<BTreeMap<String, Arc<AsyncMutex<()>>>>,
    /// Held while the checkpoint is written.
    writing: AsyncMutex<()>,
    /// The numbers of devices; sent again whenever the devices of a plugin have changed.
    changed: watch::Sender<DeviceCounts>,
}

#[derive(Default)]
struct Shared {
    state: DeviceState,
    plugins: BTreeMap<String, Connection>,
    last_number: u64,
}

/// A registered plugin.
struct Connection {
    plugin: Plugin,
    /// Cancelled when another registration replaces this one.
    replaced: CancellationToken,
}

impl DeviceManager {
    /// Creates the handle and reads the checkpoint. A checkpoint that cannot be used is logged.
    pub(crate) fn new(deps: Deps) -> Self {
        let manager = Self(Arc::new(Inner {
            deps,
            shared: Mutex::default(),
            allocating: Mutex::default(),
            writing: AsyncMutex::default(),
            changed: watch::Sender::default(),
        }));
        if manager.0.deps.root.is_some() {
            manager.read_checkpoint();
        }
        manager.0.changed.send_replace(manager.counts());
        manager
    }

    fn read_checkpoint(&self) {
        let path = self.directory().join(checkpoint::FILE_NAME);
        let data = match read_regular_file(&path, checkpoint::MAX_BYTES) {
            Ok(bytes) => checkpoint::Data::parse(&bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "failed to read the checkpoint of devices; running pods may share devices with new ones");
                return;
            }
        };
        match data {
            Ok(data) => {
                let (state, unreadable) = DeviceState::restore(data);
                if !unreadable.is_empty() {
                    let containers = unreadable.join(", ");
                    tracing::warn!(
                        containers,
                        "cannot read the devices of containers in the checkpoint"
                    );
                }
                self.0.shared.lock().state = state;
            }
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(path = %path.display(), error, "cannot use the checkpoint of devices; running pods may share devices with new ones");
            }
        }
    }

    /// Returns the kubelet's root; `None` if device plugins are disabled.
    pub(super) fn root(&self) -> Option<&PathBuf> {
        self.0.deps.root.as_ref()
    }

    /// Returns the directory of plugins' sockets.
    pub(super) fn directory(&self) -> PathBuf {
        self.root()
            .map(|root| root.join("device-plugins"))
            .unwrap_or_default()
    }

    pub(super) fn background(&self) -> &Background {
        &self.0.deps.background
    }

    pub(super) fn all_pods(&self) -> Vec<Arc<Pod>> {
        self.0.deps.pods.state()
    }

    /// Calls `read` with the devices and their users.
    pub(super) fn with_state<T>(&self, read: impl FnOnce(&DeviceState) -> T) -> T {
        read(&self.0.shared.lock().state)
    }

    /// Returns the numbers of devices that the Node reports.
    pub(crate) fn counts(&self) -> DeviceCounts {
        self.with_state(DeviceState::counts)
    }

    /// Returns a receiver of the numbers of devices, which is notified when the devices of a plugin have changed.
    pub(crate) fn subscribe(&self) -> watch::Receiver<DeviceCounts> {
        self.0.changed.subscribe()
    }

    /// Reports whether the pod requests devices of plugins.
    pub(crate) fn is_used_by(&self, pod: &Pod) -> bool {
        self.with_state(|state| {
            specs::containers_of(pod).any(|one| state.requests(pod, one).next().is_some())
        })
    }

    /// Reports whether the pod requests devices of plugins that it does not have yet.
    pub(crate) fn is_short_of(&self, pod: &Pod) -> bool {
        self.with_state(|state| {
            specs::containers_of(pod).any(|one| !state.missing_requests(pod, one).is_empty())
        })
    }

    /// Allocates devices to all containers of the pod. If one of them gets none, the pod has none.
    pub(crate) async fn allocate(&self, pod: &Pod) -> Result<(), AllocateError> {
        if !self.is_short_of(pod) {
            return Ok(());
        }
        let _guards = self.lock_missing(pod).await;
        self.free_ended_pods().await;
        // init containers first: those that come later reuse their devices
        let spec = pod.spec.iter();
        let inits = spec
            .clone()
            .flat_map(|spec| spec.init_containers.iter().flatten());
        let mut done = Ok(());
        for container in inits.chain(spec.flat_map(|spec| &spec.containers)) {
            done = self.allocate_to(pod, container).await;
            if done.is_err() {
                break;
            }
        }
        let stored = match done {
            Ok(()) => self.save().await,
            Err(error) => Err(error),
        };
        if stored.is_err() {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            self.0.shared.lock().state.free(uid);
        }
        stored
    }

    /// Returns what a container gets to use its devices, after its plugins have prepared them. A container of a pod that another
    /// agent admitted gets its devices only now.
    pub(crate) async fn container_devices(
        &self,
        pod: &Pod,
        container: &Container,
    ) -> Result<ContainerDevices, AllocateError> {
        let short = self.with_state(|state| !state.missing_requests(pod, container).is_empty());
        if short {
            let _guards = self.lock_missing(pod).await;
            self.free_ended_pods().await;
            self.allocate_to(pod, container).await?;
            self.save().await?;
        }
        let requests: Vec<_> = self.with_state(|state| state.requests(pod, container).collect());
        for request in requests {
            self.pre_start(&request).await?;
        }
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        Ok(self.with_state(|state| {
            let used = state.container(uid, &container.name).into_iter();
            ContainerDevices::merge(used.flat_map(|all| all.values().map(|one| &one.answer)))
        }))
    }

    /// Lets the plugin prepare the devices of a container. A plugin that has died since the start of the agent is skipped, as the
    /// kubelet does; one that has not registered yet may not have set up its devices after a reboot.
    async fn pre_start(&self, request: &Request<'_>) -> Result<(), AllocateError> {
        let (plugin, ids) = {
            let shared = self.0.shared.lock();
            if let Err(awaited @ AllocateError::Awaited(_)) = shared.state.plugin(request.resource)
            {
                return Err(awaited);
            }
            let used = shared.state.allocation(request).into_iter();
            let ids: BTreeSet<_> = used
                .flat_map(|one| one.devices.values().flatten())
                .collect();
            let ids: Vec<_> = ids.into_iter().cloned().collect();
            let known = shared.plugins.get(request.resource);
            (known.map(|known| known.plugin.clone()), ids)
        };
        let Some(plugin) = plugin else {
            return Err(AllocateError::Refused(format!(
                "endpoint not found in cache for a registered resource: {}",
                request.resource
            )));
        };
        plugin.pre_start(ids).await.map_err(|status| {
            AllocateError::Refused(format!(
                "device plugin PreStartContainer rpc failed with err: {}",
                go_error(&status)
            ))
        })
    }

    /// Locks the resources of which the pod has no devices yet. Always in the order of their names, so that two pods never wait for each
    /// other. A pod that needs none of them does not wait for their plugins.
    async fn lock_missing(&self, pod: &Pod) -> Vec<OwnedMutexGuard<()>> {
        let missing: BTreeSet<String> = self.with_state(|state| {
            specs::containers_of(pod)
                .flat_map(|container| state.missing_requests(pod, container))
                .map(|request| request.resource.to_owned())
                .collect()
        });
        let mut guards = Vec::new();
        for resource in missing {
            let lock = Arc::clone(self.0.allocating.lock().entry(resource).or_default());
            guards.push(lock.lock_owned().await);
        }
        guards
    }

    async fn allocate_to(&self, pod: &Pod, container: &Container) -> Result<(), AllocateError> {
        let requests = self.with_state(|state| state.missing_requests(pod, container));
        for request in requests {
            self.satisfy(&request).await?;
        }
        Ok(())
    }

    /// Chooses devices and has them allocated by their plugin.
    async fn satisfy(&self, request: &Request<'_>) -> Result<(), AllocateError> {
        let (candidates, plugin) = {
            let shared = self.0.shared.lock();
            let candidates = shared.state.candidates(request)?;
            shared.state.plugin(request.resource)?;
            let known = shared.plugins.get(request.resource);
            (candidates, known.map(|known| known.plugin.clone()))
        };
        let refuse = |why: String| AllocateError::Refused(why);
        let plugin =
            plugin.ok_or_else(|| refuse(format!("unknown Device Plugin {}", request.resource)))?;
        let preferred = plugin.preferred_devices(&candidates).await;
        let preferred = preferred.map_err(|status| {
            let error = go_error(&status);
            refuse(format!(
                "device plugin GetPreferredAllocation rpc failed with err: {error}"
            ))
        })?;
        let ids = candidates.choose(&preferred);
        let answer = plugin.allocate(&ids).await;
        let answer = answer.map_err(|status| refuse(go_error(&status)))?;
        let answer = answer
            .ok_or_else(|| refuse("no containers return in allocation response".to_owned()))?;
        let mut shared = self.0.shared.lock();
        shared.state.allocate(request, ids, answer);
        Ok(())
    }

    /// Frees the devices of a pod that was rejected.
    pub(crate) async fn free(&self, uid: &str) {
        let freed = self.0.shared.lock().state.free(uid);
        if freed {
            self.save_or_warn().await;
        }
    }

    /// Frees the devices of pods that have ended, or that are deleted and of which no container runs.
    pub(super) async fn free_ended_pods(&self) {
        let deps = &self.0.deps;
        if !deps.pods_complete.now() {
            return;
        }
        let mut ended = self.with_state(DeviceState::pods);
        let known = (&deps.client, &deps.pods);
        let Ok(active) = known_pods(known, &ended, |pod| !specs::is_terminal(pod)).await else {
            return;
        };
        ended.retain(|uid| !active.contains(uid));
        if ended.is_empty() || !deps.pods_complete.now() {
            return;
        }
        let Ok(containers) = deps.runtime.containers(None).await else {
            return;
        };
        let exited = cri::ContainerState::ContainerExited as i32;
        for container in containers.iter().filter(|one| one.state != exited) {
            if let Some(uid) = container.labels.get(names::POD_UID) {
                ended.remove(uid);
            }
        }
        let mut shared = self.0.shared.lock();
        for uid in &ended {
            shared.state.free(uid);
        }
    }

    /// Adds a plugin, or replaces the last one of this resource. Returns the number of the registration, and a token that is
    /// cancelled when another registration replaces it.
    pub(super) fn connect(
        &self,
        resource: &str,
        plugin: Plugin,
    ) -> Result<(u64, CancellationToken), Status> {
        let shared = &mut *self.0.shared.lock();
        let number = shared.last_number.wrapping_add(1);
        if !shared.state.connect(resource, number) {
            return Err(Status::resource_exhausted(
                "too many device plugins: remove some of this node",
            ));
        }
        shared.last_number = number;
        let replaced = CancellationToken::new();
        let connection = Connection {
            plugin,
            replaced: replaced.clone(),
        };
        if let Some(last) = shared.plugins.insert(resource.to_owned(), connection) {
            last.replaced.cancel();
        }
        Ok((number, replaced))
    }

    /// Sets the devices of a plugin.
    pub(super) async fn update(
        &self,
        resource: &str,
        number: u64,
        devices: BTreeMap<String, Device>,
    ) {
        let changed = self.0.shared.lock().state.update(resource, number, devices);
        self.publish(changed).await;
    }

    /// Marks the devices of a plugin as unhealthy.
    pub(super) async fn disconnect(&self, resource: &str, number: u64) {
        let changed = self.0.shared.lock().state.disconnect(resource, number);
        self.publish(changed).await;
    }

    /// Removes the resource of a plugin that has not come back, see [`DeviceState::remove`].
    pub(super) async fn remove(&self, resource: &str, number: Option<u64>) {
        let removed = {
            let shared = &mut *self.0.shared.lock();
            let removed = shared.state.remove(resource, number);
            if removed {
                shared.plugins.remove(resource);
            }
            removed
        };
        self.publish(removed).await;
    }

    async fn publish(&self, changed: bool) {
        if changed {
            self.save_or_warn().await;
            self.0.changed.send_replace(self.counts());
        }
    }

    async fn save_or_warn(&self) {
        if let Err(error) = self.save().await {
            tracing::warn!(%error, "failed to save the checkpoint of devices; saving again with the next change");
        }
    }

    /// Writes the checkpoint.
    async fn save(&self) -> Result<(), AllocateError> {
        let _guard = self.0.writing.lock().await;
        let path = self.directory().join(checkpoint::FILE_NAME);
        let bytes = self.with_state(|state| state.checkpoint().to_bytes());
        let written = componentbase::spawn_blocking(move || match bytes {
            Ok(bytes) => {
                replace_file(&path, &bytes, CHECKPOINT_MODE).map_err(|error| error.to_string())
            }
            Err(error) => Err(with_causes(&error)),
        });
        let written = written.await.unwrap_or_else(|error| Err(error.to_string()));
        written.map_err(|error| {
            let name = checkpoint::FILE_NAME;
            AllocateError::Refused(format!("failed to write checkpoint file {name:?}: {error}"))
        })
    }
}

/// Formats the error of a call as Go does, which programs and people recognise.
fn go_error(status: &Status) -> String {
    format!(
        "rpc error: code = {:?} desc = {}",
        status.code(),
        status.message()
    )
}
