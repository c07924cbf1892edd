//! The mapper's server: `DeviceMapperService`, which the agent calls.

use tonic::{Request, Response, Status};
use wire::dmi::{
    CreateDeviceModelRequest, CreateDeviceModelResponse, DeviceModel, GetDeviceRequest,
    GetDeviceResponse, RegisterDeviceRequest, RegisterDeviceResponse, RemoveDeviceModelRequest,
    RemoveDeviceModelResponse, RemoveDeviceRequest, RemoveDeviceResponse, UpdateDeviceModelRequest,
    UpdateDeviceModelResponse, UpdateDeviceRequest, UpdateDeviceResponse,
    device_mapper_service_server::DeviceMapperService,
};

use crate::{Protocol, keeper::Keeper};

/// The service.
pub(crate) struct Service<P>(pub(crate) Keeper<P>);

fn require<T>(what: Option<T>) -> Result<T, Status> {
    what.ok_or_else(|| Status::invalid_argument("the request is empty"))
}

#[tonic::async_trait]
impl<P: Protocol> DeviceMapperService for Service<P> {
    /// Handled like an update: an agent that has restarted may not know what it sent before.
    async fn register_device(
        &self,
        request: Request<RegisterDeviceRequest>,
    ) -> Result<Response<RegisterDeviceResponse>, Status> {
        let device = require(request.into_inner().device)?;
        let answer = RegisterDeviceResponse {
            device_name: device.name.clone(),
            device_namespace: device.namespace.clone(),
        };
        self.0.put(device)?;
        Ok(Response::new(answer))
    }

    async fn remove_device(
        &self,
        request: Request<RemoveDeviceRequest>,
    ) -> Result<Response<RemoveDeviceResponse>, Status> {
        let request = request.into_inner();
        self.0
            .remove(&request.device_namespace, &request.device_name);
        Ok(Response::new(RemoveDeviceResponse {}))
    }

    async fn update_device(
        &self,
        request: Request<UpdateDeviceRequest>,
    ) -> Result<Response<UpdateDeviceResponse>, Status> {
        self.0.put(require(request.into_inner().device)?)?;
        Ok(Response::new(UpdateDeviceResponse {}))
    }

    async fn create_device_model(
        &self,
        request: Request<CreateDeviceModelRequest>,
    ) -> Result<Response<CreateDeviceModelResponse>, Status> {
        let model: DeviceModel = require(request.into_inner().model)?;
        let answer = CreateDeviceModelResponse {
            device_model_name: model.name.clone(),
            device_model_namespace: model.namespace.clone(),
        };
        self.0.put_model(model);
        Ok(Response::new(answer))
    }

    async fn remove_device_model(
        &self,
        request: Request<RemoveDeviceModelRequest>,
    ) -> Result<Response<RemoveDeviceModelResponse>, Status> {
        let request = request.into_inner();
        self.0
            .remove_model(&request.model_namespace, &request.model_name);
        Ok(Response::new(RemoveDeviceModelResponse {}))
    }

    async fn update_device_model(
        &self,
        request: Request<UpdateDeviceModelRequest>,
    ) -> Result<Response<UpdateDeviceModelResponse>, Status> {
        self.0.put_model(require(request.into_inner().model)?);
        Ok(Response::new(UpdateDeviceModelResponse {}))
    }

    async fn get_device(
        &self,
        request: Request<GetDeviceRequest>,
    ) -> Result<Response<GetDeviceResponse>, Status> {
        let request = request.into_inner();
        let device = self.0.get(&request.device_namespace, &request.device_name);
        let missing = || Status::not_found(format!("device {} is not known", request.device_name));
        Ok(Response::new(GetDeviceResponse {
            device: Some(device.ok_or_else(missing)?),
        }))
    }
}
