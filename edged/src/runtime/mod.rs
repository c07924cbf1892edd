//! Client of the container runtime over CRI v1: one method for each call that EdgeD makes, each with a timeout and a maximum
//! response size.

mod call_error;
mod cni_cache;
mod driver;
mod in_flight;
mod lost_tasks;
mod maintenance;
mod metered;
mod observe;
mod pod;
mod stats;
mod streaming;
mod task_events;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use tokio_util::sync::DropGuard;
use tonic::{Status, Streaming};
use wire::{
    containerd::{events::events_client::EventsClient, tasks_client::TasksClient},
    cri::{
        self, image_service_client::ImageServiceClient,
        runtime_service_client::RuntimeServiceClient,
    },
};

pub use self::call_error::CallError;
use self::{driver::configured_driver, in_flight::InFlightCalls, metered::MeteredChannel};
use super::{
    fields::RuntimeFeature,
    metrics::Operations,
    pod_network::{MachineNetwork, PodNetwork},
    runtime_channel::RuntimeChannel,
};
use crate::settings::CgroupDriver;

/// Timeout of calls, unless noted otherwise; the kubelet's.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// The most warnings of a response that are kept, and the most characters of each: an event holds 1024.
const MAX_WARNINGS: usize = 8;
const MAX_WARNING: usize = 512;
/// Timeout of an image pull.
const PULL_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// File with an id that differs at each boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Maximum size of a response in bytes, enough for lists of a full node with all annotations.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

type Result<T> = std::result::Result<T, CallError>;

/// Client of the container runtime; clones share one connection.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    runtime: RuntimeServiceClient<MeteredChannel>,
    images: ImageServiceClient<MeteredChannel>,
    /// Task service, which only containerd has.
    tasks: TasksClient<RuntimeChannel>,
    /// Event service, which only containerd has.
    task_events: EventsClient<RuntimeChannel>,
    operations: Operations,
    calls: InFlightCalls,
    /// Id of the machine's current boot.
    boot_id: Arc<str>,
    /// How connections to its pods are made.
    network: Arc<dyn PodNetwork>,
    /// The runtime's name, once it has been requested.
    name: Arc<OnceCell<String>>,
}

/// Returns the response of a call, or an error if it does not come within `limit`. Boxed, because requests are large and many
/// futures wait for them.
fn with_timeout<'a, T: 'a>(
    call: &'static str,
    limit: Duration,
    response: impl Future<Output = std::result::Result<tonic::Response<T>, Status>> + Send + 'a,
) -> BoxFuture<'a, Result<T>> {
    let response = Box::pin(response);
    Box::pin(async move {
        match tokio::time::timeout(limit, response).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(CallError { call, status }),
            Err(_) => {
                let status =
                    Status::deadline_exceeded(format!("no answer within {} s", limit.as_secs()));
                Err(CallError { call, status })
            }
        }
    })
}

/// Returns the first warnings of a response, each cut to what an event holds.
fn warnings(metadata: &tonic::metadata::MetadataMap) -> Vec<String> {
    let texts = metadata
        .get_all_bin(cri::WARNING)
        .iter()
        .filter_map(|value| value.to_bytes().ok());
    let texts = texts.map(|bytes| {
        String::from_utf8_lossy(&bytes)
            .chars()
            .take(MAX_WARNING)
            .collect()
    });
    texts.take(MAX_WARNINGS).collect()
}

/// Treats `NotFound` as success: the object has been removed already.
fn ignore_not_found<T: Default>(result: Result<T>) -> Result<T> {
    match result {
        Err(error) if error.is_not_found() => Ok(T::default()),
        other => other,
    }
}

impl Runtime {
    /// Creates a client over `channel`, which connects when it is first used. Images may have a service of their own.
    pub(crate) fn new(channel: impl Into<RuntimeChannel>, images: Option<RuntimeChannel>) -> Self {
        let channel = channel.into();
        let operations = Operations::default();
        let images = MeteredChannel::new(
            images.unwrap_or_else(|| channel.clone()),
            operations.clone(),
        );
        let tasks = TasksClient::new(channel.clone());
        let task_events = EventsClient::new(channel.clone())
            .max_decoding_message_size(task_events::MAX_EVENT_BYTES);
        let channel = MeteredChannel::new(channel, operations.clone());
        Self {
            operations,
            tasks,
            task_events,
            calls: InFlightCalls::default(),
            boot_id: std::fs::read_to_string(BOOT_ID)
                .unwrap_or_default()
                .trim()
                .into(),
            network: Arc::new(MachineNetwork),
            name: Arc::default(),
            runtime: RuntimeServiceClient::new(channel)
                .max_decoding_message_size(MAX_RESPONSE_BYTES),
            images: ImageServiceClient::new(images).max_decoding_message_size(MAX_RESPONSE_BYTES),
        }
    }

    /// Sets how connections to pods are made, if not over this machine's network.
    pub(crate) fn with_network(mut self, network: Option<Arc<dyn PodNetwork>>) -> Self {
        if let Some(network) = network {
            self.network = network;
        }
        self
    }

    /// Returns how connections to its pods are made.
    pub(crate) fn network(&self) -> &Arc<dyn PodNetwork> {
        &self.network
    }

    /// Returns the counters of all calls.
    pub(crate) fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Returns the id of the machine's current boot, empty if the kernel does not report it.
    pub(crate) fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Waits until creations and starts in progress have ended, for a shutdown.
    pub(crate) async fn finish(&self) {
        self.calls.finish().await;
    }

    /// Returns a guard that cancels creations and starts in progress when it is dropped.
    pub(crate) fn cancel_when_dropped(&self) -> DropGuard {
        self.calls.cancel_when_dropped()
    }

    /// Returns the runtime's name and version.
    pub(crate) async fn version(&self) -> Result<cri::VersionResponse> {
        let request = cri::VersionRequest {
            version: "v1".into(),
        };
        with_timeout(
            "Version",
            CALL_TIMEOUT,
            self.runtime.clone().version(request),
        )
        .await
    }

    /// Returns the runtime's conditions and features.
    pub(crate) async fn status(&self) -> Result<cri::StatusResponse> {
        with_timeout(
            "Status",
            CALL_TIMEOUT,
            self.runtime.clone().status(cri::StatusRequest::default()),
        )
        .await
    }

    /// Returns the same with the runtime's further information.
    pub(crate) async fn verbose_status(&self) -> Result<cri::StatusResponse> {
        with_timeout(
            "Status",
            CALL_TIMEOUT,
            self.runtime
                .clone()
                .status(cri::StatusRequest { verbose: true }),
        )
        .await
    }

    /// Returns the cgroup driver: the reported one, or that of the runtime's own configuration, which containerd 1.x shows in its status.
    /// `None` if both are unknown.
    pub(crate) async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>> {
        let request = cri::RuntimeConfigRequest {};
        let response = with_timeout(
            "RuntimeConfig",
            CALL_TIMEOUT,
            self.runtime.clone().runtime_config(request),
        )
        .await;
        match response {
            Ok(response) => Ok(response.linux.map(|linux| match linux.cgroup_driver() {
                cri::CgroupDriver::Systemd => CgroupDriver::Systemd,
                cri::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
            })),
            Err(error) if error.is_unimplemented() => {
                let status = self.verbose_status().await?;
                let config = status.info.get("config").map(String::as_str);
                Ok(config.and_then(configured_driver))
            }
            Err(error) => Err(error),
        }
    }

    /// Reports whether the default handler supports a feature; false if the runtime does not answer.
    pub(crate) async fn supports(&self, feature: RuntimeFeature) -> bool {
        let response = with_timeout(
            "Status",
            CALL_TIMEOUT,
            self.runtime.clone().status(cri::StatusRequest::default()),
        )
        .await;
        let response = response.unwrap_or_default();
        match feature {
            RuntimeFeature::StrictGroups => response
                .features
                .is_some_and(|can| can.supplemental_groups_policy),
            RuntimeFeature::RecursiveReadOnly => {
                let default = response
                    .runtime_handlers
                    .into_iter()
                    .find(|handler| handler.name.is_empty());
                default
                    .and_then(|handler| handler.features)
                    .is_some_and(|can| can.recursive_read_only_mounts)
            }
        }
    }

    /// Lists sandboxes, all or those that match the filter.
    pub(crate) async fn sandboxes(
        &self,
        filter: Option<cri::PodSandboxFilter>,
    ) -> Result<Vec<cri::PodSandbox>> {
        let request = cri::ListPodSandboxRequest { filter };
        Ok(with_timeout(
            "ListPodSandbox",
            CALL_TIMEOUT,
            self.runtime.clone().list_pod_sandbox(request),
        )
        .await?
        .items)
    }

    /// Lists containers, all or those that match the filter.
    pub(crate) async fn containers(
        &self,
        filter: Option<cri::ContainerFilter>,
    ) -> Result<Vec<cri::Container>> {
        let request = cri::ListContainersRequest { filter };
        Ok(with_timeout(
            "ListContainers",
            CALL_TIMEOUT,
            self.runtime.clone().list_containers(request),
        )
        .await?
        .containers)
    }

    async fn sandbox_status(&self, id: &str) -> Result<Option<cri::PodSandboxStatus>> {
        let request = cri::PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose: false,
        };
        let response = with_timeout(
            "PodSandboxStatus",
            CALL_TIMEOUT,
            self.runtime.clone().pod_sandbox_status(request),
        )
        .await;
        Ok(ignore_not_found(response)?.status)
    }

    async fn container_status(&self, id: &str) -> Result<Option<cri::ContainerStatus>> {
        let request = cri::ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose: false,
        };
        let response = with_timeout(
            "ContainerStatus",
            CALL_TIMEOUT,
            self.runtime.clone().container_status(request),
        )
        .await;
        Ok(ignore_not_found(response)?.status)
    }

    /// Creates and starts a sandbox, and returns its id.
    pub(crate) async fn run_sandbox(
        &self,
        config: cri::PodSandboxConfig,
        handler: String,
    ) -> Result<String> {
        let request = cri::RunPodSandboxRequest {
            config: Some(config),
            runtime_handler: handler,
        };
        let (name, mut client) = ("RunPodSandbox", self.runtime.clone());
        let call =
            async move { with_timeout(name, CALL_TIMEOUT, client.run_pod_sandbox(request)).await };
        Ok(self.calls.run(name, call).await?.pod_sandbox_id)
    }

    /// Stops a sandbox: releases its network and kills its remaining processes.
    pub(crate) async fn stop_sandbox(&self, id: &str) -> Result<()> {
        match self.try_stop_sandbox(id).await {
            Err(_) if cni_cache::removed_broken(id).await => self.try_stop_sandbox(id).await,
            response => response,
        }
    }

    async fn try_stop_sandbox(&self, id: &str) -> Result<()> {
        let request = cri::StopPodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        let response = with_timeout(
            "StopPodSandbox",
            CALL_TIMEOUT,
            self.runtime.clone().stop_pod_sandbox(request),
        )
        .await;
        ignore_not_found(response).map(drop)
    }

    /// Removes a stopped sandbox and its containers.
    pub(crate) async fn remove_sandbox(&self, id: &str) -> Result<()> {
        self.end_lost_task(id).await;
        let request = cri::RemovePodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        let response = with_timeout(
            "RemovePodSandbox",
            CALL_TIMEOUT,
            self.runtime.clone().remove_pod_sandbox(request),
        )
        .await;
        ignore_not_found(response).map(drop)
    }

    /// Creates a container and returns its id.
    pub(crate) async fn create_container(
        &self,
        sandbox_id: &str,
        config: cri::ContainerConfig,
        sandbox: cri::PodSandboxConfig,
    ) -> Result<String> {
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox),
        };
        let (name, mut client) = ("CreateContainer", self.runtime.clone());
        let call =
            async move { with_timeout(name, CALL_TIMEOUT, client.create_container(request)).await };
        Ok(self.calls.run(name, call).await?.container_id)
    }

    /// Starts a created container. Returns what the runtime warns of ([`cri::WARNING`]).
    pub(crate) async fn start_container(&self, id: &str) -> Result<Vec<String>> {
        let request = cri::StartContainerRequest {
            container_id: id.to_owned(),
        };
        let (name, mut client) = ("StartContainer", self.runtime.clone());
        let call = async move {
            let warned = async {
                let response = client.start_container(request).await?;
                Ok(tonic::Response::new(warnings(response.metadata())))
            };
            with_timeout(name, CALL_TIMEOUT, warned).await
        };
        self.calls.run(name, call).await
    }

    /// Gives a running container other resources.
    pub(crate) async fn update_container(
        &self,
        id: &str,
        resources: cri::LinuxContainerResources,
    ) -> Result<()> {
        let request = cri::UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(resources),
            ..Default::default()
        };
        with_timeout(
            "UpdateContainerResources",
            CALL_TIMEOUT,
            self.runtime.clone().update_container_resources(request),
        )
        .await
        .map(drop)
    }

    /// Asks a container to end, and kills it after `grace`.
    pub(crate) async fn stop_container(&self, id: &str, grace: Duration) -> Result<()> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let request = cri::StopContainerRequest {
            container_id: id.to_owned(),
            timeout,
        };
        let limit = grace.saturating_add(CALL_TIMEOUT);
        ignore_not_found(
            with_timeout(
                "StopContainer",
                limit,
                self.runtime.clone().stop_container(request),
            )
            .await,
        )
        .map(drop)
    }

    /// Runs a command in a container and kills it after `limit`.
    pub(crate) async fn exec(
        &self,
        id: &str,
        command: &[String],
        limit: Duration,
    ) -> Result<cri::ExecSyncResponse> {
        let timeout = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX).max(1);
        let request = cri::ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: command.to_vec(),
            timeout,
        };
        let deadline = limit.saturating_add(CALL_TIMEOUT);
        with_timeout(
            "ExecSync",
            deadline,
            self.runtime.clone().exec_sync(request),
        )
        .await
    }

    /// Removes a container that does not run.
    pub(crate) async fn remove_container(&self, id: &str) -> Result<()> {
        self.end_lost_task(id).await;
        let request = cri::RemoveContainerRequest {
            container_id: id.to_owned(),
        };
        let response = with_timeout(
            "RemoveContainer",
            CALL_TIMEOUT,
            self.runtime.clone().remove_container(request),
        )
        .await;
        ignore_not_found(response).map(drop)
    }

    /// Subscribes to container events. There is no timeout, as the response may take until the first event.
    pub(crate) async fn events(&self) -> Result<Streaming<cri::ContainerEventResponse>> {
        let response = self
            .runtime
            .clone()
            .get_container_events(cri::GetEventsRequest {})
            .await;
        response
            .map(tonic::Response::into_inner)
            .map_err(|status| CallError {
                call: "GetContainerEvents",
                status,
            })
    }

    /// Returns the image if it is on this node. The annotations of the specification are those of the pod, as from kubelet.
    pub(crate) async fn image(&self, image: cri::ImageSpec) -> Result<Option<cri::Image>> {
        let request = cri::ImageStatusRequest {
            image: Some(image),
            verbose: false,
        };
        Ok(with_timeout(
            "ImageStatus",
            CALL_TIMEOUT,
            self.images.clone().image_status(request),
        )
        .await?
        .image)
    }

    /// Pulls an image with each of the credentials until one succeeds, or without if there are none. Returns all errors otherwise.
    pub(crate) async fn pull_with_any(
        &self,
        image: &str,
        auths: Vec<cri::AuthConfig>,
        sandbox: Option<&cri::PodSandboxConfig>,
    ) -> std::result::Result<(), String> {
        let auths = if auths.is_empty() {
            vec![None]
        } else {
            auths.into_iter().map(Some).collect()
        };
        let mut failures = BTreeSet::new();
        for auth in auths {
            match self.pull(image, auth, sandbox.cloned()).await {
                Ok(()) => return Ok(()),
                Err(error) => failures.insert(error.message().to_owned()),
            };
        }
        Err(failures.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// Pulls an image.
    async fn pull(
        &self,
        image: &str,
        auth: Option<cri::AuthConfig>,
        sandbox: Option<cri::PodSandboxConfig>,
    ) -> Result<()> {
        let image = Some(cri::ImageSpec {
            image: image.to_owned(),
            ..Default::default()
        });
        let request = cri::PullImageRequest {
            image,
            auth,
            sandbox_config: sandbox,
        };
        with_timeout(
            "PullImage",
            PULL_TIMEOUT,
            self.images.clone().pull_image(request),
        )
        .await
        .map(drop)
    }
}
