//! `DeviceManagerService`, which mappers call.

use std::path::{Path, PathBuf};

use tonic::{Request, Response, Status};
use tracing::{debug, info};
use wire::dmi::{
    MapperInfo, MapperRegisterRequest, MapperRegisterResponse, ReportDeviceStatesRequest,
    ReportDeviceStatesResponse, ReportDeviceStatusRequest, ReportDeviceStatusResponse,
    device_manager_service_server::DeviceManagerService,
};

use super::{
    calls::Caller,
    gather,
    plan::{Known, fitting},
    registry::{Mapper, Registry, Unregistered},
    report,
};
use crate::devicetwin::DeviceTwin;

/// The largest answer: gRPC clients take 4 MiB unless told otherwise. What does not go into it is told by calls.
const ANSWER_BYTES: usize = 3 * 1024 * 1024 + 512 * 1024;
/// The longest path of a unix socket (`sockaddr_un`), without its end.
const SOCKET_PATH_BYTES: usize = 107;
/// The longest name of a mapper, or of its protocol.
const NAME_BYTES: usize = 253;

/// The service. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    pub(super) twin: DeviceTwin,
    pub(super) registry: Registry,
}

#[tonic::async_trait]
impl DeviceManagerService for Manager {
    async fn mapper_register(
        &self,
        request: Request<MapperRegisterRequest>,
    ) -> Result<Response<MapperRegisterResponse>, Status> {
        self.counted("MapperRegister", self.register(request)).await
    }

    async fn report_device_status(
        &self,
        request: Request<ReportDeviceStatusRequest>,
    ) -> Result<Response<ReportDeviceStatusResponse>, Status> {
        self.counted("ReportDeviceStatus", self.status(request)).await
    }

    async fn report_device_states(
        &self,
        request: Request<ReportDeviceStatesRequest>,
    ) -> Result<Response<ReportDeviceStatesResponse>, Status> {
        self.counted("ReportDeviceStates", self.states(request)).await
    }
}

impl Manager {
    async fn counted<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let answer = call.await;
        self.registry.calls.count(Caller::Mapper, method, answer.is_ok());
        answer
    }

    /// A mapper that asks for data gets its devices in the answer; another one is told of them by calls. In EdgeCore the other
    /// one is told of none.
    async fn register(
        &self,
        request: Request<MapperRegisterRequest>,
    ) -> Result<Response<MapperRegisterResponse>, Status> {
        let MapperRegisterRequest { with_data, mapper } = request.into_inner();
        let mapper = checked(mapper.unwrap_or_default()).map_err(Status::invalid_argument)?;
        let (answer, told) = if with_data {
            let (devices, models) = gather::all(&self.twin, &mapper.protocol).await;
            fitting(devices, &models, ANSWER_BYTES)
        } else {
            (MapperRegisterResponse::default(), Known::default())
        };
        let Mapper { name, protocol, socket, .. } = &mapper;
        info!(name, protocol, socket = %socket.display(), devices = answer.device_list.len(), "a mapper registers");
        self.registry.register(mapper, told).await.map_err(|error| match error {
            Unregistered::Full => Status::resource_exhausted(error.to_string()),
            Unregistered::Store(_) => Status::unavailable(error.to_string()),
        })?;
        Ok(Response::new(answer))
    }

    async fn status(
        &self,
        request: Request<ReportDeviceStatusRequest>,
    ) -> Result<Response<ReportDeviceStatusResponse>, Status> {
        let ReportDeviceStatusRequest { device_name, reported_device, device_namespace } =
            request.into_inner();
        let device = report::device(&device_namespace, &device_name)?;
        let readings = report::readings(reported_device)?;
        self.twin.report(&device, readings).await.map_err(|refused| {
            debug!(%device, %refused, "a mapper's report is refused");
            report::status(refused)
        })?;
        Ok(Response::new(ReportDeviceStatusResponse {}))
    }

    async fn states(
        &self,
        request: Request<ReportDeviceStatesRequest>,
    ) -> Result<Response<ReportDeviceStatesResponse>, Status> {
        let ReportDeviceStatesRequest { device_name, device_namespace, state } = request.into_inner();
        let device = report::device(&device_namespace, &device_name)?;
        if state.is_empty() {
            return Err(Status::invalid_argument(
                "state is empty; give online, offline, ok, unknown or unhealthy",
            ));
        }
        self.twin.report_state(&device, &state).await.map_err(report::status)?;
        Ok(Response::new(ReportDeviceStatesResponse {}))
    }
}

/// What is kept of a mapper, or what is wrong with it.
pub(super) fn checked(info: MapperInfo) -> Result<Mapper, String> {
    let MapperInfo { name, version, protocol, address, .. } = info;
    for (what, value) in [("name", &name), ("protocol", &protocol)] {
        if value.is_empty() || value.len() > NAME_BYTES || value.contains(char::is_control) {
            return Err(format!("mapper.{what} is {value:?}; give 1 to {NAME_BYTES} characters"));
        }
    }
    let socket = socket(&address).ok_or_else(|| {
        let address = String::from_utf8_lossy(&address);
        format!(
            "mapper.address is {address:?}; give the absolute path, at most {SOCKET_PATH_BYTES} bytes, of the unix socket on \
             which mapper {name} serves"
        )
    })?;
    Ok(Mapper { name, version, protocol, socket })
}

fn socket(address: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(address).ok()?;
    let path = Path::new(text.strip_prefix("unix://").unwrap_or(text));
    let is_sound = path.is_absolute() && text.len() <= SOCKET_PATH_BYTES && !text.contains('\0');
    is_sound.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapper_says_who_and_where_it_is() {
        let info = |name: &str, protocol: &str, address: &str| MapperInfo {
            name: name.into(),
            protocol: protocol.into(),
            address: address.to_owned().into(),
            ..MapperInfo::default()
        };
        let mapper = checked(info("m", "modbus", "/run/m.sock")).unwrap();
        assert_eq!((mapper.protocol.as_str(), mapper.socket.as_path()), ("modbus", Path::new("/run/m.sock")));
        assert_eq!(checked(info("m", "p", "unix:///run/m")).unwrap().socket, Path::new("/run/m"));
        let long = format!("/{}", "x".repeat(SOCKET_PATH_BYTES));
        for (wrong, what) in [
            (info("", "p", "/s"), "mapper.name"),
            (info("m", "", "/s"), "mapper.protocol"),
            (info("m", "p\n", "/s"), "mapper.protocol"),
            (info("m", "p", ""), "mapper.address"),
            (info("m", "p", "m.sock"), "mapper.address"),
            (info("m", "p", "localhost:80"), "mapper.address"),
            (info("m", "p", &long), "mapper.address"),
        ] {
            assert!(checked(wrong).unwrap_err().starts_with(what), "{what}");
        }
    }
}
