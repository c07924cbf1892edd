//! Calls of a mapper, each with a time limit.

use std::{path::Path, time::Duration};

use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time::timeout};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tower::service_fn;
use wire::{
    dmi::{self, device_mapper_service_client::DeviceMapperServiceClient},
    topic::DeviceId,
};

use super::calls::{Caller, Calls};

/// A mapper that takes longer for one call hangs. EdgeCore's limit.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A mapper's service. It connects with its first call, and again after the mapper went away.
#[derive(Clone, Debug)]
pub(super) struct Client {
    service: DeviceMapperServiceClient<Channel>,
    calls: Calls,
}

/// A call that was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The mapper is not there, or hangs: other calls would fail, too.
    #[error("the mapper does not answer: {0}")]
    Away(String),
    /// The mapper does not want it.
    #[error("the mapper refuses it: {0}")]
    Refused(String),
    /// It was not sent: there is nothing to send now.
    #[error("it was not sent: {0}")]
    Unsent(String),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
                Self::Away(status.message().into())
            }
            // a call that broke off in its middle
            Code::Unknown if std::error::Error::source(&status).is_some() => {
                Self::Away(status.message().into())
            }
            _ => Self::Refused(status.message().into()),
        }
    }
}

impl Client {
    /// Of the mapper on this socket; its calls are counted.
    pub(super) fn new(socket: &Path, calls: Calls) -> Self {
        let socket = socket.to_owned();
        let connector = service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // the name is for the HTTP/2 header only
        let channel = Endpoint::from_static("http://mapper").connect_with_connector_lazy(connector);
        Self { service: DeviceMapperServiceClient::new(channel), calls }
    }

    pub(super) async fn create_model(&self, model: dmi::DeviceModel) -> Result<(), Failure> {
        let request = dmi::CreateDeviceModelRequest { model: Some(model) };
        self.within("CreateDeviceModel", self.service.clone().create_device_model(request)).await.map(drop)
    }

    pub(super) async fn update_model(&self, model: dmi::DeviceModel) -> Result<(), Failure> {
        let request = dmi::UpdateDeviceModelRequest { model: Some(model) };
        self.within("UpdateDeviceModel", self.service.clone().update_device_model(request)).await.map(drop)
    }

    pub(super) async fn remove_model(&self, id: &DeviceId) -> Result<(), Failure> {
        let (model_namespace, model_name) = names(id);
        let request = dmi::RemoveDeviceModelRequest { model_name, model_namespace };
        gone(
            self.within("RemoveDeviceModel", self.service.clone().remove_device_model(request))
                .await
                .map(drop),
        )
    }

    pub(super) async fn register(&self, device: dmi::Device) -> Result<(), Failure> {
        let request = dmi::RegisterDeviceRequest { device: Some(device) };
        self.within("RegisterDevice", self.service.clone().register_device(request)).await.map(drop)
    }

    pub(super) async fn update(&self, device: dmi::Device) -> Result<(), Failure> {
        let request = dmi::UpdateDeviceRequest { device: Some(device) };
        self.within("UpdateDevice", self.service.clone().update_device(request)).await.map(drop)
    }

    pub(super) async fn remove(&self, id: &DeviceId) -> Result<(), Failure> {
        let (device_namespace, device_name) = names(id);
        let request = dmi::RemoveDeviceRequest { device_name, device_namespace };
        gone(self.within("RemoveDevice", self.service.clone().remove_device(request)).await.map(drop))
    }

    async fn within<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Failure> {
        let answer = timeout(CALL_TIMEOUT, call).await;
        self.calls.count(Caller::Agent, method, matches!(answer, Ok(Ok(_))));
        match answer {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::Away(format!("no answer within {CALL_TIMEOUT:?}"))),
        }
    }

    /// What the mapper knows of a device.
    pub(super) async fn get(&self, id: &DeviceId) -> Result<Option<dmi::Device>, Failure> {
        let (device_namespace, device_name) = names(id);
        let request = dmi::GetDeviceRequest { device_name, device_namespace };
        self.within("GetDevice", self.service.clone().get_device(request))
            .await
            .map(|answer| answer.into_inner().device)
    }
}

fn names(id: &DeviceId) -> (String, String) {
    (id.namespace().unwrap_or_default().to_owned(), id.name().to_owned())
}

/// What a mapper refuses to remove, it does not have.
fn gone(removed: Result<(), Failure>) -> Result<(), Failure> {
    match removed {
        Err(Failure::Refused(_)) => Ok(()),
        removed => removed,
    }
}
