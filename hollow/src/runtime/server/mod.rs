//! The two services of CRI v1 over the runtime's state.

mod containers;
mod images;
mod sandboxes;
mod service;
mod streaming;

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Response, Status,
    transport::{Server, server::Router},
};
use tower::layer::util::{Identity, Stack};
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
    Server::builder()
        .layer(runtime.core.calls.clone())
        .add_service(
            RuntimeServiceServer::new(service.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES),
        )
        .add_service(ImageServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE_BYTES))
}

/// Sleeps, unless the time is zero: a timer of zero would still wait for the next millisecond.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// Returns a new id like containerd's: 64 hexadecimal digits.
fn new_id() -> String {
    format!(
        "{}{}",
        uuid::Uuid::new_v4().simple(),
        uuid::Uuid::new_v4().simple()
    )
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
