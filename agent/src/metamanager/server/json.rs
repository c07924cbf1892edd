//! JSON of requests and responses.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use kubeapi::Body;
use serde_json::Value;

use super::{super::response::ApiError, cloud::Unavailable};

/// Returns a response with JSON as it is.
pub(super) fn raw_response(code: StatusCode, json: Vec<u8>) -> Response<Body> {
    let body = Full::new(Bytes::from(json))
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

/// Adds a warning to a response, which clients print: it is what this node last knew.
pub(super) fn with_stale_warning(mut answer: Response<Body>, away: Unavailable) -> Response<Body> {
    let text = format!(
        "299 - \"{}; these are the objects stored on this node\"",
        away.message()
    );
    if let Ok(value) = HeaderValue::from_str(&text) {
        answer.headers_mut().append(header::WARNING, value);
    }
    answer
}

/// Parses an answer of the cloud.
pub(super) fn parse_answer(answer: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(answer).map_err(|error| {
        ApiError::bad_gateway(&format!("cannot parse the cloud's answer: {error}"))
    })
}

/// Parses the object in a request.
pub(super) fn object_of(headers: &HeaderMap, body: &Bytes) -> Result<Value, ApiError> {
    kubeapi::object_of(headers, body).map_err(|why| ApiError::bad_request(&why))
}
