//! A fake agent: the agent's half of DMI, which reports each call to the test.

use std::{path::PathBuf, sync::Arc};

use hyper_util::rt::TokioIo;
use mapper::Config;
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{WAIT_TIMEOUT, within};
use tokio::{
    net::{UnixListener, UnixStream},
    runtime::{Builder, Runtime},
    sync::mpsc,
    time::timeout,
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint, Server},
};
use tower::service_fn;
use wire::dmi::{
    CustomizedValue, Device, DeviceModel, DeviceProperty, DeviceSpec, GetDeviceRequest,
    MapperRegisterRequest, MapperRegisterResponse, ProtocolConfig, RemoveDeviceRequest,
    ReportDeviceStatesRequest, ReportDeviceStatesResponse, ReportDeviceStatusRequest,
    ReportDeviceStatusResponse, TwinProperty, UpdateDeviceRequest, VisitorConfig,
    device_manager_service_server::{DeviceManagerService, DeviceManagerServiceServer},
    device_mapper_service_client::DeviceMapperServiceClient,
};

pub(crate) struct FakeAgent {
    directory: TempDir,
    service: Service,
    calls: tokio::sync::Mutex<mpsc::Receiver<String>>,
    server: Option<Runtime>,
}

#[derive(Clone)]
struct Service {
    calls: mpsc::Sender<String>,
    answer: Arc<Mutex<Result<MapperRegisterResponse, String>>>,
}

impl FakeAgent {
    pub(crate) async fn start() -> Self {
        let (sender, calls) = mpsc::channel(1024);
        let service = Service {
            calls: sender,
            answer: Arc::new(Mutex::new(Ok(MapperRegisterResponse::default()))),
        };
        let directory = tempfile::tempdir().unwrap();
        let mut agent = Self {
            directory,
            service,
            calls: tokio::sync::Mutex::new(calls),
            server: None,
        };
        agent.live();
        agent
    }

    /// Starts serving, in a runtime of its own, so that connections do not outlive it.
    pub(crate) fn live(&mut self) {
        let socket = self.socket();
        let _ = std::fs::remove_file(&socket);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let within = runtime.enter();
        let listener = UnixListener::bind(socket).unwrap();
        let service = DeviceManagerServiceServer::new(self.service.clone());
        let serving = Server::builder()
            .add_service(service)
            .serve_with_incoming(UnixListenerStream::new(listener));
        runtime.spawn(serving);
        drop(within);
        self.server = Some(runtime);
    }

    /// Ends like a process that is killed.
    pub(crate) fn die(&mut self) {
        self.server.take().unwrap().shutdown_background();
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("dmi.sock")
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            socket: self.directory.path().join("mapper.sock"),
            agent: self.socket(),
            ..Config::new("test", "virtual")
        }
    }

    pub(crate) fn devices<const M: usize, const D: usize>(
        &self,
        models: [DeviceModel; M],
        devices: [Device; D],
    ) {
        let answer = MapperRegisterResponse {
            model_list: models.into(),
            device_list: devices.into(),
        };
        *self.service.answer.lock() = Ok(answer);
    }

    pub(crate) fn refuse(&self, why: &str) {
        *self.service.answer.lock() = Err(why.to_owned());
    }

    /// Returns a client of the mapper, as the agent has.
    pub(crate) fn mapper(&self) -> DeviceMapperServiceClient<Channel> {
        let socket = self.directory.path().join("mapper.sock");
        let connector = service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://mapper").connect_with_connector_lazy(connector);
        DeviceMapperServiceClient::new(channel)
    }

    /// Returns the next call. A report of a property `refused` is refused and not returned.
    pub(crate) async fn next(&self) -> String {
        within("a call of the mapper", self.calls.lock().await.recv())
            .await
            .unwrap()
    }

    pub(crate) async fn until(&self, call: &str) {
        self.wait_seen(|found| found == call, call).await;
    }

    pub(crate) async fn until_starts(&self, call: &str) {
        self.wait_seen(|found| found.starts_with(call), call).await;
    }

    async fn wait_seen(&self, wanted: impl Fn(&str) -> bool, what: &str) {
        let mut seen = Vec::new();
        let looking = async {
            loop {
                let call = self.next().await;
                if wanted(&call) {
                    return;
                }
                seen.push(call);
            }
        };
        let found = timeout(WAIT_TIMEOUT, looking).await;
        assert!(found.is_ok(), "no {what:?} in {seen:?}");
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        // a runtime must not be dropped within another one, because that blocks
        if let Some(runtime) = self.server.take() {
            runtime.shutdown_background();
        }
    }
}

#[tonic::async_trait]
impl DeviceManagerService for Service {
    async fn mapper_register(
        &self,
        request: Request<MapperRegisterRequest>,
    ) -> Result<Response<MapperRegisterResponse>, Status> {
        let mapper = request.into_inner().mapper.unwrap();
        let answer = self
            .answer
            .lock()
            .clone()
            .map_err(Status::invalid_argument)?;
        self.calls
            .send(format!(
                "registered {} for {}",
                mapper.name, mapper.protocol
            ))
            .await
            .unwrap();
        Ok(Response::new(answer))
    }

    async fn report_device_status(
        &self,
        request: Request<ReportDeviceStatusRequest>,
    ) -> Result<Response<ReportDeviceStatusResponse>, Status> {
        let request = request.into_inner();
        let twins = request
            .reported_device
            .as_ref()
            .map(|report| report.twins.as_slice())
            .unwrap_or_default();
        if twins.iter().any(|twin| twin.property_name == "refused") {
            return Err(Status::invalid_argument("its value cannot be"));
        }
        let value = |property: Option<TwinProperty>| property.unwrap().value;
        let twins = request
            .reported_device
            .unwrap()
            .twins
            .into_iter()
            .map(|twin| {
                format!(
                    "{}={} observed {}",
                    twin.property_name,
                    value(twin.reported),
                    value(twin.observed_desired)
                )
            });
        let twins = twins.collect::<Vec<_>>().join(", ");
        let call = format!(
            "{}/{} {twins}",
            request.device_namespace, request.device_name
        );
        self.calls.send(call).await.unwrap();
        Ok(Response::new(ReportDeviceStatusResponse {}))
    }

    async fn report_device_states(
        &self,
        request: Request<ReportDeviceStatesRequest>,
    ) -> Result<Response<ReportDeviceStatesResponse>, Status> {
        let request = request.into_inner();
        let call = format!(
            "{}/{} is {}",
            request.device_namespace, request.device_name, request.state
        );
        self.calls.send(call).await.unwrap();
        Ok(Response::new(ReportDeviceStatesResponse {}))
    }
}

pub(crate) fn model(name: &str) -> DeviceModel {
    DeviceModel {
        name: name.into(),
        namespace: "ns".into(),
        spec: None,
    }
}

/// Creates a property that is read every 10 ms and reported every 20 ms.
pub(crate) fn property(name: &str, desired: Option<&str>, settings: &Value) -> DeviceProperty {
    let config_data = settings.as_object().map(CustomizedValue::from_json);
    DeviceProperty {
        name: name.into(),
        desired: desired.map(|value| TwinProperty {
            value: value.into(),
            ..Default::default()
        }),
        visitors: Some(VisitorConfig {
            config_data,
            ..Default::default()
        }),
        collect_cycle: 10,
        report_cycle: 20,
        report_to_cloud: true,
        push_method: None,
    }
}

/// Creates a device of the model `m` with a property `value`.
pub(crate) fn device(name: &str, desired: Option<&str>, settings: &Value) -> Device {
    let config_data = settings.as_object().map(CustomizedValue::from_json);
    let spec = DeviceSpec {
        device_model_reference: "m".into(),
        protocol: Some(ProtocolConfig {
            protocol_name: "virtual".into(),
            config_data,
        }),
        properties: vec![property("value", desired, &Value::Null)],
        methods: Vec::new(),
    };
    Device {
        name: name.into(),
        namespace: "ns".into(),
        spec: Some(spec),
        status: None,
    }
}

pub(crate) fn update(device: Device) -> UpdateDeviceRequest {
    UpdateDeviceRequest {
        device: Some(device),
    }
}

pub(crate) fn get(name: &str) -> GetDeviceRequest {
    GetDeviceRequest {
        device_name: name.into(),
        device_namespace: "ns".into(),
    }
}

pub(crate) fn remove(name: &str) -> RemoveDeviceRequest {
    RemoveDeviceRequest {
        device_name: name.into(),
        device_namespace: "ns".into(),
    }
}
