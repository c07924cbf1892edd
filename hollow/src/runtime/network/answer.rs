//! Computes what a simulated server answers. Pure.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};

use super::super::{
    answers::{Health, HttpAnswer},
    behaviour::Behaviour,
};

/// The only gRPC call that is known.
const CHECK: &str = "/grpc.health.v1.Health/Check";
/// gRPC's status codes.
const OK: &str = "0";
const INVALID_ARGUMENT: &str = "3";
const UNIMPLEMENTED: &str = "12";
/// How many bytes of a call's message precede the service name: flag and length, tag and length.
const MESSAGE_HEAD: usize = 5;

/// An answer, the delay before it, and the trailers after its body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response<Bytes>,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) delay: Duration,
}

/// Reports whether a request is a gRPC call.
pub(super) fn is_grpc<T>(request: &Request<T>) -> bool {
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}

/// Returns what a server that has run for `age` answers to a request for `path`.
pub(super) fn http(behaviour: &Behaviour, age: Duration, path: &str) -> Answer {
    let known = behaviour
        .http
        .get(path)
        .filter(|answer| age >= answer.after);
    let answer = known.cloned().unwrap_or_else(|| HttpAnswer {
        body: "ok".into(),
        ..HttpAnswer::default()
    });
    let mut response = Response::new(Bytes::from(answer.body));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Answer {
        response,
        trailers: None,
        delay: answer.delay,
    }
}

/// Returns what a server answers to a gRPC call with this body.
pub(super) fn grpc(behaviour: &Behaviour, path: &str, body: &[u8]) -> Answer {
    let (code, message) = match (path, service(body)) {
        (CHECK, Some(service)) => {
            let health = behaviour
                .grpc
                .get(&service)
                .copied()
                .unwrap_or(Health::Serving);
            (OK, vec![0, 0, 0, 0, 2, 0x08, number(health)])
        }
        (CHECK, None) => (INVALID_ARGUMENT, Vec::new()),
        _ => (UNIMPLEMENTED, Vec::new()),
    };
    let mut response = Response::new(Bytes::from(message));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    let trailers = HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        HeaderValue::from_static(code),
    )]);
    Answer {
        response,
        trailers: Some(trailers),
        delay: Duration::ZERO,
    }
}

fn number(health: Health) -> u8 {
    match health {
        Health::Unknown => 0,
        Health::Serving => 1,
        Health::NotServing => 2,
        Health::ServiceUnknown => 3,
    }
}

/// Returns the service that a `HealthCheckRequest` asks for: its only field. Names are shorter than 128 bytes.
fn service(body: &[u8]) -> Option<String> {
    match body.get(MESSAGE_HEAD..)? {
        [] => Some(String::new()),
        [0x0a, length, name @ ..] if usize::from(*length) == name.len() && *length < 0x80 => {
            String::from_utf8(name.to_vec()).ok()
        }
        _ => None,
    }
}
