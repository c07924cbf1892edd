//! Which devices there are and which containers use them. Pure.
//!
//! Source: the kubelet, `pkg/kubelet/cm/devicemanager/manager.go` and `pod_devices.go`; the texts of errors are the kubelet's.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::{Container, Pod};
use kubeapi::object::quantity;
use wire::device_plugin::{ContainerAllocateResponse, Message};

use super::checkpoint;
use crate::specs;

/// Maximum number of resources with a plugin.
const MAX_RESOURCES: usize = 256;
/// The key of devices without a NUMA node.
pub(super) const NO_NUMA_NODE: i64 = -1;

/// Devices and their users.
#[derive(Default)]
pub(super) struct DeviceState {
    resources: BTreeMap<String, Resource>,
    /// By uid of the pod, name of the container, resource.
    allocations: BTreeMap<String, BTreeMap<String, BTreeMap<String, Allocation>>>,
    /// Resources whose plugin has been away for too long. The Node reports 0 of them.
    removed: BTreeSet<String>,
}

/// The devices of a plugin.
struct Resource {
    devices: BTreeMap<String, Device>,
    endpoint: Endpoint,
}

/// A device as its plugin reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// Whether containers may use it.
    pub(super) is_healthy: bool,
    /// The NUMA nodes that it is close to.
    pub(super) numa_nodes: Vec<i64>,
}

/// The connection to a plugin. Each registration of a plugin has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    /// The plugin is connected. Becomes `Stopped` when the connection ends.
    Connected(u64),
    /// The connection has ended: the devices are unhealthy. Becomes `Connected` when the plugin registers again; otherwise the
    /// resource is removed after a grace period.
    Stopped(u64),
    /// Known from the checkpoint: the plugin has not registered yet since the start. Continues as `Stopped` does.
    Awaited,
}

/// The devices of one resource that a container uses.
#[derive(Clone)]
pub(super) struct Allocation {
    /// Their ids by NUMA node, [`NO_NUMA_NODE`] for those without.
    pub(super) devices: BTreeMap<i64, Vec<String>>,
    /// The plugin's answer.
    pub(super) answer: ContainerAllocateResponse,
}

impl Allocation {
    fn ids(&self) -> impl Iterator<Item = &String> {
        self.devices.values().flatten()
    }
}

/// The numbers of devices that the Node reports, by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCounts {
    /// All devices.
    pub(crate) capacity: BTreeMap<String, i64>,
    /// The healthy ones.
    pub(crate) allocatable: BTreeMap<String, i64>,
}

/// A container and one resource that it requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) pod: &'a Pod,
    pub(super) container: &'a str,
    pub(super) resource: &'a str,
    pub(super) count: usize,
}

/// The devices from which an allocation is chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidates {
    /// Devices of earlier init containers of the pod, which are all taken.
    pub(super) reused: Vec<String>,
    /// Free devices.
    pub(super) available: BTreeSet<String>,
    /// How many of the free devices are needed.
    pub(super) missing: usize,
}

impl Candidates {
    /// Returns the chosen devices: those that the plugin prefers first.
    pub(super) fn choose(self, preferred: &[String]) -> Vec<String> {
        let Self {
            reused,
            available,
            missing,
        } = self;
        let preferred: BTreeSet<_> = preferred
            .iter()
            .filter(|id| available.contains(*id))
            .collect();
        let others = available.iter().filter(|id| !preferred.contains(id));
        let free = preferred.iter().copied().chain(others).take(missing);
        reused.into_iter().chain(free.cloned()).collect()
    }
}

/// Why a container gets no devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AllocateError {
    /// The plugin has not registered since the agent started.
    #[error("the device plugin of {0} has not registered yet")]
    Awaited(String),
    /// There are too few devices, or the plugin refuses.
    #[error("{0}")]
    Refused(String),
}

fn refuse<T>(why: impl Into<String>) -> Result<T, AllocateError> {
    Err(AllocateError::Refused(why.into()))
}

impl DeviceState {
    /// Restores users and resources from the kubelet's checkpoint. Users with an unreadable answer are returned.
    pub(super) fn restore(data: checkpoint::Data) -> (Self, Vec<String>) {
        let (mut state, mut unreadable) = (Self::default(), Vec::new());
        for resource in data.registered_devices.into_iter().flatten() {
            let awaited = Resource {
                devices: BTreeMap::new(),
                endpoint: Endpoint::Awaited,
            };
            state.resources.insert(resource.0, awaited);
        }
        for entry in data.pod_device_entries.into_iter().flatten() {
            let answer = entry.alloc_resp.as_deref().unwrap_or_default();
            let answer = STANDARD
                .decode(answer)
                .ok()
                .and_then(|bytes| ContainerAllocateResponse::decode(&bytes[..]).ok());
            let Some(answer) = answer else {
                unreadable.push(format!("{}/{}", entry.pod_uid, entry.container_name));
                continue;
            };
            let devices = entry.device_ids.into_iter().flatten();
            let devices = devices.map(|(node, ids)| (node, ids.unwrap_or_default()));
            let allocation = Allocation {
                devices: devices.collect(),
                answer,
            };
            let pod = state.allocations.entry(entry.pod_uid).or_default();
            pod.entry(entry.container_name)
                .or_default()
                .insert(entry.resource_name, allocation);
        }
        (state, unreadable)
    }

    /// Returns the content of the checkpoint.
    pub(super) fn checkpoint(&self) -> checkpoint::Data {
        let mut entries = Vec::new();
        for (pod_uid, containers) in &self.allocations {
            for (container_name, resources) in containers {
                for (resource_name, allocation) in resources {
                    let ids = allocation.devices.iter();
                    entries.push(checkpoint::Entry {
                        pod_uid: pod_uid.clone(),
                        container_name: container_name.clone(),
                        resource_name: resource_name.clone(),
                        device_ids: Some(
                            ids.map(|(node, ids)| (*node, Some(ids.clone()))).collect(),
                        ),
                        alloc_resp: Some(STANDARD.encode(allocation.answer.encode_to_vec())),
                    });
                }
            }
        }
        let healthy = |resource: &Resource| resource.healthy().cloned().collect();
        let registered = self
            .resources
            .iter()
            .map(|(name, resource)| (name.clone(), Some(healthy(resource))));
        checkpoint::Data {
            pod_device_entries: (!entries.is_empty()).then_some(entries),
            registered_devices: Some(registered.collect()),
        }
    }

    /// Adds a plugin, or replaces an earlier one of the same resource. Returns false if there are too many.
    pub(super) fn connect(&mut self, resource: &str, number: u64) -> bool {
        if !self.resources.contains_key(resource) && self.resources.len() >= MAX_RESOURCES {
            return false;
        }
        let known = self
            .resources
            .entry(resource.to_owned())
            .or_insert(Resource {
                devices: BTreeMap::new(),
                endpoint: Endpoint::Awaited,
            });
        known.endpoint = Endpoint::Connected(number);
        self.removed.remove(resource);
        true
    }

    /// Sets the devices of a plugin, unless another one has replaced it. Returns whether anything has changed.
    pub(super) fn update(
        &mut self,
        resource: &str,
        number: u64,
        devices: BTreeMap<String, Device>,
    ) -> bool {
        let known = self.resources.get_mut(resource);
        match known.filter(|known| known.endpoint == Endpoint::Connected(number)) {
            Some(known) if known.devices != devices => {
                known.devices = devices;
                true
            }
            _ => false,
        }
    }

    /// Marks all devices of a plugin as unhealthy, unless another one has replaced it. Returns whether that was done.
    pub(super) fn disconnect(&mut self, resource: &str, number: u64) -> bool {
        let known = self.resources.get_mut(resource);
        let Some(known) = known.filter(|known| known.endpoint == Endpoint::Connected(number))
        else {
            return false;
        };
        known.endpoint = Endpoint::Stopped(number);
        for device in known.devices.values_mut() {
            device.is_healthy = false;
        }
        true
    }

    /// Removes the resource of a plugin that has not come back since it was disconnected, or since the start if `number` is `None`.
    /// Returns whether it was removed.
    pub(super) fn remove(&mut self, resource: &str, number: Option<u64>) -> bool {
        let endpoint = number.map_or(Endpoint::Awaited, Endpoint::Stopped);
        let is_away = self
            .resources
            .get(resource)
            .is_some_and(|known| known.endpoint == endpoint);
        if is_away {
            self.resources.remove(resource);
            self.removed.insert(resource.to_owned());
        }
        is_away
    }

    /// Returns the resources whose plugins have not registered since the start.
    pub(super) fn awaited_resources(&self) -> Vec<String> {
        let awaited = |known: &Resource| known.endpoint == Endpoint::Awaited;
        let all = self.resources.iter().filter(|(_, known)| awaited(known));
        all.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the numbers of devices that the Node reports.
    pub(super) fn counts(&self) -> DeviceCounts {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let mut counts = DeviceCounts::default();
        for name in &self.removed {
            counts.capacity.insert(name.clone(), 0);
            counts.allocatable.insert(name.clone(), 0);
        }
        for (name, known) in &self.resources {
            counts
                .capacity
                .insert(name.clone(), count(known.devices.len()));
            counts
                .allocatable
                .insert(name.clone(), count(known.healthy().count()));
        }
        counts
    }

    /// Returns the healthy devices by resource.
    pub(super) fn healthy_devices(&self) -> impl Iterator<Item = (&str, &str, &Device)> {
        self.resources.iter().flat_map(|(name, known)| {
            let healthy = known.devices.iter().filter(|(_, device)| device.is_healthy);
            healthy.map(|(id, device)| (name.as_str(), id.as_str(), device))
        })
    }

    /// Returns the devices of plugins that the container requests, except those that it has.
    pub(super) fn missing_requests<'a>(
        &self,
        pod: &'a Pod,
        container: &'a Container,
    ) -> Vec<Request<'a>> {
        self.requests(pod, container)
            .filter(|request| self.allocation(request).is_none())
            .collect()
    }

    /// Returns the devices of plugins that the container requests.
    pub(super) fn requests<'a>(
        &self,
        pod: &'a Pod,
        container: &'a Container,
    ) -> impl Iterator<Item = Request<'a>> {
        let limits = container.resources.iter().flat_map(|all| &all.limits);
        limits.flatten().filter_map(|(resource, limit)| {
            let count = quantity::positive(limit)?;
            self.is_managed(resource).then_some(Request {
                pod,
                container: &container.name,
                resource,
                count: usize::try_from(count).unwrap_or(usize::MAX),
            })
        })
    }

    /// Reports whether a plugin has the resource, or a container uses one of its devices.
    pub(super) fn is_managed(&self, resource: &str) -> bool {
        let used = || {
            self.all_allocations()
                .any(|(_, _, name, _)| name == resource)
        };
        self.resources.contains_key(resource) || used()
    }

    /// Returns the devices from which a request is satisfied.
    pub(super) fn candidates(&self, request: &Request<'_>) -> Result<Candidates, AllocateError> {
        let Request {
            resource, count, ..
        } = *request;
        let Some(known) = self.resources.get(resource) else {
            return refuse(format!("cannot allocate unregistered device {resource}"));
        };
        if known.endpoint == Endpoint::Awaited {
            return Err(AllocateError::Awaited(resource.to_owned()));
        }
        let healthy: BTreeSet<_> = known.healthy().cloned().collect();
        if healthy.is_empty() {
            return refuse(format!(
                "no healthy devices present; cannot allocate unhealthy devices {resource}"
            ));
        }
        let reused = self.reusable(request).into_iter();
        let reused: Vec<_> = reused
            .filter(|id| healthy.contains(id))
            .take(count)
            .collect();
        let used: BTreeSet<_> = self
            .all_allocations()
            .filter(|(_, _, name, _)| *name == resource)
            .flat_map(|(_, _, _, allocation)| allocation.ids().cloned())
            .collect();
        let available: BTreeSet<_> = healthy.difference(&used).cloned().collect();
        let missing = count - reused.len();
        if available.len() < missing {
            return refuse(format!(
                "requested number of devices unavailable for {resource}. Requested: {missing}, Available: {}",
                available.len()
            ));
        }
        Ok(Candidates {
            reused,
            available,
            missing,
        })
    }

    /// Returns the devices of the pod's init containers that no sidecar or app container uses. Init containers have ended when
    /// those that come later run.
    fn reusable(&self, request: &Request<'_>) -> BTreeSet<String> {
        let uid = request.pod.metadata.uid.as_deref().unwrap_or_default();
        let inits = request.pod.spec.iter();
        let inits: BTreeSet<_> = inits
            .flat_map(|spec| spec.init_containers.iter().flatten())
            .filter(|container| !specs::is_sidecar(container))
            .map(|container| container.name.as_str())
            .collect();
        let (mut of_inits, mut of_others) = (BTreeSet::new(), BTreeSet::new());
        for (name, resources) in self.allocations.get(uid).into_iter().flatten() {
            let ids = resources.get(request.resource).into_iter();
            let ids = ids.flat_map(Allocation::ids).cloned();
            if inits.contains(name.as_str()) {
                of_inits.extend(ids);
            } else {
                of_others.extend(ids);
            }
        }
        of_inits.difference(&of_others).cloned().collect()
    }

    /// Stores that the container uses these devices.
    pub(super) fn allocate(
        &mut self,
        request: &Request<'_>,
        ids: Vec<String>,
        answer: ContainerAllocateResponse,
    ) {
        let mut devices = BTreeMap::<i64, Vec<String>>::new();
        let known = self.resources.get(request.resource);
        for id in ids {
            let nodes = known.and_then(|known| known.devices.get(&id));
            let nodes = nodes.map(|device| device.numa_nodes.clone());
            let nodes = nodes.filter(|nodes| !nodes.is_empty());
            for node in nodes.unwrap_or_else(|| vec![NO_NUMA_NODE]) {
                devices.entry(node).or_default().push(id.clone());
            }
        }
        let uid = request.pod.metadata.uid.clone().unwrap_or_default();
        let pod = self.allocations.entry(uid).or_default();
        pod.entry(request.container.to_owned())
            .or_default()
            .insert(request.resource.to_owned(), Allocation { devices, answer });
    }

    /// Returns the devices that satisfy a request, if it is satisfied.
    pub(super) fn allocation(&self, request: &Request<'_>) -> Option<&Allocation> {
        let uid = request.pod.metadata.uid.as_deref().unwrap_or_default();
        self.container(uid, request.container)?
            .get(request.resource)
    }

    /// Returns the devices of a container by resource.
    pub(super) fn container(
        &self,
        uid: &str,
        container: &str,
    ) -> Option<&BTreeMap<String, Allocation>> {
        self.allocations.get(uid)?.get(container)
    }

    /// Returns the registration number of the resource's plugin.
    pub(super) fn plugin(&self, resource: &str) -> Result<u64, AllocateError> {
        match self.resources.get(resource).map(|known| known.endpoint) {
            Some(Endpoint::Connected(number)) => Ok(number),
            Some(Endpoint::Awaited) => Err(AllocateError::Awaited(resource.to_owned())),
            Some(Endpoint::Stopped(_)) => refuse(format!("endpoint {resource} has been stopped")),
            None => refuse(format!(
                "endpoint not found in cache for a registered resource: {resource}"
            )),
        }
    }

    /// Returns the uids of the pods that use devices.
    pub(super) fn pods(&self) -> BTreeSet<String> {
        self.allocations.keys().cloned().collect()
    }

    /// Frees the devices of a pod. Returns whether it had any.
    pub(super) fn free(&mut self, uid: &str) -> bool {
        self.allocations.remove(uid).is_some()
    }

    fn all_allocations(&self) -> impl Iterator<Item = (&str, &str, &str, &Allocation)> {
        self.allocations.iter().flat_map(|(uid, containers)| {
            containers.iter().flat_map(move |(container, resources)| {
                resources.iter().map(move |(resource, allocation)| {
                    (
                        uid.as_str(),
                        container.as_str(),
                        resource.as_str(),
                        allocation,
                    )
                })
            })
        })
    }
}

impl Resource {
    fn healthy(&self) -> impl Iterator<Item = &String> {
        let healthy = self.devices.iter().filter(|(_, device)| device.is_healthy);
        healthy.map(|(id, _)| id)
    }
}
