//! A client that only makes calls: every call of CRI v1, without memory and without retries. It is the reference for clients that
//! promise more.

use std::path::PathBuf;

use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, runtime};
use tonic::{
    Response, Status,
    transport::{Channel, Endpoint, Uri},
};
use tower::service_fn;
use wire::cri::{
    self, image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient,
};

use super::IMAGE;

/// A client for blocking calls over one connection, which is made again when it is lost.
#[derive(Debug)]
pub struct RawCri {
    // Dropped before the runtime that drives it.
    channel: Channel,
    runtime: runtime::Runtime,
}

impl RawCri {
    /// Returns a client of the runtime at `socket`.
    pub fn new(socket: PathBuf) -> anyhow::Result<Self> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let channel = runtime.block_on(async { channel(socket) });
        Ok(Self { channel, runtime })
    }

    /// Makes one or more calls of the runtime service.
    pub fn runtime<T>(
        &self,
        call: impl AsyncFnOnce(RuntimeServiceClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, Status> {
        let client = RuntimeServiceClient::new(self.channel.clone());
        self.runtime
            .block_on(call(client))
            .map(Response::into_inner)
    }

    /// Makes one or more calls of the image service.
    pub fn images<T>(
        &self,
        call: impl AsyncFnOnce(ImageServiceClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, Status> {
        let client = ImageServiceClient::new(self.channel.clone());
        self.runtime
            .block_on(call(client))
            .map(Response::into_inner)
    }

    /// Creates a sandbox and returns its id.
    pub fn run_sandbox(&self, config: cri::PodSandboxConfig) -> Result<String, Status> {
        let request = cri::RunPodSandboxRequest {
            config: Some(config),
            ..Default::default()
        };
        Ok(self
            .runtime(async |mut client| client.run_pod_sandbox(request).await)?
            .pod_sandbox_id)
    }

    /// Creates a container in a sandbox and returns its id.
    pub fn create(
        &self,
        sandbox_id: &str,
        sandbox: cri::PodSandboxConfig,
        config: cri::ContainerConfig,
    ) -> Result<String, Status> {
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox),
        };
        Ok(self
            .runtime(async |mut client| client.create_container(request).await)?
            .container_id)
    }

    /// Starts a container.
    pub fn start(&self, id: &str) -> Result<(), Status> {
        let request = cri::StartContainerRequest {
            container_id: id.to_owned(),
        };
        self.runtime(async |mut client| client.start_container(request).await)
            .map(drop)
    }

    /// Asks a container to end, and kills it after this many seconds.
    pub fn stop(&self, id: &str, seconds: i64) -> Result<(), Status> {
        let request = cri::StopContainerRequest {
            container_id: id.to_owned(),
            timeout: seconds,
        };
        self.runtime(async |mut client| client.stop_container(request).await)
            .map(drop)
    }

    /// Removes a container.
    pub fn remove(&self, id: &str) -> Result<(), Status> {
        let request = cri::RemoveContainerRequest {
            container_id: id.to_owned(),
        };
        self.runtime(async |mut client| client.remove_container(request).await)
            .map(drop)
    }

    /// Frees the sandbox's network and kills what runs in it.
    pub fn stop_sandbox(&self, id: &str) -> Result<(), Status> {
        let request = cri::StopPodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        self.runtime(async |mut client| client.stop_pod_sandbox(request).await)
            .map(drop)
    }

    /// Removes the sandbox and its containers.
    pub fn remove_sandbox(&self, id: &str) -> Result<(), Status> {
        let request = cri::RemovePodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        self.runtime(async |mut client| client.remove_pod_sandbox(request).await)
            .map(drop)
    }

    /// Returns the status of a container.
    pub fn status(&self, id: &str) -> Result<cri::ContainerStatus, Status> {
        let request = cri::ContainerStatusRequest {
            container_id: id.to_owned(),
            verbose: false,
        };
        let answer = self.runtime(async |mut client| client.container_status(request).await)?;
        answer
            .status
            .ok_or_else(|| Status::internal("a status without a status"))
    }

    /// Returns the status of a sandbox.
    pub fn sandbox_status(&self, id: &str) -> Result<cri::PodSandboxStatus, Status> {
        let request = cri::PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose: false,
        };
        let answer = self.runtime(async |mut client| client.pod_sandbox_status(request).await)?;
        answer
            .status
            .ok_or_else(|| Status::internal("a status without a status"))
    }

    /// Returns the containers that match a filter.
    pub fn list(
        &self,
        filter: Option<cri::ContainerFilter>,
    ) -> Result<Vec<cri::Container>, Status> {
        let request = cri::ListContainersRequest { filter };
        Ok(self
            .runtime(async |mut client| client.list_containers(request).await)?
            .containers)
    }

    /// Returns the sandboxes that match a filter.
    pub fn sandboxes(
        &self,
        filter: Option<cri::PodSandboxFilter>,
    ) -> Result<Vec<cri::PodSandbox>, Status> {
        let request = cri::ListPodSandboxRequest { filter };
        Ok(self
            .runtime(async |mut client| client.list_pod_sandbox(request).await)?
            .items)
    }

    /// Returns a minimal sandbox configuration with a unique name.
    pub fn sandbox_config(name: &str, logs: &std::path::Path) -> cri::PodSandboxConfig {
        cri::PodSandboxConfig {
            metadata: Some(cri::PodSandboxMetadata {
                name: name.to_owned(),
                uid: format!("uid-of-{name}"),
                namespace: "bare".into(),
                attempt: 0,
            }),
            hostname: name.to_owned(),
            log_directory: logs.display().to_string(),
            linux: Some(cri::LinuxPodSandboxConfig::default()),
            ..Default::default()
        }
    }

    /// Returns a minimal container configuration: a command in [`IMAGE`].
    pub fn container_config(name: &str, command: &[&str]) -> cri::ContainerConfig {
        cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata {
                name: name.to_owned(),
                attempt: 0,
            }),
            image: Some(cri::ImageSpec {
                image: IMAGE.to_owned(),
                user_specified_image: IMAGE.to_owned(),
                ..Default::default()
            }),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            log_path: format!("{name}.log"),
            linux: Some(cri::LinuxContainerConfig::default()),
            ..Default::default()
        }
    }
}

fn channel(socket: PathBuf) -> Channel {
    let connector = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // The name is only for the HTTP/2 header.
    Endpoint::from_static("http://runtime").connect_with_connector_lazy(connector)
}
