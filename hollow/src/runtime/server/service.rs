//! `RuntimeService`: unpacks each call, delegates it, and packs the answer.

use std::pin::Pin;

use futures::{Stream, StreamExt, stream};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, metadata::MetadataValue};
use wire::cri::{self, runtime_service_server::RuntimeService};

use super::{super::state::PodCidr, Reply, Service};

type Events = Pin<Box<dyn Stream<Item = Result<cri::ContainerEventResponse, Status>> + Send>>;

fn ready(kind: &str) -> cri::RuntimeCondition {
    cri::RuntimeCondition {
        r#type: kind.into(),
        status: true,
        ..Default::default()
    }
}

#[tonic::async_trait]
impl RuntimeService for Service {
    async fn version(&self, _: Request<cri::VersionRequest>) -> Reply<cri::VersionResponse> {
        Ok(Response::new(cri::VersionResponse {
            // The kubelet's version of this interface, which containerd repeats.
            version: "0.1.0".into(),
            runtime_name: self.core.options.name.clone(),
            runtime_version: self.core.options.version.clone(),
            runtime_api_version: "v1".into(),
        }))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<cri::RunPodSandboxRequest>,
    ) -> Reply<cri::RunPodSandboxResponse> {
        let pod_sandbox_id = self.run_sandbox(request.into_inner()).await?;
        Ok(Response::new(cri::RunPodSandboxResponse { pod_sandbox_id }))
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<cri::StopPodSandboxRequest>,
    ) -> Reply<cri::StopPodSandboxResponse> {
        self.core
            .change(|state, now| state.stop_sandbox(&request.get_ref().pod_sandbox_id, now));
        Ok(Response::new(cri::StopPodSandboxResponse {}))
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<cri::RemovePodSandboxRequest>,
    ) -> Reply<cri::RemovePodSandboxResponse> {
        self.core
            .change(|state, now| state.remove_sandbox(&request.get_ref().pod_sandbox_id, now));
        Ok(Response::new(cri::RemovePodSandboxResponse {}))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<cri::PodSandboxStatusRequest>,
    ) -> Reply<cri::PodSandboxStatusResponse> {
        Ok(Response::new(
            self.sandbox_status(&request.get_ref().pod_sandbox_id)?,
        ))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<cri::ListPodSandboxRequest>,
    ) -> Reply<cri::ListPodSandboxResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let items = self.core.read(|state| state.list_sandboxes(&filter));
        Ok(Response::new(cri::ListPodSandboxResponse { items }))
    }

    async fn create_container(
        &self,
        request: Request<cri::CreateContainerRequest>,
    ) -> Reply<cri::CreateContainerResponse> {
        let container_id = self.create(request.into_inner())?;
        Ok(Response::new(cri::CreateContainerResponse { container_id }))
    }

    async fn start_container(
        &self,
        request: Request<cri::StartContainerRequest>,
    ) -> Reply<cri::StartContainerResponse> {
        let warning = self.start(&request.get_ref().container_id).await?;
        let mut response = Response::new(cri::StartContainerResponse {});
        if let Some(warning) = warning {
            response
                .metadata_mut()
                .append_bin(cri::WARNING, MetadataValue::from_bytes(warning.as_bytes()));
        }
        Ok(response)
    }

    async fn stop_container(
        &self,
        request: Request<cri::StopContainerRequest>,
    ) -> Reply<cri::StopContainerResponse> {
        let request = request.into_inner();
        self.stop(&request.container_id, request.timeout).await?;
        Ok(Response::new(cri::StopContainerResponse {}))
    }

    async fn remove_container(
        &self,
        request: Request<cri::RemoveContainerRequest>,
    ) -> Reply<cri::RemoveContainerResponse> {
        self.core
            .change(|state, now| state.remove_container(&request.get_ref().container_id, now));
        Ok(Response::new(cri::RemoveContainerResponse {}))
    }

    async fn list_containers(
        &self,
        request: Request<cri::ListContainersRequest>,
    ) -> Reply<cri::ListContainersResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let containers = self.core.read(|state| state.list_containers(&filter));
        Ok(Response::new(cri::ListContainersResponse { containers }))
    }

    async fn container_status(
        &self,
        request: Request<cri::ContainerStatusRequest>,
    ) -> Reply<cri::ContainerStatusResponse> {
        let id = &request.get_ref().container_id;
        let status = self
            .core
            .read(|state| state.container(id).map(|container| container.status()))?;
        Ok(Response::new(cri::ContainerStatusResponse {
            status: Some(status),
            ..Default::default()
        }))
    }

    async fn update_container_resources(
        &self,
        request: Request<cri::UpdateContainerResourcesRequest>,
    ) -> Reply<cri::UpdateContainerResourcesResponse> {
        let request = request.into_inner();
        let resources = request
            .linux
            .ok_or_else(|| Status::invalid_argument("linux is missing"))?;
        self.core
            .change(|state, _| state.update_resources(&request.container_id, resources))?;
        Ok(Response::new(cri::UpdateContainerResourcesResponse {}))
    }

    async fn reopen_container_log(
        &self,
        request: Request<cri::ReopenContainerLogRequest>,
    ) -> Reply<cri::ReopenContainerLogResponse> {
        self.reopen_log(&request.get_ref().container_id).await?;
        Ok(Response::new(cri::ReopenContainerLogResponse {}))
    }

    async fn exec_sync(
        &self,
        request: Request<cri::ExecSyncRequest>,
    ) -> Reply<cri::ExecSyncResponse> {
        Ok(Response::new(self.run_command(request.into_inner()).await?))
    }

    async fn exec(&self, request: Request<cri::ExecRequest>) -> Reply<cri::ExecResponse> {
        Ok(Response::new(cri::ExecResponse {
            url: self.exec_url(request.into_inner())?,
        }))
    }

    async fn attach(&self, request: Request<cri::AttachRequest>) -> Reply<cri::AttachResponse> {
        Ok(Response::new(cri::AttachResponse {
            url: self.attach_url(request.into_inner())?,
        }))
    }

    async fn port_forward(
        &self,
        request: Request<cri::PortForwardRequest>,
    ) -> Reply<cri::PortForwardResponse> {
        Ok(Response::new(cri::PortForwardResponse {
            url: self.ports_url(request.into_inner())?,
        }))
    }

    async fn container_stats(
        &self,
        request: Request<cri::ContainerStatsRequest>,
    ) -> Reply<cri::ContainerStatsResponse> {
        let id = &request.get_ref().container_id;
        let stats = self
            .core
            .with_state(|state, now| state.container(id).map(|container| container.stats(now)))?;
        Ok(Response::new(cri::ContainerStatsResponse {
            stats: Some(stats),
        }))
    }

    async fn list_container_stats(
        &self,
        request: Request<cri::ListContainerStatsRequest>,
    ) -> Reply<cri::ListContainerStatsResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let stats = self
            .core
            .with_state(|state, now| state.container_stats(&filter, now));
        Ok(Response::new(cri::ListContainerStatsResponse { stats }))
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<cri::PodSandboxStatsRequest>,
    ) -> Reply<cri::PodSandboxStatsResponse> {
        let stats = Some(self.sandbox_stats(&request.get_ref().pod_sandbox_id)?);
        Ok(Response::new(cri::PodSandboxStatsResponse { stats }))
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<cri::ListPodSandboxStatsRequest>,
    ) -> Reply<cri::ListPodSandboxStatsResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let stats = self
            .core
            .with_state(|state, now| state.sandbox_stats(&filter, now));
        Ok(Response::new(cri::ListPodSandboxStatsResponse { stats }))
    }

    async fn update_runtime_config(
        &self,
        request: Request<cri::UpdateRuntimeConfigRequest>,
    ) -> Reply<cri::UpdateRuntimeConfigResponse> {
        let network = request
            .into_inner()
            .runtime_config
            .and_then(|config| config.network_config);
        let ranges = network.map(|network| network.pod_cidr).unwrap_or_default();
        // There is one range for each address family; simulated pods use the first IPv4 range.
        let range = ranges
            .split(',')
            .find(|range| !range.is_empty() && !range.contains(':'));
        if let Some(range) = range {
            let range = range
                .parse::<PodCidr>()
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            self.core.change(|state, _| state.set_pod_cidr(range));
        }
        Ok(Response::new(cri::UpdateRuntimeConfigResponse {}))
    }

    async fn status(&self, _: Request<cri::StatusRequest>) -> Reply<cri::StatusResponse> {
        let conditions = vec![ready("RuntimeReady"), ready("NetworkReady")];
        let status = Some(cri::RuntimeStatus { conditions });
        Ok(Response::new(cri::StatusResponse {
            status,
            ..Default::default()
        }))
    }

    type GetContainerEventsStream = Events;

    async fn get_container_events(&self, _: Request<cri::GetEventsRequest>) -> Reply<Events> {
        let cut = Status::resource_exhausted(
            "the reader was too slow for its events: list again and read anew",
        );
        let events = ReceiverStream::new(self.core.subscribe())
            .map(|event| Ok(*event))
            .chain(stream::iter([Err(cut)]));
        let end = self.end_of_streams.clone().cancelled_owned();
        Ok(Response::new(Box::pin(events.take_until(end))))
    }

    async fn runtime_config(
        &self,
        _: Request<cri::RuntimeConfigRequest>,
    ) -> Reply<cri::RuntimeConfigResponse> {
        // A kubelet prefers this to its own configuration. There are no cgroups here: this choice needs no systemd.
        let linux = cri::LinuxRuntimeConfiguration {
            cgroup_driver: cri::CgroupDriver::Cgroupfs.into(),
        };
        Ok(Response::new(cri::RuntimeConfigResponse {
            linux: Some(linux),
        }))
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<cri::UpdatePodSandboxResourcesRequest>,
    ) -> Reply<cri::UpdatePodSandboxResourcesResponse> {
        // There are no limits to change, but the sandbox must exist.
        self.core
            .read(|state| state.sandbox(&request.get_ref().pod_sandbox_id).map(|_| ()))?;
        Ok(Response::new(cri::UpdatePodSandboxResourcesResponse {}))
    }
}
