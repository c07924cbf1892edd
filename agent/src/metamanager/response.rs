//! Responses in the form of a Kubernetes API server.

use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use kubeapi::Body;
use objectstore::StoreError;
use serde_json::{Value, json};

/// An error response: an HTTP status code and a `metav1.Status`.
#[derive(Debug)]
pub(super) struct ApiError {
    code: StatusCode,
    status: Value,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl ApiError {
    fn new(code: StatusCode, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code.as_u16(),
        });
        Self { code, status }
    }

    /// Returns a 503: the cloud is not connected.
    pub(super) fn unavailable(why: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why)
    }

    /// Reports whether the answer is not known at the moment (503).
    pub(super) fn is_unavailable(&self) -> bool {
        self.code == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Reports whether the object does not exist (404).
    pub(super) fn is_not_found(&self) -> bool {
        self.code == StatusCode::NOT_FOUND
    }

    /// Reports whether the caller lacks the permission (403).
    pub(super) fn is_forbidden(&self) -> bool {
        self.code == StatusCode::FORBIDDEN
    }

    /// Returns the message of the status.
    pub(super) fn message(&self) -> &str {
        self.status
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns a 504: the cloud did not answer in time.
    pub(super) fn timeout(why: &str) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", why)
    }

    /// Returns a 401: the caller is not known.
    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// Returns a 401 that says which credentials are missing.
    pub(super) fn unauthorized_because(why: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", why)
    }

    /// Returns an error with any other code and reason.
    pub(super) fn with_code(code: StatusCode, reason: &str, why: &str) -> Self {
        Self::new(code, reason, why)
    }

    /// Returns a 403: the caller lacks the permission.
    pub(super) fn forbidden(why: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", why)
    }

    /// Returns a 405.
    pub(super) fn method_not_allowed(why: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", why)
    }

    /// Returns a 408: the body of the request did not arrive in time.
    pub(super) fn request_timeout(why: &str) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", why)
    }

    /// Returns a 413: the body is larger than `limit` bytes.
    pub(super) fn too_large(limit: usize) -> Self {
        let why = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &why)
    }

    /// Returns a 413: a list is longer than this node holds. `most` is the limit with its unit.
    pub(super) fn too_long(most: &str) -> Self {
        let why =
            format!("the list has more than {most}; narrow it with a namespace or a selector");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &why)
    }

    /// Returns a 429: too many requests at the same time.
    pub(super) fn too_busy(why: &str) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", why)
    }

    /// Returns a 502: the cloud's answer is not the expected one.
    pub(super) fn bad_gateway(why: &str) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "InternalError", why)
    }

    /// Returns a 400.
    pub(super) fn bad_request(why: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", why)
    }

    /// Returns a 404: the API has no such path.
    pub(super) fn path_not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// Returns a 404: there is no such object.
    pub(super) fn not_found(plural: &str, name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            &format!("{plural} \"{name}\" not found"),
        )
    }

    /// Returns a 409: a precondition does not hold.
    pub(super) fn conflict(why: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", why)
    }

    /// Converts a `Status` of the cloud's API, which comes over the wire without kind and apiVersion.
    pub(super) fn of(mut status: Value) -> Self {
        let code = status
            .get("code")
            .and_then(Value::as_u64)
            .and_then(|code| u16::try_from(code).ok());
        let code = code
            .and_then(|code| StatusCode::from_u16(code).ok())
            .filter(|code| code.as_u16() >= 400);
        let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Some(map) = status.as_object_mut() {
            map.insert("kind".into(), "Status".into());
            map.insert("apiVersion".into(), "v1".into());
            map.insert("code".into(), code.as_u16().into());
            map.entry("status").or_insert_with(|| "Failure".into());
            map.entry("metadata").or_insert_with(|| json!({}));
        }
        Self { code, status }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            &error.to_string(),
        )
    }
}

/// Returns the response for an error.
pub(super) fn error_response(error: &ApiError) -> Response<Body> {
    object_response(error.code, &error.status)
}

/// Returns a response with an object as its body.
pub(super) fn object_response(code: StatusCode, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string()))
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
