//! The client of a mapper; each call has a time limit.

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

use super::calls::{CallCounts, Caller};

/// How long a mapper may take for one call; EdgeCore's limit.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The client of one mapper. It connects with its first call, and reconnects after the mapper was away.
#[derive(Clone, Debug)]
pub(super) struct Client {
    service: DeviceMapperServiceClient<Channel>,
    calls: CallCounts,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The mapper cannot be reached, or hangs: other calls would fail, too.
    #[error("the mapper does not respond: {0}")]
    Unreachable(String),
    /// The mapper refuses the call.
    #[error("the mapper refused the call: {0}")]
    Refused(String),
    /// The call was not sent: there is nothing to send now.
    #[error("the call was not sent: {0}")]
    NotSent(String),
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
                Self::Unreachable(status.message().into())
            }
            // a call whose connection broke
            Code::Unknown if std::error::Error::source(&status).is_some() => {
                Self::Unreachable(status.message().into())
            }
            _ => Self::Refused(status.message().into()),
        }
    }
}

impl Client {
    /// Creates a client of the mapper on this socket; its calls are counted.
    pub(super) fn new(socket: &Path, calls: CallCounts) -> Self {
        let socket = socket.to_owned();
        let connector = service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // the name is used for the HTTP/2 header only
        let channel = Endpoint::from_static("http://mapper").connect_with_connector_lazy(connector);
        Self {
            service: DeviceMapperServiceClient::new(channel),
            calls,
        }
    }

    pub(super) async fn create_model(&self, model: dmi::DeviceModel) -> Result<(), CallError> {
        let request = dmi::CreateDeviceModelRequest { model: Some(model) };
        self.call(
            "CreateDeviceModel",
            self.service.clone().create_device_model(request),
        )
        .await
        .map(drop)
    }

    pub(super) async fn update_model(&self, model: dmi::DeviceModel) -> Result<(), CallError> {
        let request = dmi::UpdateDeviceModelRequest { model: Some(model) };
        self.call(
            "UpdateDeviceModel",
            self.service.clone().update_device_model(request),
        )
        .await
        .map(drop)
    }

    pub(super) async fn remove_model(&self, id: &DeviceId) -> Result<(), CallError> {
        let (model_namespace, model_name) = names(id);
        let request = dmi::RemoveDeviceModelRequest {
            model_name,
            model_namespace,
        };
        ignore_refusal(
            self.call(
                "RemoveDeviceModel",
                self.service.clone().remove_device_model(request),
            )
            .await
            .map(drop),
        )
    }

    pub(super) async fn register(&self, device: dmi::Device) -> Result<(), CallError> {
        let request = dmi::RegisterDeviceRequest {
            device: Some(device),
        };
        self.call(
            "RegisterDevice",
            self.service.clone().register_device(request),
        )
        .await
        .map(drop)
    }

    pub(super) async fn update(&self, device: dmi::Device) -> Result<(), CallError> {
        let request = dmi::UpdateDeviceRequest {
            device: Some(device),
        };
        self.call("UpdateDevice", self.service.clone().update_device(request))
            .await
            .map(drop)
    }

    pub(super) async fn remove(&self, id: &DeviceId) -> Result<(), CallError> {
        let (device_namespace, device_name) = names(id);
        let request = dmi::RemoveDeviceRequest {
            device_name,
            device_namespace,
        };
        ignore_refusal(
            self.call("RemoveDevice", self.service.clone().remove_device(request))
                .await
                .map(drop),
        )
    }

    async fn call<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, CallError> {
        let answer = timeout(CALL_TIMEOUT, call).await;
        self.calls
            .count(Caller::Agent, method, matches!(answer, Ok(Ok(_))));
        match answer {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(CallError::Unreachable(format!(
                "no answer within {CALL_TIMEOUT:?}"
            ))),
        }
    }

    /// Returns the device as the mapper knows it.
    pub(super) async fn get(&self, id: &DeviceId) -> Result<Option<dmi::Device>, CallError> {
        let (device_namespace, device_name) = names(id);
        let request = dmi::GetDeviceRequest {
            device_name,
            device_namespace,
        };
        self.call("GetDevice", self.service.clone().get_device(request))
            .await
            .map(|answer| answer.into_inner().device)
    }
}

fn names(id: &DeviceId) -> (String, String) {
    (
        id.namespace().unwrap_or_default().to_owned(),
        id.name().to_owned(),
    )
}

/// Treats a refused removal as success: the mapper does not have the object.
fn ignore_refusal(removed: Result<(), CallError>) -> Result<(), CallError> {
    match removed {
        Err(CallError::Refused(_)) => Ok(()),
        removed => removed,
    }
}
