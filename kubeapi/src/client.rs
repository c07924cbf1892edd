//! An ordinary `kube::Client` over a service in the same process.

use bytes::Bytes;
use http::{Request, Response};
use kube::{Client, client::Body as ClientBody};
use tower::{Service, util::MapRequest};

use crate::{BoxError, Identity};

/// A client that calls `service` directly, as an identity that may do everything. `service` is [`crate::Api::service`], or
/// that in layers of the caller's own.
pub fn client_of<S, B>(service: S, default_namespace: &str) -> Client
where
    S: Service<Request<ClientBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let trusted = MapRequest::new(service, |mut request: Request<ClientBody>| {
        request.extensions_mut().insert(Identity::master());
        request
    });
    Client::new(trusted, default_namespace)
}
