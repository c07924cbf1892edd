//! The two services of CRI v1 over the runtime's state.

mod containers;
mod images;
mod sandboxes;
mod service;
mod streaming;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Response, Status,
    body::Body,
    server::NamedService,
    transport::{Server, server::Router},
};
use tower::{
    Service as _,
    layer::util::{Identity, Stack},
};
use wire::cri::{
    image_service_server::ImageServiceServer, runtime_service_server::RuntimeServiceServer,
};

use super::{SimRuntime, calls::Calls, core::Core, state::Refusal};

/// The message limit of containerd and the kubelet.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

type Reply<T> = Result<Response<T>, Status>;

/// One server's view of the runtime.
#[derive(Clone)]
struct Service {
    core: Arc<Core>,
    /// Ends the event streams, which would otherwise keep a server from ending.
    end_of_streams: CancellationToken,
}

/// Returns both services, whose calls are counted and can be made to fail by [`Calls`].
pub(super) fn router(
    runtime: &SimRuntime,
    end_of_streams: CancellationToken,
) -> Router<Stack<Calls, Identity>> {
    let service = Service {
        core: Arc::clone(&runtime.core),
        end_of_streams,
    };
    let (runtime_service, image_service) = servers(service);
    Server::builder()
        .layer(runtime.core.calls.clone())
        .add_service(runtime_service)
        .add_service(image_service)
}

fn servers(service: Service) -> (RuntimeServiceServer<Service>, ImageServiceServer<Service>) {
    (
        RuntimeServiceServer::new(service.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES),
        ImageServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE_BYTES),
    )
}

/// Both services for callers in this process.
pub(super) struct Services {
    runtime: RuntimeServiceServer<Service>,
    images: ImageServiceServer<Service>,
    calls: Calls,
}

impl Services {
    pub(super) fn new(runtime: &SimRuntime) -> Self {
        let (core, calls) = (Arc::clone(&runtime.core), runtime.core.calls.clone());
        let end_of_streams = CancellationToken::new();
        let (runtime, images) = servers(Service {
            core,
            end_of_streams,
        });
        Self {
            runtime,
            images,
            calls,
        }
    }

    /// Answers a call. Errors of gRPC are part of the response.
    pub(super) fn answer(
        &self,
        request: http::Request<Body>,
    ) -> BoxFuture<'static, http::Response<Body>> {
        let path = request.uri().path();
        if let Some(status) = self.calls.count_call(path) {
            return Box::pin(std::future::ready(status.into_http()));
        }
        let answer = match path.split('/').nth(1) {
            Some(name) if name == <RuntimeServiceServer<Service> as NamedService>::NAME => {
                self.runtime.clone().call(request)
            }
            Some(name) if name == <ImageServiceServer<Service> as NamedService>::NAME => {
                self.images.clone().call(request)
            }
            // as of a server without this service, such as containerd's own
            _ => return Box::pin(std::future::ready(Status::unimplemented("").into_http())),
        };
        Box::pin(answer.map(|Ok(response)| response))
    }
}

/// Sleeps, unless the time is zero: a timer of zero would still wait for the next millisecond.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Returns a new id like containerd's: 64 hexadecimal digits.
fn new_id() -> String {
    format!("{}{}", clock::uuid().simple(), clock::uuid().simple())
}

/// The codes are containerd's, which uses "unknown" if an object is in the wrong state.
impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::NotFound { .. } | Refusal::NoImage(_) => Code::NotFound,
            Refusal::NameTaken { .. } | Refusal::WrongState { .. } => Code::Unknown,
            Refusal::Invalid(_) | Refusal::Annotation(_) => Code::InvalidArgument,
            Refusal::NoAddress => Code::ResourceExhausted,
        };
        Self::new(code, refusal.to_string())
    }
}
