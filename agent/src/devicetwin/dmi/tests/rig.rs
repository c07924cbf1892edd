//! DMI over a simulated DeviceTwin, and a fake mapper that records each of its calls.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use hyper_util::rt::TokioIo;
use objectstore::{Key, MemoryStore, Resource, Store};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{eventually, within};
use tokio::{
    net::{UnixListener, UnixStream},
    runtime::{Builder, Runtime},
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint, Server},
};
use tower::service_fn;
use wire::{
    dmi::{
        CreateDeviceModelRequest, CreateDeviceModelResponse, Device, GetDeviceRequest,
        GetDeviceResponse, MapperInfo, MapperRegisterRequest, MapperRegisterResponse,
        RegisterDeviceRequest, RegisterDeviceResponse, RemoveDeviceModelRequest,
        RemoveDeviceModelResponse, RemoveDeviceRequest, RemoveDeviceResponse,
        ReportDeviceStatusRequest, Twin, TwinProperty, UpdateDeviceModelRequest,
        UpdateDeviceModelResponse, UpdateDeviceRequest, UpdateDeviceResponse,
        device_manager_service_client::DeviceManagerServiceClient,
        device_mapper_service_server::{DeviceMapperService, DeviceMapperServiceServer},
    },
    topic::DeviceId,
    twin::Member,
};

use crate::{
    devicetwin::{
        Catalogue, CatalogueEntry, DeviceTwin, RequestError,
        dmi::{Config, Dmi, Error},
        handle::Command,
    },
    metamanager::{DeviceObject, DeviceObjects},
};

/// Returns the id of a device in the namespace of all tests.
pub(super) fn id(name: &str) -> DeviceId {
    DeviceId::new("ns", name).unwrap()
}

/// Returns a report of one property, read at 17.
pub(super) fn report(device: &str, value: &str) -> ReportDeviceStatusRequest {
    let property = |value: &str, metadata: &[(&str, &str)]| {
        let metadata = metadata
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Some(TwinProperty {
            value: value.to_owned(),
            metadata: metadata.collect(),
        })
    };
    let twin = Twin {
        property_name: "t".into(),
        observed_desired: property("20", &[]),
        reported: property(value, &[("timestamp", "17")]),
    };
    ReportDeviceStatusRequest {
        device_name: device.into(),
        device_namespace: "ns".into(),
        reported_device: Some(wire::dmi::DeviceStatus {
            twins: vec![twin],
            ..Default::default()
        }),
    }
}

/// DMI, its shutdown token, and its task.
type Running = (Dmi, CancellationToken, JoinHandle<Result<(), Error>>);

/// DMI, and everything around it.
pub(super) struct Rig {
    directory: TempDir,
    store: Arc<MemoryStore>,
    objects: DeviceObjects,
    catalogue: watch::Sender<Option<Arc<Catalogue>>>,
    twin: DeviceTwin,
    reports: tokio::sync::Mutex<mpsc::Receiver<String>>,
    running: Option<Running>,
}

impl Rig {
    pub(super) fn new() -> Self {
        let store = MemoryStore::new();
        let objects = DeviceObjects::of(store.clone());
        let catalogue = watch::Sender::new(Some(Arc::new(Catalogue::default())));
        let (commands, received) = mpsc::channel(8);
        let (reported, reports) = mpsc::channel(64);
        tokio::spawn(answer(received, reported));
        let twin = DeviceTwin {
            commands,
            catalogue: catalogue.subscribe(),
            counts: Arc::default(),
            objects: objects.clone(),
        };
        let directory = tempfile::tempdir().unwrap();
        let reports = tokio::sync::Mutex::new(reports);
        let mut rig = Self {
            directory,
            store,
            objects,
            catalogue,
            twin,
            reports,
            running: None,
        };
        rig.start();
        rig
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn start(&mut self) {
        let directory = self.directory.path().to_owned();
        let config = Config {
            directory,
            store: self.store.clone(),
            twin: self.twin.clone(),
        };
        let (dmi, task) = super::super::new(config);
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(task.run(shutdown.clone()));
        self.running = Some((dmi, shutdown, running));
    }

    pub(super) async fn stop(&mut self) {
        let (_, shutdown, running) = self.running.take().unwrap();
        shutdown.cancel();
        within("the end of the socket's task", running)
            .await
            .unwrap()
            .unwrap();
    }

    pub(super) fn dmi(&self) -> &Dmi {
        &self.running.as_ref().unwrap().0
    }

    fn change(&self, change: impl FnOnce(&mut Catalogue)) {
        self.catalogue
            .send_modify(|all| change(Arc::make_mut(all.get_or_insert_default())));
    }

    pub(super) async fn put_device(&self, name: &str, revision: u64, desired: &str) {
        self.put_device_of("modbus", name, revision, desired).await;
    }

    pub(super) async fn put_device_of(
        &self,
        protocol: &str,
        name: &str,
        revision: u64,
        desired: &str,
    ) {
        let device = json!({
            "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device",
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"deviceModelRef": {"name": "m"}, "protocol": {"protocolName": protocol},
                "properties": [{"name": "t", "desired": {"value": desired}}]},
        });
        self.objects
            .put(DeviceObject::Device, &id(name), Some(device))
            .await;
        let listed = CatalogueEntry {
            revision,
            uid: name.into(),
            protocol: Some(protocol.into()),
            model: Some(id("m")),
        };
        self.change(|all| drop(all.devices.insert(id(name), listed)));
    }

    pub(super) async fn remove_device(&self, name: &str) {
        self.objects
            .put(DeviceObject::Device, &id(name), None)
            .await;
        self.change(|all| drop(all.devices.remove(&id(name))));
    }

    pub(super) async fn put_model(&self, revision: u64) {
        let model = json!({
            "apiVersion": "devices.kubeedge.io/v1beta1", "kind": "DeviceModel",
            "metadata": {"name": "m", "namespace": "ns"},
            "spec": {"protocol": "modbus", "properties": [{"name": "t", "unit": revision.to_string()}]},
        });
        self.objects
            .put(DeviceObject::Model, &id("m"), Some(model))
            .await;
        self.change(|all| {
            all.models.insert(id("m"), revision);
        });
    }

    /// Returns the stored state of a device that the mapper was sent.
    pub(super) async fn stored_state(&self, name: &str) -> Value {
        let key = Key::new(
            Resource::new("mappers.outrigger.dev", "mappers"),
            "",
            "modbus",
        );
        let kept = Store::get(&*self.store, &key)
            .await
            .unwrap()
            .unwrap()
            .value()
            .unwrap();
        kept["told"]["devices"][id(name).as_str()].clone()
    }

    /// Waits until the stored state differs from `before`.
    pub(super) async fn until_kept_anew(&self, name: &str, before: &Value) {
        eventually("another stored state", async || {
            let kept = self.stored_state(name).await;
            if kept == *before { Err(kept) } else { Ok(()) }
        })
        .await;
    }

    pub(super) fn mapper(&self, protocol: &str) -> FakeMapper {
        let socket = self.directory.path().join(format!("{protocol}.sock"));
        FakeMapper::new(protocol, socket)
    }

    pub(super) fn manager(&self) -> DeviceManagerServiceClient<Channel> {
        DeviceManagerServiceClient::new(channel(&self.directory.path().join("dmi.sock")))
    }

    pub(super) async fn register(
        &self,
        mapper: &FakeMapper,
        with_data: bool,
    ) -> Result<MapperRegisterResponse, Status> {
        let info = MapperInfo {
            name: format!("{}-mapper", mapper.protocol),
            protocol: mapper.protocol.clone(),
            address: mapper.socket.to_string_lossy().into_owned().into(),
            api_version: "v1beta1".into(),
            ..MapperInfo::default()
        };
        let request = MapperRegisterRequest {
            with_data,
            mapper: Some(info),
        };
        Ok(self.manager().mapper_register(request).await?.into_inner())
    }

    /// Returns the next report to DeviceTwin.
    pub(super) async fn next_report(&self) -> String {
        within("a report", self.reports.lock().await.recv())
            .await
            .unwrap()
    }
}

fn channel(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    Endpoint::from_static("http://agent").connect_with_connector_lazy(service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    }))
}

/// Answers as DeviceTwin, as far as mappers see it.
async fn answer(mut commands: mpsc::Receiver<Command>, reported: mpsc::Sender<String>) {
    let mut states: BTreeMap<DeviceId, String> = BTreeMap::new();
    while let Some(command) = commands.recv().await {
        match command {
            Command::Report {
                device, responder, ..
            } if device == id("nobody") => {
                let reason = format!("there is no device {device}");
                let _ = responder.send(Err(RequestError { code: 404, reason }));
            }
            Command::Report {
                device,
                readings,
                responder,
            } => {
                for reading in readings {
                    let text = |text: Option<String>| text.unwrap_or_default();
                    let (value, observed) = (text(reading.value), text(reading.observed));
                    let at = reading.at.unwrap_or_default();
                    let line = format!(
                        "{device} {}={value} at {at} observed {observed}",
                        reading.property
                    );
                    reported.send(line).await.unwrap();
                }
                let _ = responder.send(Ok(()));
            }
            Command::State {
                device,
                state,
                responder,
            } => {
                states.insert(device.clone(), state.clone());
                reported.send(format!("{device} is {state}")).await.unwrap();
                let _ = responder.send(Ok(()));
            }
            Command::Members { responder } => {
                let members = states.iter().map(|(id, state)| Member {
                    state: state.clone(),
                    ..Member::new(id.clone())
                });
                drop(responder.send(members.collect()));
            }
            Command::AllDesired { responder } => drop(responder.send(BTreeMap::new())),
            Command::Desired { responder, .. } => drop(responder.send(Ok(BTreeMap::new()))),
            other => panic!("mappers ask for nothing else: {other:?}"),
        }
    }
}

/// How the fake mapper answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Ok,
    Never,
    RefuseDevice(&'static str),
}

/// A mapper that records each call.
pub(super) struct FakeMapper {
    protocol: String,
    socket: PathBuf,
    calls: mpsc::Receiver<String>,
    service: Service,
    server: Option<Runtime>,
}

#[derive(Clone)]
struct Service {
    calls: mpsc::Sender<String>,
    answer: Arc<Mutex<Answer>>,
}

impl FakeMapper {
    fn new(protocol: &str, socket: PathBuf) -> Self {
        let (sender, calls) = mpsc::channel(64);
        let service = Service {
            calls: sender,
            answer: Arc::new(Mutex::new(Answer::Ok)),
        };
        let mut mapper = Self {
            protocol: protocol.to_owned(),
            socket,
            calls,
            service,
            server: None,
        };
        mapper.live();
        mapper
    }

    /// Starts serving, in a runtime of its own, so that connections do not outlive it.
    pub(super) fn live(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        *self.service.answer.lock() = Answer::Ok;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let within = runtime.enter();
        let listener = UnixListener::bind(&self.socket).unwrap();
        let service = DeviceMapperServiceServer::new(self.service.clone());
        let serving = Server::builder()
            .add_service(service)
            .serve_with_incoming(UnixListenerStream::new(listener));
        runtime.spawn(serving);
        drop(within);
        self.server = Some(runtime);
    }

    /// Ends as a process that is killed.
    pub(super) fn die(&mut self) {
        self.server.take().unwrap().shutdown_background();
    }

    pub(super) fn answer(&self, answer: Answer) {
        *self.service.answer.lock() = answer;
    }

    pub(super) async fn next(&mut self) -> String {
        within("a call", self.calls.recv()).await.unwrap()
    }

    pub(super) async fn until(&mut self, call: &str) {
        while self.next().await != call {}
    }

    pub(super) fn is_quiet(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }
}

impl Drop for FakeMapper {
    fn drop(&mut self) {
        // a runtime cannot be awaited inside another one
        if let Some(runtime) = self.server.take() {
            runtime.shutdown_background();
        }
    }
}

impl Service {
    async fn call<T: Default>(&self, call: String) -> Result<Response<T>, Status> {
        let answer = *self.answer.lock();
        self.calls.send(call.clone()).await.unwrap();
        match answer {
            Answer::Never => std::future::pending().await,
            Answer::RefuseDevice(name) if call.contains(&format!("/{name} ")) => {
                Err(Status::invalid_argument("not this one"))
            }
            Answer::Ok | Answer::RefuseDevice(_) => Ok(Response::new(T::default())),
        }
    }
}

fn describe_wanted(device: Option<Device>) -> String {
    let device = device.unwrap();
    let properties = device.spec.unwrap().properties;
    let desired = properties[0].desired.clone().unwrap_or_default().value;
    format!("{}/{} {desired}", device.namespace, device.name)
}

#[tonic::async_trait]
impl DeviceMapperService for Service {
    async fn register_device(
        &self,
        request: Request<RegisterDeviceRequest>,
    ) -> Result<Response<RegisterDeviceResponse>, Status> {
        self.call(format!(
            "register {}",
            describe_wanted(request.into_inner().device)
        ))
        .await
    }

    async fn remove_device(
        &self,
        request: Request<RemoveDeviceRequest>,
    ) -> Result<Response<RemoveDeviceResponse>, Status> {
        let request = request.into_inner();
        self.call(format!(
            "remove {}/{}",
            request.device_namespace, request.device_name
        ))
        .await
    }

    async fn update_device(
        &self,
        request: Request<UpdateDeviceRequest>,
    ) -> Result<Response<UpdateDeviceResponse>, Status> {
        self.call(format!(
            "update {}",
            describe_wanted(request.into_inner().device)
        ))
        .await
    }

    async fn create_device_model(
        &self,
        request: Request<CreateDeviceModelRequest>,
    ) -> Result<Response<CreateDeviceModelResponse>, Status> {
        let model = request.into_inner().model.unwrap();
        self.call(format!("create model {}/{}", model.namespace, model.name))
            .await
    }

    async fn remove_device_model(
        &self,
        request: Request<RemoveDeviceModelRequest>,
    ) -> Result<Response<RemoveDeviceModelResponse>, Status> {
        let request = request.into_inner();
        self.call(format!(
            "remove model {}/{}",
            request.model_namespace, request.model_name
        ))
        .await
    }

    async fn update_device_model(
        &self,
        request: Request<UpdateDeviceModelRequest>,
    ) -> Result<Response<UpdateDeviceModelResponse>, Status> {
        let model = request.into_inner().model.unwrap();
        self.call(format!("update model {}/{}", model.namespace, model.name))
            .await
    }

    async fn get_device(
        &self,
        request: Request<GetDeviceRequest>,
    ) -> Result<Response<GetDeviceResponse>, Status> {
        let device = Device {
            name: request.into_inner().device_name,
            ..Device::default()
        };
        Ok(Response::new(GetDeviceResponse {
            device: Some(device),
        }))
    }
}
