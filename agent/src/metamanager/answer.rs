//! Answers as an API server gives them.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use kubeapi::{Body, store::StoreError};
use serde_json::{Value, json};

/// A request refused: a code and a `metav1.Status`.
#[derive(Debug)]
pub(super) struct Refusal {
    code: StatusCode,
    status: Value,
}

impl Refusal {
    fn new(code: StatusCode, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code.as_u16(),
        });
        Self { code, status }
    }

    /// 503: the cloud is not reached.
    pub(super) fn unavailable(why: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why)
    }

    /// Whether nobody knows now.
    pub(super) fn is_unavailable(&self) -> bool {
        self.code == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Whether there is no such object.
    pub(super) fn is_not_found(&self) -> bool {
        self.code == StatusCode::NOT_FOUND
    }

    /// Whether who asks may not.
    pub(super) fn is_forbidden(&self) -> bool {
        self.code == StatusCode::FORBIDDEN
    }

    /// The reason, for people.
    pub(super) fn message(&self) -> &str {
        self.status.get("message").and_then(Value::as_str).unwrap_or_default()
    }

    /// 504: the cloud has not answered in time.
    pub(super) fn timeout(why: &str) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", why)
    }

    /// 401: who asks is not known.
    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 401: the same, with what is missing.
    pub(super) fn unauthorized_since(why: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", why)
    }

    /// Any other code and reason.
    pub(super) fn of_code(code: StatusCode, reason: &str, why: &str) -> Self {
        Self::new(code, reason, why)
    }

    /// 403: who asks may not.
    pub(super) fn forbidden(why: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", why)
    }

    /// 405.
    pub(super) fn method_not_allowed(why: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", why)
    }

    /// 408: the request did not come to its end.
    pub(super) fn late(why: &str) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", why)
    }

    /// 413.
    pub(super) fn too_large(limit: usize) -> Self {
        let why = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &why)
    }

    /// 413: a list is longer than this node will hold. `most` says what of.
    pub(super) fn too_long(most: &str) -> Self {
        let why = format!("the list has more than {most}; narrow it with a namespace or a selector");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &why)
    }

    /// 429: too much at a time.
    pub(super) fn too_busy(why: &str) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", why)
    }

    /// 502: the cloud answered something else.
    pub(super) fn bad_gateway(why: &str) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "InternalError", why)
    }

    /// 400.
    pub(super) fn bad_request(why: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", why)
    }

    /// 404: no such path.
    pub(super) fn no_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    /// 404.
    pub(super) fn not_found(plural: &str, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", &format!("{plural} \"{name}\" not found"))
    }

    /// 409: a precondition does not hold.
    pub(super) fn conflict(why: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", why)
    }

    /// What the cloud's API said; kind and apiVersion are not on the wire.
    pub(super) fn of(mut status: Value) -> Self {
        let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let code = code.and_then(|code| StatusCode::from_u16(code).ok()).filter(|code| code.as_u16() >= 400);
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

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &error.to_string())
    }
}

/// The answer that a refusal is.
pub(super) fn refusal(refusal: &Refusal) -> Response<Body> {
    object(refusal.code, &refusal.status)
}

/// An object as answer.
pub(super) fn object(code: StatusCode, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
