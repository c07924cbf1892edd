//! The API of this node's objects on the status socket, for root: pods with their logs and commands, the node, devices, and operations.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kubeapi::{ApiService, Body, Identity, gather};
use serde_json::{Value, json};
use tower::Service;

use crate::metamanager::{DeviceObject, DeviceObjects, Operation, Operations};

/// The path of the devices of this node.
const DEVICES_PATH: &str = "/devices";
/// The largest body of an operation, bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The objects of this node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Objects {
    /// The API over the stored objects.
    pub(crate) api: ApiService,
    /// The devices.
    pub(crate) devices: DeviceObjects,
    /// The operations.
    pub(crate) operations: Arc<dyn Operations>,
}

impl Objects {
    /// Reports whether a path belongs to this API.
    pub(super) fn is_at(path: &str) -> bool {
        path == DEVICES_PATH || path.starts_with("/api/") || path.starts_with("/apis/")
    }

    /// Answers a request of root. Objects are only read; what the cloud wants is changed in the cloud.
    pub(super) async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        if Operation::is_at(request.method(), &path) {
            return self.operate(&path, request.into_body()).await;
        }
        let is_session = path.ends_with("/exec");
        match *request.method() {
            Method::GET if path == DEVICES_PATH => return self.devices().await,
            Method::GET => {}
            Method::POST if is_session => {}
            _ => {
                let why = "objects are only read here; change them in the cloud";
                return failure(StatusCode::METHOD_NOT_ALLOWED, why);
            }
        }
        request.extensions_mut().insert(Identity::master());
        let answer: Result<_, Infallible> = self.api.clone().call(request).await;
        match answer {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }

    async fn operate(&self, path: &str, body: Incoming) -> Response<Body> {
        let body = match gather(body, MAX_BODY_BYTES).await {
            Ok(body) => body,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error.to_string()),
        };
        let operation = match Operation::parse(path, &body) {
            Some(Ok(operation)) => operation,
            Some(Err(why)) => return failure(StatusCode::BAD_REQUEST, &why),
            None => return failure(StatusCode::NOT_FOUND, "there is no such operation"),
        };
        match self.operations.run(&operation).await {
            Ok(done) => {
                let document = json!({"messages": done.messages, "errors": done.errors});
                document_response(StatusCode::OK, &document)
            }
            Err((code, why)) => failure(code, &why),
        }
    }

    async fn devices(&self) -> Response<Body> {
        match self.devices.list(DeviceObject::Device).await {
            Ok((objects, _)) => {
                let items: Vec<Value> = objects
                    .iter()
                    .filter_map(|object| object.value().ok())
                    .collect();
                document_response(StatusCode::OK, &json!({"items": items}))
            }
            Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }
}

/// Returns an error in the form of the API.
pub(super) fn failure(code: StatusCode, why: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": why,
        "reason": code.canonical_reason().unwrap_or_default(), "code": code.as_u16()});
    document_response(code, &status)
}

fn document_response(code: StatusCode, document: &Value) -> Response<Body> {
    response(code, "application/json", document.to_string().into_bytes())
}

/// Returns a response with this body.
pub(super) fn response(
    code: StatusCode,
    media_type: &'static str,
    body: Vec<u8>,
) -> Response<Body> {
    let body = Full::new(Bytes::from(body));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = code;
    let value = header::HeaderValue::from_static(media_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
