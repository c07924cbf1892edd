//! The container runtime, over CRI v1: one method per call that edged makes, each with a limit on time and size.

mod counted;
mod finish;
mod lost;
mod network;
mod observe;
mod pod;
mod remote;
mod stats;
mod tasks;
mod upkeep;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use tokio::sync::OnceCell;
use tokio_util::sync::DropGuard;
use tonic::{Code, Status, Streaming, transport::Channel};
use wire::{
    containerd::{events::events_client::EventsClient, tasks_client::TasksClient},
    cri::{self, image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient},
};

use self::{counted::Counted, finish::Calls};
use super::{
    fields::Ability,
    metrics::Operations,
    pod_network::{MachineNetwork, PodNetwork},
};
use crate::config::CgroupDriver;

/// No call takes longer, but those that say so; the kubelet's limit.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// A pull that takes longer has stalled.
const PULL_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Another one each time the machine starts.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Largest answer that is read: the list of a node full of containers and their annotations.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("the container runtime's {call}: {}", status.message())]
pub(crate) struct CallError {
    call: &'static str,
    status: Status,
}

impl CallError {
    /// Whether what the call was about does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status.code() == Code::NotFound
    }

    /// Whether it took too long.
    pub(crate) fn is_timeout(&self) -> bool {
        self.status.code() == Code::DeadlineExceeded
    }

    /// Whether nobody answers at its socket.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.status.code() == Code::Unavailable
    }

    /// Tells that something is not done now. Not where the runtime is away: that is told once for all that waits for it (PLEG).
    pub(crate) fn log(&self, what: &str) {
        if self.is_unreachable() {
            tracing::debug!("{what}: the container runtime is away");
        } else {
            tracing::warn!(error = self as &dyn std::error::Error, "{what}");
        }
    }

    /// Whether the other end has no such call.
    pub(crate) fn is_unimplemented(&self) -> bool {
        self.status.code() == Code::Unimplemented
    }

    /// What the runtime said.
    pub(crate) fn message(&self) -> &str {
        self.status.message()
    }
}

type Result<T> = std::result::Result<T, CallError>;

/// The runtime's client; clones share one connection.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    runtime: RuntimeServiceClient<Counted>,
    images: ImageServiceClient<Counted>,
    /// Of no use but with containerd.
    tasks: TasksClient<Channel>,
    /// Tells what happens to tasks; of no use but with containerd.
    task_events: EventsClient<Channel>,
    operations: Operations,
    calls: Calls,
    /// The machine's boot.
    boot: Arc<str>,
    /// How its pods are reached.
    network: Arc<dyn PodNetwork>,
    /// What it calls itself, once it has said so.
    name: Arc<OnceCell<String>>,
}

/// The answer, if it comes in time. Boxed: requests are large, and the futures that wait for them many.
fn limited<'a, T: 'a>(
    call: &'static str,
    limit: Duration,
    answer: impl Future<Output = std::result::Result<tonic::Response<T>, Status>> + Send + 'a,
) -> BoxFuture<'a, Result<T>> {
    let answer = Box::pin(answer);
    Box::pin(async move {
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(CallError { call, status }),
            Err(_) => {
                let status = Status::deadline_exceeded(format!("no answer within {} s", limit.as_secs()));
                Err(CallError { call, status })
            }
        }
    })
}

/// What does not exist has been removed already.
fn gone_is_fine<T: Default>(result: Result<T>) -> Result<T> {
    match result {
        Err(error) if error.is_not_found() => Ok(T::default()),
        other => other,
    }
}

impl Runtime {
    /// A client over `channel`, which connects when it is first used; images may be elsewhere.
    pub(crate) fn new(channel: Channel, images: Option<Channel>) -> Self {
        let operations = Operations::default();
        let images = Counted::new(images.unwrap_or_else(|| channel.clone()), operations.clone());
        let tasks = TasksClient::new(channel.clone());
        let task_events = EventsClient::new(channel.clone()).max_decoding_message_size(tasks::MAX_EVENT);
        let channel = Counted::new(channel, operations.clone());
        Self {
            operations,
            tasks,
            task_events,
            calls: Calls::default(),
            boot: std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().into(),
            network: Arc::new(MachineNetwork),
            name: Arc::default(),
            runtime: RuntimeServiceClient::new(channel).max_decoding_message_size(MAX_ANSWER),
            images: ImageServiceClient::new(images).max_decoding_message_size(MAX_ANSWER),
        }
    }

    /// The same for pods that are reached in another way than over this machine's network.
    pub(crate) fn with_network(mut self, network: Option<Arc<dyn PodNetwork>>) -> Self {
        if let Some(network) = network {
            self.network = network;
        }
        self
    }

    /// How its pods are reached.
    pub(crate) fn network(&self) -> &Arc<dyn PodNetwork> {
        &self.network
    }

    /// What has been counted of all calls.
    pub(crate) fn operations(&self) -> &Operations {
        &self.operations
    }

    /// The machine's boot; empty where the kernel does not tell.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// Waits until what is being made and started is there: whoever calls has been asked to end.
    pub(crate) async fn finish(&self) {
        self.calls.finish().await;
    }

    /// Cuts off what is being made and started then.
    pub(crate) fn cut_when_dropped(&self) -> DropGuard {
        self.calls.cut_when_dropped()
    }

    /// Who the runtime is.
    pub(crate) async fn version(&self) -> Result<cri::VersionResponse> {
        let request = cri::VersionRequest { version: "v1".into() };
        limited("Version", CALL_TIMEOUT, self.runtime.clone().version(request)).await
    }

    /// Whether it can run pods, and how.
    pub(crate) async fn status(&self) -> Result<cri::StatusResponse> {
        limited("Status", CALL_TIMEOUT, self.runtime.clone().status(cri::StatusRequest::default())).await
    }

    /// The same with what it tells of itself beyond that.
    pub(crate) async fn verbose_status(&self) -> Result<cri::StatusResponse> {
        limited("Status", CALL_TIMEOUT, self.runtime.clone().status(cri::StatusRequest { verbose: true }))
            .await
    }

    /// Who makes control groups, where the runtime tells; older ones do not.
    pub(crate) async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>> {
        let request = cri::RuntimeConfigRequest {};
        let answer =
            limited("RuntimeConfig", CALL_TIMEOUT, self.runtime.clone().runtime_config(request)).await;
        match answer {
            Ok(answer) => Ok(answer.linux.map(|linux| match linux.cgroup_driver() {
                cri::CgroupDriver::Systemd => CgroupDriver::Systemd,
                cri::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
            })),
            Err(error) if error.is_unimplemented() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the default handler says that it can do this; one that does not answer cannot.
    pub(crate) async fn can(&self, ability: Ability) -> bool {
        let answer =
            limited("Status", CALL_TIMEOUT, self.runtime.clone().status(cri::StatusRequest::default())).await;
        let answer = answer.unwrap_or_default();
        match ability {
            Ability::StrictGroups => answer.features.is_some_and(|can| can.supplemental_groups_policy),
            Ability::RecursiveReadOnly => {
                let default = answer.runtime_handlers.into_iter().find(|handler| handler.name.is_empty());
                default.and_then(|handler| handler.features).is_some_and(|can| can.recursive_read_only_mounts)
            }
        }
    }

    /// Sandboxes, all or those that a filter passes.
    pub(crate) async fn sandboxes(
        &self,
        filter: Option<cri::PodSandboxFilter>,
    ) -> Result<Vec<cri::PodSandbox>> {
        let request = cri::ListPodSandboxRequest { filter };
        Ok(limited("ListPodSandbox", CALL_TIMEOUT, self.runtime.clone().list_pod_sandbox(request))
            .await?
            .items)
    }

    /// Containers, all or those that a filter passes.
    pub(crate) async fn containers(
        &self,
        filter: Option<cri::ContainerFilter>,
    ) -> Result<Vec<cri::Container>> {
        let request = cri::ListContainersRequest { filter };
        Ok(limited("ListContainers", CALL_TIMEOUT, self.runtime.clone().list_containers(request))
            .await?
            .containers)
    }

    async fn sandbox_status(&self, id: &str) -> Result<Option<cri::PodSandboxStatus>> {
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let answer =
            limited("PodSandboxStatus", CALL_TIMEOUT, self.runtime.clone().pod_sandbox_status(request)).await;
        Ok(gone_is_fine(answer)?.status)
    }

    async fn container_status(&self, id: &str) -> Result<Option<cri::ContainerStatus>> {
        let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let answer =
            limited("ContainerStatus", CALL_TIMEOUT, self.runtime.clone().container_status(request)).await;
        Ok(gone_is_fine(answer)?.status)
    }

    /// Makes a sandbox, and says its id.
    pub(crate) async fn run_sandbox(&self, config: cri::PodSandboxConfig, handler: String) -> Result<String> {
        let request = cri::RunPodSandboxRequest { config: Some(config), runtime_handler: handler };
        let (name, mut client) = ("RunPodSandbox", self.runtime.clone());
        let call = async move { limited(name, CALL_TIMEOUT, client.run_pod_sandbox(request)).await };
        Ok(self.calls.run(name, call).await?.pod_sandbox_id)
    }

    /// Frees the sandbox's network and kills what still runs in it.
    pub(crate) async fn stop_sandbox(&self, id: &str) -> Result<()> {
        match self.try_stop_sandbox(id).await {
            Err(_) if network::healed(id).await => self.try_stop_sandbox(id).await,
            answer => answer,
        }
    }

    async fn try_stop_sandbox(&self, id: &str) -> Result<()> {
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let answer =
            limited("StopPodSandbox", CALL_TIMEOUT, self.runtime.clone().stop_pod_sandbox(request)).await;
        gone_is_fine(answer).map(drop)
    }

    /// Forgets the sandbox, which was stopped, and its containers.
    pub(crate) async fn remove_sandbox(&self, id: &str) -> Result<()> {
        self.end_lost(id).await;
        let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let answer =
            limited("RemovePodSandbox", CALL_TIMEOUT, self.runtime.clone().remove_pod_sandbox(request)).await;
        gone_is_fine(answer).map(drop)
    }

    /// Makes a container, and says its id.
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
        let call = async move { limited(name, CALL_TIMEOUT, client.create_container(request)).await };
        Ok(self.calls.run(name, call).await?.container_id)
    }

    /// Starts a container that was made.
    pub(crate) async fn start_container(&self, id: &str) -> Result<()> {
        let request = cri::StartContainerRequest { container_id: id.to_owned() };
        let (name, mut client) = ("StartContainer", self.runtime.clone());
        let call = async move { limited(name, CALL_TIMEOUT, client.start_container(request)).await };
        self.calls.run(name, call).await.map(drop)
    }

    /// Asks a container to end, and kills it after `grace`.
    pub(crate) async fn stop_container(&self, id: &str, grace: Duration) -> Result<()> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let request = cri::StopContainerRequest { container_id: id.to_owned(), timeout };
        let limit = grace.saturating_add(CALL_TIMEOUT);
        gone_is_fine(limited("StopContainer", limit, self.runtime.clone().stop_container(request)).await)
            .map(drop)
    }

    /// Runs a command in a container, which is killed after `limit`.
    pub(crate) async fn exec(
        &self,
        id: &str,
        command: &[String],
        limit: Duration,
    ) -> Result<cri::ExecSyncResponse> {
        let timeout = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX).max(1);
        let request = cri::ExecSyncRequest { container_id: id.to_owned(), cmd: command.to_vec(), timeout };
        let patience = limit.saturating_add(CALL_TIMEOUT);
        limited("ExecSync", patience, self.runtime.clone().exec_sync(request)).await
    }

    /// Forgets a container that does not run.
    pub(crate) async fn remove_container(&self, id: &str) -> Result<()> {
        self.end_lost(id).await;
        let request = cri::RemoveContainerRequest { container_id: id.to_owned() };
        let answer =
            limited("RemoveContainer", CALL_TIMEOUT, self.runtime.clone().remove_container(request)).await;
        gone_is_fine(answer).map(drop)
    }

    /// Every change as it happens. The answer may take until the first one, so there is no limit on its time.
    pub(crate) async fn events(&self) -> Result<Streaming<cri::ContainerEventResponse>> {
        let answer = self.runtime.clone().get_container_events(cri::GetEventsRequest {}).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| CallError { call: "GetContainerEvents", status })
    }

    /// The image, if it is on this node.
    pub(crate) async fn image(&self, image: &str) -> Result<Option<cri::Image>> {
        let image = Some(cri::ImageSpec { image: image.to_owned(), ..Default::default() });
        let request = cri::ImageStatusRequest { image, verbose: false };
        Ok(limited("ImageStatus", CALL_TIMEOUT, self.images.clone().image_status(request)).await?.image)
    }

    /// Fetches an image.
    pub(crate) async fn pull(
        &self,
        image: &str,
        auth: Option<cri::AuthConfig>,
        sandbox: Option<cri::PodSandboxConfig>,
    ) -> Result<()> {
        let image = Some(cri::ImageSpec { image: image.to_owned(), ..Default::default() });
        let request = cri::PullImageRequest { image, auth, sandbox_config: sandbox };
        limited("PullImage", PULL_TIMEOUT, self.images.clone().pull_image(request)).await.map(drop)
    }
}
