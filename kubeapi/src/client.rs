//! An ordinary `kube::Client` over a service in the same process.

use std::sync::OnceLock;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use kube::{Client, client::Body as ClientBody};
use tower::{Service, util::MapRequest};

use crate::{
    api::Api,
    identity::Identity,
    request::{
        body::BoxError,
        call::{CompleteLists, SkipAdmission},
    },
    status::STORAGE_READ,
};

impl Api {
    /// A client in the same process, without socket, that may do everything.
    pub fn client(&self, default_namespace: &str) -> Client {
        client_of(self.service(), default_namespace)
    }

    /// A client as [`Self::client`], whose lists fail if one of their objects is damaged: for programs that take an object that is not
    /// listed for deleted.
    pub fn complete_client(&self, default_namespace: &str) -> Client {
        let marked = MapRequest::new(self.service(), |mut request: Request<ClientBody>| {
            request.extensions_mut().insert(CompleteLists);
            request
        });
        client_of(marked, default_namespace)
    }

    /// The same, without admission policies and webhooks for its writes. Use it for objects without which the program cannot
    /// run, so that a policy that refuses everything can still be removed. All other checks apply.
    pub fn unreviewed_client(&self, default_namespace: &str) -> Client {
        let marked = MapRequest::new(self.service(), |mut request: Request<ClientBody>| {
            request.extensions_mut().insert(SkipAdmission);
            request
        });
        client_of(marked, default_namespace)
    }
}

/// Reports whether a call failed because a stored object is damaged: it exists, and must not be treated as deleted.
pub fn is_damaged(status: &kube::core::Status) -> bool {
    status.reason == STORAGE_READ
}

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
    client_as(Identity::master(), service, default_namespace)
}

/// A client as [`client_of`], with the permissions of this caller.
pub fn client_as<S, B>(caller: Identity, service: S, default_namespace: &str) -> Client
where
    S: Service<Request<ClientBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let trusted = MapRequest::new(service, move |mut request: Request<ClientBody>| {
        request.extensions_mut().insert(caller.clone());
        if let Some(program) = program() {
            request
                .headers_mut()
                .entry(header::USER_AGENT)
                .or_insert_with(|| program.clone());
        }
        request
    });
    Client::new(trusted, default_namespace)
}

/// The name of this program, by which `metadata.managedFields` says who wrote.
fn program() -> Option<&'static HeaderValue> {
    static PROGRAM: OnceLock<Option<HeaderValue>> = OnceLock::new();
    let name = || {
        let path = std::env::current_exe().ok()?;
        HeaderValue::from_str(path.file_stem()?.to_str()?).ok()
    };
    PROGRAM.get_or_init(name).as_ref()
}
