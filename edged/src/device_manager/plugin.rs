//! The client of one plugin. Each call has a time limit; the list of devices is followed until the connection ends.

use std::{path::Path, time::Duration};

use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time::timeout};
use tonic::{
    Response, Status, Streaming,
    transport::{Channel, Endpoint},
};
use tower::service_fn;
use wire::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse,
    ContainerPreferredAllocationRequest, Empty, ListAndWatchResponse, PreStartContainerRequest,
    PreferredAllocationRequest, device_plugin_client::DevicePluginClient,
};

use super::state::Candidates;

/// How long the connection may take; the kubelet's limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a plugin may take for one call: the kubelet's limit of `PreStartContainer`. The kubelet has none for other calls, so a
/// plugin that hangs blocks all pods there.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The client of one plugin. Cheap to clone.
#[derive(Clone)]
pub(super) struct Plugin {
    service: DevicePluginClient<Channel>,
    prefers: bool,
    prepares: bool,
}

impl Plugin {
    /// Connects to the plugin and reads its options.
    pub(super) async fn connect(socket: &Path) -> Result<Self, Status> {
        let path = socket.to_owned();
        let connector = service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        // the name is used for the HTTP/2 header only
        let endpoint = Endpoint::from_static("http://localhost");
        let connecting = endpoint.connect_with_connector(connector);
        let channel = match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => {
                let error = wire::text::with_causes(&error);
                return Err(Status::unavailable(format!(
                    "failed to dial device plugin: {error}"
                )));
            }
            Err(_) => return Err(Status::deadline_exceeded("failed to dial device plugin")),
        };
        let mut service = DevicePluginClient::new(channel);
        let options = call(service.get_device_plugin_options(Empty {})).await?;
        Ok(Self {
            service,
            prefers: options.get_preferred_allocation_available,
            prepares: options.pre_start_required,
        })
    }

    /// Returns the lists of devices, the current one first.
    pub(super) async fn list_and_watch(&self) -> Result<Streaming<ListAndWatchResponse>, Status> {
        let lists = self.service.clone().list_and_watch(Empty {}).await?;
        Ok(lists.into_inner())
    }

    /// Returns the devices that the plugin prefers; none if it has no preference.
    pub(super) async fn preferred_devices(
        &self,
        candidates: &Candidates,
    ) -> Result<Vec<String>, Status> {
        let Candidates {
            reused,
            available,
            missing,
        } = candidates;
        if !self.prefers || *missing == 0 {
            return Ok(Vec::new());
        }
        let size = reused.len().saturating_add(*missing);
        let request = ContainerPreferredAllocationRequest {
            available_device_ids: available.iter().chain(reused).cloned().collect(),
            must_include_device_ids: reused.clone(),
            allocation_size: i32::try_from(size).unwrap_or(i32::MAX),
        };
        let request = PreferredAllocationRequest {
            container_requests: vec![request],
        };
        let answer = call(self.service.clone().get_preferred_allocation(request)).await?;
        let first = answer.container_responses.into_iter().next();
        Ok(first.map(|first| first.device_ids).unwrap_or_default())
    }

    /// Returns what a container needs to use these devices; `None` if the plugin's answer is empty.
    pub(super) async fn allocate(
        &self,
        ids: &[String],
    ) -> Result<Option<ContainerAllocateResponse>, Status> {
        let request = ContainerAllocateRequest {
            devices_ids: ids.to_owned(),
        };
        let request = AllocateRequest {
            container_requests: vec![request],
        };
        let answer = call(self.service.clone().allocate(request)).await?;
        Ok(answer.container_responses.into_iter().next())
    }

    /// Lets the plugin prepare the devices for a container that is about to start, if it wants to.
    pub(super) async fn pre_start(&self, ids: Vec<String>) -> Result<(), Status> {
        if !self.prepares {
            return Ok(());
        }
        let request = PreStartContainerRequest { devices_ids: ids };
        call(self.service.clone().pre_start_container(request))
            .await
            .map(drop)
    }
}

/// Waits for the answer to a call, but not for too long.
async fn call<T>(call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Status> {
    match timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!(
            "the device plugin did not answer within {} s",
            CALL_TIMEOUT.as_secs()
        ))),
    }
}
