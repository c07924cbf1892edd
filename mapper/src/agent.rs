//! The client of the agent's service.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    slice::from_ref,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time::timeout};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tower::service_fn;
use tracing::warn;
use wire::dmi::{
    DeviceStatus, MapperInfo, MapperRegisterRequest, MapperRegisterResponse,
    ReportDeviceStatesRequest, ReportDeviceStatusRequest, Twin, TwinProperty,
    device_manager_service_client::DeviceManagerServiceClient,
};

use crate::{Device, work::Reading};

/// The limit of one call; an agent that takes longer hangs.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer, bytes: all devices of a mapper. `edge-agent` stays below gRPC's usual 4 MiB; `EdgeCore` does not.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// A client of the agent. It connects with the first call, and again after the agent went away. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    client: DeviceManagerServiceClient<Channel>,
}

impl Agent {
    /// Creates a client of the agent on this socket.
    pub(crate) fn new(socket: &Path) -> Self {
        let socket: PathBuf = socket.to_owned();
        let connector = service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // the name is only used in the HTTP/2 header
        let channel = Endpoint::from_static("http://agent").connect_with_connector_lazy(connector);
        Self {
            client: DeviceManagerServiceClient::new(channel)
                .max_decoding_message_size(ANSWER_BYTES),
        }
    }

    /// Registers the mapper; the answer has all devices and models.
    pub(crate) async fn register(
        &self,
        mapper: MapperInfo,
    ) -> Result<MapperRegisterResponse, Status> {
        let request = MapperRegisterRequest {
            with_data: true,
            mapper: Some(mapper),
        };
        within(self.client.clone().mapper_register(request)).await
    }

    /// Reports readings; returns whether they arrived. Readings that the agent refuses have arrived too, because it would refuse them
    /// again. It refuses a report as a whole, so the readings of a refused report are reported one by one.
    pub(crate) async fn report(&self, device: &Device, readings: &[Reading]) -> bool {
        let outcome = self.send(device, readings).await;
        let is_refused = outcome
            .as_ref()
            .is_err_and(|status| status.code() == Code::InvalidArgument);
        if !is_refused || readings.len() < 2 {
            return is_delivered(device, outcome);
        }
        for reading in readings {
            if !is_delivered(device, self.send(device, from_ref(reading)).await) {
                return false;
            }
        }
        true
    }

    async fn send(&self, device: &Device, readings: &[Reading]) -> Result<(), Status> {
        let reported_device = DeviceStatus {
            twins: readings.iter().map(twin).collect(),
            ..DeviceStatus::default()
        };
        let request = ReportDeviceStatusRequest {
            device_name: device.name.clone(),
            device_namespace: device.namespace.clone(),
            reported_device: Some(reported_device),
        };
        within(self.client.clone().report_device_status(request))
            .await
            .map(drop)
    }

    /// Reports a state; returns whether it arrived.
    pub(crate) async fn report_state(&self, device: &Device, state: &str) -> bool {
        let request = ReportDeviceStatesRequest {
            device_name: device.name.clone(),
            device_namespace: device.namespace.clone(),
            state: state.to_owned(),
        };
        is_delivered(
            device,
            within(self.client.clone().report_device_states(request)).await,
        )
    }
}

fn is_delivered<T>(device: &Device, outcome: Result<T, Status>) -> bool {
    let Err(status) = outcome else { return true };
    let is_away = matches!(
        status.code(),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Unknown
            | Code::NotFound
    );
    if !is_away {
        warn!(
            device = device.name,
            error = status.message(),
            "agent rejected a report"
        );
    }
    !is_away
}

fn twin(reading: &Reading) -> Twin {
    let metadata = BTreeMap::from([
        ("timestamp".to_owned(), reading.at.to_string()),
        ("type".to_owned(), reading.kind.to_owned()),
    ]);
    // both are always set, because `EdgeCore` fails without either
    Twin {
        property_name: reading.property.clone(),
        observed_desired: Some(TwinProperty {
            value: reading.observed.clone().unwrap_or_default(),
            metadata: metadata.clone(),
        }),
        reported: Some(TwinProperty {
            value: reading.value.clone(),
            metadata,
        }),
    }
}

async fn within<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    match timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(Status::deadline_exceeded(format!(
            "the agent did not answer within {CALL_TIMEOUT:?}"
        ))),
    }
}
