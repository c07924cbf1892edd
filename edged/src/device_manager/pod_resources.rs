//! The pod-resources API, on `pod-resources/kubelet.sock` below the kubelet's root: monitoring agents ask it which container uses
//! which device.
//!
//! Source: the kubelet, `pkg/kubelet/apis/podresources`.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use clock::Instant;
use k8s_openapi::api::core::v1::{Container, Pod};
use limits::Rate;
use parking_lot::Mutex;
use tonic::{Request, Response, Status, service::Routes};
use wire::pod_resources::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices,
    ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse, NumaNode, PodResources, TopologyInfo,
    pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer},
};

use super::{manager::DeviceManager, state::NO_NUMA_NODE};
use crate::specs;

/// The quota of all clients together, the kubelet's: requests per second, and at once.
const REQUESTS_PER_SECOND: u32 = 100;
const BURST: u32 = 10;
/// The largest request, bytes: it contains at most the name of a pod.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Mode of the directory, the kubelet's.
const DIRECTORY_MODE: u32 = 0o750;

/// The service.
struct Lister {
    manager: DeviceManager,
    rate: Mutex<Rate>,
}

/// Returns the service.
pub(super) fn routes(manager: DeviceManager) -> Routes {
    let rate = Mutex::new(Rate::new(REQUESTS_PER_SECOND, BURST, Instant::now()));
    Routes::new(
        PodResourcesListerServer::new(Lister { manager, rate })
            .max_decoding_message_size(MAX_REQUEST_BYTES),
    )
}

/// Creates the directory of this socket.
pub(super) fn prepare_directory(socket: &Path) -> io::Result<()> {
    let directory = socket.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(DIRECTORY_MODE))
}

#[tonic::async_trait]
impl PodResourcesLister for Lister {
    async fn list(
        &self,
        _request: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        self.check_quota()?;
        self.manager.free_ended_pods().await;
        let pods = self.manager.all_pods();
        let pod_resources = pods.iter().map(|pod| self.pod(pod)).collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _request: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        self.check_quota()?;
        let devices = self.manager.with_state(|state| {
            let healthy = state.healthy_devices();
            healthy
                .flat_map(|(resource, id, device)| {
                    let nodes = match device.numa_nodes.as_slice() {
                        [] => &[NO_NUMA_NODE],
                        nodes => nodes,
                    };
                    nodes.iter().map(move |node| device_on(resource, id, *node))
                })
                .collect()
        });
        Ok(Response::new(AllocatableResourcesResponse {
            devices,
            ..Default::default()
        }))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        self.check_quota()?;
        let GetPodResourcesRequest {
            pod_name,
            pod_namespace,
        } = request.into_inner();
        let pods = self.manager.all_pods();
        let pod = pods.iter().find(|pod| {
            pod.metadata.name.as_deref() == Some(&pod_name)
                && pod.metadata.namespace.as_deref() == Some(&pod_namespace)
        });
        let Some(pod) = pod else {
            return Err(Status::not_found(format!(
                "pod {pod_name} in namespace {pod_namespace} not found"
            )));
        };
        Ok(Response::new(GetPodResourcesResponse {
            pod_resources: Some(self.pod(pod)),
        }))
    }
}

impl Lister {
    fn check_quota(&self) -> Result<(), Status> {
        if self.rate.lock().take(Instant::now()) {
            Ok(())
        } else {
            Err(Status::resource_exhausted("rejected by rate limit"))
        }
    }

    fn pod(&self, pod: &Pod) -> PodResources {
        let spec = pod.spec.iter();
        let sidecars = spec
            .clone()
            .flat_map(|spec| spec.init_containers.iter().flatten())
            .filter(|container| specs::is_sidecar(container));
        let containers = sidecars.chain(spec.flat_map(|spec| &spec.containers));
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        PodResources {
            name: pod.metadata.name.clone().unwrap_or_default(),
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            containers: containers
                .map(|container| self.container(uid, container))
                .collect(),
        }
    }

    fn container(&self, uid: &str, container: &Container) -> ContainerResources {
        let devices = self.manager.with_state(|state| {
            let mut devices = Vec::new();
            for (resource, used) in state.container(uid, &container.name).into_iter().flatten() {
                for (node, ids) in &used.devices {
                    devices.extend(ids.iter().map(|id| device_on(resource, id, *node)));
                }
            }
            devices
        });
        ContainerResources {
            name: container.name.clone(),
            devices,
            ..Default::default()
        }
    }
}

/// Returns a device on one of its NUMA nodes.
fn device_on(resource: &str, id: &str, node: i64) -> ContainerDevices {
    ContainerDevices {
        resource_name: resource.to_owned(),
        device_ids: vec![id.to_owned()],
        topology: (node != NO_NUMA_NODE).then(|| TopologyInfo {
            nodes: vec![NumaNode { id: node }],
        }),
    }
}
