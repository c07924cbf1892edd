//! The runtime's view: which containers exist, whatever others report.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::{Context, ensure};
use hyper_util::rt::TokioIo;
use nix::sys::signal::Signal;
use tokio::{net::UnixStream, runtime};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use wire::cri::{
    ContainerState, ExecSyncRequest, ListContainersRequest, ListImagesRequest,
    ListPodSandboxRequest, PodSandboxState, image_service_client::ImageServiceClient,
    runtime_service_client::RuntimeServiceClient,
};

/// The label in which every kubelet writes the UID of the container's pod.
const POD_UID: &str = "io.kubernetes.pod.uid";
/// How many seconds a command in a container may take.
const EXEC_SECONDS: i64 = 60;

/// A client of a runtime's unix socket. Every call is a new connection, so it survives the runtime's restarts.
#[derive(Debug)]
pub struct Cri {
    socket: PathBuf,
    runtime: runtime::Runtime,
}

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningContainer {
    /// The UID of its pod.
    pub pod_uid: String,
    /// Its id.
    pub id: String,
    /// Its name in its pod.
    pub name: String,
}

impl Cri {
    /// Returns a client of the runtime at `socket`.
    pub fn new(socket: PathBuf) -> anyhow::Result<Self> {
        Ok(Self {
            socket,
            runtime: runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
        })
    }

    /// Returns the running containers.
    pub fn running(&self) -> anyhow::Result<BTreeSet<RunningContainer>> {
        let runs = |(_, state): &(_, ContainerState)| *state == ContainerState::ContainerRunning;
        Ok(self
            .containers()?
            .into_iter()
            .filter(runs)
            .map(|(container, _)| container)
            .collect())
    }

    /// Returns all containers and their states.
    pub fn containers(&self) -> anyhow::Result<BTreeMap<RunningContainer, ContainerState>> {
        let answer = self.runtime.block_on(async {
            let mut client = self.client().await?;
            anyhow::Ok(
                client
                    .list_containers(ListContainersRequest::default())
                    .await?
                    .into_inner(),
            )
        })?;
        let described = answer.containers.into_iter().map(|container| {
            let pod_uid = container.labels.get(POD_UID).cloned().unwrap_or_default();
            let name = container
                .metadata
                .as_ref()
                .map(|metadata| metadata.name.clone())
                .unwrap_or_default();
            let state = container.state();
            (
                RunningContainer {
                    pod_uid,
                    id: container.id,
                    name,
                },
                state,
            )
        });
        Ok(described.collect())
    }

    /// Returns the pod UIDs of all sandboxes, one entry for each: those that are ready, and those that are not.
    pub fn sandboxes(&self) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let answer = self.runtime.block_on(async {
            let mut client = self.client().await?;
            anyhow::Ok(
                client
                    .list_pod_sandbox(ListPodSandboxRequest::default())
                    .await?
                    .into_inner(),
            )
        })?;
        let (mut ready, mut not_ready) = (Vec::new(), Vec::new());
        for sandbox in answer.items {
            let list = if sandbox.state() == PodSandboxState::SandboxReady {
                &mut ready
            } else {
                &mut not_ready
            };
            list.push(
                sandbox
                    .metadata
                    .map(|metadata| metadata.uid)
                    .unwrap_or_default(),
            );
        }
        ready.sort();
        not_ready.sort();
        Ok((ready, not_ready))
    }

    /// Returns the names of all images.
    pub fn images(&self) -> anyhow::Result<Vec<String>> {
        let answer = self.runtime.block_on(async {
            let mut client = ImageServiceClient::new(self.channel().await?);
            let all = client.list_images(ListImagesRequest::default()).await?;
            anyhow::Ok(all.into_inner())
        })?;
        let names = answer.images.into_iter().flat_map(|image| image.repo_tags);
        Ok(names.collect())
    }

    /// Returns what `command` prints in a container; every exit code but 0 is an error.
    pub fn exec(&self, container: &str, command: &[&str]) -> anyhow::Result<String> {
        let request = ExecSyncRequest {
            container_id: container.to_owned(),
            cmd: command.iter().map(|&word| word.to_owned()).collect(),
            timeout: EXEC_SECONDS,
        };
        let answer = self.runtime.block_on(async {
            anyhow::Ok(self.client().await?.exec_sync(request).await?.into_inner())
        })?;
        let stderr = String::from_utf8_lossy(&answer.stderr);
        ensure!(
            answer.exit_code == 0,
            "{}: exit code {}: {stderr}",
            command.join(" "),
            answer.exit_code
        );
        Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
    }

    /// Fails until the first process of the container is its own program, and catches or ignores SIGTERM.
    pub fn handles_termination(&self, container: &str) -> anyhow::Result<()> {
        let status = self.exec(container, &["cat", "/proc/1/status"])?;
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map_or("", str::trim)
        };
        ensure!(
            !field("Name:").starts_with("runc"),
            "process 1 is still runc's"
        );
        let handled = ["SigCgt:", "SigIgn:"].iter().any(|name| {
            u64::from_str_radix(field(name), 16)
                .is_ok_and(|signals| signals >> (Signal::SIGTERM as u32 - 1) & 1 == 1)
        });
        ensure!(handled, "process 1 does not handle SIGTERM yet");
        Ok(())
    }

    async fn client(&self) -> anyhow::Result<RuntimeServiceClient<Channel>> {
        Ok(RuntimeServiceClient::new(self.channel().await?))
    }

    async fn channel(&self) -> anyhow::Result<Channel> {
        let path = self.socket.clone();
        let connector = service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        // The name is only for the HTTP/2 header.
        let channel = Endpoint::from_static("http://runtime")
            .connect_with_connector(connector)
            .await;
        channel.with_context(|| format!("{} does not answer", self.socket.display()))
    }
}
