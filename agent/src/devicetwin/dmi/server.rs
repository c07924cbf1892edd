//! The `DeviceManagerService`, which mappers call.

use tonic::{Request, Response, Status};
use tracing::{debug, info};
use wire::dmi::{
    MapperRegisterRequest, MapperRegisterResponse, ReportDeviceStatesRequest,
    ReportDeviceStatesResponse, ReportDeviceStatusRequest, ReportDeviceStatusResponse,
    device_manager_service_server::DeviceManagerService,
};

use super::{
    calls::Caller,
    gather,
    mapper::Mapper,
    plan::{SyncedState, fitting},
    registry::{RegisterError, Registry},
    report,
};
use crate::devicetwin::DeviceTwin;

/// The largest answer, bytes: gRPC clients accept 4 MiB by default. What does not fit is sent by calls.
const MAX_ANSWER_BYTES: usize = 3 * 1024 * 1024 + 512 * 1024;
/// The service; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct DeviceManager {
    pub(super) twin: DeviceTwin,
    pub(super) registry: Registry,
}

#[tonic::async_trait]
impl DeviceManagerService for DeviceManager {
    async fn mapper_register(
        &self,
        request: Request<MapperRegisterRequest>,
    ) -> Result<Response<MapperRegisterResponse>, Status> {
        self.count_call("MapperRegister", self.register(request))
            .await
    }

    async fn report_device_status(
        &self,
        request: Request<ReportDeviceStatusRequest>,
    ) -> Result<Response<ReportDeviceStatusResponse>, Status> {
        self.count_call("ReportDeviceStatus", self.status(request))
            .await
    }

    async fn report_device_states(
        &self,
        request: Request<ReportDeviceStatesRequest>,
    ) -> Result<Response<ReportDeviceStatesResponse>, Status> {
        self.count_call("ReportDeviceStates", self.states(request))
            .await
    }
}

impl DeviceManager {
    async fn count_call<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let answer = call.await;
        self.registry
            .calls
            .count(Caller::Mapper, method, answer.is_ok());
        answer
    }

    /// Registers a mapper. One that asks for data gets its devices in the answer; another one gets them by calls. In EdgeCore
    /// the latter gets none.
    async fn register(
        &self,
        request: Request<MapperRegisterRequest>,
    ) -> Result<Response<MapperRegisterResponse>, Status> {
        let MapperRegisterRequest { with_data, mapper } = request.into_inner();
        let mapper =
            Mapper::from_info(mapper.unwrap_or_default()).map_err(Status::invalid_argument)?;
        let (answer, synced) = if with_data {
            let (devices, models) = gather::all(&self.twin, &mapper.protocol).await;
            fitting(devices, &models, MAX_ANSWER_BYTES)
        } else {
            (MapperRegisterResponse::default(), SyncedState::default())
        };
        let Mapper {
            name,
            protocol,
            socket,
            ..
        } = &mapper;
        info!(name, protocol, socket = %socket.display(), devices = answer.device_list.len(), "mapper registered");
        self.registry
            .register(mapper, synced)
            .await
            .map_err(|error| match error {
                RegisterError::Full => Status::resource_exhausted(error.to_string()),
                RegisterError::Store(_) => Status::unavailable(error.to_string()),
            })?;
        Ok(Response::new(answer))
    }

    async fn status(
        &self,
        request: Request<ReportDeviceStatusRequest>,
    ) -> Result<Response<ReportDeviceStatusResponse>, Status> {
        let ReportDeviceStatusRequest {
            device_name,
            reported_device,
            device_namespace,
        } = request.into_inner();
        let device = report::device(&device_namespace, &device_name)?;
        let readings = report::readings(reported_device)?;
        self.twin
            .report(&device, readings)
            .await
            .map_err(|refused| {
                debug!(%device, %refused, "report of a mapper rejected");
                report::status(refused)
            })?;
        Ok(Response::new(ReportDeviceStatusResponse {}))
    }

    async fn states(
        &self,
        request: Request<ReportDeviceStatesRequest>,
    ) -> Result<Response<ReportDeviceStatesResponse>, Status> {
        let ReportDeviceStatesRequest {
            device_name,
            device_namespace,
            state,
        } = request.into_inner();
        let device = report::device(&device_namespace, &device_name)?;
        if state.is_empty() {
            return Err(Status::invalid_argument(
                "state is empty; give online, offline, ok, unknown or unhealthy",
            ));
        }
        self.twin
            .report_state(&device, &state)
            .await
            .map_err(report::status)?;
        Ok(Response::new(ReportDeviceStatesResponse {}))
    }
}
