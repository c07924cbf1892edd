//! A device plugin, written against the public API: its devices are `/dev/zero` under other names.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex},
};

use e2e::until;
use futures::{Stream, StreamExt};
use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, runtime, sync::watch};
use tokio_stream::wrappers::{UnixListenerStream, WatchStream};
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint, Server, Uri},
};
use tower::service_fn;
use wire::device_plugin::{
    AllocateRequest, AllocateResponse, ContainerAllocateResponse,
    ContainerPreferredAllocationResponse, Device, DevicePluginOptions, DeviceSpec, Empty,
    ListAndWatchResponse, Mount, NumaNode, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse, RegisterRequest, TopologyInfo,
    VERSION,
    device_plugin_server::{DevicePlugin, DevicePluginServer},
    registration_client::RegistrationClient,
};

/// A running plugin; it ends, without a word, when this is dropped.
pub(crate) struct Plugin {
    devices: watch::Sender<Vec<Device>>,
    /// The devices of each `PreStartContainer`.
    pub(crate) prepared: Arc<Mutex<Vec<String>>>,
    // last: what it runs ends with it
    _runtime: runtime::Runtime,
}

/// Returns a device.
pub(crate) fn device(id: &str, health: &str) -> Device {
    Device {
        id: id.into(),
        health: health.into(),
        topology: Some(TopologyInfo {
            nodes: vec![NumaNode { id: 0 }],
        }),
    }
}

impl Plugin {
    /// Starts the plugin of `resource` and registers it with the kubelet of this directory.
    pub(crate) fn start(
        kubelet: &Path,
        resource: &str,
        devices: Vec<Device>,
    ) -> anyhow::Result<Self> {
        let directory = kubelet.join("device-plugins");
        let files = kubelet.join("plugin-files");
        fs::create_dir_all(&files)?;
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let endpoint = format!("{}.sock", resource.replace('/', "_"));
        let socket = directory.join(&endpoint);
        // the kubelet's socket is there when it can be connected to; then its directory is cleaned up
        until("the kubelet's socket", || {
            std::os::unix::net::UnixStream::connect(directory.join("kubelet.sock"))
        })?;
        let _ = fs::remove_file(&socket);
        let (sender, receiver) = watch::channel(devices);
        let prepared = Arc::<Mutex<_>>::default();
        let service = Service {
            devices: receiver,
            files,
            prepared: prepared.clone(),
        };
        let listener = UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        let registered = runtime.block_on(async {
            let incoming = UnixListenerStream::new(tokio::net::UnixListener::from_std(listener)?);
            tokio::spawn(
                Server::builder()
                    .add_service(DevicePluginServer::new(service))
                    .serve_with_incoming(incoming),
            );
            let request = RegisterRequest {
                version: VERSION.into(),
                endpoint,
                resource_name: resource.into(),
                options: None,
            };
            let mut client = RegistrationClient::new(channel(directory.join("kubelet.sock")));
            client.register(request).await.map_err(anyhow::Error::from)
        });
        registered?;
        Ok(Self {
            devices: sender,
            prepared,
            _runtime: runtime,
        })
    }

    /// Reports other devices.
    pub(crate) fn set(&self, devices: Vec<Device>) {
        self.devices.send_replace(devices);
    }
}

/// Returns a channel to a unix socket.
pub(crate) fn channel(socket: PathBuf) -> Channel {
    let connector = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

struct Service {
    devices: watch::Receiver<Vec<Device>>,
    files: PathBuf,
    prepared: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream =
        Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions {
            pre_start_required: true,
            get_preferred_allocation_available: true,
        }))
    }

    async fn list_and_watch(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let lists = WatchStream::new(self.devices.clone());
        let lists = lists.map(|devices| Ok(ListAndWatchResponse { devices }));
        Ok(Response::new(Box::pin(lists)))
    }

    /// Prefers the last devices.
    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let requests = request.into_inner().container_requests.into_iter();
        let container_responses = requests.map(|request| {
            let mut device_ids = request.must_include_device_ids;
            let mut others = request.available_device_ids;
            others.retain(|id| !device_ids.contains(id));
            others.sort();
            let size = usize::try_from(request.allocation_size).unwrap_or_default();
            let missing = size.saturating_sub(device_ids.len());
            device_ids.extend(others.into_iter().rev().take(missing));
            ContainerPreferredAllocationResponse { device_ids }
        });
        Ok(Response::new(PreferredAllocationResponse {
            container_responses: container_responses.collect(),
        }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let mut answers = Vec::new();
        for request in request.into_inner().container_requests {
            let ids = request.devices_ids;
            let file = self.files.join(ids.join("-"));
            fs::write(&file, ids.join(" "))?;
            let device = |id: &String| DeviceSpec {
                container_path: format!("/dev/sim-{id}"),
                host_path: "/dev/zero".into(),
                permissions: "r".into(),
            };
            answers.push(ContainerAllocateResponse {
                envs: BTreeMap::from([
                    ("SIM_DEVICES".into(), ids.join(",")),
                    ("OWN".into(), "the plugin's".into()),
                ]),
                mounts: vec![Mount {
                    container_path: "/sim/ids".into(),
                    host_path: file.display().to_string(),
                    read_only: true,
                }],
                devices: ids.iter().map(device).collect(),
                annotations: BTreeMap::from([("example.com/devices".into(), ids.join(","))]),
                cdi_devices: Vec::new(),
            });
        }
        Ok(Response::new(AllocateResponse {
            container_responses: answers,
        }))
    }

    async fn pre_start_container(
        &self,
        request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        let ids = request.into_inner().devices_ids.join(",");
        match self.prepared.lock() {
            Ok(mut prepared) => prepared.push(ids),
            Err(_) => return Err(Status::internal("poisoned")),
        }
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
